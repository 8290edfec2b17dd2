"""The card's own account: an entry is kept as the issuer sees it, and counts where a reference says what it is.

A purchase of a hold takes it. A refund with the reference of one of ours shows that the card has it. Without a reference there are
only candidates for a person: amounts that fit are no proof (R-217).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streams.domain import balance, captures
from streams.domain.identity import digest
from streams.domain.order import MAX_CARDS, CardEntry, Order, Payment
from streams.domain.refunds import show
from streams.domain.tables import AUTHORIZED, SUCCESS
from streams.domain.turn import Ruling, Turn

if TYPE_CHECKING:
    from streams.domain.events import CardPosting
    from streams.domain.facts import Fact

ENTRY = Ruling("applied", "card-entry")


def post(turn: Turn, payment: Payment | None, event: CardPosting, fact: Fact) -> Ruling:
    """Keep the entry; take the hold it clears; contest what does not fit the payment it names."""
    _keep(turn, payment, event)
    if payment is None:
        return _unlinked(turn, event, fact)
    if event.currency != payment.currency:
        detail = f"the card shows {event.currency}, ours is {payment.currency}"
        _contest(turn, payment, fact, "CURRENCY_MISMATCH", detail)
        return Ruling("conflict", "currency-differs", detail)
    if event.status == "REFUND":
        return _refunded(turn, payment, event)
    return _cleared(turn, payment, event, fact) if payment.money.authorized else _compared(turn, payment, event, fact)


def _unlinked(turn: Turn, event: CardPosting, fact: Fact) -> Ruling:
    """An entry that names no payment: of a refund a person must say which one it is."""
    if event.status == "PURCHASE":
        return ENTRY
    fitting = ", ".join(candidates(turn.order, event)) or "no payment of this order"
    _contest(turn, None, fact, "UNLINKED_REFUND", f"the card refund names no payment; {fitting} would fit")
    return Ruling("conflict", "card-refund-unlinked")


def _compared(turn: Turn, payment: Payment, event: CardPosting, fact: Fact) -> Ruling:
    """The card's side of a payment that its channel settles: it moves nothing and must show the same."""
    if event.amount == payment.amount:
        return ENTRY
    detail = f"the card shows {event.amount}, ours is {payment.amount}"
    _contest(turn, payment, fact, "AMOUNT_MISMATCH", detail)
    return Ruling("conflict", "amount-differs", detail)


def _cleared(turn: Turn, payment: Payment, event: CardPosting, fact: Fact) -> Ruling:
    """The issuer booked a purchase against a hold: it takes what it shows, within the hold and its tolerance."""
    funds = payment.money
    percent = turn.contract(payment.channel).overcapture_pct.get(funds.category or "", 0)
    room = balance.capturable(funds, percent)
    if payment.state not in {AUTHORIZED, SUCCESS} or not 0 < event.amount <= room:
        detail = f"the card was charged {event.amount}, {room} could be captured"
        _contest(turn, payment, fact, "OVER_CAPTURE", detail)
        return Ruling("conflict", "over-capture", detail)
    captures.take(turn, payment, fact, event.amount, ref=payment.key)
    return Ruling("applied", "card-cleared")


def _refunded(turn: Turn, payment: Payment, event: CardPosting) -> Ruling:
    """The card shows a refund. Only its reference says which of ours it is (R-211)."""
    for refund in balance.refunds(turn.order, payment):
        if event.transaction and refund.transaction == event.transaction and refund.amount == event.amount:
            if refund.layers is None or refund.layers.card in {None, "PENDING"}:
                show(turn, refund, "card", "POSTED")
            return Ruling("applied", "card-refund")
    return ENTRY


def candidates(order: Order, event: CardPosting) -> list[str]:
    """Payments of which the entry might be a refund: paid, of its currency, with that much left to refund."""
    return [
        payment.key
        for payment in order.payments
        if payment.state == SUCCESS
        and payment.currency == event.currency
        and balance.refundable(order, payment) >= event.amount
    ]


def _keep(turn: Turn, payment: Payment | None, event: CardPosting) -> None:
    """Keep the entry once, however often and however late it is synced (R-219)."""
    if any(kept.event_id == event.event_id and kept.channel == event.channel for kept in turn.order.cards):
        return
    entry = CardEntry(
        event.event_id,
        event.channel,
        event.status,
        event.amount,
        event.currency,
        None if payment is None else payment.payment_no,
    )
    turn.order.cards = (*turn.order.cards, entry)[-MAX_CARDS:]


def _contest(turn: Turn, payment: Payment | None, fact: Fact, kind: str, detail: str) -> None:
    turn.contest(
        kind,
        digest("card", kind, fact.key),
        ref=fact.ref,
        payment_no=None if payment is None else payment.payment_no,
        merchant=fact.merchant,
        evidence=fact.ref,
        detail=detail,
    )
