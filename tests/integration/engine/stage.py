"""What the engine's integration tests stand on: workers in this process, and a client's plain view of the topics."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete

from streams.engine.config import Config
from streams.engine.membership import Worker
from tests.support.toy import Order, Output, Toy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from streams.engine.failures import Exit
    from streams.engine.topology import Topology

QUICK: dict[str, Any] = {
    "linger": 0.005,
    "session": 6.0,
    "transaction": 12.0,
    "watch": 1.0,
    "stuck": 2.0,
    "report": 0.1,
    "restore": 40.0,
}
"""Bounds for tests: shorter than a user's."""


async def until(condition: Callable[[], Any], seconds: float = 30.0) -> None:
    """Wait for a condition, plain or a coroutine function's; what it was is in the error."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if asyncio.iscoroutine(found):
            found = await found
        if found:
            return
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {condition}")
        await asyncio.sleep(0.02)


class Actor:
    """A worker that runs in this process; when the engine would end the process, it is written down instead."""

    def __init__(self, topology: Topology[Any, Any, Any], config: Config) -> None:
        self.ends: list[tuple[Exit, str]] = []
        self.worker = Worker(topology, config, end=self._end)
        self.task = asyncio.create_task(self.worker.run())

    def _end(self, code: Exit, why: str) -> None:
        self.ends.append((code, why))

    @property
    def partitions(self) -> Mapping[int, Any]:
        return self.worker.partitions

    async def ready(self, seconds: float = 30.0) -> Actor:
        await until(lambda: self.worker.ready or self.ends or self.task.done(), seconds)
        assert not self.ends, self.ends
        assert self.worker.ready
        return self

    async def ended(self, seconds: float = 30.0) -> tuple[Exit, str]:
        """The first reason for which the process would have ended."""
        await until(lambda: self.ends, seconds)
        return self.ends[0]

    async def stop(self) -> None:
        """Drain and leave the group."""
        self.worker.stop()
        await asyncio.wait_for(self.task, 30.0)

    async def crash(self) -> None:
        """Stop like a process that was killed: nothing is finished, nothing is closed in order, the group is not told."""
        coordinator = self.worker.member._coordinator
        self.task.cancel()
        for partition in self.worker.partitions.values():
            partition.closing.set()
            partition.task.cancel()
            if partition.session is not None:
                await partition.session.drop()
            if partition.table is not None:
                partition.table.close()
        coordinator._heartbeat_task.cancel()
        await self.worker.member._client.close()


class Stage:
    """A broker, a toy, and whoever was started on it."""

    def __init__(self, bootstrap: str, toy: Toy) -> None:
        self.bootstrap = bootstrap
        self.toy = toy
        self.actors: list[Actor] = []

    def config(self, **changes: Any) -> Config:
        return Config(**{"kafka": {"bootstrap_servers": self.bootstrap}} | QUICK | changes)

    def begin(self, topology: Topology[Any, Any, Any] | None = None, **config: Any) -> Actor:
        """A worker that was started and not waited for."""
        actor = Actor(topology or self.toy.topology(), self.config(**config))
        self.actors.append(actor)
        return actor

    async def start(self, **config: Any) -> Actor:
        """A worker that has opened its partitions."""
        return await self.begin(**config).ready()

    async def close(self) -> None:
        for actor in self.actors:
            if not actor.task.done():
                await actor.stop()
            elif not actor.task.cancelled() and actor.task.exception() is not None:
                raise actor.task.exception()

    # ------------------------------------------------------------------ what is in the topics

    @asynccontextmanager
    async def admin(self) -> AsyncIterator[AIOKafkaAdminClient]:
        client = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        await client.start()
        try:
            yield client
        finally:
            await client.close()

    async def read(self, topic: str, isolation: str = "read_committed", partition: int | None = None) -> list[Any]:
        """Every record of a topic, as another program sees it."""
        client = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap, isolation_level=isolation, auto_offset_reset="none", fetch_max_wait_ms=20
        )
        await client.start()
        try:
            numbers = range(self.toy.partitions) if partition is None else [partition]
            logs = [TopicPartition(topic, number) for number in numbers]
            client.assign(logs)
            lows, ends = await client.beginning_offsets(logs), await client.end_offsets(logs)
            for log in logs:
                client.seek(log, lows[log])
            records: list[Any] = []
            left = {log for log in logs if lows[log] < ends[log]}
            while left:
                for found in (await client.getmany(*left, timeout_ms=50)).values():
                    records += found
                left = {log for log in left if await client.position(log) < ends[log]}
            return records
        finally:
            await client.stop()

    async def ends(self, topic: str, isolation: str = "read_committed") -> dict[int, int]:
        client = AIOKafkaConsumer(bootstrap_servers=self.bootstrap, isolation_level=isolation)
        await client.start()
        try:
            found = await client.end_offsets([TopicPartition(topic, n) for n in range(self.toy.partitions)])
        finally:
            await client.stop()
        return {log.partition: end for log, end in found.items()}

    async def outputs(self, topic: str) -> list[Output]:
        return [msgspec.json.decode(record.value, type=Output) for record in await self.read(topic)]

    async def paid(self) -> list[str]:
        """Orders of every success, sorted; one that is there twice shows twice."""
        return sorted(output.order for output in await self.outputs(self.toy.success))

    async def states(self) -> dict[str, Order]:
        rows: dict[str, Order] = {}
        for record in await self.read(self.toy.changelog):
            if not record.key.startswith(b"@"):
                rows[record.key.decode()] = msgspec.json.decode(record.value, type=Order)
        return rows

    async def cut(self, topic: str, before: Mapping[int, int]) -> None:
        """Delete the records below these offsets, as retention does."""
        async with self.admin() as client:
            await client.delete_records(
                {TopicPartition(topic, number): RecordsToDelete(offset) for number, offset in before.items()}
            )

    async def lose(self, topic: str) -> None:
        """Delete a topic and make it again, empty."""
        async with self.admin() as client:
            await client.delete_topics([topic])

            async def gone() -> bool:
                return topic not in await client.list_topics()

            await until(gone)
            config = {"cleanup.policy": "compact"} if topic == self.toy.changelog else {}

            async def made() -> bool:
                response = await client.create_topics([NewTopic(topic, self.toy.partitions, 1, topic_configs=config)])
                return response.topic_errors[0][1] in (0, 36)

            await until(made)

            async def led() -> bool:
                [found] = await client.describe_topics([topic])
                return len(found["partitions"]) == self.toy.partitions and all(
                    p["leader"] >= 0 for p in found["partitions"]
                )

            await until(led)
