"""The books again, beside themselves: a shadow schema is written from the topics, compared with the books, and takes their place.

Live writing goes on meanwhile. The comparison reads the books in one snapshot and brings the shadow to the snapshot's own offsets, so that
both are as of the same records. For the swap the offsets are locked: live writers wait at their first statement, and go on in the new
books from the very offsets they had. Raw messages and dead letters are not made again but moved: their topics forget sooner than we do.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from stores import schema
from stores.schema import BOOKS, LOCK, SchemaError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from stores.offsets import Place
    from stores.schema import Connection

SHADOW: Final = "books_next"
FORMER: Final = "books_former"
MOVED: Final = ("raw_messages", "dead_letters", "told_findings")
"""Tables that are taken over as they are."""
PROGRESS: Final = "offsets"
SHOWN: Final = 20

_TABLES: Final = """
SELECT relname FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind = 'r' AND relname <> ALL ($2::text[]) ORDER BY 1
"""
_OUTSIDE: Final = """
SELECT conrelid::regclass::text FROM pg_constraint JOIN pg_class known ON known.oid = confrelid JOIN pg_class own ON own.oid = conrelid
 WHERE known.relnamespace = $1::regnamespace AND own.relnamespace <> known.relnamespace
 UNION
SELECT own.oid::regclass::text FROM pg_depend
  JOIN pg_rewrite ON pg_rewrite.oid = objid JOIN pg_class own ON own.oid = ev_class JOIN pg_class known ON known.oid = refobjid
 WHERE classid = 'pg_rewrite'::regclass AND known.relnamespace = $1::regnamespace AND own.relnamespace <> known.relnamespace
"""


async def make(connection: Connection) -> None:
    """A new, empty shadow. Raises `SchemaError` where something outside hangs on the books, as it would fall with the old ones."""
    if outside := [row[0] for row in await connection.fetch(_OUTSIDE, BOOKS)]:
        raise SchemaError(
            f"{', '.join(outside)} refers to tables of {BOOKS}; books that are replaced can bear no key or view of others"
        )
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
        await schema.require(connection)
        await connection.execute(f"DROP SCHEMA IF EXISTS {SHADOW} CASCADE")
        for migration in schema.shipped():
            if migration.schema == BOOKS:
                await schema.apply(connection, migration, SHADOW)


async def drop(connection: Connection, name: str = SHADOW) -> None:
    """Remove a schema that is the books no more, or never was."""
    await connection.execute(f'DROP SCHEMA IF EXISTS "{name}" CASCADE')


async def live_offsets(connection: Connection, topic: str) -> dict[Place, int]:
    """How far the books are in the partitions of a topic."""
    rows = await connection.fetch(f"SELECT topic, partition, next_offset FROM {BOOKS}.offsets WHERE topic = $1", topic)  # noqa: S608  a constant
    return {(row[0], row[1]): row[2] for row in rows}


@asynccontextmanager
async def snapshot(connection: Connection) -> AsyncIterator[None]:
    """The books as of one moment, for the length of a block."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        yield


async def compare(books: Connection, shadow: Connection) -> list[str]:
    """Every table that differs, with some of its rows: `-` is in the books only, `+` in the shadow only. Each has its own connection."""
    wrong: list[str] = []
    for row in await books.fetch(_TABLES, BOOKS, [*MOVED, PROGRESS]):
        table = row[0]
        if await books.fetchrow(_sum(BOOKS, table)) != await shadow.fetchrow(_sum(SHADOW, table)):
            wrong += await _differences(books, shadow, table)
    return wrong


def _sum(name: str, table: str) -> str:
    """The number of rows and a sum over their hashes: equal for equal sets of rows."""
    return f"SELECT count(*), sum(hashtextextended(t::text, 0)::numeric) FROM {name}.{table} t"  # noqa: S608  names of ours


async def _differences(books: Connection, shadow: Connection, table: str) -> list[str]:
    """The first rows of which one side has more than the other, by walking both in order."""
    found: list[str] = []
    walk = 'SELECT t::text AS row FROM {}.{} t ORDER BY t::text COLLATE "C"'
    async with books.transaction(), shadow.transaction():
        ours = books.cursor(walk.format(BOOKS, table)).__aiter__()
        theirs = shadow.cursor(walk.format(SHADOW, table)).__aiter__()
        one, other = await _row(ours), await _row(theirs)
        while len(found) < SHOWN and (one is not None or other is not None):
            if one == other:
                one, other = await _row(ours), await _row(theirs)
            elif other is None or (one is not None and one.encode() < other.encode()):
                found.append(f"- {table} {one}")
                one = await _row(ours)
            else:
                found.append(f"+ {table} {other}")
                other = await _row(theirs)
    return found


async def _row(cursor: Any) -> str | None:
    try:
        return str((await cursor.__anext__())["row"])
    except StopAsyncIteration:
        return None


@asynccontextmanager
async def swapping(connection: Connection) -> AsyncIterator[None]:
    """Hold live writers back, for the length of a block that brings the shadow to the live offsets; at its end it takes their place.

    The block writes through another connection. If it raises, nothing was swapped.
    """
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
        await connection.execute(f"LOCK TABLE {BOOKS}.offsets IN EXCLUSIVE MODE")
        yield
        for table in MOVED:
            await connection.execute(f"DROP TABLE {SHADOW}.{table}")
            await connection.execute(f"ALTER TABLE {BOOKS}.{table} SET SCHEMA {SHADOW}")
        await connection.execute(
            f"INSERT INTO {SHADOW}.offsets SELECT * FROM {BOOKS}.offsets ON CONFLICT (topic, partition) DO NOTHING"  # noqa: S608  constants
        )
        await connection.execute(f"DROP SCHEMA IF EXISTS {FORMER} CASCADE")
        await connection.execute(f"ALTER SCHEMA {BOOKS} RENAME TO {FORMER}")
        await connection.execute(f"ALTER SCHEMA {SHADOW} RENAME TO {BOOKS}")
        await schema.settle(connection, BOOKS)
