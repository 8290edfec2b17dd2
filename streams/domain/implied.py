"""What must be out there: every output that an order's state says has been sent over its whole life.

Derived from the state alone, so an auditor can recompute the outputs of any order from the changelog and compare.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streams.domain import identity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streams.domain.order import Order, Payment


def implied(order: Order) -> Iterator[tuple[str, str]]:
    """(logical topic, message id) of every message, each once, in no order."""
    for seq in range(1, order.seq + 1):
        yield "decisions", identity.decision_id(order, seq)
    for payment in order.payments:
        yield from _of_payment(order, payment)
    for conflict in order.conflicts:
        name = identity.discrepancy_id(order, conflict.id)
        for revision in range(1, conflict.revision + 1):
            yield "discrepancies", f"{name}/{revision}"
    for number in range(1, order.overflow + 1):
        yield "discrepancies", f"{identity.overflow_id(order, number)}/1"


def _of_payment(order: Order, payment: Payment) -> Iterator[tuple[str, str]]:
    for state in payment.path:
        yield "updates", identity.update_id(order, payment, state)
    if payment.announced:
        yield "success", identity.success_id(order, payment)
    for number in range(1, payment.attempts + 1):
        yield "channel-requests", identity.request_id(order, payment, "SUBMIT", number)
    for number in range(1, payment.queries + 1):
        yield "channel-requests", identity.request_id(order, payment, "QUERY", number)
