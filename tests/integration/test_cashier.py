"""The cashier as a process, with a real worker, broker and Postgres: many creates, many starts, a whole life, and outages."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from stores import route_decisions
from streams.dev import ports
from streams.domain.events import Answer
from streams.domain.score import Book, Limit, Offer
from tests.support.cashier import new
from tests.support.cashier_stage import CHANNEL, WITHIN_S, Stage, known, staged

pytestmark = [pytest.mark.kafka, pytest.mark.postgres]

ROOT = Path(__file__).parents[2]


async def test_two_hundred_creates_give_one_payment_and_two_hundred_starts_one_submit(kafka, topic_prefix, tmp_path):
    """R-017, R-037."""
    async with staged(kafka, topic_prefix, tmp_path) as stage:
        creates = await asyncio.gather(*(stage.create("order-1") for _ in range(200)))
        assert sorted(one.status_code for one in creates) == [200] * 199 + [201]
        (number,) = {one.json()["payment_no"] for one in creates}
        path = f"/v1/payments/{number}/start"
        starts = await asyncio.gather(*(stage.client.post(path, json={}) for _ in range(200)))
        assert sorted(one.status_code for one in starts) == [200] + [409] * 199
        assert {one.json()["code"] for one in starts if one.status_code == 409} == {"PAYMENT_STATUS_NOT_INIT"}
        await stage.job.wait("channel-requests", bool)
        assert len(await stage.requests("order-1")) == 1


async def test_a_payment_lives_through_the_cashier(kafka, topic_prefix, tmp_path):
    """Created, started with the payer's action, paid, refunded once, and known to a gateway that never saw it made."""
    async with staged(kafka, topic_prefix, tmp_path) as stage:
        payment = (await stage.create("order-1", "c-1")).json()
        path = f"/v1/payments/{payment['payment_no']}"
        started = asyncio.create_task(stage.client.post(f"{path}/start", json={"details": {"payer": "p-1"}}))
        await stage.job.wait("channel-requests", bool)
        (request,) = await stage.requests("order-1")
        assert request["details"] == {"payer": "p-1"}
        common = {"order_id": "order-1", "payment_no": payment["payment_no"], "channel": CHANNEL, "merchant": "shop"}
        told = Answer(request="submit", status="PROCESSING", payer_action="https://pay.example/1", **common)
        await stage.job.send("query-results", [told])
        assert (await started).json()["payer_action"] == "https://pay.example/1"
        paid = Answer(request="query", status="SUCCESS", transaction="t-1", amount=1000, currency="USD", **common)
        await stage.job.send("query-results", [paid])
        await stage.job.wait("success", bool)
        stage.gateway.end()
        await asyncio.to_thread(stage.gateway.start)
        await known(stage)
        refunds = [
            await stage.client.post(
                f"{path}/refunds", json={"amount": 400, "currency": "USD"}, headers={"Idempotency-Key": "r-1"}
            )
            for _ in range(2)
        ]
        assert [one.status_code for one in refunds] == [201, 200]
        assert len({one.json()["refund_no"] for one in refunds}) == 1
        await stage.job.wait("channel-requests", lambda records: any(b'"REFUND"' in one.value for one in records))
        assert len(await stage.requests("order-1", "REFUND")) == 1


async def test_writes_decide_while_postgres_is_down_and_reads_say_so(kafka, topic_prefix, tmp_path):
    """R-161: the last route book serves, and what it decided is written down when Postgres is back."""
    book = Book(offers=(Offer(channel=CHANNEL, limits={"USD": Limit()}),))
    async with staged(kafka, topic_prefix, tmp_path, book=book) as stage:
        await asyncio.to_thread(stage.postgres.stop, mode="immediate")
        created = await stage.create("order-1")
        assert created.status_code == 201
        path = f"/v1/payments/{created.json()['payment_no']}"
        read = await stage.client.get(path)
        assert (read.status_code, read.json()["code"]) == (503, "BOOKS_UNAVAILABLE")
        assert read.headers["retry-after"] == "5"
        assert (await stage.client.post(f"{path}/close")).json()["state"] == "CLOSED"
        wanted = {name: value for name, value in new("order-2").items() if name != "channel"}
        routed = (await stage.client.post("/v1/payments", json=wanted)).json()
        assert (routed["channel"], routed["state"]) == (CHANNEL, "INIT")
        await asyncio.to_thread(stage.postgres.start)
        connection = await asyncpg.connect(stage.postgres.dsn)
        async with asyncio.timeout(WITHIN_S):
            while not (kept := await route_decisions.of_payment(connection, "shop", routed["payment_no"])):
                await asyncio.sleep(0.2)
        await connection.close()
        assert [(one.order_id, one.routing.channel) for one in kept] == [("order-2", CHANNEL)]


