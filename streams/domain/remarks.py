"""What a route book can and cannot do, said before it routes anything.

The plain score adds things of different kinds. For each pair of channels this says how far one's success rate may fall before the choice
turns, in sentences for the start-up log and for whoever writes the book: "A wins even at 0 % success" is a property of the numbers
(ruling 4).
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from msgspec import Struct, structs

from streams.domain.score import MILLION, Book, Health, Offer, best, rank

Kind: TypeAlias = Literal["wins_when_dead", "turns_at", "rule_without_channel", "channel_without_rule"]
SHOWN: Final = 10_000
"""The amount, in minor units, for which channels are compared."""


class Remark(Struct, frozen=True, kw_only=True):
    """One thing to know about a book. `warning`: whoever wrote it has probably not meant it."""

    kind: Kind
    warning: bool
    text: str


def remarks(book: Book, amount: int = SHOWN) -> tuple[Remark, ...]:
    """What is to be said of this book, warnings first; for a payment of `amount` minor units."""
    said = [*_strays(book)]
    live = sorted((one for one in book.offers if one.enabled), key=lambda one: one.channel)
    tags = sorted({rule.buyer_tag for rule in book.rules if rule.active and rule.buyer_tag is not None})
    for winner in live:
        for other in live:
            if winner is other or not winner.limits.keys() & other.limits.keys():
                continue
            usual = _pair(winner, other, _for(book, None), amount, "")
            said += usual
            for tag in tags:
                whom = f" for buyer tag {tag}"
                special = _pair(winner, other, _for(book, tag), amount, whom)
                said += [one for one in special if one.text.replace(whom, "") not in {each.text for each in usual}]
    return tuple(sorted(said, key=lambda one: (not one.warning, one.text)))


def _for(book: Book, tag: str | None) -> Book:
    """The book as it is for a payer of that tag. Amounts and hours are left open: what is said holds where both channels are candidates."""
    return structs.replace(book, rules=tuple(one for one in book.rules if one.active and one.buyer_tag in {None, tag}))


def _strays(book: Book) -> list[Remark]:
    known = {one.channel for one in book.offers}
    ruled = {one.channel for one in book.rules if one.active}
    said = [
        Remark(
            kind="rule_without_channel",
            warning=True,
            text=f"rule {one.name} names {one.channel}, which the book does not offer",
        )
        for one in book.rules
        if one.channel not in known
    ]
    if book.rules:
        said += [
            Remark(
                kind="channel_without_rule", warning=True, text=f"no active rule names {channel}: it is never chosen"
            )
            for channel in sorted(known - ruled)
        ]
    return said


def _pair(winner: Offer, other: Offer, book: Book, amount: int, whom: str) -> list[Remark]:
    """Of a channel that wins as both are assumed: down to which rate it still does, and whether that ends anywhere."""
    if book.rules and not {winner.channel, other.channel} <= {one.channel for one in book.rules}:
        return []
    rival = _standing(other, other.assumed_ppm, book, amount)

    def wins(rate: int) -> bool:
        return _standing(winner, rate, book, amount) < rival

    if not wins(winner.assumed_ppm):
        return []
    names = f"{winner.channel} over {other.channel} (at {percent(other.assumed_ppm)}){whom}"
    if wins(0):
        text = f"{names}: wins even at 0 % success; only the health filter ({percent(book.floor_ppm)}) takes it out"
        return [Remark(kind="wins_when_dead", warning=True, text=text)]
    low, high = 0, winner.assumed_ppm
    while high - low > 1:
        middle = (low + high) // 2
        if wins(middle):
            high = middle
        else:
            low = middle
    return [Remark(kind="turns_at", warning=False, text=f"{names}: wins down to {percent(high)} success")]


def _standing(offer: Offer, rate: int, book: Book, amount: int) -> tuple[int, int, int, str]:
    """Its rank at that success rate, believed as it is."""
    rules = tuple(rule for rule in book.rules if rule.channel == offer.channel)
    certain = Book(by=book.by, weights=book.weights, value=book.value, prior=0)
    return rank(best(offer, rules, amount, certain, Health(succeeded=rate, failed=MILLION - rate)))


def percent(ppm: int) -> str:
    whole, rest = divmod(ppm, 10_000)
    return f"{whole} %" if rest == 0 else f"{whole}.{rest:04d}".rstrip("0") + " %"
