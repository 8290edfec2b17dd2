"""What must be out there: every output that an order's state says has been sent over its whole life.

Derived from the state alone, so an auditor can recompute the outputs of any order from the changelog and compare.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streams.domain import identity
from streams.domain.tables import RETURNED, SUCCESS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streams.domain.order import Operation, Order, Payment, Target


def implied(order: Order) -> Iterator[tuple[str, str]]:
    """(logical topic, message id) of every message, each once, in no order."""
    for seq in range(1, order.seq + 1):
        yield "decisions", identity.decision_id(order, seq)
    for payment in order.payments:
        yield from _of_payment(order, payment)
    for operation in order.operations:
        yield from _of_operation(order, operation)
    for conflict in order.conflicts:
        name = identity.discrepancy_id(order, conflict.id)
        for revision in range(1, conflict.revision + 1):
            yield "discrepancies", f"{name}/{revision}"
    for number in range(1, order.overflow + 1):
        yield "discrepancies", f"{identity.overflow_id(order, number)}/1"


def _of_payment(order: Order, payment: Payment) -> Iterator[tuple[str, str]]:
    for state in payment.path:
        yield "updates", identity.update_id(order, payment, state)
    if payment.settled_by is not None:
        yield "updates", identity.update_id(order, payment, identity.SETTLED)
    for number in range(1, payment.actions + 1):
        yield "updates", identity.action_id(order, payment, number)
    if payment.announced:
        yield "success", identity.success_id(order, payment)
    made = {"SUBMIT": payment.attempts + payment.resends, "QUERY": payment.queries, "CLOSE": payment.closes}
    yield from _requests(order, payment, made)
    funds = payment.money
    moved = {
        "AUTH_RELEASED": funds.released,
        "PAYMENT_REVERSED": funds.returned > 0,
        "LATE_MONEY_FULFILLED": funds.fulfilled,
    }
    for kind, happened in moved.items():
        if happened:
            yield "updates", identity.movement_id(order, payment, kind)


def _of_operation(order: Order, operation: Operation) -> Iterator[tuple[str, str]]:
    for state in operation.path:
        yield "updates", identity.update_id(order, operation, state)
    yield from _requests(order, operation, {operation.kind: operation.attempts, "QUERY": operation.queries})
    if operation.kind == "REFUND":
        for state, kind in ((SUCCESS, "REFUND_SUCCESS"), (RETURNED, "REFUND_RETURNED")):
            if state in operation.path:
                yield "updates", identity.movement_id(order, operation, kind)


def _requests(order: Order, target: Target, made: dict[str, int]) -> Iterator[tuple[str, str]]:
    for verb, count in made.items():
        for number in range(1, count + 1):
            yield "channel-requests", identity.request_id(order, target, verb, number)
