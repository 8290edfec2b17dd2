"""What our own side asks for beside a payment: to capture or void a hold, and to give money back.

Each is an operation with a number of its own (R-032). What does not fit is refused at the door, where it costs nothing, and what
fits reserves its amount at once, so that two requests can never race past the money that is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streams.domain import balance
from streams.domain.commands import NOT_FOUND, invalid_amount
from streams.domain.facts import operation_key
from streams.domain.identity import digest
from streams.domain.order import MAX_OPERATIONS, Operation, Payment
from streams.domain.schedule import start_operation
from streams.domain.tables import AUTHORIZED, INIT, MACHINES, OPEN
from streams.domain.turn import Ruling, Turn

if TYPE_CHECKING:
    from streams.domain.decisions import Severity, Verb
    from streams.domain.events import CapturePayment, RefundPayment, VoidPayment
    from streams.domain.facts import Fact


def capture(turn: Turn, command: CapturePayment, fact: Fact) -> Ruling:
    """Ask for some of a hold: at most what is held and tolerated, less what other captures may still take."""
    payment = turn.payment(command.payment_no, fact.merchant)
    known = _known(turn, command.capture_no, fact, "CAPTURE", command.amount)
    if known is not None:
        return known
    if command.amount <= 0:
        invalid_amount(turn, operation_key(command.capture_no, fact.merchant), fact, command.amount)
        return Ruling("refused", "amount-not-positive", f"amount is {command.amount}")
    room = 0 if payment is None else _room(turn, payment)
    if payment is None or command.amount > room:
        detail = f"{command.amount} is more than the {room} that may be captured; ask for less"
        _refuse(turn, "OVER_CAPTURE", command.capture_no, fact, detail, severity="info")
        return Ruling("refused", "over-capture", detail)
    if command.currency != payment.currency:
        return _other_currency(command.currency, payment)
    return _open(turn, payment, command.capture_no, "CAPTURE", command.amount)


def _room(turn: Turn, payment: Payment) -> int:
    """What may still be captured: of the hold and its tolerance, what no request asks for yet."""
    funds = payment.money
    percent = turn.contract(payment.channel).overcapture_pct.get(funds.category or "", 0)
    return max(balance.capturable(funds, percent) - balance.in_flight(turn.order, payment), 0)


def void(turn: Turn, command: VoidPayment, fact: Fact) -> Ruling:
    """Ask the channel to let the whole hold go; not while another request about it is out."""
    payment = turn.payment(command.payment_no, fact.merchant)
    if payment is None:
        return NOT_FOUND
    known = _known(turn, command.void_no, fact, "VOID", payment.money.hold)
    if known is not None:
        return known
    if payment.state != AUTHORIZED:
        return Ruling("refused", "not-authorised", f"payment {payment.key} is {payment.state}")
    if balance.in_flight(turn.order, payment):
        return Ruling("refused", "hold-in-use", f"a capture or void of {payment.key} has no result yet")
    return _open(turn, payment, command.void_no, "VOID", payment.money.hold)


def refund(turn: Turn, command: RefundPayment, fact: Fact) -> Ruling:
    """Ask for money back: of captured money, and no more than is left of it (R-015)."""
    payment = turn.payment(command.payment_no, fact.merchant)
    known = _known(turn, command.refund_no, fact, "REFUND", command.amount)
    if known is not None:
        return known
    if command.amount <= 0:
        invalid_amount(turn, operation_key(command.refund_no, fact.merchant), fact, command.amount)
        return Ruling("refused", "amount-not-positive", f"amount is {command.amount}")
    if payment is None or payment.money.captured == 0:
        detail = f"nothing of {command.payment_no} was captured, so nothing can go back"
        _refuse(turn, "NOT_CAPTURED", command.refund_no, fact, detail, severity="info")
        return Ruling("refused", "not-captured", detail)
    if command.currency != payment.currency:
        return _other_currency(command.currency, payment)
    left = balance.refundable(turn.order, payment)
    if command.amount > left:
        return _too_much(turn, payment, command, fact, left)
    late = command.amount <= balance.suspended(turn.order, payment)
    return _open(turn, payment, command.refund_no, "REFUND", command.amount, late=late)


def _too_much(turn: Turn, payment: Payment, command: RefundPayment, fact: Fact, left: int) -> Ruling:
    """Whether a dispute is why it does not fit, or it would not fit in any case."""
    detail = f"{command.amount} is more than the {left} that may still be refunded"
    if not payment.money.finished and command.amount <= left + balance.lost(payment.money):
        _refuse(turn, "REFUND_AND_DISPUTE", command.refund_no, fact, f"{detail}; the rest is disputed", severity="high")
        return Ruling("refused", "money-is-disputed", detail)
    _refuse(turn, "OVER_REFUND", command.refund_no, fact, detail, severity="info")
    return Ruling("refused", "over-refund", detail)


def refund_late(turn: Turn, payment: Payment, number: str, amount: int) -> Ruling:
    """Give back money that came late and was taken in for that (by two people)."""
    return _open(turn, payment, number, "REFUND", amount, late=True)


def _known(turn: Turn, number: str, fact: Fact, kind: str, amount: int) -> Ruling | None:
    """A request with a known number does nothing; the number of something else is refused."""
    known = turn.find(number, fact.merchant)
    if known is None:
        return None
    same = type(known) is Operation and known.kind == kind and (kind == "VOID" or known.amount == amount)
    return Ruling("duplicate", "same-number") if same else Ruling("refused", "number-reused")


def _other_currency(currency: str, payment: Payment) -> Ruling:
    return Ruling("refused", "currency-not-ours", f"currency is {currency}, the payment's is {payment.currency}")


def _refuse(turn: Turn, kind: str, number: str, fact: Fact, detail: str, *, severity: Severity) -> None:
    key = operation_key(number, fact.merchant)
    turn.contest(
        kind,
        digest("door", kind, key),
        ref=key,
        payment_no=number,
        merchant=fact.merchant,
        evidence=fact.ref,
        detail=detail,
        severity=severity,
    )


def _open(turn: Turn, payment: Payment, number: str, verb: Verb, amount: int, *, late: bool = False) -> Ruling:
    """The operation appears and its one request leaves."""
    if len(turn.order.operations) >= MAX_OPERATIONS:
        return Ruling("refused", "too-many-operations", f"at most {MAX_OPERATIONS} of one order")
    operation = Operation(
        number, verb, payment.payment_no, payment.merchant, payment.channel, amount, payment.currency, INIT, (), turn.at
    )
    operation.late = late
    turn.order.operations = (*turn.order.operations, operation)
    turn.enter(operation, INIT, None)
    start_operation(turn, operation)
    after = MACHINES[verb][INIT]["start"]
    assert after in OPEN
    turn.enter(operation, after, INIT)
    turn.request(operation, verb, verb.lower())
    return Ruling("applied", f"{verb.lower()}-asked")
