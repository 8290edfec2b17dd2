"""What is asked of routing, from a moment: the minute of the day is that of the book's zone."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from streams.domain.moment import milliseconds
from streams.domain.routing import Ask

if TYPE_CHECKING:
    from datetime import datetime

    from streams.domain.score import Book


def ask(
    book: Book,
    at: datetime,
    *,
    amount: int,
    currency: str,
    method: str | None = None,
    buyer_tag: str | None = None,
    tried: tuple[str, ...] = (),
) -> Ask:
    """An ask at `at`, UTC; `amount` in minor units."""
    there = at.astimezone(ZoneInfo(book.zone))
    return Ask(
        amount=amount,
        currency=currency,
        at=milliseconds(at),
        minute=there.hour * 60 + there.minute,
        method=method,
        buyer_tag=buyer_tag,
        tried=tried,
    )
