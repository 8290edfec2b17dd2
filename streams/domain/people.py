"""What people decide about a discrepancy: proposed by one, approved by another, on evidence, and passed through the law like any event.

Nothing here edits an amount or a state. Money that came late or twice has two exits: it goes back as a refund with a number of its
own, or the trade domain fulfils after all; either way it is posted now, and only now. Everything else can be booked or closed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from streams.domain import gate, identity, ledger, legs, links, operations
from streams.domain.order import Payment
from streams.domain.tables import COMES_BACK, EXITS, SUCCESS
from streams.domain.turn import Ruling, Turn

if TYPE_CHECKING:
    from streams.domain.events import Resolve
    from streams.domain.facts import Fact
    from streams.domain.order import Conflict, Funds, Target


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
    turn.settle(conflict.id, command.evidence, detail, decided=conflict.kind not in COMES_BACK)
    return Ruling("applied", f"decided-{command.action}", detail)


def _unfit(conflict: Conflict, command: Resolve) -> Ruling | None:
    if conflict.revision != command.revision:
        return Ruling("refused", "discrepancy-changed", f"it is at revision {conflict.revision}; look again")
    if not command.evidence.strip():
        return Ruling("refused", "no-evidence", "name what shows it: a statement, a ticket, the channel's answer")
    if not command.proposer.strip() or not command.approver.strip() or command.proposer == command.approver:
        return Ruling("refused", "one-person", "another person than the proposer approves")
    if command.action != "close" and command.action not in EXITS.get(conflict.kind, frozenset()):
        return Ruling("refused", "no-such-exit", f"{conflict.kind} cannot be settled by {command.action}")
    return None


def _act(turn: Turn, conflict: Conflict, command: Resolve) -> Ruling | None:
    payment = _payment(turn, conflict)
    if payment is None:
        return None if command.action == "close" else _not_a_payment(conflict)
    late = _late(turn, payment)
    if command.action == "close":
        if late and "fulfil" in EXITS.get(conflict.kind, frozenset()):
            return Ruling("refused", "money-waits", "decide about the money first: refund or fulfil")
        return None
    if command.action == "book":
        return _book(turn, payment, conflict)
    if not late:
        return Ruling("refused", "no-late-money", f"no money of {payment.key} waits for a decision")
    return (_fulfil if command.action == "fulfil" else _refund)(turn, payment, late, command)


def _not_a_payment(conflict: Conflict) -> Ruling:
    return Ruling("refused", "payment-not-found", f"{conflict.payment_no} is not a payment of this order")


def _payment(turn: Turn, conflict: Conflict) -> Payment | None:
    """The payment it is about, or whose refund it is about."""
    number = conflict.payment_no or ""
    about = turn.find(number, conflict.merchant)
    if about is None:  # an older release opened it and named no merchant: the first of that number, as then
        every: tuple[Target, ...] = (*turn.order.payments, *turn.order.operations)
        about = next((one for one in every if one.number == number), None)
    return about if about is None or isinstance(about, Payment) else turn.parent(about)


def _late(turn: Turn, payment: Payment) -> int:
    """Money that nobody posted and nobody has decided about: of successes after the end, of duplicates, of second transactions.

    A transaction that has paid another payment brought no second money.
    """
    posted = payment.state == SUCCESS and not payment.money.duplicate
    brought = [paid for paid in payment.paid if not links.pays_another(turn.order, payment, paid)]
    unposted = len(brought) - posted - payment.money.decided
    return payment.amount if unposted > 0 else 0


def _take_in(payment: Payment, amount: int) -> Funds:
    """The money is in the books from now on; a duplicate's was counted as captured before."""
    funds = payment.money
    captured = funds.captured + (0 if funds.duplicate else amount)
    return structs.replace(funds, captured=captured, duplicate=False, decided=funds.decided + 1)


def _fulfil(turn: Turn, payment: Payment, amount: int, command: Resolve) -> Ruling | None:
    if payment.money.fulfilled:
        return Ruling("refused", "fulfilled-before", f"late money of {payment.key} has paid the order already")
    refusal = gate.others(turn, payment)
    if refusal is not None:
        return refusal  # the order needs this money no more, or may not; it goes back
    payment.funds = structs.replace(_take_in(payment, amount), fulfilled=True)
    ledger.late_fulfilled(turn, payment, amount)
    turn.move(payment, "LATE_MONEY_FULFILLED", amount, command.evidence)
    legs.fulfilled(turn, payment, command.evidence)
    return None


def _refund(turn: Turn, payment: Payment, amount: int, command: Resolve) -> Ruling | None:
    """The money goes through suspense, so that the books show it in and out."""
    if not command.refund_no:
        return Ruling("refused", "no-number", "refund_no is absent; a refund has a number of its own")
    if turn.find(command.refund_no, payment.merchant) is not None:
        return Ruling("refused", "number-reused", f"{command.refund_no} is taken")
    ruling = operations.refund_late(turn, payment, command.refund_no, amount)
    if ruling.verdict != "applied":
        return ruling
    taken = _take_in(payment, amount)
    payment.funds = structs.replace(taken, late=taken.late + amount)
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
            ledger.channel_refund_booked(turn, payment, refund)
            return None
    return Ruling("refused", "nothing-to-book", f"no refund at the channel is known as {conflict.ref}")
