"""What a decision remembers for others: what its evidence said, and how each operation that it changed stands now.

Both are read off, never decided: nothing here may change a verdict. Whoever keeps the decisions can build every table from them alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streams.domain import identity
from streams.domain.decisions import Asked, Money, Said, Shown, Standing
from streams.domain.events import Answer, Callback, CardPosting, Finding, RefundLayer, RefundNotice
from streams.domain.moment import moment
from streams.domain.order import Operation, Payment, Target
from streams.domain.reports import Agreement, Booking, Difference, PayoutNotice, Settled
from streams.domain.tables import INIT, OPEN, SUCCESS

if TYPE_CHECKING:
    from datetime import datetime

    from streams.domain.events import Dispute, Evidence, Release, Report
    from streams.domain.facts import Fact
    from streams.domain.order import Order

# -- evidence


def said(event: Evidence, fact: Fact) -> Said:
    """The evidence as an inbox keeps it."""
    received_at = moment(fact.at) if fact.parked else None
    if isinstance(event, Finding):
        return Said(event.channel, event.event_id, event.transaction, received_at=received_at, reason=event.other_order)
    if isinstance(event, Difference | Agreement | Booking | Settled | PayoutNotice):
        return _reported(event)
    sha256 = None if event.raw is None else event.raw.sha256
    if isinstance(event, Answer):
        return _answered(event, received_at, sha256)
    if isinstance(event, Callback):
        return _called_back(event, received_at, sha256)
    return _other(event, received_at, sha256)


def _reported(event: Report) -> Said:
    """`transaction` is what the report calls by a reference, `reason` the line that shows it."""
    return Said(
        event.channel,
        event.event_id,
        event.transaction if isinstance(event, Settled) else event.ref,
        amount=getattr(event, "amount", None),
        currency=getattr(event, "currency", None),
        reason=getattr(event, "evidence", None),
    )


def _answered(event: Answer, received_at: datetime | None, sha256: str | None) -> Said:
    return Said(
        event.channel,
        transaction=event.transaction,
        received_at=received_at,
        amount=event.amount,
        currency=event.currency,
        error_class=event.error_class,
        request_id=event.request_id,
        sha256=sha256,
    )


def _called_back(event: Callback, received_at: datetime | None, sha256: str | None) -> Said:
    return Said(
        event.channel,
        event.event_id,
        event.transaction,
        event.event_type,
        event.version,
        event.sequence,
        event.event_time,
        received_at,
        event.amount,
        event.currency,
        event.amount_text,
        event.fee,
        event.cumulative_refunded,
        sha256=sha256,
    )


def _other(
    event: CardPosting | RefundNotice | RefundLayer | Release | Dispute,
    received_at: datetime | None,
    sha256: str | None,
) -> Said:
    refund = getattr(event, "refund_transaction", None)
    return Said(
        event.channel,
        event.event_id,
        refund or getattr(event, "transaction", None),
        event.layer if type(event) is RefundLayer else getattr(event, "event_type", ""),
        getattr(event, "version", None),
        getattr(event, "sequence", None),
        getattr(event, "event_time", None),
        received_at,
        event.amount,
        event.currency,
        getattr(event, "amount_text", None),
        cumulative_refunded=getattr(event, "cumulative_refunded", None),
        reason=getattr(event, "reason", None),
        authorization=getattr(event, "authorization", None),
        sha256=sha256,
    )


# -- operations


def standing(order: Order, target: Target) -> Standing:
    """The operation as it stands now."""
    return _payment(order, target) if isinstance(target, Payment) else _operation(order, target)


def _payment(order: Order, payment: Payment) -> Standing:
    plain = payment.funds is None and payment.state != SUCCESS
    return Standing(
        payment.payment_no,
        "PAY",
        payment.payment_no,
        payment.channel,
        payment.amount,
        payment.currency,
        payment.state,
        payment.merchant,
        payment.biz_code,
        payment.transaction,
        payment.evidence,
        moment(payment.expires_at) if payment.state == INIT else None,
        _maybe(payment.success_at),
        payment.sequence,
        payment.version,
        payment.fee,
        payment.announced,
        asked=_asked(order, payment) if payment.attempts else None,
        money=None if plain else _money(payment),
        settled_by=payment.settled_by,
        fee_booked=payment.fee_booked,
    )


def _asked(order: Order, payment: Payment) -> Asked:
    last = payment.made[-1]
    return Asked(
        payment.attempts,
        last.sends,
        identity.idempotency_key(order, payment) if payment.state in OPEN else None,
        last.refused,
        payment.queries,
        payment.closes,
        _maybe(payment.query_at),
        _maybe(payment.resend_at),
        _maybe(payment.stuck_at),
    )


def _money(payment: Payment) -> Money:
    funds = payment.money
    return Money(
        funds.captured,
        funds.hold,
        funds.returned,
        funds.disputed,
        None if funds.dispute == "NONE" else funds.dispute,
        funds.duplicate,
        funds.fulfilled,
        funds.finished,
        funds.total,
    )


def _operation(order: Order, operation: Operation) -> Standing:
    shown = operation.layers
    return Standing(
        operation.number,
        operation.kind,  # type: ignore[arg-type]
        payment_no=operation.payment_no,
        merchant=operation.merchant,
        channel=operation.channel,
        amount=operation.amount,
        currency=operation.currency,
        state=operation.state,
        transaction=operation.transaction,
        evidence=operation.evidence,
        success_at=_maybe(operation.success_at),
        sequence=operation.sequence,
        late=operation.late,
        asked=Asked(
            operation.attempts,
            1,
            identity.idempotency_key(order, operation) if operation.state in OPEN else None,
            queries=operation.queries,
            next_query_at=_maybe(operation.query_at),
            window_ends_at=_maybe(operation.stuck_at),
        ),
        shown=None if shown is None else Shown(shown.merchant, shown.processor, shown.card, shown.wallet),
        settled_by=operation.settled_by,
        fee_booked=operation.fee_booked,
    )


def _maybe(at: int | None) -> datetime | None:
    return None if at is None else moment(at)
