"""Errors that will come again: the channel is passed over for five to ten minutes, so that a fallback does not pick it once more (R-162).

An error is deterministic if the same request must meet it again. One of scope `amount` ("over limit") holds for that currency from that
amount on; one of scope `channel` for everything. How long is derived from the attempt, so a replay passes over it until the same
moment, and attempts that failed together do not come back together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from streams.domain.identity import digest
from streams.domain.routing import Ask, Downgrade

if TYPE_CHECKING:
    from streams.domain.score import Book

SHORTEST_MS: Final = 300_000
LONGEST_MS: Final = 600_000


def downgraded(book: Book, ask: Ask, *, channel: str, error: str, attempt: str) -> Downgrade | None:
    """What follows from `error` of the attempt named `attempt` at `ask.at`; None where the error may not come again."""
    known = next((one for one in book.deterministic if one.error == error and one.channel in {None, channel}), None)
    if known is None:
        return None
    spread = int.from_bytes(digest("downgrade", attempt)[:4], "big") % (LONGEST_MS - SHORTEST_MS + 1)
    by_amount = known.scope == "amount"
    return Downgrade(
        channel=channel,
        until=ask.at + SHORTEST_MS + spread,
        why=error,
        currency=ask.currency if by_amount else None,
        amount_from=ask.amount if by_amount else 0,
    )
