"""Money that comes back after a success: only by the word that the channel's contract has for it, and only as an adjusting entry.

A returned payment stays SUCCESS; it is neither a failure nor a refund. A returned refund is RETURNED. Any other word against a
success is a contradiction, and nothing is reversed by itself (R-014, R-021).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from streams.domain import ledger
from streams.domain.events import Answer, Callback, RefundNotice
from streams.domain.order import Operation, Payment, Target
from streams.domain.tables import MACHINES, RETURNED, SUCCESS, WORDS
from streams.domain.turn import Ruling, Turn
from streams.domain.words import STALE, Wrong, blocked, contest_amount

if TYPE_CHECKING:
    from streams.domain.facts import Fact

AGAIN = Ruling("stale", "returned-already")


def return_word(turn: Turn, target: Target) -> str | None:
    contract = turn.contract(target.channel)
    return contract.payment_return_status if type(target) is Payment else contract.refund_return_status


def is_return(turn: Turn, target: Target, event: Callback | Answer | RefundNotice) -> bool:
    """Whether the word means that a success came back. A word that has another meaning too has that one before the success."""
    if type(event) is Answer and event.request == "close":
        return False
    if event.status != return_word(turn, target):
        return False
    return target.state in {SUCCESS, RETURNED} or event.status not in WORDS


def waits_for_success(turn: Turn, target: Target, status: str) -> bool:
    """A return can only follow a success; until that is known it waits."""
    return status == return_word(turn, target) and status not in WORDS


def payment_returned(turn: Turn, payment: Payment, event: Callback | Answer, fact: Fact) -> Ruling:
    funds = payment.money
    if payment.state != SUCCESS:
        return STALE
    if funds.returned:
        return AGAIN
    amount = funds.captured if event.amount is None else event.amount
    wrong = None
    if event.currency is not None and event.currency != payment.currency:
        wrong = ("CURRENCY_MISMATCH", "currency-differs", f"{event.currency} came back, ours is {payment.currency}")
    elif amount != funds.captured:
        wrong = ("AMOUNT_MISMATCH", "amount-differs", f"{amount} came back, {funds.captured} was received")
    if wrong is not None:
        return contest_amount(turn, payment, fact, Wrong(*wrong, amount, event.currency))
    payment.funds = structs.replace(funds, returned=amount)
    if not funds.duplicate:
        ledger.payment_returned(turn, payment, amount)
    turn.move(payment, "PAYMENT_REVERSED", amount, fact.evidence)
    return Ruling("applied", "payment-returned")


def refund_returned(turn: Turn, refund: Operation, event: Callback | Answer | RefundNotice, fact: Fact) -> Ruling:
    before = refund.state
    if before == RETURNED:
        return AGAIN
    stopped = blocked(turn, refund, event, fact)
    if stopped is not None:
        return stopped
    after = MACHINES["REFUND"][before].get("returned")
    if after is None:
        return STALE
    payment = turn.parent(refund)
    refund.evidence = fact.evidence
    turn.enter(refund, after, before)
    if payment is None or not payment.money.duplicate or refund.late:
        ledger.refund_returned(turn, refund)
    turn.move(refund, "REFUND_RETURNED", refund.amount, fact.evidence)
    return Ruling("applied", "refund-returned")
