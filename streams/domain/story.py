"""An order's story: what was said and what came of it, what stands open, what is awaited and from whom.

Pure: the same order at the same moment tells the same story. Every payment that has not ended has an answer to "what now".
"""

from __future__ import annotations

from datetime import datetime  # noqa: TC003  msgspec reads the annotation

from msgspec import Struct

from streams.domain import balance, identity
from streams.domain.age import ENTRY
from streams.domain.layers import Layers  # noqa: TC001  msgspec reads the annotation
from streams.domain.moment import moment
from streams.domain.order import Conflict, Operation, Order, Parked, Payment, Target, lapses_at, pressing
from streams.domain.rules import RULES
from streams.domain.schedule import ref_of
from streams.domain.tables import AUTHORIZED, INIT, KINDS, OPEN
from streams.domain.turn import HOUR_MS


class Awaited(Struct, frozen=True):
    """What would settle something, who can supply it, and when we ask or act next; `when` None means: only a person or they."""

    what: str
    whom: str
    when: datetime | None


class Piece(Struct, frozen=True):
    """One piece of evidence or one command."""

    at: datetime
    source: str
    word: str
    ref: str
    payment_no: str
    verdict: str
    rule: str
    because: str


class PaymentStory(Struct, frozen=True):
    payment: str
    channel: str
    amount: int
    currency: str
    state: str
    path: tuple[str, ...]
    transaction: str | None
    witness: str | None
    """The evidence that justifies the end; None while it is open, or if only time ended it."""
    announced: bool
    queries: int
    awaited: Awaited | None
    captured: int
    held: int
    refundable: int


class OperationStory(Struct, frozen=True):
    """A capture, void or refund of a payment. `layers` is what each party shows of a refund."""

    operation: str
    kind: str
    payment: str
    amount: int
    currency: str
    state: str
    path: tuple[str, ...]
    transaction: str | None
    witness: str | None
    layers: Layers | None
    awaited: Awaited | None


class OpenItem(Struct, frozen=True):
    """A discrepancy that waits for its owner."""

    id: str
    kind: str
    severity: str
    ref: str
    payment_no: str | None
    owner: str
    deadline: datetime | None


class Story(Struct, frozen=True):
    order_id: str
    at: datetime
    decisions: int
    duplicates: int
    forgotten: int
    payments: tuple[PaymentStory, ...]
    operations: tuple[OperationStory, ...]
    evidence: tuple[Piece, ...]
    open: tuple[OpenItem, ...]
    waiting: tuple[Awaited, ...]
    """Evidence that waits for a payment we do not know."""
    next_due: datetime | None


def story(order: Order, at: int) -> Story:
    """The story of the order at `at` (milliseconds, UTC)."""
    return Story(
        order_id=order.order_id,
        at=moment(at),
        decisions=order.seq,
        duplicates=order.duplicates,
        forgotten=order.forgotten + len(order.kept) // ENTRY,
        payments=tuple(_payment(order, payment) for payment in order.payments),
        operations=tuple(_operation(operation) for operation in order.operations),
        evidence=tuple(
            Piece(
                at=moment(seen.at),
                source=seen.source,
                word=seen.word,
                ref=seen.ref,
                payment_no=seen.payment_no,
                verdict=seen.verdict,
                rule=seen.rule,
                because=RULES[seen.rule],
            )
            for seen in order.seen
        ),
        open=tuple(_open_item(order, conflict) for conflict in order.conflicts if conflict.open),
        waiting=tuple(_waiting(order, parked) for parked in order.parked),
        next_due=_maybe(pressing(order)),
    )


def _open_item(order: Order, conflict: Conflict) -> OpenItem:
    kind = KINDS[conflict.kind]
    return OpenItem(
        id=identity.discrepancy_id(order, conflict.id),
        kind=conflict.kind,
        severity=conflict.severity,
        ref=conflict.ref,
        payment_no=conflict.payment_no,
        owner=kind.owner,
        deadline=moment(conflict.opened_at + kind.hours * HOUR_MS) if conflict.opened_at else None,
    )


def _payment(order: Order, payment: Payment) -> PaymentStory:
    funds = payment.money
    return PaymentStory(
        payment=payment.key,
        channel=payment.channel,
        amount=payment.amount,
        currency=payment.currency,
        state=payment.state,
        path=payment.path,
        transaction=payment.transaction,
        witness=payment.evidence,
        announced=payment.announced,
        queries=payment.queries,
        awaited=_awaited(order, payment),
        captured=funds.captured,
        held=funds.hold,
        refundable=balance.refundable(order, payment),
    )


def _operation(operation: Operation) -> OperationStory:
    return OperationStory(
        operation=operation.key,
        kind=operation.kind,
        payment=operation.payment_no,
        amount=operation.amount,
        currency=operation.currency,
        state=operation.state,
        path=operation.path,
        transaction=operation.transaction,
        witness=operation.evidence,
        layers=operation.layers,
        awaited=_final_word(operation) if operation.state in OPEN else None,
    )


def _awaited(order: Order, payment: Payment) -> Awaited | None:
    if payment.state == INIT:
        return Awaited("a start command; without one it closes unpaid", "trade domain", moment(payment.expires_at))
    if payment.state == AUTHORIZED:
        lapses = lapses_at(order, payment)
        return Awaited("a capture, or the end of the hold", "trade domain", _maybe(lapses))
    if payment.state not in OPEN:
        return None
    if all(attempt.refused for attempt in payment.made):
        return Awaited("another attempt, or a close command; no attempt was accepted", "trade domain", None)
    return _final_word(payment)


def _final_word(target: Target) -> Awaited:
    """Who can still say how it ended, and when we ask."""
    what = f"the final word on the {'payment' if target.kind == 'PAY' else target.kind.lower()}"
    if target.query_at is not None:
        return Awaited(f"{what}; we query it next", f"channel {target.channel}", moment(target.query_at))
    if target.stuck_at is not None:
        return Awaited(f"{what}; then a person takes over", f"channel {target.channel}", moment(target.stuck_at))
    return Awaited(
        f"{what}, which automatic queries did not bring",
        f"{KINDS['STUCK_UNKNOWN'].owner}, with {target.channel}",
        None,
    )


def _waiting(order: Order, parked: Parked) -> Awaited:
    ref = ref_of(order, parked)
    if parked.waits == "state":
        return Awaited(f"the payment's own word, which {ref} can only follow", "the payment's channel", None)
    what = f"the operation that {ref} speaks of, started at its channel"
    if parked.deadline is None:
        return Awaited(what, KINDS["UNKNOWN_ORDER"].owner, None)
    return Awaited(what, "trade domain", moment(parked.deadline))


def _maybe(at: int | None) -> datetime | None:
    return None if at is None else moment(at)
