"""Files as they came in: each version of each batch, its bytes and its lines, there whole or not at all (R-111 to R-116, R-200).

An import is one transaction under a lock of its batch: the same content again adds nothing, another content becomes the version that
counts, and both are kept. A file that is refused leaves only the record that it was. A crash leaves nothing.
"""

from __future__ import annotations

import hashlib
import zlib
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, json

from streams.domain import banking
from streams.domain.lines import (
    Balances,
    BankEntry,
    BillRow,
    Control,
    FileIdentity,
    Line,
    Payout,
    RejectedRow,
    SettlementRow,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime
    from typing import IO

    from stores.schema import Connection

PART: Final = 1 << 20
MOST_REJECTED: Final = 10_000
"""Rows that may be refused one by one; more of them, and the file is of another layout."""
_encode: Final = json.Encoder().encode

TABLES: Final[dict[type[Any], tuple[str, tuple[str, ...]]]] = {
    kind: (table, kind.__struct_fields__)
    for kind, table in (
        (BillRow, "recon_bill_lines"),
        (SettlementRow, "recon_settlement_lines"),
        (Payout, "recon_payouts"),
        (Control, "recon_controls"),
        (RejectedRow, "recon_rejected_rows"),
    )
}


class File(Struct, frozen=True, kw_only=True):
    """What is imported, and how it is to be read. `layout` is the JSON of a text layout, where the parser takes one."""

    identity: FileIdentity
    channel: str
    kind: str
    name: str
    sha256: bytes
    size: int
    parser: str
    layout: str = ""
    reversal: str = banking.ACTUAL


class Imported(Struct, frozen=True, kw_only=True):
    """What came of an import. `version` is that of the batch; a duplicate names the version that it repeats."""

    batch_id: int
    version: int
    duplicate: bool
    lines: int
    rejected: int
    complete: bool
    controls: tuple[Control, ...] = ()


class DoesNotTieError(Exception):
    """The file contradicts itself: its totals or balances are not those of its lines. It is not booked; the text names the difference."""


_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended($1, 4040))"
_KNOWN: Final = """
    SELECT id, version, lines, rejected, complete FROM recon_batches
     WHERE source = $1 AND account = $2 AND business_date = $3 AND batch = $4 AND version > 0
       AND sha256 = $5 AND parser = $6 AND layout = $7
"""
_INSERT: Final = """
    INSERT INTO recon_batches (source, account, business_date, zone, batch, version, channel, kind, file_name, sha256, size, parser, layout,
                               imported_at, state, reason)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16) RETURNING id
"""
_NEXT: Final = """
    SELECT coalesce(max(version), 0) + 1 FROM recon_batches WHERE source = $1 AND account = $2 AND business_date = $3 AND batch = $4
"""
_SUPERSEDE: Final = """
    UPDATE recon_batches SET state = 'superseded'
     WHERE source = $1 AND account = $2 AND business_date = $3 AND batch = $4 AND state = 'active'
"""
_DONE: Final = "UPDATE recon_batches SET lines = $2, rejected = $3, complete = $4, digest = $5 WHERE id = $1"
_FORGET: Final = """
    DELETE FROM recon_batches WHERE source = $1 AND account = $2 AND business_date = $3 AND batch = $4 AND version = 0
"""
_REJECTED: Final = """
    SELECT id FROM recon_batches
     WHERE source = $1 AND account = $2 AND business_date = $3 AND batch = $4 AND sha256 = $5 AND parser = $6 AND version = 0
"""


