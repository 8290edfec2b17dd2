"""`route_books`, `route_activations`: every version of the route book, and which one holds. A version is never changed.

Times are UTC and passed in. `by` is who did it and `why` what for, in words.
"""

from __future__ import annotations

from datetime import datetime  # noqa: TC003  msgspec reads the annotation
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct, structs

from stores.pool import Unreachable
from streams.domain.score import Book

if TYPE_CHECKING:
    from stores.schema import Connection


class Kept(Struct, frozen=True, kw_only=True):
    """One version, who loaded it, and when it was made to hold last; None: never."""

    book: Book
    loaded_at: datetime
    loaded_by: str
    reason: str
    active_since: datetime | None

    @property
    def version(self) -> int:
        return self.book.version


async def load(connection: Connection, book: Book, *, at: datetime, by: str, why: str) -> tuple[int, bool]:
    """Keep a book under the next version and make it hold. The version, and whether it is new: the book that holds is not kept twice."""
    async with connection.transaction():
        await connection.execute("LOCK TABLE route_books, route_activations IN EXCLUSIVE MODE")
        held = await active(connection)
        if held is not None and structs.replace(book, version=held.version) == held.book:
            return held.version, False
        version = int(await connection.fetchval("SELECT coalesce(max(version), 0) + 1 FROM route_books"))
        numbered = msgspec.json.encode(structs.replace(book, version=version)).decode()
        await connection.execute("INSERT INTO route_books VALUES ($1, $2, $3, $4, $5)", version, numbered, at, by, why)
        await _activate(connection, version, at, by, why)
    return version, True


async def activate(connection: Connection, version: int, *, at: datetime, by: str, why: str) -> bool:
    """Make an earlier version hold again; False if there is none of that number."""
    if not await connection.fetchval("SELECT EXISTS (SELECT FROM route_books WHERE version = $1)", version):
        return False
    await _activate(connection, version, at, by, why)
    return True


async def _activate(connection: Connection, version: int, at: datetime, by: str, why: str) -> None:
    await connection.execute(
        "INSERT INTO route_activations (version, activated_at, activated_by, reason) VALUES ($1, $2, $3, $4)",
        version,
        at,
        by,
        why,
    )


_BOOKS: Final = """
SELECT book, loaded_at, loaded_by, route_books.reason, max(activated_at) AS active_since, max(seq) AS last
  FROM route_books LEFT JOIN route_activations USING (version)
"""


_HELD: Final = "SELECT version FROM route_activations ORDER BY seq DESC LIMIT 1"


async def active(connection: Connection) -> Kept | None:
    """The version that holds; None: none was loaded yet."""
    held = await connection.fetchval(_HELD)
    return None if held is None else await version(connection, held)


async def listed(connection: Connection, most: int = 100) -> list[Kept]:
    """The last versions, the youngest first."""
    return [
        _kept(row) for row in await connection.fetch(f"{_BOOKS} GROUP BY version ORDER BY version DESC LIMIT $1", most)
    ]


async def version(connection: Connection, number: int) -> Kept | None:
    """One version."""
    row = await connection.fetchrow(f"{_BOOKS} WHERE version = $1 GROUP BY version", number)
    return None if row is None else _kept(row)


def _kept(row: Any) -> Kept:
    """Raises `Unreachable` for a book that this release cannot read: whoever holds an earlier one goes on with it."""
    try:
        book = _book.decode(row["book"])
    except msgspec.ValidationError as error:
        raise Unreachable(f"the route book was written by another release: {error}; use that one") from error
    return Kept(
        book=book,
        loaded_at=row["loaded_at"],
        loaded_by=row["loaded_by"],
        reason=row["reason"],
        active_since=row["active_since"],
    )


_book: Final = msgspec.json.Decoder(Book)
