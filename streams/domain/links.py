"""One channel transaction stands for one payment: the same money cannot pay twice (R-040, R-105, R-108).

Where a channel names one transaction for two payments of an order, a person is told under an id made of the transaction, whichever word
came first. The payment that has the money keeps it; the other one is not paid by it, and its channel is asked. Two payments of one thing
that are both paid are left to `legs`: the second is a duplicate already, neither announced nor posted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from streams.domain.identity import digest
from streams.domain.tables import AUTHORIZED, SUCCESS, UNPAID, Meaning
from streams.domain.turn import Ruling, Turn
from streams.domain.words import doubt, keep_success

if TYPE_CHECKING:
    from streams.domain.events import Answer, Callback
    from streams.domain.facts import Fact
    from streams.domain.order import Order, Paid, Payment

FOREIGN: Final = Ruling("conflict", "transaction-linked")
ASK: Final = Meaning("unknown", "doubt", ask=True)


def claim(turn: Turn, payment: Payment, event: Callback | Answer, fact: Fact) -> bool:
    """Whether the transaction of this word may pay `payment`; contested if the channel has named it for another payment too."""
    free = True
    for other in turn.order.payments:
        if other is payment or not _named_for(other, payment, event.channel, event.transaction):
            continue
        if _duplicates(other, payment):
            continue
        _contest(turn, other, payment, event, fact)
        free = free and not _has_it(other, event.transaction)
    return free


def not_paid_by(turn: Turn, payment: Payment, event: Callback | Answer, fact: Fact) -> Ruling:
    """The word is kept as a fact of an open payment, which is not paid by it; only asking can tell whose money it is."""
    if event.status == "SUCCESS":
        keep_success(turn, payment, str(event.transaction), fact, channel=event.channel)
    doubt(turn, payment, fact, ASK)
    return FOREIGN


def elsewhere(payment: Payment, event: Callback | Answer) -> str:
    """The channel of a success where it is not the payment's own: a payment may have been tried at several."""
    return "" if event.channel == payment.channel else event.channel


def pays_another(order: Order, payment: Payment, paid: Paid) -> bool:
    """Whether this success of `payment` is money that has been posted for another payment, so that nobody may decide about it again."""
    channel = paid.channel or payment.channel
    return any(
        other is not payment
        and other.state == SUCCESS
        and not other.money.duplicate
        and other.transaction == paid.transaction
        and _named_for(other, payment, channel, paid.transaction)
        for other in order.payments
    )


def _named_for(other: Payment, payment: Payment, channel: str, transaction: str | None) -> bool:
    if other.merchant != payment.merchant:
        return False
    if any(one.transaction == transaction and (one.channel or other.channel) == channel for one in other.paid):
        return True
    return other.money.authorized > 0 and other.transaction == transaction and other.channel == channel


def _has_it(other: Payment, transaction: str | None) -> bool:
    """Whether the other payment has the money, holds it, or people have decided about it."""
    if other.state in {SUCCESS, AUTHORIZED}:
        return other.transaction == transaction
    return other.money.decided > 0


def _duplicates(other: Payment, payment: Payment) -> bool:
    """Both are paid, or about to be, for one and the same thing."""
    return other.pays_same(payment) and payment.money.total is None and other.pays and payment.state not in UNPAID


def _contest(turn: Turn, other: Payment, payment: Payment, event: Callback | Answer, fact: Fact) -> None:
    turn.contest(
        "REFERENCE_ALREADY_LINKED",
        digest("transaction", payment.merchant, event.channel, event.transaction),
        ref=str(event.transaction),
        payment_no=payment.payment_no,
        merchant=payment.merchant,
        evidence=fact.ref,
        detail=f"{event.channel} names this transaction for {other.key} and for {payment.key}; it can pay only one of them",
    )
