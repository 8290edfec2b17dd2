"""What routing knows at a moment: the book that holds, what was seen of channels, and which are passed over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from stores import channel_health, route_books, route_downgrades
from streams.domain.routing import Downgrade  # noqa: TC001  msgspec reads the annotation
from streams.domain.score import Book, Health  # noqa: TC001  msgspec reads the annotation

if TYPE_CHECKING:
    from datetime import datetime

    from stores.schema import Connection


class Knowledge(Struct, frozen=True, kw_only=True):
    """A book, with what is known of its channels. `health` is of the last half hour, by channel."""

    book: Book
    health: dict[str, Health] = {}
    downgrades: tuple[Downgrade, ...] = ()


async def known(connection: Connection, at: datetime) -> Knowledge | None:
    """At `at`, UTC; None: no book was loaded yet."""
    kept = await route_books.active(connection)
    if kept is None:
        return None
    seen = await channel_health.now(connection, at)
    downgrades = await route_downgrades.live(connection, at)
    return Knowledge(book=kept.book, health=channel_health.by_channel(seen), downgrades=downgrades)
