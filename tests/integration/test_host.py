"""The host: three pages for supervisors, the engine's life inside Faust's, and settings that reach every client."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from prometheus_client.parser import text_string_to_metric_families

from streams.dev import ports
from streams.engine.membership import Worker
from streams.host import host
from streams.settings import Settings
from tests.integration.engine.stage import Stage, until
from tests.support.toy import Toy, order_with_payment

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from streams.dev.services import Kafka
    from streams.host import Host

pytestmark = pytest.mark.kafka


@pytest.fixture
async def stage(kafka: Kafka, topic_prefix: str) -> AsyncIterator[Stage]:
    made = Stage(kafka.bootstrap, Toy(prefix=topic_prefix.rstrip("."), partitions=2, due_ms=3_600_000))
    await made.toy.create(kafka.bootstrap)
    yield made
    await made.close()


async def nothing() -> None:
    """The topics are as they should be."""


@asynccontextmanager
async def hosted(stage: Stage, *, check: Any = nothing, **config: Any) -> AsyncIterator[tuple[Host, str]]:
    """A running host and its address."""
    [port] = ports.free(1)
    settings = Settings(kafka={"bootstrap_servers": stage.bootstrap}, web_port=port)
    app = host(stage.toy.topology(), stage.config(**config), settings, check)
    await app.start()
    try:
        yield app, f"http://127.0.0.1:{port}"
    finally:
        await app.stop()


async def get(url: str) -> tuple[int, Any]:
    async with aiohttp.ClientSession() as client, client.get(url) as answer:
        text = await answer.text()
        return answer.status, (await answer.json()) if "json" in answer.content_type else text


class TestPages:
    async def test_ready_is_refused_until_every_partition_has_recovered(self, stage):
        go = asyncio.Event()

        async def probe(step: str, partition: int, _session: Any) -> None:
            if step == "recovered" and partition == 1:
                await go.wait()

        async with hosted(stage, probe=probe) as (app, url):
            assert await get(f"{url}/healthz") == (200, {"status": "alive", "group": stage.toy.prefix})
            await until(lambda: 0 in app.engine.partitions and app.engine.partitions[0].ready.is_set())
            assert await get(f"{url}/readyz") == (503, {"ready": False, "partitions": {"0": True, "1": False}})
            go.set()
            await until(lambda: app.engine.ready)
            assert await get(f"{url}/readyz") == (200, {"ready": True, "partitions": {"0": True, "1": True}})

    async def test_ready_is_refused_before_the_group_has_spoken(self, stage):
        """No partition is no reason to be ready."""
        async with hosted(stage) as (app, url):
            await until(lambda: app.engine.ready)
            app.engine.assigned = False
            status, body = await get(f"{url}/readyz")
            assert (status, body["ready"]) == (503, False)

    async def test_metrics_count_what_was_committed(self, stage):
        await stage.toy.produce(stage.bootstrap, [e for n in range(10) for e in order_with_payment(f"o{n}")])
        async with hosted(stage) as (app, url):
            await until(lambda: sum(p.stats.records for p in app.engine.partitions.values()) == 20)
            status, text = await get(f"{url}/metrics")
            assert status == 200
            samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
            assert sum(sample.value for sample in samples if sample.name == "concord_events_total") == 20
            assert (
                sum(s.value for s in samples if s.name == "concord_verdicts_total" and s.labels["verdict"] == "paid")
                == 10
            )
            assert [sample.value for sample in samples if sample.name == "concord_ready"] == [1]
            assert {s.labels["partition"] for s in samples if s.name == "concord_lag_records"} == {"0", "1"}
            assert all(sample.value == 0 for sample in samples if sample.name == "concord_lag_records")


class TestLife:
    async def test_topics_are_checked_before_the_group_is_joined(self, stage):
        checked, go = asyncio.Event(), asyncio.Event()

        async def check() -> None:
            checked.set()
            await go.wait()

        [port] = ports.free(1)
        settings = Settings(kafka={"bootstrap_servers": stage.bootstrap}, web_port=port)
        app = host(stage.toy.topology(), stage.config(), settings, check)
        starting = asyncio.create_task(app.start())
        await asyncio.wait_for(checked.wait(), 20)
        assert app.engine.member is None
        go.set()
        await starting
        await until(lambda: app.engine.ready)
        await app.stop()

    async def test_a_stopped_host_has_drained_and_left_the_group(self, stage):
        async with hosted(stage, session=30.0) as (app, _url):
            await until(lambda: app.engine.ready)
            await stage.toy.produce(stage.bootstrap, order_with_payment("o"))
            await until(lambda: sum(p.stats.records for p in app.engine.partitions.values()) == 2)
        assert app.engine.partitions == {}
        assert app.engine.member._closed
        successor = stage.begin()
        await successor.ready(10)
        assert await stage.paid() == ["o"]

    async def test_the_host_connects_to_nothing_before_it_starts(self, stage):
        settings = Settings(kafka={"bootstrap_servers": "127.0.0.1:1"}, web_port=1)
        app = host(stage.toy.topology(), stage.config(), settings, nothing)
        assert app.engine.member is None

    async def test_the_hosts_own_kafka_clients_stay_off(self, stage):
        async with hosted(stage) as (app, _url):
            await until(lambda: app.engine.ready)
            assert not app.consumer.started
            assert not app.producer.started


class TestSecurity:
    async def test_tls_and_sasl_arguments_reach_every_client(self, stage, monkeypatch):
        """The broker here speaks plain text: each client's arguments are noted and then replaced by the broker's own."""
        env = {
            "CONCORD_KAFKA": stage.bootstrap,
            "CONCORD_KAFKA_SECURITY": "SASL_SSL",
            "CONCORD_KAFKA_SASL": "SCRAM-SHA-512",
            "CONCORD_KAFKA_USER": "concord",
            "CONCORD_KAFKA_PASSWORD": "hunter2",
        }
        security = {k: v for k, v in Settings.from_env(env).kafka.items() if k != "bootstrap_servers"}
        noted: list[tuple[str, dict[str, Any]]] = []

        for client in (AIOKafkaConsumer, AIOKafkaProducer, AIOKafkaAdminClient):
            monkeypatch.setattr(client, "__init__", plain(client, client.__init__, noted, security))
        worker = Worker(
            stage.toy.topology(), stage.config(kafka=Settings.from_env(env).kafka | security), end=lambda *_: None
        )
        running = asyncio.create_task(worker.run())
        await until(lambda: worker.ready)
        worker.stop()
        await running
        assert {name for name, _ in noted} == {"AIOKafkaConsumer", "AIOKafkaProducer", "AIOKafkaAdminClient"}
        assert (
            len([1 for name, _ in noted if name == "AIOKafkaConsumer"]) >= 4
        )  # member, data, both isolations of the restore
        for name, given in noted:
            assert given == security, name
        assert isinstance(security["ssl_context"], ssl.SSLContext)


def plain(client: type, real: Any, noted: list[tuple[str, dict[str, Any]]], security: dict[str, Any]) -> Any:
    def note(self: Any, *topics: Any, **arguments: Any) -> None:
        noted.append((client.__name__, {name: arguments.pop(name) for name in security if name in arguments}))
        real(self, *topics, **arguments)

    return note
