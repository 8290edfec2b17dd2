"""What another book would have chosen on recorded decisions, and what that would have meant in fees and successes.

Each ask is routed again with the health and the downgrades that were recorded with it. Fees and success rates of both choices are
reckoned by one tariff, the new book's where it offers the channel and else the recorded one, so that only the choice differs. What the
other channel would really have answered nobody knows: its success is expected from what was observed then and what the book assumes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from streams.domain import score
from streams.domain.routing import route
from streams.domain.score import UNHEARD

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stores.route_decisions import Routed
    from streams.domain.score import Book, Offer


class Sums(Struct, kw_only=True):
    """Of one side. `fees` are minor units by currency; `successes_ppm` is the sum of expected success rates."""

    fees: dict[str, int] = {}
    successes_ppm: int = 0
    without: int = 0
    """Asks for which no channel was found."""


class Replayed(Struct, kw_only=True):
    """Recorded decisions, as they were and as they would have been. `moves` counts those that differ, by `from -> to`."""

    decisions: int = 0
    changed: int = 0
    was: Sums
    would: Sums
    moves: dict[str, int] = {}


class Chosen(NamedTuple):
    """What a choice costs, in minor units, and its expected success rate."""

    fee: int
    success_ppm: int


def begun() -> Replayed:
    """Nothing replayed yet."""
    return Replayed(was=Sums(), would=Sums())


def take(sums: Replayed, one: Routed, book: Book, recorded: Mapping[int, Book]) -> None:
    """Add one decision. `recorded` are the books by version; `book` is the other one."""
    before = recorded[one.routing.book]
    offers = {each.channel: each for each in (*before.offers, *book.offers)}
    would = route(one.ask, book, one.health, one.downgrades).channel
    was = one.routing.channel
    sums.decisions += 1
    for side, channel in ((sums.was, was), (sums.would, would)):
        if channel is None:
            side.without += 1
            continue
        chosen = _reckoned(one, offers[channel], book)
        side.fees[one.ask.currency] = side.fees.get(one.ask.currency, 0) + chosen.fee
        side.successes_ppm += chosen.success_ppm
    if was != would:
        sums.changed += 1
        move = f"{was or 'none'} -> {would or 'none'}"
        sums.moves[move] = sums.moves.get(move, 0) + 1


def _reckoned(one: Routed, offer: Offer, book: Book) -> Chosen:
    rate = score.success_ppm(offer, one.health.get(offer.channel, UNHEARD), book.prior)
    return Chosen(score.contract_fee(offer, one.ask.amount), rate)
