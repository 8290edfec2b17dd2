"""A day in the life: payments, the bill, what it shows, its correction, the payout, and every unit of money proven (R-180 to R-200).

On a real worker, a real Kafka and a real Postgres, by the commands that a person types.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from streams.dev import ports
from streams.domain.events import Callback, CreatePayment, Resolve, StartPayment
from tests.support import day
from tests.support.books import read_topics, wait_written
from tests.support.databases import books
from tests.support.job import Job

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from streams.dev.services import Kafka, Postgres

pytestmark = [pytest.mark.kafka, pytest.mark.postgres]
SHOP = "shop:main"
AMOUNTS = {"P1": 1000, "P2": 700, "P3": 500}


@pytest.fixture
async def job(kafka: Kafka, topic_prefix: str, tmp_path: Path) -> AsyncIterator[Job]:
    found = Job(kafka.bootstrap, topic_prefix, tmp_path)
    await found.create()
    await found.start()
    yield found
    found.end()


class Books:
    """Postgres with a projector that follows the worker."""

    def __init__(self, job: Job, dsn: str) -> None:
        self.job, self.dsn = job, dsn

    async def follow(self) -> None:
        """Until everything that is in the topics now is in the books."""
        await wait_written(self.dsn, await read_topics(self.job.config, self.job.topics))

    def run(self, *command: str) -> str:
        done = self.job.run("recon", *command, CONCORD_POSTGRES=self.dsn)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
async def kept(job: Job, postgres: Postgres, tmp_path: Path) -> AsyncIterator[Books]:
    async with books(postgres.dsn) as dsn:
        env = {**os.environ, **job.env, "CONCORD_POSTGRES": dsn}
        command = [sys.executable, "-m", "streams", "projector", "--port", str(ports.free(1)[0])]
        with (tmp_path / "projector.log").open("wb") as log:
            running = subprocess.Popen(command, env=env, stdout=log, stderr=log, start_new_session=True)
        try:
            yield Books(job, dsn)
        finally:
            running.send_signal(signal.SIGTERM)
            await asyncio.to_thread(running.wait, 30)


async def pay(job: Job) -> None:
    """P1 and P3 succeed by a notice. P2's notice is lost."""
    for number, amount in AMOUNTS.items():
        money = {"order_id": f"O-{number}", "payment_no": number}
        await job.send(
            "commands",
            [
                CreatePayment(command_id=f"c-{number}", biz_code="trade", channel=SHOP, amount=amount, currency="USD", **money),
                StartPayment(command_id=f"s-{number}", **money),
            ],
        )  # fmt: skip
    await job.wait("channel-requests", lambda found: len(found) >= len(AMOUNTS))
    heard = [
        Callback(
            order_id=f"O-{number}", payment_no=number, channel=SHOP, status="SUCCESS", event_id=f"E-{number}",
            transaction=f"X-{number}", amount=AMOUNTS[number], currency="USD",
        )
        for number in ("P1", "P3")
    ]  # fmt: skip
    await job.send("channel-callbacks", heard)
    await job.wait("success", lambda found: len(found) == 2)


async def raised(job: Job, *kinds: str) -> dict[str, dict[str, Any]]:
    """The last word about the discrepancies of these kinds, once all of them are there."""

    def last(records: list[Any]) -> dict[str, dict[str, Any]]:
        told = [json.loads(record.value) for record in records]
        return {one["kind"]: one for one in told}

    return last(await job.wait("discrepancies", lambda records: set(kinds) <= last(records).keys()))


