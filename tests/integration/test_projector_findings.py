"""A transaction that two orders claim, all the way round: worker, books, and back through the worker as a discrepancy of each (R-040)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from streams.dev import ports
from streams.domain.events import Callback, CreatePayment, StartPayment
from tests.support.databases import books
from tests.support.job import Job

if TYPE_CHECKING:
    from pathlib import Path

    from streams.dev.services import Kafka, Postgres

pytestmark = [pytest.mark.kafka, pytest.mark.postgres]


def begun(order: str) -> list[CreatePayment | StartPayment]:
    about = {"order_id": order, "payment_no": f"P-{order}"}
    create = CreatePayment(
        command_id=f"{order}-c", biz_code="SHOP", channel="stripe:acct_1", amount=1099, currency="USD", **about
    )
    return [create, StartPayment(command_id=f"{order}-s", **about)]


def success(order: str) -> Callback:
    return Callback(
        order_id=order, payment_no=f"P-{order}", channel="stripe:acct_1", status="SUCCESS", event_id=f"E-{order}",
        transaction="T1", amount=1099, currency="USD",
    )  # fmt: skip


async def test_one_transaction_on_two_orders_becomes_a_discrepancy_of_both(
    kafka: Kafka, postgres: Postgres, topic_prefix: str, tmp_path: Path
):
    job = Job(kafka.bootstrap, topic_prefix, tmp_path)
    await job.create()
    await job.start()
    async with books(postgres.dsn) as dsn:
        env = {**os.environ, **job.env, "CONCORD_POSTGRES": dsn}
        command = [sys.executable, "-m", "streams", "projector", "--port", str(ports.free(1)[0])]
        with (tmp_path / "projector.log").open("wb") as log:
            running = subprocess.Popen(command, env=env, stdout=log, stderr=log, start_new_session=True)
        try:
            orders = ("A-1", "B-2")
            for order in orders:
                await job.send("commands", begun(order))
            await job.wait("updates", lambda there: sum(b'"PAYING"' in record.value for record in there) >= len(orders))
            await job.send("channel-callbacks", [success(order) for order in orders])
            raised = await job.wait("discrepancies", lambda there: len(there) >= len(orders))
        finally:
            running.send_signal(signal.SIGTERM)
            running.wait(30)
            job.end()
    found = [json.loads(record.value) for record in raised]
    assert {(one["order_id"], one["kind"], one["ref"]) for one in found} == {
        (order, "TRANSACTION_ON_TWO_ORDERS", "T1") for order in orders
    }
    assert [len(await job.read(topic)) for topic in ("success", "dead-letters")] == [2, 0]
