"""The channel edge of a test's own: a simulator and connectors on a broker, and ways to ask and to read what came back."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
from aiokafka import AIOKafkaProducer

from streams import proof
from streams.agents.connector import Connector, Outlet
from streams.agents.connector_meters import Meters
from streams.app import engine_config
from streams.channels import registry
from streams.dev import ports
from streams.domain.contract import Contract
from streams.domain.decisions import ChannelRequest
from streams.domain.events import Answer
from streams.settings import Settings
from streams.simulator.faults import Rates
from streams.simulator.server import Played, Simulator, play
from streams.topics import Topics, create

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

WITHIN_S = 40.0
SEED = 7


async def until(true: Callable[[], Any], what: str, within_s: float = WITHIN_S) -> None:
    """Wait for a condition; fails with its name."""
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {what}"
        await asyncio.sleep(0.02)


def outlets(played: Iterable[Played], base: str) -> Callable[[str], Outlet | None]:
    """Where the requests of the played accounts go."""
    found = {}
    for one in played:
        if one.channel in registry.ASKED:
            adapter = registry.adapter(one.channel)
            keys = adapter.keys(msgspec.convert(one.credentials, adapter.credentials))
            where = f"{base}/{one.channel}"
            name = f"{one.channel}:{one.account}"
            found[name] = Outlet(one.account, registry.requests(one.channel), one.contract, keys, where)
    return found.get


def request(order: str, verb: str = "SUBMIT", *, lease_s: float | None = 30, **changes: Any) -> ChannelRequest:
    now = datetime.now(UTC)
    fields = {
        "id": f"request/{order}/{verb}/1",
        "verb": verb,
        "order_id": order,
        "payment_no": f"{order}-p",
        "merchant": None,
        "channel": "simulator:sim",
        "amount": 1099,
        "currency": "USD",
        "idempotency_key": order.encode().hex(),
        "transaction": None,
        "why": "start",
        "decision": "d",
        "decided_at": now,
        "not_after": None if lease_s is None else now + timedelta(seconds=lease_s),
    }
    return ChannelRequest(**fields | changes)


@dataclass
class Edge:
    """One simulator and any number of connectors. The connectors of `connect` run here, those of `spawn` as processes."""

    bootstrap: str
    prefix: str
    running: list[tuple[Connector, asyncio.Task[None]]] = field(default_factory=list)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.settings = Settings.from_env({
            "CONCORD_KAFKA": self.bootstrap, "CONCORD_TOPIC_PREFIX": self.prefix, "CONCORD_REPLICATION": "1",
        })  # fmt: skip
        self.topics = Topics.load(prefix=self.prefix, replication=1)
        self.config = engine_config(self.settings, self.topics)
        self.port = ports.free(1)[0]

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @asynccontextmanager
    async def simulator(
        self, *names: str, contracts: Any = None, gateway: str | None = None, latency_s: float = 0.0, **rates: float
    ) -> AsyncIterator[Simulator]:
        played = [play(name, SEED, Rates(**rates), contracts) for name in names or ("simulator",)]
        found = Simulator(played, gateway, 100.0, latency_s=latency_s)
        task = asyncio.create_task(found.serve("127.0.0.1", self.port))
        try:
            await until(lambda: found.started, "the simulator listens")
            yield found
        finally:
            for one, running in self.running:
                one.stop()
                await running
            found.stop()
            await task

    def connector(self, outlet: Callable[[str], Outlet | None], **options: Any) -> Connector:
        names = (self.topics["channel-requests"], self.topics["query-results"])
        options = {"session_s": 6.0, "read_s": 3.0, **options}
        return Connector(self.settings.kafka, f"{self.prefix}connector", names, outlet, Meters(), **options)

    def join(self, simulator: Simulator, **options: Any) -> Connector:
        """A connector of every played account, on its way into the group."""
        found = self.connector(outlets(simulator.played.values(), self.base), **options)
        self.running.append((found, asyncio.create_task(found.run())))
        return found

    async def connect(self, simulator: Simulator, **options: Any) -> Connector:
        """A connector of every played account, once it has its partitions."""
        found = self.join(simulator, **options)
        await until(lambda: found._lanes or self.running[-1][1].done(), "the connector has its partitions")
        return found

    def spawn(self, contract: Contract) -> subprocess.Popen[bytes]:
        """A connector of `simulator:sim` as a process, to be killed."""
        spec = {"bootstrap": self.bootstrap, "prefix": self.prefix, "base": self.base, "contract": contract}
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.edge", msgspec.json.encode(spec).decode()], start_new_session=True
        )
        self.processes.append(process)
        return process

    def end(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()

    async def ask(self, requests: Iterable[ChannelRequest], **headers: str) -> None:
        """Produce requests as the worker does."""
        producer = AIOKafkaProducer(bootstrap_servers=self.bootstrap)
        await producer.start()
        try:
            pairs = [(name, value.encode()) for name, value in headers.items()]
            for one in requests:
                value = msgspec.json.encode(one)
                await producer.send(self.topics["channel-requests"], value, key=one.order_id.encode(), headers=pairs)
            await producer.flush()
        finally:
            await producer.stop()

    async def records(self) -> list[Any]:
        name = self.topics["query-results"]
        return (await proof.read(self.config, [name], self.topics.partitions))[name]

    async def answers(self, count: int) -> list[Answer]:
        """The answers once there are that many."""
        deadline = time.monotonic() + WITHIN_S
        while len(found := await self.records()) < count:
            assert time.monotonic() < deadline, f"{len(found)} of {count} answers"
            await asyncio.sleep(0.1)
        return [msgspec.json.decode(record.value, type=Answer) for record in found]


@asynccontextmanager
async def edge(bootstrap: str, prefix: str) -> AsyncIterator[Edge]:
    found = Edge(bootstrap, prefix)
    await create(found.settings.kafka, found.topics)
    try:
        yield found
    finally:
        found.end()


async def _main(spec: dict[str, Any]) -> None:
    own = Edge(spec["bootstrap"], spec["prefix"])
    contract = msgspec.convert(spec["contract"], Contract)
    played = play("simulator", SEED, Rates(), {"simulator": contract})
    found = own.connector(outlets([played], spec["base"]), read_s=30.0)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, found.stop)
    guard = asyncio.create_task(_end_with(os.getppid()))
    await found.run()
    guard.cancel()


async def _end_with(parent: int) -> None:
    """A test run that was killed must not leave connectors behind."""
    while os.getppid() == parent:
        await asyncio.sleep(0.5)
    os._exit(9)


if __name__ == "__main__":
    asyncio.run(_main(msgspec.json.decode(sys.argv[1])))
