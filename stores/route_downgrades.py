"""`channel_downgrades`: channels that are passed over for some minutes, each row for one attempt (R-162). Times are UTC."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streams.domain.moment import milliseconds, moment
from streams.domain.routing import Downgrade

if TYPE_CHECKING:
    from datetime import datetime

    from stores.schema import Connection


async def keep(connection: Connection, one: Downgrade, *, attempt: str, at: datetime) -> bool:
    """Remember what followed from an attempt; False if it is remembered already."""
    done = await connection.execute(
        "INSERT INTO channel_downgrades VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING",
        attempt,
        one.channel,
        one.why,
        one.currency,
        one.amount_from,
        at,
        moment(one.until),
    )
    return bool(done == "INSERT 0 1")


async def live(connection: Connection, at: datetime) -> tuple[Downgrade, ...]:
    """Those that hold at `at` or will end after it."""
    rows = await connection.fetch(
        "SELECT channel, why, currency, amount_from, until FROM channel_downgrades WHERE until > $1 ORDER BY until, attempt",
        at,
    )
    return tuple(
        Downgrade(
            channel=row["channel"],
            until=milliseconds(row["until"]),
            why=row["why"],
            currency=row["currency"],
            amount_from=row["amount_from"],
        )
        for row in rows
    )


async def triggers(connection: Connection, since: datetime) -> dict[tuple[str, str], int]:
    """How often a channel was downgraded since then, by channel and error (R-164)."""
    rows = await connection.fetch(
        "SELECT channel, why, count(*) AS times FROM channel_downgrades WHERE starts_at >= $1 GROUP BY 1, 2 ORDER BY 1, 2",
        since,
    )
    return {(row["channel"], row["why"]): row["times"] for row in rows}
