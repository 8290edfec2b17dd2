"""What our own side asks for: to create a payment and to start it.

A refusal is a value with a name and leaves the payment untouched. The checks stand in order of precedence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streams.domain.identity import digest
from streams.domain.moment import milliseconds
from streams.domain.order import MAX_PAYMENTS, Payment
from streams.domain.schedule import SECOND_MS, start_clock
from streams.domain.tables import INIT, MACHINE, OPEN, SUCCESS, UNPAID
from streams.domain.turn import Ruling, Turn

if TYPE_CHECKING:
    from streams.domain.events import CreatePayment, StartPayment
    from streams.domain.facts import Fact


def create(turn: Turn, command: CreatePayment, fact: Fact) -> Ruling:
    """Open a payment: one live payment for each business code of the order (R-037), of a positive amount (R-133)."""
    known = turn.payment(command.payment_no, fact.merchant)
    if known is not None:
        return _known(known, command)
    payment = _new(turn, command, fact)
    if command.amount <= 0:
        turn.contest(
            "INVALID_AMOUNT",
            digest("door", payment.key),
            ref=payment.key,
            payment_no=command.payment_no,
            evidence=fact.ref,
            detail=f"amount is {command.amount}; send a positive integer of minor units",
            severity="info",
        )
        return Ruling("refused", "amount-not-positive", f"amount is {command.amount}")
    for other in turn.order.payments:
        if other.pays_same(payment) and other.state not in UNPAID:
            return Ruling("refused", "one-payment", f"payment {other.key} is {other.state}")
    if len(turn.order.payments) >= MAX_PAYMENTS:
        return Ruling("refused", "too-many-payments", f"at most {MAX_PAYMENTS} of one order")
    turn.order.payments = (*turn.order.payments, payment)
    turn.enter(payment, INIT, None)
    return Ruling("applied", "created")


def _known(payment: Payment, command: CreatePayment) -> Ruling:
    same = (
        payment.biz_code == command.biz_code
        and payment.amount == command.amount
        and payment.currency == command.currency
        and (payment.channel == command.channel or payment.state != INIT)
    )
    return Ruling("duplicate", "same-number") if same else Ruling("refused", "number-reused")


def _new(turn: Turn, command: CreatePayment, fact: Fact) -> Payment:
    contract = turn.contract(command.channel)
    if command.expires_at is not None:
        expires_at = milliseconds(command.expires_at)
    else:
        expires_at = turn.at + SECOND_MS * (contract.qr_expiry_s if command.qr else contract.init_expiry_s)
    return Payment(
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


def start(turn: Turn, command: StartPayment, fact: Fact) -> Ruling:
    """INIT to PAYING, and the one submit request; only the winner makes it (R-017), and only while no other may charge (R-157)."""
    payment = turn.payment(command.payment_no, fact.merchant)
    if payment is None:
        return Ruling("refused", "payment-not-found")
    before = payment.state
    after = MACHINE[before].get("start")
    if after is None:
        return Ruling("refused", "not-init", f"payment {payment.key} is {before}")
    for other in turn.order.payments:
        if other is not payment and other.pays_same(payment):
            if other.state == SUCCESS:
                return Ruling("refused", "already-paid", f"by payment {other.key}")
            if other.state in OPEN:
                return Ruling("refused", "another-in-flight", f"payment {other.key} is {other.state}")
    if command.channel:
        payment.channel = command.channel
    payment.attempts += 1
    start_clock(turn, payment)
    turn.enter(payment, after, before)
    turn.request(payment, "SUBMIT", "start")
    return Ruling("applied", "start")