async def load(  # noqa: PLR0917  the order of a sentence
    connection: Connection,
    file: File,
    stream: IO[bytes],
    read: Callable[[], Iterable[Line]],
    at: datetime,
    seen: Callable[[int], None] = lambda _: None,
) -> Imported:
    """Write a file down, whole or not at all. `read` gives its lines and raises what refuses it; `seen` is told how many were read so far.

    Raises `DoesNotTieError` and whatever `read` raises; nothing is written then.
    """
    key = identity_key(file.identity)
    async with connection.transaction():
        await connection.execute(_LOCK, "/".join(str(part) for part in key))
        known = await connection.fetchrow(_KNOWN, *key, file.sha256, file.parser, file.layout)
        if known is not None:
            return Imported(
                batch_id=known["id"], version=known["version"], duplicate=True, lines=known["lines"], rejected=known["rejected"],
                complete=known["complete"],
            )  # fmt: skip
        version = await connection.fetchval(_NEXT, *key)
        await connection.execute(_SUPERSEDE, *key)
        batch_id = await connection.fetchval(_INSERT, *_row(file, version, at, "active", ""))
        await _keep(connection, file.sha256, stream)
        written = Writing(batch_id, file, read(), seen)
        await written.copy(connection)
        await connection.execute(
            _DONE, batch_id, written.lines, written.rejected, written.complete, written.digest.digest()
        )
    return Imported(
        batch_id=batch_id,
        version=version,
        duplicate=False,
        lines=written.lines,
        rejected=written.rejected,
        complete=written.complete,
        controls=tuple(written.controls),
    )


async def rejected_rows(connection: Connection, batch_id: int) -> list[RejectedRow]:
    """The rows of a batch that could not be read, in their order."""
    rows = await connection.fetch(
        "SELECT line, field, reason FROM recon_rejected_rows WHERE batch_id = $1 ORDER BY line", batch_id
    )
    return [RejectedRow(line=row["line"], field=row["field"], reason=row["reason"]) for row in rows]


async def reject(connection: Connection, file: File, why: str, at: datetime) -> None:
    """Remember that a file was refused, once for each content."""
    async with connection.transaction():
        key = identity_key(file.identity)
        await connection.execute(_LOCK, "/".join(str(part) for part in key))
        if await connection.fetchval(_REJECTED, *key, file.sha256, file.parser) is None:
            await connection.execute(_FORGET, *key)
            await connection.execute(_INSERT, *_row(file, 0, at, "rejected", why[:1000]))


def identity_key(identity: FileIdentity) -> tuple[Any, ...]:
    return identity.source, identity.account, identity.business_date, identity.batch


def _row(file: File, version: int, at: datetime, state: str, reason: str) -> tuple[Any, ...]:
    one = file.identity
    return (
        one.source, one.account, one.business_date, one.zone, one.batch, version, file.channel, file.kind, file.name, file.sha256,
        file.size, file.parser, file.layout, at, state, reason,
    )  # fmt: skip


# -- bytes


async def _keep(connection: Connection, sha256: bytes, stream: IO[bytes]) -> None:
    """The file itself, once for each content."""
    if await connection.fetchval("SELECT true FROM recon_bytes WHERE sha256 = $1 LIMIT 1", sha256):
        return
    stream.seek(0)
    await connection.copy_records_to_table(
        "recon_bytes",
        records=(
            (sha256, part, zlib.compress(chunk, 1)) for part, chunk in enumerate(iter(lambda: stream.read(PART), b""))
        ),
        columns=["sha256", "part", "bytes"],
        schema_name="public",
    )
    stream.seek(0)


async def kept(connection: Connection, sha256: bytes, into: IO[bytes]) -> None:
    """Write the bytes of a file as they came."""
    async with connection.transaction():
        async for row in connection.cursor("SELECT bytes FROM recon_bytes WHERE sha256 = $1 ORDER BY part", sha256):
            into.write(zlib.decompress(row["bytes"]))
    into.seek(0)


# -- lines


