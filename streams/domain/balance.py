"""How much of a payment's money is where: captured, held, reserved for refunds, still refundable.

Reservations never exceed what was captured: refunds that may still succeed, disputes, and what the channel gave back by itself count
the moment they are known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streams.domain.tables import OPEN, RESERVED, SUCCESS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streams.domain.order import Funds, Operation, Order, Payment


def refunds(order: Order, payment: Payment) -> Iterator[Operation]:
    for operation in order.operations:
        if operation.kind == "REFUND" and operation.of(payment):
            yield operation


def refunded(order: Order, payment: Payment) -> int:
    """What our refunds now in SUCCESS gave back."""
    return sum(refund.amount for refund in refunds(order, payment) if refund.state == SUCCESS)


def reserved(order: Order, payment: Payment) -> int:
    """What refunds that succeeded or still may hold of the captured money."""
    return sum(refund.amount for refund in refunds(order, payment) if refund.state in RESERVED)


def channel_started(funds: Funds) -> int:
    return sum(refund.amount for refund in funds.channel_refunds)


def lost(funds: Funds) -> int:
    """What a dispute holds or took."""
    return funds.disputed if funds.dispute in {"OPEN", "LOST"} else 0


def refundable(order: Order, payment: Payment) -> int:
    """What may still be refunded, never below zero; nothing once the channel accepts no more refunds."""
    funds = payment.money
    if funds.finished:
        return 0
    left = funds.captured - reserved(order, payment) - lost(funds) - channel_started(funds) - funds.returned
    return max(left, 0)


def suspended(order: Order, payment: Payment) -> int:
    """Late money in suspense that no refund of it holds: what was taken in to go back, and did not."""
    late = payment.money.late
    if not late:
        return 0
    return late - sum(one.amount for one in refunds(order, payment) if one.late and one.state in RESERVED)


def in_flight(order: Order, payment: Payment) -> int:
    """What captures and voids whose result is out may still take of the hold."""
    return sum(
        operation.amount
        for operation in order.operations
        if operation.kind in {"CAPTURE", "VOID"} and operation.state in OPEN and operation.of(payment)
    )


def capturable(funds: Funds, percent: int) -> int:
    """The hold and its tolerance, rounded down: whole minor units within `percent` above the hold."""
    return funds.hold * (100 + percent) // 100


def paid(group: list[Payment]) -> int:
    """What payments of one thing brought in that stands for it, duplicates apart."""
    return sum(payment.money.captured for payment in group if payment.pays and not payment.money.duplicate)
