"""How fast a bill is reconciled: import beside a bare COPY of the same file, matching beside a bare hash join of the same rows.

    python -m tests.benchmarks.reconciliation --sizes 100000 1000000

Each size has its own database, with as many payments as the bill has lines; every thousandth pair differs. `import`, `run`, `coverage`
and `worklist` are the commands that a person types, each in a process of its own whose peak memory is told.
`bare copy` puts the same file into a table of
text columns without any index. `bare join` reads the same lines and payments, joins them by reference and amount with hashes and keeps the
pairs in a table without any index; `counted join` only counts them. Matching is everything that `run` does: comparing, keeping what
came of each line, absence, and the events to tell.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from tests.support import services
from tests.support.databases import books

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CHANNEL: Final = "shop:main"
DAY: Final = "2026-11-30"
SIZES: Final = (100_000, 1_000_000)
APART: Final = 1000
LAYOUT: Final = "columns: {txn: txn, op: op, status: status, amount: amount, fee: fee}\nccy: USD\n"
FILL: Final = """
    INSERT INTO books.payments (merchant, payment_no, order_id, biz_code, channel, amount, currency, state, transaction, success_at,
        announced, captured, held, returned, disputed, duplicate, fulfilled, finished, attempts, queries, closes, seq, created_at,
        updated_at)
    SELECT '', 'P' || n, 'O' || n, 'trade', $1, 100 + n % 90000, 'USD', 'SUCCESS', 'X' || n, $2,
        false, 100 + n % 90000, 0, 0, 0, false, false, false, 1, 0, 0, 1, $2, $2
      FROM generate_series(1, $3::int) AS n
"""
JOINED: Final = f"""
    SELECT l.batch_id, l.line, p.merchant, p.payment_no, p.order_id
      FROM public.recon_bill_lines l JOIN books.payments p ON p.transaction = l.transaction AND p.amount = l.amount
     WHERE p.channel = '{CHANNEL}'
"""
UNINDEXED: Final = "SET enable_nestloop = off; SET enable_mergejoin = off"


def write_bill(path: Path, size: int) -> None:
    """A line for each payment, in another order than theirs; every thousandth has another amount."""
    with path.open("w") as out:
        out.write("txn,op,status,amount,fee\n")
        for place in range(size):
            number = place * 7919 % size + 1
            amount = 100 + number % 90000 + (number % APART == 0)
            out.write(f"X{number},P{number},SUCCESS,{amount // 100}.{amount % 100:02},0.00\n")


async def command(dsn: str, *arguments: str) -> dict[str, Any]:
    """Seconds, peak memory and output of `concord recon ...` in a process of its own. Raises if it fails."""
    began = time.perf_counter()
    with tempfile.TemporaryFile() as said:
        running = await asyncio.create_subprocess_exec(
            sys.executable, "-c", MEASURED, *arguments, stdout=said, env={**os.environ, "CONCORD_POSTGRES": dsn},
            stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        _, told = await running.communicate()
        took = time.perf_counter() - began
        said.seek(0)
        if running.returncode != 0:
            raise SystemExit(f"recon {arguments[0]}: {told.decode()[-2000:]}")
        return {"s": took, "rss_mib": float(told.decode().split()[-1]) / 1024, "said": said.read().decode()}


MEASURED: Final = """
import resource, sys
from streams.cli.recon import recon
try:
    recon(sys.argv[1:], standalone_mode=False)
except SystemExit as ended:
    assert not ended.code, ended.code
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
"""


async def bare_copy(connection: Any, bill: Path) -> float:
    await connection.execute("CREATE TABLE public.bare_copy (txn text, op text, status text, amount text, fee text)")
    began = time.perf_counter()
    await connection.copy_to_table("bare_copy", source=bill, schema_name="public", format="csv", header=True)
    return time.perf_counter() - began


async def bare_join(connection: Any, statement: str) -> float:
    await connection.execute(UNINDEXED)
    began = time.perf_counter()
    await connection.execute(statement)
    return time.perf_counter() - began


async def measure(dsn: str, size: int) -> dict[str, float]:
    """One size. Seconds by step, and the peak memory of each command in MiB. Raises if what was found is not what was put in."""
    with tempfile.TemporaryDirectory() as folder:
        bill, layout = Path(folder, "bill.csv"), Path(folder, "layout.yaml")
        write_bill(bill, size)
        layout.write_text(LAYOUT)
        async with books(dsn) as database:
            connection = await asyncpg.connect(database)
            try:
                return await _measure(connection, database, size, bill, layout)
            finally:
                await connection.close()


async def _measure(connection: Any, database: str, size: int, bill: Path, layout: Path) -> dict[str, float]:
    at = await connection.fetchval(f"SELECT timestamptz '{DAY} 12:00+00'")
    await connection.execute(FILL, CHANNEL, at, size)
    await connection.execute("VACUUM ANALYZE books.payments")
    found = {"size": size, "bare copy": await bare_copy(connection, bill)}
    options = ("--channel", CHANNEL, "--date", DAY, "--layout", str(layout))
    imported = await command(database, "import", *options, str(bill))
    await connection.execute("VACUUM ANALYZE public.recon_bill_lines")
    found["counted join"] = await bare_join(connection, f"SELECT count(*) FROM ({JOINED}) AS pairs")
    found["bare join"] = await bare_join(connection, f"CREATE TABLE public.bare_join AS {JOINED}")
    matched = await command(database, "run", "--no-tell", "--format", "json")
    outcome = json.loads(matched["said"])["channels"][CHANNEL]
    wanted = {"AMOUNT_MISMATCH": size // APART, "MATCHED": size - size // APART}
    if outcome != wanted:
        raise SystemExit(f"{size} lines came to {outcome}, not to {wanted}")
    covered = await command(database, "coverage", "--format", "json")
    listed = await command(database, "worklist", "--date", DAY)
    if listed["said"].count("AMOUNT_MISMATCH") != size // APART:
        raise SystemExit("the worklist lacks what differs")
    for name, one in {"import": imported, "run": matched, "coverage": covered, "worklist": listed}.items():
        found[name], found[f"{name} MiB"] = one["s"], one["rss_mib"]
    return found


def lines(results: Sequence[dict[str, float]]) -> Iterator[str]:
    """The figures as a Markdown table, a row for each size."""
    columns = "import lines/s | of the bare copy | matched lines/s | bare joins | counted joins | coverage s | worklist s | peak MiB"
    yield f"| lines | {columns} |"
    yield "| --- |" + " --- |" * 8
    for one in results:
        size = one["size"]
        peak = max(value for name, value in one.items() if name.endswith("MiB"))
        yield (
            f"| {size:,} | {size / one['import']:,.0f} | {one['bare copy'] / one['import']:.2f} | {size / one['run']:,.0f} "
            f"| {one['run'] / one['bare join']:.1f} | {one['run'] / one['counted join']:.1f} | {one['coverage']:.1f} "
            f"| {one['worklist']:.1f} | {peak:.0f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    wanted = parser.parse_args()
    with ExitStack() as stack:
        postgres = stack.enter_context(services.shared_postgres())
        results = []
        for size in wanted.sizes:
            results.append(asyncio.run(measure(postgres.dsn, size)))
            print(json.dumps(results[-1]), file=sys.stderr, flush=True)
    for line in lines(results):
        print(line)


if __name__ == "__main__":
    main()
