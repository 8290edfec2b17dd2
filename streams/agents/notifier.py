"""The notifier: what the worker decided, told to the merchants. It records, delivers and finds, each in a loop of its own.

A loop that Postgres or Kafka breaks begins again after a moment, from what Postgres says; nothing is kept in memory that counts. A bug
ends the process.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import asyncpg
import structlog
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from stores import pool
from stores.pool import LOST
from streams.agents.notifier_delivery import Courier, Finder
from streams.agents.notifier_recording import Recorder
from streams.agents.notifier_sending import Sender

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from datetime import datetime

    from streams.agents.notifier_meters import Meters
    from streams.agents.notifier_sending import Guard

AGAIN_S: Final = 1.0
OUTAGE: Final = (*LOST, asyncpg.PostgresError, KafkaError)

log: Final = structlog.get_logger(__name__)


class Places(NamedTuple):
    """Topics by their names on the broker, and into how many partitions each is divided."""

    success: str
    updates: str
    commands: str
    partitions: int


class Notifier:
    """One of any number of notifiers. `now` is UTC."""

    def __init__(
        self,
        kafka: Mapping[str, Any],
        dsn: str,
        places: Places,
        guard: Guard,
        *,
        meters: Meters,
        now: Callable[[], datetime],
    ) -> None:
        self._kafka, self._dsn, self._places, self._guard, self._meters, self._now = (
            kafka,
            dsn,
            places,
            guard,
            meters,
            now,
        )
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Finish the tries that are on their way; `run` returns."""
        self._stopping.set()

    async def run(self) -> None:
        """Until `stop`. Raises what a bug raised."""
        loops = {"recording": self._record, "delivering": self._deliver, "finding": self._find}
        tasks = [asyncio.create_task(self._again(name, loop), name=name) for name, loop in loops.items()]
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([*tasks, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*tasks, stopping):
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        for one in ended:
            if isinstance(one, BaseException) and not isinstance(one, asyncio.CancelledError):
                raise one

    async def _again(self, name: str, loop: Callable[[], Awaitable[None]]) -> None:
        """An outage is waited for."""
        while True:
            self._meters.trouble(name, is_there=False)
            try:
                await loop()
            except OUTAGE as error:
                self._meters.trouble(name, is_there=True)
                fix = "run `concord db migrate`" if isinstance(error, asyncpg.UndefinedTableError) else ""
                log.warning("an outage is waited for", part=name, error=f"{type(error).__name__}: {error}", fix=fix)
                await asyncio.sleep(AGAIN_S)

    async def _record(self) -> None:
        topics = (self._places.success, self._places.updates)
        recorder = Recorder(self._kafka, topics, self._places.partitions, self._now, self._meters.recorded)
        connection = await pool.connect(self._dsn)
        try:
            await recorder.run(connection)
        finally:
            connection.terminate()  # the lock is another's at once

    async def _deliver(self) -> None:
        async with AsyncExitStack() as stack:
            connections = await stack.enter_async_context(pool.pool(self._dsn, largest=8))
            sender = Sender(self._guard)
            stack.push_async_callback(sender.close)
            courier = Courier(connections, sender, self._now, self._meters)
            stack.push_async_callback(courier.drain)
            await courier.run()

    async def _find(self) -> None:
        async with pool.pool(self._dsn, largest=1) as connections:
            producer = AIOKafkaProducer(**self._kafka, acks="all", enable_idempotence=True)
            await producer.start()
            try:
                await Finder(connections, producer, self._places.commands, self._now).run()
            finally:
                await producer.stop()
