"""Who is meant, and whether it can be heard yet.

Evidence about an operation that is not there waits for it, and a person is told when it does not come (R-081). Evidence about money
that is not there yet (a refund, a dispute, a return of an unpaid payment; the clearing of a hold nobody reported) waits for the
payment's own word, and needs nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from streams.domain import returns
from streams.domain.events import Answer, Callback, CardPosting, Dispute, Finding, RefundLayer, RefundNotice, Release
from streams.domain.order import Operation
from streams.domain.reports import Agreement, Booking, Difference, PayoutNotice, Settled
from streams.domain.tables import AUTHORIZED, INIT, NOT_YET_PAID, OPEN, SUCCESS
from streams.domain.turn import Ruling, Turn

if TYPE_CHECKING:
    from streams.domain.events import Evidence
    from streams.domain.facts import Fact
    from streams.domain.order import Payment, Target

    Place: TypeAlias = tuple[Target | None, Ruling | None]

FOR_OPERATION: Final = Ruling("parked", "waits-for-payment")
FOR_STATE: Final = Ruling("parked", "waits-for-state")
AHEAD_OF_SUCCESS: Final = frozenset({"FINISHED", "REFUND_TOTAL"})
"""Words that can only follow a payment's own."""


def place(turn: Turn, event: Evidence, fact: Fact) -> Place:
    """The operation that the evidence speaks of, and the ruling that makes it wait, if it must."""
    if type(event) is CardPosting:
        return _of_card(turn, event, fact)
    if type(event) is RefundNotice and not event.refund_no:
        return _of_money(turn.payment(event.payment_no, fact.merchant), release=event.reason == "uncaptured_remainder")
    target = turn.find(fact.payment_no, fact.merchant)
    if isinstance(event, Finding | Difference | Agreement | Booking | Settled | PayoutNotice):
        return target, None  # the books have seen the operation, or it speaks of none
    if target is None:
        return None, FOR_OPERATION
    if isinstance(target, Operation):
        return _of_operation(turn, target, event)
    return _of_payment(turn, target, event, fact)


def _of_payment(turn: Turn, payment: Payment, event: Evidence, fact: Fact) -> Place:
    """A channel can only speak of a request that was made to it, or of an ended payment."""
    if isinstance(event, Dispute):
        return _of_money(payment)
    if isinstance(event, Release):
        early = payment.state != AUTHORIZED and payment.state in NOT_YET_PAID
        return payment, FOR_STATE if early else None
    if not isinstance(event, Callback | Answer):
        return None, FOR_OPERATION
    return _of_word(turn, payment, event, fact)


def _of_word(turn: Turn, payment: Payment, event: Callback | Answer, fact: Fact) -> Place:
    if not payment.asked(event.channel):
        return None, FOR_OPERATION
    if payment.state == INIT:
        return payment, FOR_STATE
    if not fact.key and type(event) is Callback:
        return payment, None
    if payment.state in NOT_YET_PAID and _follows_success(turn, payment, event):
        return payment, FOR_STATE
    return payment, None


def _follows_success(turn: Turn, payment: Payment, event: Callback | Answer) -> bool:
    if returns.waits_for_success(turn, payment, event.status):
        return True
    if type(event) is Callback and event.status == "CLOSED" and event.cumulative_refunded:
        return True  # a close that tells of refunds follows a success that nobody has told yet
    if event.status not in AHEAD_OF_SUCCESS:
        return False
    return payment.state in OPEN or event.status == "FINISHED"


def _of_operation(turn: Turn, operation: Operation, event: Evidence) -> Place:
    if operation.kind != "REFUND":
        if not isinstance(event, Callback | Answer):
            return None, FOR_OPERATION
        return operation, FOR_STATE if operation.state == INIT else None
    if not isinstance(event, Callback | Answer | RefundNotice | RefundLayer):
        return None, FOR_OPERATION
    payment = turn.parent(operation)
    if operation.state == INIT or (payment is not None and payment.state in NOT_YET_PAID):
        return operation, FOR_STATE
    if type(event) is RefundLayer:
        return operation, None
    waits = operation.state in OPEN and returns.waits_for_success(turn, operation, event.status)
    return operation, FOR_STATE if waits else None


def _of_money(payment: Payment | None, *, release: bool = False) -> Place:
    if payment is None:
        return None, FOR_OPERATION
    paid = payment.state not in NOT_YET_PAID or (release and payment.state == AUTHORIZED)
    return payment, None if paid else FOR_STATE


def _of_card(turn: Turn, event: CardPosting, fact: Fact) -> Place:
    """An entry of the card without a number is kept as it is. One of a payment waits until it is known whether there is a hold."""
    if not fact.payment_no:
        return None, None
    payment = turn.payment(fact.payment_no, fact.merchant)
    if payment is None:
        return None, FOR_OPERATION
    if event.status == "PURCHASE":
        return payment, FOR_STATE if payment.state in OPEN or payment.state == INIT else None
    return payment, None if payment.state == SUCCESS or payment.state not in NOT_YET_PAID else FOR_STATE
