"""How fast the books are written: rows a second beside a bare COPY of the very same rows, in the same run.

    python -m tests.benchmarks.projector --orders 6000

The history is decided in memory. `projector` is records to committed rows: decoding, folding, every index, constraint and trigger. The
copies put the rows that came of it into tables of the same columns: `bare` without any index, `indexed` with the keys and indexes, and
`books` into the very tables of the books, with their constraints and triggers. They copy what lies in memory as rows already: they decode
nothing and move nothing on. So the third is what no projector that writes through this client could exceed.

CPU is in seconds of one core for the whole history: the client's, and that of Postgres' process for the connection.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvloop

from stores import offsets, projection
from stores.pool import connect
from stores.projection import Batch
from streams.agents.feed import decoded
from streams.topics import Topics
from tests.support import services
from tests.support.books_oracle import TABLES
from tests.support.databases import books
from tests.support.decided import history

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stores.schema import Connection
    from tests.support.decided import Written

BATCH = 4000
PLACE = ("decisions", 0)
TICKS = 100
"""Of a second, in /proc."""
ORDER = sorted(TABLES, key="ledger_entries".__eq__)
"""Entries come after their postings."""


@dataclass
class Took:
    """What one way of writing the history took, in seconds."""

    wall: float = 0.0
    client: float = 0.0
    postgres: float = 0.0


@dataclass
class Figures:
    """Rounds of each way, and how many decisions and rows the history has."""

    decisions: int = 0
    rows: int = 0
    took: dict[str, list[Took]] = field(default_factory=dict)


@contextmanager
def measured(connection: Connection, figures: Figures, way: str) -> Iterator[None]:
    """Keep what the block takes under the name of its way."""
    pid = connection.get_server_pid()
    before = Took(time.perf_counter(), time.process_time(), cpu(pid))
    yield
    took = Took(time.perf_counter() - before.wall, time.process_time() - before.client, cpu(pid) - before.postgres)
    figures.took.setdefault(way, []).append(took)


def cpu(pid: int) -> float:
    """Seconds that a process has computed."""
    values = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(values[11]) + int(values[12])) / TICKS


async def project(dsn: str, records: Sequence[Written], figures: Figures) -> None:
    """Write these records; a row that moved on counts once."""
    connection = await connect(dsn)
    await offsets.begin(connection, {PLACE: 0})
    await connection.execute("CHECKPOINT")
    with measured(connection, figures, "projector"):
        ahead = asyncio.ensure_future(read(records, 0))
        for start in range(0, len(records), BATCH):
            batch = await ahead
            ahead = asyncio.ensure_future(read(records, start + BATCH))  # as the projector does
            await projection.write(connection, batch)
        await ahead
    figures.rows = sum([await connection.fetchval(f"SELECT count(*) FROM {table}") for table in TABLES])
    await connection.close()


async def read(records: Sequence[Written], start: int) -> Batch:
    """The next batch."""
    told, rows = await decoded(records[start : start + BATCH])
    return Batch(moved={PLACE: (start, start + len(told))}, told=told, rows=rows)


async def copies(dsn: str, full: str, figures: Figures) -> None:
    """Copy the rows of the books of `dsn` into new tables beside them, and into the empty books of `full`."""
    connection, other = await connect(dsn), await connect(full)
    rows = {table: await connection.fetch(f"SELECT * FROM books.{table}") for table in ORDER}
    for way, shape in (("indexed copy", "INCLUDING INDEXES"), ("bare copy", "")):
        for table in ORDER:
            await connection.execute(f"DROP TABLE IF EXISTS public.{table}")
            await connection.execute(f"CREATE TABLE public.{table} (LIKE books.{table} {shape})")
        await connection.execute("CHECKPOINT")
        with measured(connection, figures, way):
            await copy(connection, "public", rows)
    with measured(other, figures, "books copy"):
        await copy(other, "books", rows)
    await connection.close()
    await other.close()


async def copy(connection: Connection, schema: str, rows: dict[str, list[Any]]) -> None:
    """One copy a table, all of them one transaction. The rows lie in memory as the client wants them."""
    async with connection.transaction():
        for table, records in rows.items():
            await connection.copy_records_to_table(table, schema_name=schema, records=records)


async def run(dsn: str, orders: int, rounds: int) -> Figures:
    """As many rounds of all ways, in turn."""
    topics = Topics.load(replication=1)
    made: list[Any] = [
        record for record in history(topics, orders, seed=1).records if record.topic == topics["decisions"]
    ]
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)  # as the projector does
    figures = Figures(len(made))
    for _ in range(rounds):
        async with books(dsn) as database, books(dsn) as other:
            await project(database, made, figures)
            await copies(database, other, figures)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orders", type=int, default=6000)
    parser.add_argument("--rounds", type=int, default=3)
    wanted = parser.parse_args()
    with ExitStack() as stack:
        postgres = stack.enter_context(services.shared_postgres())
        figures = uvloop.run(run(postgres.dsn, wanted.orders, wanted.rounds))
    for line in lines(figures):
        print(line)


def lines(figures: Figures) -> Iterator[str]:
    """The rates as a Markdown table: medians, and ratios within each round."""
    own = figures.took["projector"]
    rate = figures.decisions / statistics.median(took.wall for took in own)
    yield f"{figures.decisions:,} decisions, {figures.rows:,} rows; {rate:,.0f} decisions/s projected"
    yield "| | rows/s | of it the projector | CPU s, client | CPU s, Postgres |"
    yield "| --- |" + " --- |" * 4
    for way, rounds in figures.took.items():
        shares = [other.wall / one.wall for one, other in zip(own, rounds, strict=True)]
        cells = [
            f"{figures.rows / statistics.median(took.wall for took in rounds):,.0f}",
            f"{statistics.median(shares):.2f} ({min(shares):.2f} to {max(shares):.2f})",
            f"{statistics.median(took.client for took in rounds):.2f}",
            f"{statistics.median(took.postgres for took in rounds):.2f}",
        ]
        yield f"| {way} | " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
