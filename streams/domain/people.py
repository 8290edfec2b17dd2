"""What people decide about a discrepancy: proposed by one, approved by another, on evidence, and passed through the law like any event.

Nothing here edits an amount or a state. Money that came late or twice has two exits: it goes back as a refund with a number of its
own, or the trade domain fulfils after all; either way it is posted now, and only now. Everything else can be booked or closed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import structs

from streams.domain import balance, identity, ledger, operations
from streams.domain.tables import EXITS, SUCCESS, UNPAID
from streams.domain.turn import Ruling, Turn

if TYPE_CHECKING:
    from streams.domain.events import Resolve
    from streams.domain.facts import Fact
    from streams.domain.order import Conflict, Payment

CLOSE_ONLY: Final = frozenset({"close"})


def resolve(turn: Turn, command: Resolve, _: Fact) -> Ruling:
    """Settle one open discrepancy as two people decided; refused, in this order, for what is unknown, stale, unwitnessed or unlawful."""
    conflict = next(
        (one for one in turn.order.conflicts if identity.discrepancy_id(turn.order, one.id) == command.discrepancy),
        None,
    )
    if conflict is None or not conflict.open:
        return Ruling("refused", "no-such-discrepancy", f"{command.discrepancy} is not open")
    refusal = _unfit(conflict, command) or _act(turn, conflict, command)
    if refusal is not None:
        return refusal
    detail = f"{command.action}: {command.evidence}; proposed by {command.proposer}, approved by {command.approver}"
    turn.settle(conflict.id, command.evidence, detail)
    return Ruling("applied", f"decided-{command.action}", detail)


def _unfit(conflict: Conflict, command: Resolve) -> Ruling | None:
    if conflict.revision != command.revision:
        return Ruling("refused", "discrepancy-changed", f"it is at revision {conflict.revision}; look again")
    if not command.evidence.strip():
        return Ruling("refused", "no-evidence", "name what shows it: a statement, a ticket, the channel's answer")
    if not command.proposer.strip() or not command.approver.strip() or command.proposer == command.approver:
        return Ruling("refused", "one-person", "another person than the proposer approves")
    if command.action not in EXITS.get(conflict.kind, CLOSE_ONLY):
        lawful = " or ".join(sorted(EXITS.get(conflict.kind, CLOSE_ONLY)))
        return Ruling("refused", "no-such-exit", f"{conflict.kind} may be settled by {lawful}")
    return None


def _act(turn: Turn, conflict: Conflict, command: Resolve) -> Ruling | None:
    if command.action == "close":
        return None
    payment = _payment(turn, conflict)
    if payment is None:
        return Ruling("refused", "payment-not-found", f"{conflict.payment_no} is not a payment of this order")
    if command.action == "book":
        return _book(turn, payment, conflict)
    amount = _late(turn, payment)
    if not amount:
        return Ruling("refused", "no-late-money", f"no money of {payment.key} waits for a decision")
    if command.action == "fulfil":
        _fulfil(turn, payment, amount, command)
        return None
    return _refund(turn, payment, amount, command)


def _payment(turn: Turn, conflict: Conflict) -> Payment | None:
    """The payment it is about, or whose refund it is about."""
    for payment in turn.order.payments:
        if payment.payment_no == conflict.payment_no:
            return payment
    for operation in turn.order.operations:
        if operation.number == conflict.payment_no:
            return turn.parent(operation)
    return None


def _late(turn: Turn, payment: Payment) -> int:
    """The money that nobody posted: what came after the end, or as a duplicate. It is decided about once."""
    funds = payment.money
    if funds.late or funds.fulfilled:
        return 0
    if payment.state in UNPAID:
        return payment.amount
    return balance.refundable(turn.order, payment) if payment.state == SUCCESS and funds.duplicate else 0


def _fulfil(turn: Turn, payment: Payment, amount: int, command: Resolve) -> None:
    payment.funds = structs.replace(payment.money, fulfilled=True, captured=amount, duplicate=False)
    ledger.late_fulfilled(turn, payment, amount)
    turn.move(payment, "LATE_MONEY_FULFILLED", amount, command.evidence)


def _refund(turn: Turn, payment: Payment, amount: int, command: Resolve) -> Ruling | None:
    """The money goes through suspense, so that the books show it in and out."""
    if not command.refund_no:
        return Ruling("refused", "no-number", "refund_no is absent; a refund has a number of its own")
    if turn.find(command.refund_no, payment.merchant) is not None:
        return Ruling("refused", "number-reused", f"{command.refund_no} is taken")
    ruling = operations.refund_late(turn, payment, command.refund_no, amount)
    if ruling.verdict != "applied":
        return ruling
    payment.funds = structs.replace(payment.money, late=amount)
    ledger.late_suspended(turn, payment, amount)
    return None


def _book(turn: Turn, payment: Payment, conflict: Conflict) -> Ruling | None:
    """Post what the channel gave back by itself."""
    funds = payment.money
    for index, refund in enumerate(funds.channel_refunds):
        if refund.ref == conflict.ref and not refund.booked:
            kept = (
                *funds.channel_refunds[:index],
                structs.replace(refund, booked=True),
                *funds.channel_refunds[index + 1 :],
            )
            payment.funds = structs.replace(funds, channel_refunds=kept)
            if not funds.duplicate:
                ledger.channel_refund_booked(turn, payment, refund)
            return None
    return Ruling("refused", "nothing-to-book", f"no refund at the channel is known as {conflict.ref}")
