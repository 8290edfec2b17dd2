"""Databases of a test's own on the run's Postgres."""

from __future__ import annotations

import asyncio
import secrets
import time
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import asyncpg

from stores import schema
from stores.pool import connect
from streams import proof
from streams.cli.projector import feeds
from tests.support.books_oracle import Oracle, Rows

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from streams.topics import Topics


@asynccontextmanager
async def database(dsn: str) -> AsyncIterator[str]:
    """The DSN of a new, empty database, dropped at the end."""
    name = f"t{secrets.token_hex(6)}"
    await _execute(dsn, f"CREATE DATABASE {name}")
    try:
        yield urlsplit(dsn)._replace(path=f"/{name}").geturl()
    finally:
        await _execute(dsn, f"DROP DATABASE {name} WITH (FORCE)")


@asynccontextmanager
async def books(dsn: str) -> AsyncIterator[str]:
    """A database with the tables in it."""
    async with database(dsn) as name:
        connection = await connect(name)
        try:
            await schema.migrate(connection, datetime(2026, 1, 1, tzinfo=UTC))
        finally:
            await connection.close()
        yield name


async def read_topics(config: Any, topics: Topics) -> list[Any]:
    """Every committed record that the books are made from."""
    found = await proof.read(config, feeds(topics).all, topics.partitions)
    return [record for records in found.values() for record in records]


def expected(records: list[Any], topics: Topics) -> dict[str, Rows]:
    """The tables that these records make, by somebody else's reading."""
    return Oracle(topics["decisions"], topics.dead_letters).read(records)


async def wait_written(dsn: str, records: list[Any], within_s: float = 60.0) -> None:
    """Return once the offsets in the books have passed every record."""
    wanted: dict[tuple[str, int], int] = {}
    for record in records:
        place = (record.topic, record.partition)
        wanted[place] = max(wanted.get(place, 0), record.offset + 1)
    deadline = time.monotonic() + within_s
    while missing := await _missing(dsn, wanted):
        assert time.monotonic() < deadline, f"not written within {within_s:g} s: {missing}"
        await asyncio.sleep(0.1)


async def _missing(dsn: str, wanted: dict[tuple[str, int], int]) -> dict[tuple[str, int], int]:
    try:
        connection = await asyncpg.connect(dsn, timeout=5)
    except (OSError, asyncpg.PostgresError, TimeoutError):
        return wanted
    try:
        rows = await connection.fetch("SELECT topic, partition, next_offset FROM books.offsets")
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError):
        return wanted
    finally:
        await connection.close(timeout=5)
    known = {(row[0], row[1]): row[2] for row in rows}
    return {place: offset for place, offset in wanted.items() if known.get(place, 0) < offset}


async def _execute(dsn: str, sql: str) -> None:
    connection = await asyncpg.connect(dsn, timeout=10)
    try:
        await connection.execute(sql)
    finally:
        await connection.close()
