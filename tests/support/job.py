"""A `concord worker` of a test's own, with topics under the test's prefix, and ways to talk to it and to read what it wrote."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
from aiokafka import AIOKafkaProducer

from streams import proof
from streams.agents import payments
from streams.app import engine_config
from streams.demo.workers import WorkerProcess, wait_ready
from streams.settings import Settings
from streams.topics import Topics, create

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from streams.domain.events import Event

WITHIN_S = 60.0


@dataclass
class Job:
    """The payment job on a broker. `start` runs a worker; `read` returns the committed records of a topic by its logical name."""

    bootstrap: str
    prefix: str
    folder: Path
    workers: list[WorkerProcess] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.env = {
            "CONCORD_KAFKA": self.bootstrap,
            "CONCORD_TOPIC_PREFIX": self.prefix,
            "CONCORD_REPLICATION": "1",
            "CONCORD_SESSION_SECONDS": "6",
        }
        self.settings = Settings.from_env(self.env)
        self.topics = Topics.load(prefix=self.prefix, replication=1)
        self.config = engine_config(self.settings, self.topics)
        self.topology = payments.topology(self.topics, self.settings.group)

    async def create(self) -> None:
        await create(self.settings.kafka, self.topics)

    async def start(self, **env: str) -> WorkerProcess:
        worker = WorkerProcess(f"worker-{len(self.workers)}", self.folder, {**self.env, **env})
        self.workers.append(worker)
        worker.start()
        await asyncio.to_thread(wait_ready, [worker])
        return worker

    def end(self) -> None:
        for worker in self.workers:
            worker.end()

    def run(self, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
        """`concord …` as a user types it."""
        return subprocess.run(
            [sys.executable, "-m", "streams", *command],
            env={**os.environ, **self.env, "COLUMNS": "200", **env},
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=False,
        )

    async def send(self, topic: str, events: Iterable[Event], **headers: str) -> None:
        """Produce events under their order ids."""
        records = [(event.order_id.encode(), msgspec.json.encode(event)) for event in events]
        await self.send_raw(topic, records, **headers)

    async def send_raw(self, topic: str, records: Iterable[tuple[bytes | None, bytes | None]], **headers: str) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap, enable_idempotence=True, max_request_size=16 << 20
        )
        await producer.start()
        try:
            pairs = [(name, value.encode()) for name, value in headers.items()]
            for key, value in records:
                await producer.send(self.topics[topic], value, key=key, headers=pairs, partition=None if key else 0)
            await producer.flush()
        finally:
            await producer.stop()

    async def read(self, topic: str) -> list[Any]:
        name = self.topics[topic]
        return (await proof.read(self.config, [name], self.topics.partitions))[name]

    async def wait(self, topic: str, enough: Callable[[list[Any]], bool]) -> list[Any]:
        """The committed records of a topic once they are enough. Fails with what is there after a minute."""
        deadline = time.monotonic() + WITHIN_S
        while not enough(records := await self.read(topic)):
            assert time.monotonic() < deadline, f"{topic} holds only {[record.value for record in records]}"
            await asyncio.sleep(0.2)
        return records