class Writing:
    """Lines on their way into their tables: the many are streamed, the few are kept until the end."""

    def __init__(self, batch_id: int, file: File, lines: Iterable[Line], seen: Callable[[int], None]) -> None:
        self._batch_id, self._identity, self._seen = batch_id, file.identity, seen
        self._reversal = file.reversal
        self._source = iter(lines)
        self._waiting: Line | None = None
        self._entries: dict[tuple[str, ...], int] = {}
        self._sums: dict[str | None, int] = {}
        self.digest = hashlib.sha256()
        self.lines = self.rejected = 0
        self.controls: list[Control] = []
        self.balances: list[Balances] = []

    @property
    def complete(self) -> bool:
        """Fully read, so that absence counts."""
        return self.rejected == 0

    async def copy(self, connection: Connection) -> None:
        """Write everything. Raises `DoesNotTieError` at the end, where the file contradicts itself."""
        while (first := self._next()) is not None:
            if isinstance(first, Balances):
                self.balances.append(first)
            elif isinstance(first, BankEntry):
                await self._copy(connection, "recon_bank_entries", ("line", "name", "entry"), self._bank(first))
            else:
                table, columns = TABLES[type(first)]
                await self._copy(connection, table, columns, self._same(first, columns))
        for part, one in enumerate(self.balances):
            await connection.execute(
                "INSERT INTO recon_statements VALUES ($1, $2, $3, $4, $5, $6, $7)",
                self._batch_id, part, one.statement, one.account, one.currency, one.opening, one.closing,
            )  # fmt: skip
        self._check()

    async def _copy(
        self, connection: Connection, table: str, columns: tuple[str, ...], records: Iterator[tuple[Any, ...]]
    ) -> None:
        await connection.copy_records_to_table(
            table, records=records, columns=["batch_id", *columns], schema_name="public", timeout=None
        )  # fmt: skip

    def _next(self) -> Line | None:
        waiting, self._waiting = self._waiting, None
        return waiting if waiting is not None else next(self._source, None)

    def _same(self, first: Line, columns: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
        """Records of lines of one type, as long as they follow each other."""
        kind, batch, seal = type(first), self._batch_id, self.digest.update
        line: Line | None = first
        while line is not None:
            if type(line) is not kind:
                self._waiting = line
                return
            seal(_encode(line))
            self._count(line)
            yield (batch, *[getattr(line, name) for name in columns])
            line = next(self._source, None)

    def _bank(self, first: BankEntry) -> Iterator[tuple[Any, ...]]:
        line: Line | None = first
        while line is not None:
            if not isinstance(line, BankEntry):
                self._waiting = line
                return
            packed = _encode(line)
            self.digest.update(packed)
            self._count(line)
            account = line.account or self._identity.account
            name = banking.entry_name(
                line, account=account, statement=self._identity.batch, day=self._identity.business_date, seen=self._entries
            )  # fmt: skip
            yield self._batch_id, line.line, list(name), packed.decode()
            line = next(self._source, None)

    def _count(self, line: Line) -> None:
        if isinstance(line, BillRow | SettlementRow | BankEntry):
            self.lines += 1
            if self.lines % 1000 == 0:
                self._seen(self.lines)
            if isinstance(line, BankEntry) and line.status == "BOOK":
                self._sums[line.statement] = self._sums.get(line.statement, 0) + banking.signed(line, self._reversal)
        elif isinstance(line, Control):
            self.controls.append(line)
        elif isinstance(line, RejectedRow):
            self.rejected += 1
            if self.rejected > MOST_REJECTED:
                raise DoesNotTieError(f"more than {MOST_REJECTED} rows cannot be read; the layout is another one")

    def _check(self) -> None:
        if self.rejected:
            return  # totals of what was not read cannot tie, and the file proves no absence
        for control in self.controls:
            if not control.ties:
                stated, read = control.stated_text or control.stated, control.read_text or control.read
                raise DoesNotTieError(f"its {control.name} is stated as {stated} and read as {read}")
        for one in self.balances:
            if one.opening is None or one.closing is None:
                continue
            moved = sum(self._sums.values()) if len(self.balances) == 1 else self._sums.get(one.statement, 0)
            if one.opening + moved != one.closing:
                raise DoesNotTieError(
                    f"statement {one.statement or ''}: {one.opening} and {moved} of its lines make {one.opening + moved}, "
                    f"its closing balance is {one.closing}"
                )