async def test_a_day_ends_with_every_unit_of_money_proven(job: Job, kept: Books, tmp_path: Path):
    await pay(job)
    await kept.follow()
    (tmp_path / "bill.yaml").write_text(day.BILL_LAYOUT)
    (tmp_path / "settlement.yaml").write_text(day.SETTLEMENT_LAYOUT)
    today = json.loads((await job.read("success"))[0].value)["decided_at"][:10]
    of_bill = ("import", "--channel", SHOP, "--date", today, "--layout", str(tmp_path / "bill.yaml"))

    # The bill tells of P2, whose notice was lost, and of money that nobody here knows; it lacks P3.
    (tmp_path / "bill.csv").write_text(day.bill(("X-P1", "P1", 1000, 6), ("X-P2", "P2", 700, 4), ("X-9", "P9", 900, 0)))
    assert "3 lines" in kept.run(*of_bill, str(tmp_path / "bill.csv"))
    assert "nothing added" in kept.run(*of_bill, str(tmp_path / "bill.csv"))
    said = kept.run("run")
    assert "1 CHANNEL_ONLY" in said
    assert "1 EVIDENCE" in said
    assert "1 LOCAL_ONLY" in said
    await job.wait("success", lambda found: len(found) == 3)
    found = await raised(job, "CHANNEL_ONLY", "LOCAL_ONLY", "DUPLICATE_FILE")
    assert (found["CHANNEL_ONLY"]["ref"], found["LOCAL_ONLY"]["ref"]) == ("X-9", "P3")
    await kept.follow()
    work = kept.run("worklist", "--date", today)
    assert "CHANNEL_SINGLE,CHANNEL_ONLY" in work
    assert "LOCAL_ONLY,LOCAL_ONLY" in work

    # The channel corrects it: P3 is there, and the difference settles itself. The rest is for two people.
    (tmp_path / "corrected.csv").write_text(
        day.bill(("X-P1", "P1", 1000, 6), ("X-P2", "P2", 700, 4), ("X-P3", "P3", 500, 3), ("X-9", "P9", 900, 0))
    )
    assert "version 2" in kept.run(*of_bill, str(tmp_path / "corrected.csv"))
    assert "3 MATCHED" in kept.run("run")
    await job.wait(
        "discrepancies",
        lambda records: any(
            one["kind"] == "LOCAL_ONLY" and one["status"] == "resolved" for one in (json.loads(each.value) for each in records)
        ),
    )  # fmt: skip
    single = found["CHANNEL_ONLY"]
    await job.send(
        "commands",
        [
            Resolve(
                command_id="r-1", order_id=single["order_id"], discrepancy=single["id"], revision=single["revision"], action="close",
                evidence="the channel's own test payment, ticket 7", proposer="lin", approver="ada",
            )
        ],
    )  # fmt: skip

    # The payout, and the bank's credit in two parts.
    (tmp_path / "paid.csv").write_text(
        day.settlement("PO-1", 2187, ("X-P1", 1000, 6), ("X-P2", 700, 4), ("X-P3", 500, 3))
    )
    of_payout = (
        "--channel",
        SHOP,
        "--date",
        today,
        "--kind",
        "SETTLEMENT",
        "--layout",
        str(tmp_path / "settlement.yaml"),
    )
    kept.run("import", *of_payout, str(tmp_path / "paid.csv"))
    (tmp_path / "bank.xml").write_text(day.statement("ST-1", 0, ("PO-1", 2000), ("PO-1", 187)))
    kept.run("import", "--channel", "bank:house", "--date", today, "--kind", "CAMT053", str(tmp_path / "bank.xml"))
    said = kept.run("run")
    assert "2 BANK POSTED" in said
    updates = await job.wait("updates", lambda records: sum(b'"SETTLED"' in record.value for record in records) == 3)
    settled = [json.loads(record.value) for record in updates if b'"SETTLED"' in record.value]
    assert {one["payment_no"] for one in settled} == {"P1", "P2", "P3"}
    await kept.follow()
    proven = json.loads(kept.run("coverage", "--format", "json"))
    assert [(one["rung"], one["amount"]) for one in proven["shares"]] == [("bank", 2200)]
    assert [(one["complete_to"], one["lacking"], one["superseded"]) for one in proven["calendars"]] == [
        (today, [], [today])
    ]

    audit = job.run("audit", "books", CONCORD_POSTGRES=kept.dsn)
    assert audit.returncode == 0, audit.stdout + audit.stderr
    recomputed = job.run("audit", "stream")
    assert recomputed.returncode == 0, recomputed.stdout + recomputed.stderr
    batches = json.loads(kept.run("show", "--format", "json"))
    for one in batches:
        assert "the same" in kept.run("replay", str(one["id"]))
    last = {one["id"]: one for one in (json.loads(each.value) for each in await job.read("discrepancies"))}
    open_ = {
        (one["kind"], one["ref"]) for one in last.values() if one["status"] != "resolved" and one["severity"] == "high"
    }
    assert open_ == set()
