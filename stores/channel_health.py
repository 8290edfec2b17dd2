"""`channel_health`: what was seen of each channel account in the last half hour, as its watchers published it. Approximate.

Every watcher writes the parts of the stream that it follows; a reader adds the last word of each part. Times are UTC.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from streams.domain.score import Health

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stores.schema import Connection

FRESH: Final = timedelta(minutes=5)
"""A word that is older than this says nothing any more: its watcher is away."""


class Seen(Struct, frozen=True, kw_only=True):
    """One channel account, one amount band, one part of the stream: the half hour before `as_of`.

    `latency_ms_total` is from the submit to the success, over those that succeeded; `failures` are counts by error class; `unknown`
    is the stock of payments without a result.
    """

    channel: str
    band: str
    part: int
    as_of: datetime
    succeeded: int = 0
    failed: int = 0
    unknown: int = 0
    latency_ms_total: int = 0
    failures: dict[str, int] = {}


async def write(connection: Connection, seen: Sequence[Seen]) -> None:
    """Keep what was seen. The same moment again replaces it."""
    await connection.executemany(
        "INSERT INTO channel_health VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (channel, band, part, as_of) DO UPDATE SET "
        "succeeded = EXCLUDED.succeeded, failed = EXCLUDED.failed, unknown = EXCLUDED.unknown, "
        "latency_ms_total = EXCLUDED.latency_ms_total, failures = EXCLUDED.failures",
        [
            (
                *(
                    one.channel,
                    one.band,
                    one.part,
                    one.as_of,
                    one.succeeded,
                    one.failed,
                    one.unknown,
                    one.latency_ms_total,
                ),
                msgspec.json.encode(one.failures).decode(),
            )
            for one in seen
        ],
    )


async def now(connection: Connection, at: datetime) -> list[Seen]:
    """The last word of each part, if it is fresh."""
    rows = await connection.fetch(
        "SELECT DISTINCT ON (channel, band, part) * FROM channel_health WHERE as_of > $1 AND as_of <= $2 "
        "ORDER BY channel, band, part, as_of DESC",
        at - FRESH,
        at,
    )
    return [Seen(**{**row, "failures": msgspec.json.decode(row["failures"])}) for row in rows]


async def forget(connection: Connection, before: datetime) -> None:
    """Remove what is older."""
    await connection.execute("DELETE FROM channel_health WHERE as_of < $1", before)


def by_channel(seen: Sequence[Seen]) -> dict[str, Health]:
    """As routing asks for it: all bands and parts of a channel together."""
    found: dict[str, Health] = {}
    for one in seen:
        known = found.get(one.channel, Health())
        found[one.channel] = Health(
            succeeded=known.succeeded + one.succeeded,
            failed=known.failed + one.failed,
            unknown=known.unknown + one.unknown,
        )
    return found
