"""A routed payment from end to end: gateway, worker and routers as processes, a real Kafka and Postgres, and routers that are killed."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import httpx
import pytest

from stores import route_decisions, route_downgrades
from stores.pool import connect
from streams.dev import ports
from streams.domain.events import Answer
from streams.domain.score import Book, Limit, Offer
from tests.support.cashier import new
from tests.support.cashier_stage import WITHIN_S, Stage, staged

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.kafka, pytest.mark.postgres]
ACCOUNTS = ("acct_1", "acct_2", "acct_3")
BOOK = Book(
    offers=tuple(
        Offer(channel=f"simulator:{name}", limits={"USD": Limit()}, fee_ppm=1000 * number, methods=("card",))
        for number, name in enumerate(ACCOUNTS, 1)
    )
)


class RouterProcess:
    """`concord router` in a session of its own."""

    def __init__(self, stage: Stage, folder: Path, name: str) -> None:
        self._env = {**os.environ, **stage.job.env, "CONCORD_POSTGRES": stage.postgres.dsn}
        self.port = ports.free(1)[0]
        self.log = folder / f"{name}.log"
        self.start()

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "streams", "router", "--port", str(self.port)],
                env=self._env,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


async def submits(stage: Stage, number: int) -> list[str]:
    """The channels of the submits, once there are so many."""
    async with asyncio.timeout(WITHIN_S):
        while len(found := await stage.requests("order-1")) < number:
            await asyncio.sleep(0.2)
    return [one["channel"] for one in found]


async def answer(stage: Stage, payment_no: str, channel: str, status: str, **more) -> None:
    told = Answer(
        request="submit",
        order_id="order-1",
        payment_no=payment_no,
        channel=channel,
        status=status,
        merchant="shop",
        **more,
    )
    await stage.job.send("query-results", [told])


async def test_a_refused_payment_goes_on_to_the_next_channel_though_routers_are_killed(kafka, topic_prefix, tmp_path):
    """R-050, R-138, R-156, R-157, R-162."""
    async with staged(kafka, topic_prefix, tmp_path, ACCOUNTS, BOOK) as stage:
        connection = await connect(stage.postgres.dsn)
        routers = [RouterProcess(stage, tmp_path, name) for name in ("router-1", "router-2")]
        try:
            body = {name: value for name, value in new("order-1", method="card").items() if name != "channel"}
            payment = (await stage.client.post("/v1/payments", json=body)).json()
            number = payment["payment_no"]
            assert payment["channel"] == "simulator:acct_1"
            assert (await stage.client.post(f"/v1/payments/{number}/start", json={})).status_code == 200
            assert await submits(stage, 1) == ["simulator:acct_1"]
            await answer(stage, number, "simulator:acct_1", "REFUSED", error_class="over_limit")
            for one in routers:
                one.kill()
                one.start()
            assert await submits(stage, 2) == ["simulator:acct_1", "simulator:acct_2"]
            await answer(stage, number, "simulator:acct_2", "SUCCESS", transaction="t-1", amount=1000, currency="USD")
            await stage.job.wait("success", bool)
            assert len(await stage.requests("order-1")) == 2
            kept = await route_decisions.of_payment(connection, "shop", number)
            assert [(one.purpose, one.routing.channel) for one in kept] == [
                ("create", "simulator:acct_1"),
                ("fallback", "simulator:acct_2"),
            ]
            assert kept[1].ask.method == "card"
            (passed,) = await route_downgrades.live(connection, datetime.now(UTC))
            assert (passed.channel, passed.why, passed.amount_from) == ("simulator:acct_1", "over_limit", 1000)
            pages = [httpx.get(f"http://127.0.0.1:{one.port}/metrics").text for one in routers]
            assert any('fallbacks_total{asked="retry",channel="simulator:acct_1"} 1.0' in page for page in pages)
            (success,) = await stage.job.read("success")
            assert json.loads(success.value)["channel"] == "simulator:acct_2"
        finally:
            for one in routers:
                one.kill()
            await connection.close()
