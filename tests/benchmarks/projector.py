"""How fast the books are written: rows a second beside a bare COPY of the very same rows, in the same run.

    python -m tests.benchmarks.projector --orders 6000

The history is decided in memory. `projector` is records to committed rows: decoding, folding, every index, constraint and trigger.
`indexed copy` puts the rows that came of it into tables of the same shape, with the keys but without the triggers; `bare copy` into
tables without any index. Both copy what lies in memory as rows already: they decode nothing and move nothing on.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from stores import offsets, projection
from stores.pool import connect
from stores.projection import Batch
from streams.agents import telling
from streams.topics import Topics
from tests.support import services
from tests.support.books_oracle import TABLES
from tests.support.databases import books
from tests.support.decided import history

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.support.decided import Written

BATCH = 4000
PLACE = ("decisions", 0)


async def project(dsn: str, records: Sequence[Written]) -> tuple[float, int]:
    """Seconds to write these records, and the rows that came of it; a row that moved on counts once."""
    connection = await connect(dsn)
    await offsets.begin(connection, {PLACE: 0})
    began = time.perf_counter()
    ahead = asyncio.ensure_future(decoded(records, 0))
    for start in range(0, len(records), BATCH):
        batch = await ahead
        ahead = asyncio.ensure_future(decoded(records, start + BATCH))  # as the projector does
        await projection.write(connection, batch)
    await ahead
    took = time.perf_counter() - began
    rows = sum([await connection.fetchval(f"SELECT count(*) FROM {table}") for table in TABLES])
    await connection.close()
    return took, rows


async def decoded(records: Sequence[Written], start: int) -> Batch:
    """The next batch."""
    told = [telling.told(record) for record in records[start : start + BATCH]]
    return Batch(moved={PLACE: (start, start + len(told))}, told=told)


async def copy(dsn: str, shape: str) -> float:
    """Seconds to copy the rows of the books into new tables of the same columns. They lie in memory as the client wants them."""
    connection = await connect(dsn)
    rows = {table: await connection.fetch(f"SELECT * FROM books.{table}") for table in TABLES}
    for table in TABLES:
        await connection.execute(f"DROP TABLE IF EXISTS public.{table}_copy")
        await connection.execute(f"CREATE TABLE public.{table}_copy (LIKE books.{table} {shape})")
    began = time.perf_counter()
    for table, records in rows.items():
        for start in range(0, len(records), BATCH):
            await connection.copy_records_to_table(
                f"{table}_copy", schema_name="public", records=records[start : start + BATCH]
            )
    took = time.perf_counter() - began
    await connection.close()
    return took


async def run(dsn: str, orders: int, rounds: int) -> dict[str, list[float]]:
    topics = Topics.load(replication=1)
    made: list[Any] = [
        record for record in history(topics, orders, seed=1).records if record.topic == topics["decisions"]
    ]
    rates: dict[str, list[float]] = {"decisions": [], "projector": [], "indexed copy": [], "bare copy": []}
    for _ in range(rounds):
        async with books(dsn) as database:
            took, rows = await project(database, made)
            rates["decisions"].append(len(made) / took)
            rates["projector"].append(rows / took)
            rates["indexed copy"].append(rows / await copy(database, "INCLUDING INDEXES"))
            rates["bare copy"].append(rows / await copy(database, ""))
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orders", type=int, default=6000)
    parser.add_argument("--rounds", type=int, default=3)
    wanted = parser.parse_args()
    with ExitStack() as stack:
        postgres = stack.enter_context(services.shared_postgres())
        rates = asyncio.run(run(postgres.dsn, wanted.orders, wanted.rounds))
    for line in lines(rates):
        print(line)


def lines(rates: dict[str, list[float]]) -> Iterator[str]:
    """The rates in words: medians, and ratios within each round."""
    middle = {name: statistics.median(values) for name, values in rates.items()}
    yield f"{middle['decisions']:>10,.0f} decisions/s projected"
    for name in ("projector", "indexed copy", "bare copy"):
        yield f"{middle[name]:>10,.0f} rows/s  {name}"
    for name in ("indexed copy", "bare copy"):
        each = [one / other for one, other in zip(rates["projector"], rates[name], strict=True)]
        yield f"{statistics.median(each):>10.2f} of the {name} ({min(each):.2f} to {max(each):.2f})"


if __name__ == "__main__":
    main()
