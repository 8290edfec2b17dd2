"""An import and a run that are killed at a statement leave nothing half done, and double nothing when they are repeated (R-111, R-200).

`RECON_KILLS=every` kills at every statement; without it at every ninth.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from streams.domain.bills import Local
from tests.support import day, recon
from tests.support.databases import books
from tests.support.job import Job

if TYPE_CHECKING:
    from pathlib import Path

    from streams.dev.services import Kafka, Postgres

pytestmark = [pytest.mark.kafka, pytest.mark.postgres]
STEP = 1 if os.environ.get("RECON_KILLS") == "every" else 9
MOST = 120
"""More statements than any of the commands makes."""
RESULTS = (
    "SELECT batch_id, line, verdict, merchant, number, order_id, candidates, fee_told FROM recon_results ORDER BY 1, 2"
)
TOLD = "SELECT event_id, order_id, body FROM recon_outbox ORDER BY event_id"
BATCHES = (
    "SELECT b.version, b.state, b.lines, (SELECT count(*) FROM recon_bill_lines l WHERE l.batch_id = b.id) AS there, "
    "(SELECT count(*) FROM recon_outbox) AS told FROM recon_batches b ORDER BY 1"
)
ORPHANS = "SELECT count(*) FROM recon_bill_lines WHERE batch_id NOT IN (SELECT id FROM recon_batches)"


def paid(name: str, state: str = "SUCCESS") -> Local:
    return Local(
        key=name, number=name, order_id=f"O-{name}", kind="PAY", amount=500, currency="USD", state=state, payment_no=name,
        transaction=f"X-{name}",
    )  # fmt: skip


OURS = [paid("P1"), paid("P2", "UNKNOWN"), paid("P3"), paid("P4", "CLOSED")]
FIRST = day.bill(("X-P1", "P1", 500, 5), ("X-P2", "P2", 500, 0), ("X-P4", "P4", 400, 0), ("X-9", "P9", 100, 0))
SECOND = day.bill(("X-P1", "P1", 500, 5), ("X-P2", "P2", 500, 0), ("X-P4", "P4", 400, 0), ("X-8", "P8", 100, 0))


class Desk:
    """The commands of one database, as a person types them, and as they die."""

    def __init__(self, job: Job, dsn: str, folder: Path) -> None:
        self.job, self.dsn = job, dsn
        (folder / "layout.yaml").write_text(day.BILL_LAYOUT)
        self._options = (
            "--channel",
            recon.CHANNEL,
            "--date",
            recon.DAY.isoformat(),
            "--layout",
            str(folder / "layout.yaml"),
        )
        self._file = folder / "bill.csv"

    def importing(self, text: str) -> tuple[str, ...]:
        self._file.write_text(text)
        return "import", *self._options, str(self._file)

    def whole(self, *command: str) -> None:
        done = self.job.run("recon", *command, CONCORD_POSTGRES=self.dsn)
        assert done.returncode == 0, done.stderr

    def killed(self, at: int, *command: str) -> bool:
        """Whether it came to that statement, and died."""
        env = {**os.environ, **self.job.env, "CONCORD_POSTGRES": self.dsn, "VICTIM_AT": str(at), "VICTIM_WHEN": "after"}
        done = subprocess.run(
            [sys.executable, "-m", "tests.faults.victim", "recon", *command], env=env, capture_output=True, text=True, timeout=60,
            check=False,
        )  # fmt: skip
        assert done.returncode in {0, -signal.SIGKILL}, done.stderr
        return done.returncode != 0

    async def see(self, sql: str) -> list[tuple[Any, ...]]:
        connection = await asyncpg.connect(self.dsn, server_settings={"search_path": "books, public"})
        try:
            return [tuple(row) for row in await connection.fetch(sql)]
        finally:
            await connection.close()

    async def fill(self) -> None:
        connection = await asyncpg.connect(self.dsn)
        try:
            await recon.put_ours(connection, OURS)
        finally:
            await connection.close()
        await asyncio.to_thread(self.whole, *self.importing(FIRST))
        await asyncio.to_thread(self.whole, "run", "--no-tell")


async def test_a_killed_import_leaves_the_old_version_or_the_new_one_whole(job: Job, database: str, tmp_path: Path):
    desk = Desk(job, database, tmp_path)
    await desk.fill()
    before = await desk.see(BATCHES)
    (old,) = before
    for at in range(1, MOST, STEP):
        died = await asyncio.to_thread(desk.killed, at, *desk.importing(SECOND))
        found = await desk.see(BATCHES)
        assert await desk.see(ORPHANS) == [(0,)]
        if not died or found != before:
            break
    await asyncio.to_thread(desk.whole, *desk.importing(SECOND))
    found = await desk.see(BATCHES)
    assert [row[:4] for row in found] == [(1, "superseded", 4, 4), (2, "active", 4, 4)]
    told = [json.loads(row[2])["status"] for row in await desk.see(TOLD)]
    assert told.count("FILE_VERSION_CHANGED") == 1, f"{old} is replaced, and the law hears of it"


async def test_a_killed_run_is_repeated_with_the_same_end(job: Job, postgres: Postgres, tmp_path: Path):
    async with books(postgres.dsn) as never, books(postgres.dsn) as often:
        whole, dying = Desk(job, never, tmp_path), Desk(job, often, tmp_path)
        for desk in (whole, dying):
            await desk.fill()
            await asyncio.to_thread(desk.whole, *desk.importing(SECOND))
        await asyncio.to_thread(whole.whole, "run", "--no-tell")
        ends = (await dying.see(RESULTS), await whole.see(RESULTS))
        kills = 0
        for at in range(1, MOST, STEP):
            if not await asyncio.to_thread(dying.killed, at, "run"):
                break
            kills += 1
            assert await dying.see(RESULTS) in ends, "not begun, or done"
        assert kills >= 30 // STEP
        await asyncio.to_thread(dying.whole, "run")
        assert await dying.see(RESULTS) == await whole.see(RESULTS)
        assert await dying.see(TOLD) == await whole.see(TOLD)
        assert await dying.see("SELECT count(*) FROM recon_outbox WHERE sent_at IS NULL") == [(0,)]
        there = {
            header: None
            for record in await job.read("query-results")
            for name, header in record.headers
            if name == "ce_id"
        }
        assert len(there) == len(await dying.see(TOLD)), "each event is there, and a repetition has its id"


@pytest.fixture
async def job(kafka: Kafka, topic_prefix: str, tmp_path: Path) -> Job:
    found = Job(kafka.bootstrap, topic_prefix, tmp_path)
    await found.create()
    return found
