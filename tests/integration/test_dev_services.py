"""Kafka and Postgres without Docker are real ones: they keep what they acknowledged through kills, and say what stops
them.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import asyncpg
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from click.testing import CliRunner

from streams.cli.dev import dev
from streams.dev import jars
from streams.dev.errors import ServiceError
from streams.dev.kafka import KafkaCluster
from streams.dev.postgres import PostgresServer
from tests.support.proxy import Proxy
from tests.support.services import fresh_folder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from streams.dev.services import Kafka, Postgres

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180), pytest.mark.usefixtures("_servers")]


@asynccontextmanager
async def producing(bootstrap: str) -> AsyncIterator[AIOKafkaProducer]:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", request_timeout_ms=60_000) as producer:
        yield producer


async def create(bootstrap: str, topic: str, copies: int = 1) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(topic, 1, copies)])
    finally:
        await admin.close()


async def send(bootstrap: str, topic: str, *values: bytes) -> None:
    async with producing(bootstrap) as producer:
        for value in values:
            await producer.send_and_wait(topic, value)


async def read(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    async with asyncio.timeout(60), consumer:
        return [(await consumer.getone()).value for _ in range(count)]


class TestOneBroker:
    @pytest.mark.parametrize("version", [jars.VERSION, "4.4.0"])
    async def test_what_it_acknowledged_survives_a_kill(self, version: str, kafka_cluster: Callable[..., KafkaCluster]):
        cluster = kafka_cluster(version=version)
        await create(cluster.bootstrap, "kept")
        await send(cluster.bootstrap, "kept", b"before")
        first = cluster.pid()
        cluster.kill()
        assert cluster.pid() is None
        assert cluster.running() == []
        await asyncio.to_thread(cluster.restart)
        assert cluster.pid() not in {None, first}
        await send(cluster.bootstrap, "kept", b"after")
        assert await read(cluster.bootstrap, "kept", 2) == [b"before", b"after"]

    async def test_a_proxy_spoils_the_line_of_clients_and_not_of_the_broker(
        self, kafka_cluster: Callable[..., KafkaCluster]
    ):
        async with Proxy() as proxy:
            cluster = await asyncio.to_thread(kafka_cluster, advertised={1: proxy.address})
            proxy.target = ("127.0.0.1", cluster.port())
            assert cluster.bootstrap == proxy.address
            await create(cluster.inside, "proxied")
            assert proxy.connections == 0
            async with producing(cluster.bootstrap) as producer:
                await producer.send_and_wait("proxied", b"whole")
                proxy.slow(latency_s=0.05)
                await producer.send_and_wait("proxied", b"slow")
                proxy.blackhole()
                sending = await producer.send("proxied", b"silent")
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(asyncio.shield(sending), 0.5)
                proxy.restore()
                await sending
                proxy.cut()
                await producer.send_and_wait("proxied", b"cut")
            assert await read(cluster.inside, "proxied", 4) == [b"whole", b"slow", b"silent", b"cut"]

    async def test_it_outlives_the_process_that_started_it(self):
        folder = fresh_folder("orphan")
        code = (
            "import os, pathlib, sys; from streams.dev.kafka import KafkaCluster\n"
            "KafkaCluster(pathlib.Path(sys.argv[1])).start(); os._exit(0)"
        )
        starter = await asyncio.create_subprocess_exec(sys.executable, "-c", code, str(folder))
        assert await starter.wait() == 0
        cluster = KafkaCluster.load(folder)
        assert cluster is not None
        try:
            assert cluster.pid() is not None
            assert cluster.unready() is None
            assert os.getsid(cluster.pid() or 0) == cluster.pid()
        finally:
            cluster.wipe()
        assert cluster.running() == []
        assert not folder.exists()

    def test_it_listens_on_loopback_only(self, kafka_cluster: Callable[..., KafkaCluster]):
        import psutil  # noqa: PLC0415

        cluster = kafka_cluster()
        connections = psutil.Process(cluster.pid()).net_connections("tcp")
        listening = {connection.laddr.ip for connection in connections if connection.status == psutil.CONN_LISTEN}
        assert {address.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}

    def test_a_taken_port_is_named_with_its_holder_and_leaves_no_broker(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            cluster = KafkaCluster(fresh_folder("taken"), ports=[port])
            with pytest.raises(
                ServiceError, match=rf"port {port} on 127\.0\.0\.1 is taken by pid {os.getpid()} .*--port"
            ):
                cluster.start()
            assert cluster.running() == []

    def test_a_broker_that_ends_at_its_start_shows_its_own_error(self):
        cluster = KafkaCluster(fresh_folder("wrong"), properties={"num.network.threads": "many"})
        with pytest.raises(ServiceError, match=r"num\.network\.threads"):
            cluster.start()
        assert cluster.running() == []

    def test_a_version_that_does_not_exist_says_what_to_do_and_leaves_no_trace(self):
        folder = fresh_folder("impossible")
        with pytest.raises(ServiceError, match=r"Kafka 99\.9\.9 could not be downloaded") as refused:
            KafkaCluster(folder, version="99.9.9").start()
        assert "CONCORD_KAFKA_VERSION" in str(refused.value)
        assert "CONCORD_KAFKA=host:port" in str(refused.value)
        assert list(folder.iterdir()) == []


class TestThreeBrokers:
    async def test_two_serve_while_one_is_down_and_all_come_back_from_a_power_loss(
        self, kafka_cluster: Callable[..., KafkaCluster]
    ):
        cluster = await asyncio.to_thread(kafka_cluster, nodes=3)
        assert len({cluster.pid(node) for node in cluster.nodes}) == 3
        await create(cluster.bootstrap, "kept", copies=3)
        cluster.kill(2)
        assert cluster.running() == [1, 3]
        await send(cluster.bootstrap, "kept", b"two of three")
        await asyncio.to_thread(cluster.restart, 2)
        await asyncio.to_thread(cluster.terminate, 1)
        await send(cluster.bootstrap, "kept", b"another two")
        await asyncio.to_thread(cluster.restart, 1)
        addresses = cluster.bootstrap
        await asyncio.to_thread(cluster.power_loss)
        assert cluster.running() == []
        await asyncio.to_thread(cluster.power_on)
        assert cluster.bootstrap == addresses
        await send(cluster.bootstrap, "kept", b"all")
        assert await read(cluster.bootstrap, "kept", 3) == [b"two of three", b"another two", b"all"]


class TestShared:
    async def test_the_shared_broker_serves_a_test_under_its_own_prefix(self, kafka: Kafka, topic_prefix: str):
        await create(kafka.bootstrap, f"{topic_prefix}t")
        await send(kafka.bootstrap, f"{topic_prefix}t", b"x")
        assert await read(kafka.bootstrap, f"{topic_prefix}t", 1) == [b"x"]

    @pytest.mark.postgres
    async def test_the_shared_postgres_is_version_18_and_keeps_utc(self, postgres: Postgres):
        connection = await asyncpg.connect(postgres.dsn)
        try:
            assert (await connection.fetchval("show server_version")).startswith("18")
            assert await connection.fetchval("show timezone") == "UTC"
        finally:
            await connection.close()


@pytest.mark.postgres
class TestPostgres:
    async def test_rows_and_address_survive_a_restart(self):
        folder = fresh_folder("postgres")
        with PostgresServer(folder) as server:
            dsn = server.dsn
            connection = await asyncpg.connect(dsn)
            await connection.execute("create table kept (n bigint); insert into kept values (42)")
            await connection.close()
        assert server.pid() is None
        again = PostgresServer.load(folder)
        assert again is not None
        try:
            assert again.start().dsn == dsn
            connection = await asyncpg.connect(dsn)
            assert await connection.fetchval("select n from kept") == 42
            await connection.close()
        finally:
            again.wipe()
        assert not folder.exists()

    def test_a_taken_port_is_named(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            with pytest.raises(ServiceError, match=rf"port {port} .*Postgres cannot listen there.*--postgres-port"):
                PostgresServer(fresh_folder("taken"), port=port).start()


@pytest.mark.postgres
class TestCommand:
    @pytest.fixture
    def project(self, monkeypatch: pytest.MonkeyPatch) -> Path:
        folder = fresh_folder("project")
        monkeypatch.chdir(folder)
        monkeypatch.delenv("CONCORD_KAFKA", raising=False)
        monkeypatch.delenv("CONCORD_POSTGRES", raising=False)
        monkeypatch.setenv("CONCORD_SERVICES", "local")
        return folder

    def test_up_status_and_down_agree_on_what_runs(self, project: Path, monkeypatch: pytest.MonkeyPatch):
        run = CliRunner().invoke
        try:
            assert run(dev, ["status"]).exit_code == 3
            up = run(dev, ["up"])
            assert up.exit_code == 0, up.output
            exports = dict(re.findall(r"^export (\w+)=(\S+)$", up.stdout, re.MULTILINE))
            assert exports.keys() == {"CONCORD_KAFKA", "CONCORD_REPLICATION", "CONCORD_POSTGRES"}
            assert exports["CONCORD_REPLICATION"] == "1"
            for name, address in exports.items():  # as the user does, who then asks again in the same shell
                monkeypatch.setenv(name, address)
            assert run(dev, ["up"]).stdout == up.stdout
            assert run(dev, ["status"]).exit_code == 0
            for option, name, service in (
                ("--port", "CONCORD_KAFKA", "Kafka"),
                ("--postgres-port", "CONCORD_POSTGRES", "Postgres"),
            ):
                moved = run(dev, ["up", option, "19999"])
                port = re.search(r":(\d+)(?:/|$)", exports[name]).group(1)
                assert moved.exit_code == 1
                assert re.search(rf"{service} .*runs on port {port}, not 19999: .*concord dev down", moved.stderr)
            assert run(dev, ["up"]).stdout == up.stdout
            stopped = run(dev, ["down"])
            assert (stopped.exit_code, stopped.stdout) == (0, "Kafka stopped\nPostgres stopped\n")
            assert run(dev, ["down"]).stdout == "Kafka was not running\nPostgres was not running\n"
            assert run(dev, ["status"]).exit_code == 3
            refused = run(dev, ["up", "--nodes", "3"])
            assert refused.exit_code == 1
            assert "with 1 node(s)" in refused.stderr
            (project / ".concord" / "state" / "concord").mkdir(parents=True)
        finally:
            wiped = run(dev, ["down", "--wipe"])
        assert wiped.exit_code == 0
        assert wiped.stdout == "Kafka removed\nPostgres removed\n.concord/state removed\n"
        assert list((project / ".concord").iterdir()) == []

    def test_what_someone_else_runs_is_only_named(self, project: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("CONCORD_KAFKA", "kafka.example:9092")
        up = CliRunner().invoke(dev, ["up", "--no-postgres"])
        assert up.stdout == (
            "Kafka     kafka.example:9092  (CONCORD_KAFKA is set, nothing was started)\n\n"
            "export CONCORD_KAFKA=kafka.example:9092\n"
        )
        assert CliRunner().invoke(dev, ["down"]).stdout == "nothing was started here\n"

    def test_the_command_is_part_of_concord(self, project: Path):
        done = subprocess.run(
            [sys.executable, "-m", "streams", "dev", "status"], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (3, "")
        assert "concord dev up" in done.stdout
