"""The notifier as a process, between a real broker, a real Postgres and a merchant's site: killed, and short of either."""

from __future__ import annotations

import asyncio
import base64
import os
import secrets
import signal
import subprocess
import sys
from collections import defaultdict
from datetime import UTC, datetime

import msgspec
import pytest
from aiokafka import AIOKafkaProducer

from stores import merchants, notifications, pool
from streams import codec, proof
from streams.app import engine_config
from streams.dev import ports
from streams.domain.decisions import PaymentSuccess, PaymentUpdate
from streams.domain.events import Command, Undelivered
from streams.settings import Settings
from streams.topics import Topics, create, partition_of
from tests.support.edge import until
from tests.support.merchant_site import LOST, OK, site

pytestmark = [pytest.mark.postgres, pytest.mark.kafka]

AT = datetime(2026, 5, 1, tzinfo=UTC)
SECRET = f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}"


def told_of(order: str, state: str, number: int):
    facts = {
        "order_id": order, "payment_no": f"{order}-p", "merchant": "shop", "channel": "simulator:sim", "amount": 1099, "currency": "USD",
        "transaction": "T1", "decision": f"decision/{order}/{number}", "decided_at": AT, "biz_code": "SALE",
    }  # fmt: skip
    if state == "SUCCESS":
        return PaymentSuccess(id=f"success/{order}", evidence="e", **facts)
    return PaymentUpdate(id=f"update/{order}/{state}", state=state, before=None, **facts)


