"""How far reconciliation is complete: each unit of money under its strongest proof, and until which day bills are whole (R-184, R-186).

bank       a bank credit contains it, by the payout that lists it
bill       a line of the channel's own bill is its line
query      the channel said so when it was asked
callback   the channel said so by itself; of all proofs the weakest, as it can be false, lost or late
"""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

if TYPE_CHECKING:
    from stores.schema import Connection

RUNGS: Final = ("bank", "bill", "query", "callback")

_PROVEN: Final = """
    WITH words AS (
             SELECT DISTINCT ON (order_id, merchant, number) order_id, merchant, number, source FROM decisions
              WHERE after = 'SUCCESS' AND before IS DISTINCT FROM 'SUCCESS' ORDER BY order_id, merchant, number, seq),
         lines AS (
             SELECT r.order_id, r.merchant, r.number, bool_or(b.kind = 'CHANNEL_BILL') AS billed,
                    bool_or(coalesce(i.settled, false)) AS paid
               FROM recon_results r JOIN recon_batches b ON b.id = r.batch_id AND b.state = 'active'
               LEFT JOIN recon_payouts p ON p.batch_id = b.id LEFT JOIN recon_items i ON i.channel = b.channel AND i.ref = p.ref
              WHERE r.verdict = 'MATCHED' GROUP BY 1, 2, 3)
    SELECT p.channel, p.currency,
           CASE WHEN l.paid THEN 'bank' WHEN l.billed OR w.source = 'bill' THEN 'bill'
                WHEN w.source IN ('callback', 'card') THEN 'callback' ELSE 'query' END AS rung,
           count(*) AS payments, sum(p.amount)::bigint AS amount
      FROM payments p LEFT JOIN words w ON (w.order_id, w.merchant, w.number) = (p.order_id, p.merchant, p.payment_no)
      LEFT JOIN lines l ON (l.order_id, l.merchant, l.number) = (p.order_id, p.merchant, p.payment_no)
     WHERE p.state = 'SUCCESS' AND ($1::text IS NULL OR p.channel = $1)
     GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
"""
_DAYS: Final = """
    SELECT channel, business_date, bool_or(complete) AS complete, max(version) AS version, min(zone) AS zone,
           min(encode(sha256, 'hex')) AS sha256
      FROM recon_batches WHERE kind = 'CHANNEL_BILL' AND state = 'active' AND ($1::text IS NULL OR channel = $1)
     GROUP BY 1, 2 ORDER BY 1, 2
"""


class Share(Struct, frozen=True):
    """Successful payments of a channel and currency under one proof. `amount` is minor units."""

    channel: str
    currency: str
    rung: str
    payments: int
    amount: int


class Calendar(Struct, frozen=True):
    """Bills of a channel. They are complete to `complete_to`, whose file has `sha256` and whose day is of `zone`; `lacking` are days
    between the first bill and the last that no complete bill covers; `superseded` days have a corrected file.
    """

    channel: str
    first: date
    complete_to: date | None
    zone: str
    sha256: str
    lacking: tuple[date, ...]
    superseded: tuple[date, ...]


async def shares(connection: Connection, channel: str | None = None) -> list[Share]:
    """Every successful payment once, under its strongest proof."""
    return [Share(**dict(row)) for row in await connection.fetch(_PROVEN, channel)]


async def calendars(connection: Connection, channel: str | None = None) -> list[Calendar]:
    """The watermark of each channel with bills."""
    by_channel: dict[str, list[Any]] = {}
    for row in await connection.fetch(_DAYS, channel):
        by_channel.setdefault(row["channel"], []).append(row)
    return [_calendar(name, rows) for name, rows in by_channel.items()]


def _calendar(channel: str, rows: list[Any]) -> Calendar:
    whole = {row["business_date"]: row for row in rows if row["complete"]}
    first, last = rows[0]["business_date"], rows[-1]["business_date"]
    every = [first + timedelta(days=number) for number in range((last - first).days + 1)]
    lacking = tuple(day for day in every if day not in whole)
    until = lacking[0] - timedelta(days=1) if lacking else last
    row = whole.get(until)
    return Calendar(
        channel=channel,
        first=first,
        complete_to=None if row is None else until,
        zone="" if row is None else row["zone"],
        sha256="" if row is None else row["sha256"],
        lacking=lacking,
        superseded=tuple(row["business_date"] for row in rows if row["version"] > 1),
    )
