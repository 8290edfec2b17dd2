"""`route_decisions`: each choice of a channel with all it was made from, so that it can be made again (R-150). Immutable."""

from __future__ import annotations

from datetime import datetime  # noqa: TC003  msgspec reads the annotation
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from msgspec import Struct

from streams.domain.routing import Ask, Downgrade, Routing
from streams.domain.score import Health

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from stores.schema import Connection


class Routed(Struct, frozen=True, kw_only=True):
    """One decision. `id` is the command's that carries the choice; `health` is by channel, as it was then."""

    id: str
    decided_at: datetime
    purpose: Literal["create", "fallback"]
    merchant: str
    order_id: str
    payment_no: str
    ask: Ask
    health: dict[str, Health]
    downgrades: tuple[Downgrade, ...]
    routing: Routing


async def keep(connection: Connection, one: Routed) -> bool:
    """Remember a decision; False if one of its id is remembered already."""
    done = await connection.execute(
        "INSERT INTO route_decisions VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) ON CONFLICT DO NOTHING",
        one.id,
        one.decided_at,
        one.purpose,
        one.merchant,
        one.order_id,
        one.payment_no,
        one.routing.book,
        *(msgspec.json.encode(part).decode() for part in (one.ask, one.health, one.downgrades, one.routing)),
        one.routing.channel,
        one.routing.failure,
    )
    return bool(done == "INSERT 0 1")


_DECISIONS: Final = "SELECT id, decided_at, purpose, merchant, order_id, payment_no, ask, health, downgrades, routing FROM route_decisions"


async def between(connection: Connection, since: datetime, until: datetime) -> AsyncIterator[Routed]:
    """The decisions from `since` on, before `until`, the oldest first; one of a time, however many there are."""
    async with connection.transaction(readonly=True):
        query = f"{_DECISIONS} WHERE decided_at >= $1 AND decided_at < $2 ORDER BY decided_at, id"
        async for row in connection.cursor(query, since, until, prefetch=500):
            yield _routed(row)


async def of_payment(connection: Connection, merchant: str, payment_no: str) -> list[Routed]:
    """The decisions about a payment, the oldest first."""
    rows = await connection.fetch(
        f"{_DECISIONS} WHERE merchant = $1 AND payment_no = $2 ORDER BY decided_at, id", merchant, payment_no
    )
    return [_routed(row) for row in rows]


async def of_id(connection: Connection, name: str) -> Routed | None:
    """One decision."""
    row = await connection.fetchrow(f"{_DECISIONS} WHERE id = $1", name)
    return None if row is None else _routed(row)


class Hits(Struct, frozen=True, kw_only=True):
    """How often a channel was chosen, by which rule. `channel` None: there was none, for `failure`."""

    purpose: str
    channel: str | None
    rule: str | None
    failure: str | None
    times: int


async def hits(connection: Connection, since: datetime, until: datetime) -> list[Hits]:
    """The distribution of the choices from `since` on, before `until`, the most frequent first (R-163)."""
    rows = await connection.fetch(
        "SELECT purpose, channel, CASE WHEN failure IS NULL THEN routing #>> '{candidates,0,rule}' END AS rule, failure, count(*) AS times "
        "FROM route_decisions WHERE decided_at >= $1 AND decided_at < $2 GROUP BY 1, 2, 3, 4 ORDER BY 5 DESC, 1, 2, 3, 4",
        since,
        until,
    )
    return [Hits(**row) for row in rows]


def _routed(row: Any) -> Routed:
    return Routed(
        id=row["id"],
        decided_at=row["decided_at"],
        purpose=row["purpose"],
        merchant=row["merchant"],
        order_id=row["order_id"],
        payment_no=row["payment_no"],
        ask=_ask.decode(row["ask"]),
        health=_health.decode(row["health"]),
        downgrades=_downgrades.decode(row["downgrades"]),
        routing=_routing.decode(row["routing"]),
    )


_ask: Final = msgspec.json.Decoder(Ask)
_health: Final = msgspec.json.Decoder(dict[str, Health])
_downgrades: Final = msgspec.json.Decoder(tuple[Downgrade, ...])
_routing: Final = msgspec.json.Decoder(Routing)
