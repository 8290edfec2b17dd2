"""What our own side asks for a payment: to create, start, retry and close it.

A refusal is a value with a name and leaves the payment untouched. The checks stand in order of precedence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streams.domain import gate, legs
from streams.domain.identity import digest
from streams.domain.moment import milliseconds
from streams.domain.order import MAX_PAYMENTS, Attempt, Funds, Payment
from streams.domain.schedule import SECOND_MS, await_final, ended, start_clock
from streams.domain.tables import INIT, MACHINE, UNPAID
from streams.domain.turn import Ruling, Turn

if TYPE_CHECKING:
    from streams.domain.events import ClosePayment, CreatePayment, RetryPayment, StartPayment
    from streams.domain.facts import Fact

NOT_FOUND = Ruling("refused", "payment-not-found")


def create(turn: Turn, command: CreatePayment, fact: Fact) -> Ruling:
    """Open a payment: one live payment for each business code of the order (R-037), or legs of its total; of a positive amount (R-133)."""
    known = turn.find(command.payment_no, fact.merchant)
    if known is not None:
        return _known(known, command) if type(known) is Payment else Ruling("refused", "number-reused")
    payment = _new(turn, command, fact)
    if command.amount <= 0:
        invalid_amount(turn, payment.key, fact, command.amount)
        return Ruling("refused", "amount-not-positive", f"amount is {command.amount}")
    group = [other for other in turn.order.payments if other.pays_same(payment)]
    if command.order_total is None:
        for other in group:
            if other.state not in UNPAID or other.pays:
                return Ruling("refused", "one-payment", f"payment {other.key} is {other.state}")
    elif command.amount + gate.claimed(group) > command.order_total:
        return Ruling("refused", "over-total", f"the legs would exceed {command.order_total}")
    if len(turn.order.payments) >= MAX_PAYMENTS:
        return Ruling("refused", "too-many-payments", f"at most {MAX_PAYMENTS} of one order")
    turn.order.payments = (*turn.order.payments, payment)
    turn.enter(payment, INIT, None)
    return Ruling("applied", "created")


def invalid_amount(turn: Turn, key: str, fact: Fact, amount: int) -> None:
    """What is asked for must be a positive amount."""
    turn.contest(
        "INVALID_AMOUNT",
        digest("door", key),
        ref=key,
        payment_no=fact.payment_no,
        merchant=fact.merchant,
        evidence=fact.ref,
        detail=f"amount is {amount}; send a positive integer of minor units",
        severity="info",
    )


def _known(payment: Payment, command: CreatePayment) -> Ruling:
    same = (
        payment.biz_code == command.biz_code
        and payment.amount == command.amount
        and payment.currency == command.currency
        and (command.routed or payment.channel == command.channel or payment.state != INIT)
    )
    return Ruling("duplicate", "same-number") if same else Ruling("refused", "number-reused")


def _new(turn: Turn, command: CreatePayment, fact: Fact) -> Payment:
    contract = turn.contract(command.channel)
    if command.expires_at is not None:
        expires_at = milliseconds(command.expires_at)
    else:
        expires_at = turn.at + SECOND_MS * (contract.qr_expiry_s if command.qr else contract.init_expiry_s)
    payment = Payment(
        command.payment_no,
        fact.merchant,
        command.biz_code,
        command.channel,
        command.amount,
        command.currency,
        INIT,
        (),
        turn.at,
        expires_at,
    )
    if command.order_total is not None or command.category:
        payment.funds = Funds(total=command.order_total, category=command.category or None)
    return payment


def start(turn: Turn, command: StartPayment, fact: Fact) -> Ruling:
    """INIT to PAYING, and the one submit request; only the winner makes it (R-017)."""
    payment = turn.payment(command.payment_no, fact.merchant)
    if payment is None:
        return NOT_FOUND
    if payment.state != INIT:
        return Ruling("refused", "not-init", f"payment {payment.key} is {payment.state}")
    return _submit(turn, payment, command, "start")


def retry(turn: Turn, command: RetryPayment, fact: Fact) -> Ruling:
    """Another attempt, at the same channel or another, once every earlier one was refused (R-050)."""
    payment = turn.payment(command.payment_no, fact.merchant)
    if payment is None:
        return NOT_FOUND
    if payment.state == INIT:
        return Ruling("refused", "not-started", f"payment {payment.key} is INIT")
    return _submit(turn, payment, command, "retry")


def _submit(turn: Turn, payment: Payment, command: StartPayment | RetryPayment, move: str) -> Ruling:
    channel = command.channel or payment.channel
    refusal = gate.may_submit(turn, payment, channel)
    if refusal is not None:
        return refusal
    before = payment.state
    if move == "retry":
        payment.tries = (*payment.made, Attempt(channel, turn.at))
    payment.channel = channel
    payment.details = command.details or None
    payment.attempts += 1
    start_clock(turn, payment)
    after = MACHINE[before][move]
    if after != before:
        turn.enter(payment, after, before)
    turn.request(payment, "SUBMIT", move, not_after=_lease_ends(turn, payment))
    return Ruling("applied", move)


def _lease_ends(turn: Turn, payment: Payment) -> int:
    """No connector submits later than this, so that what is not found after it was not sent (R-064)."""
    return min(payment.expires_at, turn.at + turn.contract(payment.channel).lease_s * SECOND_MS)


def close(turn: Turn, command: ClosePayment, fact: Fact) -> Ruling:
    """Give a payment up. What was never accepted ends at once, its refusals being the witness; else the channel must confirm."""
    payment = turn.payment(command.payment_no, fact.merchant)
    if payment is None:
        return NOT_FOUND
    before = payment.state
    after = MACHINE[before].get("withdraw")
    if after is None:
        return Ruling("refused", "not-open", f"payment {payment.key} is {before}")
    made = payment.made
    if not all(attempt.refused for attempt in made):
        turn.request(payment, "CLOSE", "close")
        return Ruling("applied", "close-asked")
    payment.refusals = (*payment.refusals, ended(payment))
    payment.evidence = made[-1].refused if made else fact.ref
    await_final(turn, payment, fact.ref)
    turn.enter(payment, after, before)
    legs.ended(turn, payment, payment.evidence or fact.ref)
    return Ruling("applied", "withdrawn")
