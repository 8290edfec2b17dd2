"""What came over the wire, by the place of its record: raw messages, sealed, and input that could never be handled (R-107, R-109).

This room never sees a message in the clear: what it is handed is redacted and encrypted, or has no body.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct, structs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from stores.schema import Connection


class RawMessage(Struct, frozen=True, kw_only=True, gc=False):
    """One delivery. `sha256` is of the bytes as they came; `sealed` is None where no key is set or the body lies with another event."""

    topic: str
    partition: int
    offset: int
    order_id: str
    channel: str
    content_type: str
    sha256: str
    redactions: int
    key_id: str | None
    sealed: bytes | None
    received_at: datetime


class DeadLetter(Struct, frozen=True, kw_only=True, gc=False):
    """One dead letter by its own place. `cause` is topic/partition/offset of the input that it was, `sha256` of its value."""

    topic: str
    partition: int
    offset: int
    cause: str
    order_id: str
    kind: str
    reason: str
    sha256: str
    died_at: datetime


RAW: Final = RawMessage.__struct_fields__
DEAD: Final = DeadLetter.__struct_fields__


async def write(connection: Connection, raw: Sequence[RawMessage], dead: Sequence[DeadLetter]) -> None:
    """Copy them in; their offsets see to it that each comes once."""
    for table, names, rows in (("raw_messages", RAW, raw), ("dead_letters", DEAD, dead)):
        if rows:
            await connection.copy_records_to_table(table, records=[structs.astuple(row) for row in rows], columns=names)
