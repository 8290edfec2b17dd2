"""`audit_log`: what people did, each entry sealed over the one before it, so that none can be changed, dropped or slipped in unseen.

Whoever owns the database can cut the log's end off, or write all of it anew. So `verify` tells the head, to be kept elsewhere and
given back to it: a log that no longer leads through a head that was kept has been cut or rewritten (R-197, R-246).
"""

from __future__ import annotations

import hashlib
from datetime import UTC
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from datetime import datetime

    from stores.schema import Connection

LOCK: Final = 0x6175646974
"""`audit` in ASCII: the advisory lock under which the log grows by one entry at a time."""
START: Final = bytes(32)
"""What stands before the first entry."""
MOST: Final = 1000
SHOWN: Final = 20


class Act(NamedTuple):
    """What a person did, when (UTC) and to what. `detail` is a JSON object of texts, kept as it was sealed."""

    at: datetime
    actor: str
    act: str
    subject: str
    detail: str = "{}"


class Entry(Struct, frozen=True):
    """One line of the log: an act, its number, the seal before it and its own."""

    seq: int
    done: Act
    previous: bytes
    hash: bytes


class Head(NamedTuple):
    """The last entry: its number (0: there is none) and its seal."""

    seq: int
    hash: bytes


class Verified(NamedTuple):
    """How far the log was read, and every place where it does not hold; at most 20 of them."""

    head: Head
    broken: tuple[str, ...]


_HEAD: Final = "SELECT seq, hash FROM audit_log ORDER BY seq DESC LIMIT 1"
_ADD: Final = "INSERT INTO audit_log (seq, at, actor, act, subject, detail, previous, hash) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"
_READ: Final = (
    "SELECT seq, at, actor, act, subject, detail, previous, hash FROM audit_log WHERE seq > $1 ORDER BY seq LIMIT $2"
)
_OF: Final = "SELECT seq, at, actor, act, subject, detail, previous, hash FROM audit_log WHERE subject = $1 ORDER BY seq LIMIT $2"


def act(at: datetime, actor: str, did: str, subject: str, **detail: str) -> Act:
    """An act with its detail as it is sealed: a JSON object, its names in order."""
    return Act(at, actor, did, subject, msgspec.json.encode(detail, order="sorted").decode())


def seal(previous: bytes, seq: int, done: Act) -> bytes:
    """The SHA-256 of an entry and of the seal before it. Its time counts to the microsecond, as Postgres keeps it."""
    at = done.at.astimezone(UTC).isoformat(timespec="microseconds")
    return hashlib.sha256(msgspec.msgpack.encode((previous, seq, at, *done[1:]))).digest()


async def append(connection: Connection, done: Act) -> Head:
    """Add an entry, inside the caller's transaction: what is rolled back was not logged. Others wait until that transaction ends."""
    await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
    before = await head(connection)
    sealed = seal(before.hash, before.seq + 1, done)
    await connection.execute(_ADD, before.seq + 1, *done, before.hash, sealed)
    return Head(before.seq + 1, sealed)


async def head(connection: Connection) -> Head:
    """The last entry."""
    row = await connection.fetchrow(_HEAD)
    return Head(0, START) if row is None else Head(row["seq"], row["hash"])


async def of(connection: Connection, subject: str) -> list[Entry]:
    """The first thousand entries about one discrepancy or person, in order."""
    return [_entry(row) for row in await connection.fetch(_OF, subject, MOST)]


async def entries(connection: Connection) -> AsyncIterator[Entry]:
    """All entries, in order, a thousand at a time. To see one moment only, call it in a transaction that repeats its reads."""
    seq = 0
    while rows := await connection.fetch(_READ, seq, MOST):
        for row in rows:
            yield _entry(row)
        seq = rows[-1]["seq"]


async def verify(connection: Connection, kept: Head | None = None) -> Verified:
    """Read the whole log and check every seal; `kept` is a head that was told earlier. Nothing is repaired."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        chain = Chain(kept)
        async for entry in entries(connection):
            chain.take(entry)
    return chain.end()


class Chain:
    """The check itself: entries go in, in order; what does not hold comes out."""

    def __init__(self, kept: Head | None = None) -> None:
        self._kept = kept
        self._last = Head(0, START)
        self._broken: list[str] = []

    def take(self, entry: Entry) -> None:
        """The next entry of the log."""
        if entry.seq != self._last.seq + 1:
            self._breaks(f"entry {self._last.seq + 1} is missing: after {self._last.seq} comes {entry.seq}")
        elif entry.previous != self._last.hash:
            self._breaks(f"entry {entry.seq} was sealed over another entry than {self._last.seq}")
        if seal(entry.previous, entry.seq, entry.done) != entry.hash:
            self._breaks(f"entry {entry.seq} is not what was sealed")
        if self._kept is not None and entry.seq == self._kept.seq and entry.hash != self._kept.hash:
            self._breaks(f"entry {entry.seq} is not the one whose seal was kept")
        self._last = Head(entry.seq, entry.hash)

    def end(self) -> Verified:
        """After the last entry."""
        if self._kept is not None and self._kept.seq > self._last.seq:
            self._breaks(f"the log ends at {self._last.seq}; it was kept that it had reached {self._kept.seq}")
        return Verified(self._last, tuple(self._broken))

    def _breaks(self, why: str) -> None:
        if len(self._broken) < SHOWN:
            self._broken.append(why)


def _entry(row: Any) -> Entry:
    done = Act(row["at"], row["actor"], row["act"], row["subject"], row["detail"])
    return Entry(row["seq"], done, row["previous"], row["hash"])