class Stage:
    """The process, and what it works on."""

    def __init__(self, bootstrap: str, prefix: str, dsn: str) -> None:
        self.dsn = dsn
        self.env = {
            "CONCORD_KAFKA": bootstrap, "CONCORD_TOPIC_PREFIX": prefix, "CONCORD_REPLICATION": "1", "CONCORD_POSTGRES": dsn,
            "CONCORD_NOTIFY_ALLOW": "127.0.0.0/8", "SHOP_HOOK": SECRET,
        }  # fmt: skip
        self.settings = Settings.from_env(self.env)
        self.topics = Topics.load(prefix=prefix, replication=1)
        self.tags = defaultdict(int)
        self.log = ""

    async def produce(self, rows) -> None:
        """Records as the worker leaves them: each row is one transaction of its order's partition, tagged."""
        producer = AIOKafkaProducer(**self.settings.kafka)
        await producer.start()
        for told in rows:
            name = "success" if isinstance(told, PaymentSuccess) else "updates"
            key = told.order_id.encode()
            partition = partition_of(key, self.topics.partitions)
            self.tags[partition] += 1
            headers = [("x", b"1.%d" % self.tags[partition])]
            await producer.send_and_wait(
                self.topics[name], codec.encode(told), key=key, partition=partition, headers=headers
            )
        await producer.stop()

    def start(self) -> subprocess.Popen[str]:
        port = ports.free(1)[0]
        return subprocess.Popen(
            [sys.executable, "-m", "streams", "notifier", "--port", str(port)],
            env={**os.environ, **self.env}, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def end(self, process: subprocess.Popen[str], number: int = signal.SIGTERM) -> int:
        process.send_signal(number)
        self.log += process.communicate(timeout=30)[1]
        return process.returncode


@pytest.fixture
async def stage(kafka, topic_prefix, database):
    found = Stage(kafka.bootstrap, topic_prefix, database)
    await create(found.settings.kafka, found.topics)
    connection = await pool.connect(database)
    await merchants.add(connection, "shop", secrets.token_bytes(32), 50, AT)
    await connection.close()
    return found


async def address(stage: Stage, url: str) -> None:
    connection = await pool.connect(stage.dsn)
    await notifications.set_address(connection, "shop", url, ["env:SHOP_HOOK"])
    await connection.close()


def firsts(told) -> dict[str, list[str]]:
    """The notices of each payment, by when they were heard first."""
    found: dict[str, list[str]] = defaultdict(list)
    for one in told:
        body = msgspec.json.decode(one.body)
        if body["type"] not in found[body["data"]["payment_no"]]:
            found[body["data"]["payment_no"]].append(body["type"])
    return found


async def test_a_notifier_that_is_killed_again_and_again_tells_everything_in_order(stage):
    orders = [f"订单-{number}" for number in range(40)]
    async with site(lambda number: LOST if number % 5 == 0 else OK) as shop:
        await address(stage, shop.url)
        for order in orders:
            await stage.produce(
                [told_of(order, "AUTHORIZED", 1), told_of(order, "UNKNOWN", 2), told_of(order, "SUCCESS", 3)]
            )
        for _ in range(3):
            process, seen = stage.start(), len(shop.told)
            await until(lambda seen=seen: len(shop.told) >= seen + 12, "it tells")
            assert stage.end(process, signal.SIGKILL) == -signal.SIGKILL
        process = stage.start()
        await until(lambda: sum(len(one) for one in firsts(shop.told).values()) == 80, "all is told", 100)
        heard = firsts(shop.told)
        assert stage.end(process) == 0
    assert heard == {f"{order}-p": ["payment.authorized", "payment.succeeded"] for order in orders}
    ids = {(one.id, one.body) for one in shop.told}
    assert len(ids) == len({name for name, _ in ids}) == 80
    assert SECRET.removeprefix("whsec_") not in stage.log
    assert "hidden" not in stage.log
    assert "127.0.0.1" in stage.log


async def test_what_lies_in_two_topics_is_told_as_it_was_decided_by_two_notifiers(stage):
    async with site() as shop:
        await address(stage, shop.url)
        running = [stage.start(), stage.start()]
        for number in range(30):
            await stage.produce([told_of(f"O{number}", "AUTHORIZED", 1), told_of(f"O{number}", "SUCCESS", 2)])
        await until(lambda: len({one.id for one in shop.told}) == 60, "all is told")
        assert [stage.end(process) for process in running] == [0, 0]
    assert len(shop.told) == 60
    assert set(map(tuple, firsts(shop.told).values())) == {("payment.authorized", "payment.succeeded")}


async def test_a_dead_notice_becomes_a_finding_on_the_commands(stage):
    async with site(lambda _: LOST) as shop:
        await address(stage, shop.url)
        await stage.produce([told_of("O1", "FAIL", 1)])
        process = stage.start()
        await until(lambda: len(shop.told) >= 2, "it has failed twice")
        connection = await pool.connect(stage.dsn)
        await connection.execute(
            "UPDATE notifications SET retry_count = 7, next_retry_time = now() WHERE handle_status = 'waiting'"
        )
        async with asyncio.timeout(40):
            while not await connection.fetchval("SELECT found FROM notifications WHERE handle_status = 'dead'"):
                await asyncio.sleep(0.05)
        await connection.close()
        assert stage.end(process) == 0
    config = engine_config(stage.settings, stage.topics)
    records = await proof.read(config, [stage.topics["commands"]], stage.topics.partitions)
    [found] = [msgspec.json.decode(record.value, type=Command) for record in records[stage.topics["commands"]]]
    assert isinstance(found, Undelivered)
    assert (found.order_id, found.payment_no) == ("O1", "O1-p")


async def test_connections_that_postgres_cuts_lose_nothing_and_record_nothing_twice(stage):
    cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    async with site() as shop:
        await address(stage, shop.url)
        process = stage.start()
        connection = await pool.connect(stage.dsn)
        for number in range(20):
            await stage.produce([told_of(f"O{number}", "AUTHORIZED", 1), told_of(f"O{number}", "SUCCESS", 2)])
            if number % 5 == 4:
                await connection.execute(cut)
        await until(lambda: len({one.id for one in shop.told}) == 40, "all is told", 100)
        recorded = await connection.fetchval("SELECT count(*) FROM notifications")
        await connection.close()
        assert stage.end(process) == 0
    assert recorded == 40
    assert set(map(tuple, firsts(shop.told).values())) == {("payment.authorized", "payment.succeeded")}
