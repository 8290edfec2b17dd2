"""What an order's inbox holds, and the sealed messages behind it. To open one is an act: it is logged before anything is handed out."""

from __future__ import annotations

from datetime import datetime  # noqa: TC003  msgspec reads the annotation
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from stores import audit

if TYPE_CHECKING:
    from stores.schema import Connection

_PIECES: Final = """
    SELECT i.received_at, i.source, i.channel, i.word, i.channel_event_id, i.channel_transaction_id, i.number, i.process_status,
           i.process_rule, i.repeats, i.cause, m.key_id
      FROM inbox i
      LEFT JOIN raw_messages m ON i.cause = m.topic || '/' || m.partition || '/' || m."offset"
     WHERE i.order_id = $1 ORDER BY i.received_at, i.seq
"""
_SEALED: Final = """
    SELECT order_id, channel, content_type, sha256, redactions, key_id, sealed FROM raw_messages
     WHERE topic = $1 AND partition = $2 AND "offset" = $3
"""


class Piece(Struct, frozen=True):
    """One piece of the inbox. `cause` is the place of its record; `key_id` names the key of the message, None where none was kept."""

    received_at: datetime
    source: str
    channel: str
    word: str
    channel_event_id: str | None
    channel_transaction_id: str | None
    number: str | None
    process_status: str
    process_rule: str
    repeats: int
    cause: str | None
    key_id: str | None


class Message(Struct, frozen=True):
    """A sealed message at its place. `sha256` is of the bytes as they came, before `redactions` of them were hidden."""

    order_id: str
    channel: str
    content_type: str
    sha256: str
    redactions: int
    key_id: str | None
    sealed: bytes | None


async def pieces(connection: Connection, order_id: str) -> list[Piece]:
    """What was said about an order, in the order in which it came."""
    return [Piece(*row) for row in await connection.fetch(_PIECES, order_id)]


async def take(
    connection: Connection, place: tuple[str, int, int], person: str, reason: str, at: datetime
) -> Message | None:
    """The message at a place; that `person` opened it, and why, is in the audit log from now on (R-197)."""
    async with connection.transaction():
        row = await connection.fetchrow(_SEALED, *place)
        if row is None:
            return None
        named = "/".join(str(part) for part in place)
        await audit.append(
            connection, audit.act(at, person, "open-message", named, order=row["order_id"], reason=reason)
        )
    return Message(*row)
