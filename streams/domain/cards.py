"""The card's own account: an entry is kept as the issuer sees it, compared with the payment it names, and moves nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streams.domain.identity import digest
from streams.domain.order import MAX_CARDS, CardEntry, Payment
from streams.domain.turn import Ruling, Turn

if TYPE_CHECKING:
    from streams.domain.events import CardPosting
    from streams.domain.facts import Fact


def post(turn: Turn, payment: Payment | None, event: CardPosting, fact: Fact) -> Ruling:
    """Keep the entry; contest another currency, another amount of a purchase, and a refund that names no payment (R-217)."""
    _keep(turn, payment, event)
    if payment is None:
        if event.status == "PURCHASE":
            return Ruling("applied", "card-entry")
        _contest(turn, None, fact, "UNLINKED_REFUND", "the card refund names no payment; link it by hand")
        return Ruling("conflict", "card-refund-unlinked")
    if event.currency != payment.currency:
        detail = f"the card shows {event.currency}, ours is {payment.currency}"
        _contest(turn, payment, fact, "CURRENCY_MISMATCH", detail)
        return Ruling("conflict", "currency-differs", detail)
    if event.status == "PURCHASE" and event.amount != payment.amount:
        detail = f"the card shows {event.amount}, ours is {payment.amount}"
        _contest(turn, payment, fact, "AMOUNT_MISMATCH", detail)
        return Ruling("conflict", "amount-differs", detail)
    return Ruling("applied", "card-entry")


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
        evidence=fact.ref,
        detail=detail,
    )
