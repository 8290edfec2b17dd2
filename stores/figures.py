"""The numbers that say whether payments come to their end: each one query beside its function. Times are UTC and passed in.

Single-sided counts what is open as known to the channel only: it stands for the last reconciliation until that books a count of its own.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from datetime import datetime

    from stores.schema import Connection

STUCK_AFTER: Final = timedelta(minutes=30)
RECENT: Final = timedelta(days=1)


class Learned(Struct, frozen=True):
    """Recent successes of a channel account, and how many of them we had to ask for: their callbacks were lost or late (silent loss)."""

    successes: int
    by_query: int


class Delay(Struct, frozen=True):
    """Seconds from a channel's own time of an event to our hearing of it, over recent callbacks."""

    p50: float
    p99: float


class Backlog(Struct, frozen=True):
    """Notices that merchants have not heard. `oldest_s`: since the oldest of them was recorded."""

    waiting: int
    oldest_s: float
    dead: int


class Open(Struct, frozen=True):
    """Discrepancies that are open, by severity; `overdue` are past their deadline."""

    by_severity: dict[str, int]
    overdue: int


class Figures(Struct, frozen=True, kw_only=True):
    """All of them, as of one moment; dictionaries are by channel account."""

    stuck: dict[str, int]
    unknown: dict[str, int]
    single_sided: int
    learned: dict[str, Learned]
    callback_delay: dict[str, Delay]
    notices: Backlog
    discrepancies: Open


async def read(connection: Connection, now: datetime) -> Figures:
    """All figures, as of one moment."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        return Figures(
            stuck=await stuck(connection, now),
            unknown=await unknown(connection),
            single_sided=await single_sided(connection),
            learned=await learned(connection, now),
            callback_delay=await callback_delay(connection, now),
            notices=await backlog(connection, now),
            discrepancies=await discrepancies(connection, now),
        )


async def stuck(connection: Connection, now: datetime) -> dict[str, int]:
    """Payments that are PAYING or UNKNOWN 30 minutes after their first request, whatever their expiry (R-240)."""
    rows = await connection.fetch(
        "SELECT channel, count(*) FROM payments WHERE state IN ('PAYING', 'UNKNOWN') AND coalesce(("
        "SELECT min(first_sent_at) FROM attempts WHERE (attempts.merchant, number, attempts.order_id) "
        "= (payments.merchant, payment_no, payments.order_id) AND kind = 'PAY'), created_at) < $1 GROUP BY 1",
        now - STUCK_AFTER,
    )
    return dict(rows)


async def unknown(connection: Connection) -> dict[str, int]:
    """Payments whose outcome nobody knows now."""
    return dict(await connection.fetch("SELECT channel, count(*) FROM payments WHERE state = 'UNKNOWN' GROUP BY 1"))


async def single_sided(connection: Connection) -> int:
    """Open discrepancies over what only one side knows (R-240)."""
    return int(
        await connection.fetchval(
            "SELECT count(*) FROM discrepancies WHERE status <> 'resolved' AND kind IN ('CHANNEL_ONLY', 'LOCAL_ONLY')"
        )
    )


async def learned(connection: Connection, now: datetime) -> dict[str, Learned]:
    """Of the last day's successes, how many were first learned by asking."""
    rows = await connection.fetch(
        "SELECT channel, count(*) AS successes, count(*) FILTER (WHERE ("
        "SELECT source FROM decisions one WHERE (one.order_id, one.number, one.after) = (payments.order_id, payment_no, 'SUCCESS') "
        "AND one.merchant = payments.merchant ORDER BY one.seq LIMIT 1) = 'query') AS by_query FROM payments "
        "WHERE state = 'SUCCESS' AND success_at > $1 GROUP BY 1",
        now - RECENT,
    )
    return {row["channel"]: Learned(row["successes"], row["by_query"]) for row in rows}


async def callback_delay(connection: Connection, now: datetime) -> dict[str, Delay]:
    """Over the last day's callbacks whose own time can be read: RFC 3339 with its offset, or a count of seconds or milliseconds."""
    rows = await connection.fetch(_DELAY, now - RECENT)
    return {row["channel"]: Delay(row["p50"], row["p99"]) for row in rows}


_DELAY: Final = r"""
WITH heard AS (
    SELECT channel, received_at, CASE
        WHEN event_time ~ '^\d{10}$' THEN to_timestamp(event_time::bigint)
        WHEN event_time ~ '^\d{13}$' THEN to_timestamp(event_time::bigint / 1000.0)
        WHEN event_time ~ '^\d{4}-\d\d-\d\d[T ].*(Z|[+-]\d\d:?\d\d)$'
            AND pg_input_is_valid(event_time, 'timestamptz') THEN event_time::timestamptz
    END AS happened_at
    FROM inbox WHERE source = 'callback' AND received_at > $1
)
SELECT channel, percentile_cont(0.5) WITHIN GROUP (ORDER BY delay_s) AS p50, percentile_cont(0.99) WITHIN GROUP (ORDER BY delay_s) AS p99
FROM (SELECT channel, extract(epoch FROM received_at - happened_at)::float8 AS delay_s FROM heard WHERE happened_at IS NOT NULL) AS known
GROUP BY 1"""


async def backlog(connection: Connection, now: datetime) -> Backlog:
    """Notices recorded and not delivered, and those given up."""
    row = await connection.fetchrow(
        "SELECT count(*) FILTER (WHERE handle_status = 'waiting') AS waiting, "
        "coalesce(extract(epoch FROM $1 - min(recorded_at) FILTER (WHERE handle_status = 'waiting')), 0)::float8 AS oldest_s, "
        "count(*) FILTER (WHERE handle_status = 'dead') AS dead FROM notifications WHERE handle_status <> 'delivered'",
        now,
    )
    return Backlog(row["waiting"], max(0.0, row["oldest_s"]), row["dead"])


async def discrepancies(connection: Connection, now: datetime) -> Open:
    """What is open for people."""
    rows = await connection.fetch(
        "SELECT severity, count(*), count(*) FILTER (WHERE deadline < $1) AS overdue FROM discrepancies "
        "WHERE status <> 'resolved' GROUP BY 1",
        now,
    )
    return Open({row["severity"]: row["count"] for row in rows}, sum(row["overdue"] for row in rows))
