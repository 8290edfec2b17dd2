"""SIGKILL at every step of an import: what it leaves is nothing, or everything, and going on doubles nothing (R-114, R-200)."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from tests.support import day

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.postgres
LINES = 3000
KILLER = """
import os, signal, sys
from stores import batches
from streams.cli import recon_files
point, place = sys.argv[1].split(":")

def die():
    os.kill(os.getpid(), signal.SIGKILL)

if point == "line":
    lines = recon_files.lines
    def counted(*args):
        for number, line in enumerate(lines(*args)):
            if number == int(place):
                die()
            yield line
    recon_files.lines = counted
else:
    was = batches._keep
    async def keep(*args):
        await was(*args)
        die()
    if point == "bytes":
        batches._keep = keep
    else:
        copy = batches.Writing.copy
        async def copied(self, connection):
            await copy(self, connection)
            die()
        batches.Writing.copy = copied
from streams.__main__ import main
main(sys.argv[2:])
"""


async def counts(dsn: str) -> dict[str, int]:
    connection = await asyncpg.connect(dsn)
    try:
        tables = ("recon_batches", "recon_bytes", "recon_bill_lines", "recon_controls", "recon_outbox")
        return {table: await connection.fetchval(f"SELECT count(*) FROM {table}") for table in tables}
    finally:
        await connection.close()


async def test_an_import_that_is_killed_anywhere_leaves_nothing_and_goes_on(database: str, tmp_path: Path):
    (tmp_path / "layout.yaml").write_text(day.BILL_LAYOUT)
    (tmp_path / "bill.csv").write_text(day.bill(*[(f"X{n}", f"P{n}", 100 + n, 1) for n in range(LINES)]))
    command = [
        "recon",
        "import",
        "--channel",
        "shop:main",
        "--date",
        "2025-03-03",
        "--layout",
        str(tmp_path / "layout.yaml"),
    ]
    env: dict[str, Any] = {**os.environ, "CONCORD_POSTGRES": database}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        typed = [sys.executable, *arguments, *command, str(tmp_path / "bill.csv")]
        return subprocess.run(typed, env=env, capture_output=True, text=True, check=False, timeout=60)

    for point in ("line:0", "line:1", f"line:{LINES - 1}", f"line:{LINES}", "bytes:0", "end:0"):
        killed = await asyncio.to_thread(run, "-c", KILLER, point)
        assert killed.returncode == -9, killed.stderr
        assert set((await counts(database)).values()) == {0}, point
    for said in (f"{LINES} lines", "nothing added"):
        done = await asyncio.to_thread(run, "-m", "streams")
        assert done.returncode == 0, done.stderr
        assert said in done.stdout
    found = await counts(database)
    assert (found["recon_batches"], found["recon_bill_lines"], found["recon_controls"]) == (1, LINES, 2)


async def test_two_importers_of_one_file_make_one_batch(database: str, tmp_path: Path):
    (tmp_path / "layout.yaml").write_text(day.BILL_LAYOUT)
    (tmp_path / "bill.csv").write_text(day.bill(*[(f"X{n}", f"P{n}", 100 + n, 1) for n in range(LINES)]))
    command = [
        sys.executable, "-m", "streams", "recon", "import", "--channel", "shop:main", "--date", "2025-03-03",
        "--layout", str(tmp_path / "layout.yaml"), str(tmp_path / "bill.csv"),
    ]  # fmt: skip
    env = {**os.environ, "CONCORD_POSTGRES": database}
    both = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [(await asyncio.to_thread(one.communicate, None, 60))[0] for one in both]
    assert sorted("nothing added" in one for one in said) == [False, True]
    found = await counts(database)
    assert (found["recon_batches"], found["recon_bill_lines"]) == (1, LINES)
