"""`channel_costs`: per channel, currency and day, what the contract says it costs and what was taken (R-119, R-165).

The day's figures come from the view `channel_days` of the books; the terms from the route book that holds. Amounts are minor units.
"""

from __future__ import annotations

from datetime import date, datetime  # noqa: TC003  msgspec reads the annotation
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from stores.schema import Connection


class Cost(Struct, frozen=True, kw_only=True):
    """One day of a channel account. `contract_ppm` is of the amount; None: the book did not offer the channel."""

    channel: str
    currency: str
    day: date
    contract_ppm: int | None
    contract_fixed: int | None
    succeeded: int
    success_volume: int
    fees: int


_REFRESH: Final = """
WITH held AS (
    SELECT book FROM route_books WHERE version = (SELECT version FROM route_activations ORDER BY seq DESC LIMIT 1)
), offer AS (
    SELECT one ->> 'channel' AS channel, (one ->> 'fee_ppm')::int AS ppm, (one ->> 'fee_fixed')::bigint AS fixed
      FROM held, jsonb_array_elements(book -> 'offers') AS one
)
INSERT INTO channel_costs
SELECT channel, currency, day, ppm, fixed, succeeded, success_volume, fees, $3
  FROM channel_days LEFT JOIN offer USING (channel) WHERE day >= $1 AND day <= $2
ON CONFLICT (channel, currency, day) DO UPDATE SET
    contract_ppm = coalesce(EXCLUDED.contract_ppm, channel_costs.contract_ppm),
    contract_fixed = coalesce(EXCLUDED.contract_fixed, channel_costs.contract_fixed),
    succeeded = EXCLUDED.succeeded, success_volume = EXCLUDED.success_volume, fees = EXCLUDED.fees, refreshed_at = EXCLUDED.refreshed_at
"""


async def refresh(connection: Connection, since: date, until: date, at: datetime) -> None:
    """Reckon these days again, both ends included."""
    await connection.execute(_REFRESH, since, until, at)


async def of_days(connection: Connection, since: date, until: date) -> list[Cost]:
    """What was reckoned for these days, both ends included."""
    rows = await connection.fetch(
        "SELECT channel, currency, day, contract_ppm, contract_fixed, succeeded, success_volume::bigint, fees::bigint "
        "FROM channel_costs WHERE day >= $1 AND day <= $2 ORDER BY day, channel, currency",
        since,
        until,
    )
    return [Cost(**row) for row in rows]
