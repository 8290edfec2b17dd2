"""Events on their way to the law: written with what they tell of, sent at least once. A repetition is a duplicate there, by its id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from stores.schema import Connection

_encode: Final = json.Encoder().encode
_PUT: Final = """
    INSERT INTO recon_outbox (event_id, order_id, body) SELECT * FROM unnest($1::text[], $2::text[], $3::text[])
    ON CONFLICT (event_id) DO NOTHING
"""
_WAITING: Final = "SELECT seq, event_id, order_id, body FROM recon_outbox WHERE sent_at IS NULL ORDER BY seq LIMIT $1"
_SENT: Final = "UPDATE recon_outbox SET sent_at = $2 WHERE seq = ANY($1::bigint[])"


class Waiting(Struct, frozen=True):
    seq: int
    event_id: str
    order_id: str
    body: str


async def put(connection: Connection, events: Sequence[Any]) -> None:
    """Write events down. What was told before is not told again. An answer, which has no id, has that of what it says."""
    if events:
        bodies = [_encode(event).decode() for event in events]
        ids = [getattr(event, "event_id", None) or body for event, body in zip(events, bodies, strict=True)]
        await connection.execute(_PUT, ids, [event.order_id for event in events], bodies)


async def waiting(connection: Connection, most: int) -> list[Waiting]:
    """The next events to send, oldest first."""
    return [Waiting(*row) for row in await connection.fetch(_WAITING, most)]


async def sent(connection: Connection, seqs: Sequence[int], at: datetime) -> None:
    await connection.execute(_SENT, list(seqs), at)
