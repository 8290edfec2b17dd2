"""What the books must hold of the topics, and when they hold it."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import asyncpg

from streams import proof
from streams.cli.projector import feeds
from tests.support.books_oracle import Oracle, Rows

if TYPE_CHECKING:
    from streams.topics import Topics


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