async def test_without_a_worker_a_request_is_accepted_and_decided_later(kafka, topic_prefix, tmp_path):
    async with staged(kafka, topic_prefix, tmp_path) as stage:
        (worker,) = stage.job.workers
        worker.end()
        accepted = await stage.create("order-1", "c-1")
        assert accepted.status_code == 202
        assert accepted.headers["location"] == "/v1/payments?order_id=order-1&biz_code=SALE"
        await stage.job.start()
        again = await stage.create("order-1", "c-1")
        assert again.status_code == 200
        records = await stage.job.read("decisions")
        created = [one for one in map(json.loads, [record.value for record in records]) if one["rule"] == "created"]
        assert [one["payment_no"] for one in created] == [again.json()["payment_no"]]


async def test_no_secret_is_written_to_the_log_or_to_kafka(kafka, topic_prefix, tmp_path):
    async with staged(kafka, topic_prefix, tmp_path) as stage:
        await stage.create("order-1")
        secret = stage.client.headers["authorization"].partition(" ")[2]
        stage.gateway.stop()
        assert secret not in stage.gateway.log.read_text()
        assert not [one for one in await stage.job.read("commands") if secret.encode() in one.value]


@asynccontextmanager
async def projecting(stage: Stage, folder: Path):
    """A projector beside it."""
    env = {
        **os.environ,
        **stage.job.env,
        "CONCORD_POSTGRES": stage.postgres.dsn,
        "CONCORD_WEB_PORT": str(ports.free(1)[0]),
    }
    with (folder / "projector.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "streams", "projector"), env=env, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield
    finally:
        process.terminate()
        assert await asyncio.wait_for(process.wait(), WITHIN_S) == 0


async def read(stage: Stage, path: str, **wanted: Any) -> dict[str, Any]:
    """What a read says, once it says this."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            found = await stage.client.get(path)
            if found.status_code == 200 and wanted.items() <= found.json().items():
                return found.json()
            await asyncio.sleep(0.1)


async def test_what_was_decided_is_read_from_the_books(kafka, topic_prefix, tmp_path):
    """The first reads of a payment and of a refund's progress after a projector has come up (R-134, R-210)."""
    async with staged(kafka, topic_prefix, tmp_path) as stage, projecting(stage, tmp_path):
        payment = (await stage.create("order-1", "c-1")).json()
        path = f"/v1/payments/{payment['payment_no']}"
        assert (await read(stage, path))["state"] == "INIT"
        await stage.client.post(f"{path}/start", json={})
        common = {"order_id": "order-1", "payment_no": payment["payment_no"], "channel": CHANNEL, "merchant": "shop"}
        paid = Answer(request="query", status="SUCCESS", transaction="t-1", amount=1000, currency="USD", **common)
        await stage.job.send("query-results", [paid])
        found = await read(stage, path, conclusion="SUCCESS")
        assert (found["state"], found["amount"], found["biz_code"]) == ("SUCCESS", 1000, "SALE")
        assert await read(stage, "/v1/payments?order_id=order-1&biz_code=SALE") == found
        refund = await stage.client.post(
            f"{path}/refunds", json={"amount": 400, "currency": "USD"}, headers={"Idempotency-Key": "r-1"}
        )
        progress = await read(stage, f"/v1/refunds/{refund.json()['refund_no']}")
        assert (progress["amount"], progress["payment_no"]) == (400, payment["payment_no"])
        assert progress["zh"] != progress["en"]
