"""A request to a channel, as a connector gets it: who is asked what, under which key, until when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streams.domain import identity
from streams.domain.decisions import ChannelRequest, Verb
from streams.domain.moment import moment
from streams.domain.order import Operation, Payment, Target

if TYPE_CHECKING:
    from streams.domain.turn import Turn


def asked(
    turn: Turn, target: Target, parent: Payment | None, verb: Verb, number: int, *, why: str, not_after: int | None
) -> ChannelRequest:
    """The request with its `number` among those of its verb. `parent` is the payment that a capture, void or refund is of."""
    operation = target if type(target) is Operation else None
    details = target.details if verb == "SUBMIT" and type(target) is Payment else None
    return ChannelRequest(
        id=identity.request_id(turn.order, target, verb, number),
        verb=verb,
        order_id=turn.order.order_id,
        payment_no=target.payment_no,
        merchant=target.merchant,
        channel=target.channel,
        amount=target.amount,
        currency=target.currency,
        idempotency_key=identity.idempotency_key(turn.order, target),
        transaction=target.transaction,
        why=why,
        decision=turn.decision,
        decided_at=turn.moment,
        operation_no=None if operation is None else operation.number,
        not_after=None if not_after is None else moment(not_after),
        operation=None if operation is None else operation.kind,
        payment_transaction=None if parent is None else parent.transaction,
        payment_amount=None if parent is None else parent.amount,
        details=details or {},
    )
