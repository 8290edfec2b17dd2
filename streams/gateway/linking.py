"""The two loops behind the links: one reads the table, one writes into it what the worker's updates teach.

Reading needs no group, for every gateway holds all links. Writing is shared out in a group; an update's offset is committed when its
links are durable, so a link may be written twice and is never lost.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from streams.gateway.links import of_update
from streams.gateway.store import Stored, Unavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from streams.gateway.links import Links
    from streams.gateway.store import Store

log: Final = structlog.get_logger(__name__)

POLL_MS: Final = 200
MOST: Final = 1000
AGAIN_S: Final = 1.0


async def forever(what: str, loop: Callable[[], Awaitable[None]]) -> None:
    """Run a loop over the broker, and begin it again whenever the broker fails it."""
    while True:
        try:
            await loop()
        except (KafkaError, Unavailable, OSError, TimeoutError) as error:
            log.warning("a loop begins again", loop=what, error=type(error).__name__)
        await asyncio.sleep(AGAIN_S)


@asynccontextmanager
async def consumer(*topics: str, **options: Any) -> AsyncIterator[Any]:
    """A consumer that is stopped whatever happens."""
    found = AIOKafkaConsumer(*topics, enable_auto_commit=False, auto_offset_reset="earliest", **options)
    try:
        await found.start()
        yield found
    finally:
        await found.stop()


class Reader:
    """Follows the table from its beginning. `ready` is set once everything has been read that was there at the start."""

    def __init__(self, kafka: Mapping[str, Any], topic: str, partitions: int, links: Links) -> None:
        self._kafka = kafka
        self._places = [TopicPartition(topic, number) for number in range(partitions)]
        self._links = links
        self.ready = asyncio.Event()

    async def run(self) -> None:
        await forever("links", self._follow)

    async def _follow(self) -> None:
        async with consumer(**self._kafka) as reader:
            reader.assign(self._places)
            await reader.seek_to_beginning(*self._places)
            ends = await reader.end_offsets(self._places)
            while True:
                for records in (await reader.getmany(timeout_ms=POLL_MS, max_records=10 * MOST)).values():
                    for record in records:
                        if record.key:
                            self._links.take(record.key.decode("utf-8", "replace"), record.value)
                if not self.ready.is_set() and not [p for p in self._places if await reader.position(p) < ends[p]]:
                    log.info("the links are read", links=len(self._links))
                    self.ready.set()


class Writer:
    """Turns `payments.updates` into links."""

    def __init__(
        self, kafka: Mapping[str, Any], names: Mapping[str, str], group: str, *, links: Links, store: Store
    ) -> None:
        self._options = {**kafka, "group_id": f"{group}.links", "isolation_level": "read_committed"}
        self._updates, self._references = names["updates"], names["references"]
        self._links, self._store = links, store

    async def run(self) -> None:
        await forever("updates", self._learn)

    async def _learn(self) -> None:
        async with consumer(self._updates, **self._options) as reader:
            while True:
                found = await reader.getmany(timeout_ms=POLL_MS, max_records=MOST)
                values = [record.value for records in found.values() for record in records if record.value]
                learned = [
                    Stored(self._references, key.encode(), value)
                    for each in values
                    for key, link in of_update(each)
                    if (value := self._links.new(key, link)) is not None
                ]
                if learned:
                    await self._store.put(learned)
                if found:
                    await reader.commit()
