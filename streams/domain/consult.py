"""Before the payment: which methods this payer can use for this amount, in what order, and why not the others (R-140).

A method is as good as the channel that would take it. Nothing is reserved: the answer holds for the moment it was asked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, structs

from streams.domain.routing import Ask, Downgrade, Dropped, Routing, route

if TYPE_CHECKING:
    from streams.domain.score import Book, Health


class Method(Struct, frozen=True, kw_only=True):
    """One method. `channel` would take it; without one `why` says of each channel that knows the method what stands against it."""

    method: str
    channel: str | None
    why: tuple[Dropped, ...] = ()


def consult(
    ask: Ask, book: Book, health: dict[str, Health], downgrades: tuple[Downgrade, ...] = ()
) -> tuple[Method, ...]:
    """Every method of the book: those that can be used first, the best first; then the others by name."""
    names = sorted({name for offer in book.offers for name in offer.methods})
    routed = [(name, route(structs.replace(ask, method=name), book, health, downgrades)) for name in names]
    usable = sorted(
        (each for each in routed if each[1].channel), key=lambda each: (-each[1].candidates[0].total, each[0])
    )
    usual = [Method(method=name, channel=routing.channel) for name, routing in usable]
    return (*usual, *(_refused(name, routing, book) for name, routing in routed if routing.channel is None))


def _refused(name: str, routing: Routing, book: Book) -> Method:
    knows = {offer.channel for offer in book.offers if name in offer.methods}
    return Method(method=name, channel=None, why=tuple(one for one in routing.dropped if one.channel in knows))
