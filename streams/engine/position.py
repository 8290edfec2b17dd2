"""Where a partition stands, written by every transaction beside the rows it changed: tags and the `@position` record.

Every record of a transaction carries the header `x = "session.n"`: the opening it was written in, and the transaction's number in
that opening. A record that is visible in any of the partition's own logs proves that the coordinator committed its transaction, and
every earlier one of its session. Group offsets prove nothing here and are never read back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import msgspec

if TYPE_CHECKING:
    from streams.engine.topology import Headers

KEY: Final = b"@position"
SCRUB: Final = b"@scrub"
RESERVED: Final = frozenset({KEY, SCRUB})
HEADER: Final = "x"

Tag: TypeAlias = tuple[int, int]
"""(session, number of the transaction in it)."""

NEVER: Final[Tag] = (0, 0)


class Written(NamedTuple):
    """What a session has committed to one output log: the offset it counts from, and how many records since."""

    base: int
    records: int


class Position(msgspec.Struct, frozen=True, omit_defaults=True):
    """The `@position` record: the transaction's tag, the next offset of each input, and what each output log must hold."""

    tag: Tag = msgspec.field(name="x")
    inputs: dict[str, int] = msgspec.field(name="in")
    outputs: dict[str, Written] = msgspec.field(name="out")
    log: str = ""
    """Made by chance at the first transaction ever: a table on disk knows by it whether this is still the log it was made from."""
    partitions: int = msgspec.field(name="of", default=0)
    """Into how many partitions keys were divided: with another number they would live elsewhere."""


_decode = msgspec.json.Decoder(Position).decode
encode = msgspec.json.Encoder().encode


def decode(value: bytes | None) -> Position:
    """Read an `@position` record. Raises `ValueError` for anything else: the changelog is not ours, or is damaged."""
    try:
        return _decode(value or b"")
    except msgspec.DecodeError as error:
        raise ValueError(
            f"the changelog's @position record cannot be read: {error}; is this topic written by another program?"
        ) from error


def header(tag: Tag) -> tuple[str, bytes]:
    return HEADER, b"%d.%d" % tag


def tag_of(headers: Headers) -> Tag | None:
    """The tag of a record, or None if the engine did not write it. Ours is the last header of that name, and the last of all."""
    for name, value in reversed(headers):
        if name == HEADER:
            session, _, number = value.partition(b".")
            return (int(session), int(number)) if session.isdigit() and number.isdigit() else None
    return None
