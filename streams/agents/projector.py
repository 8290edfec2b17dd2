"""The projector: decisions out of Kafka into the books, each once, whatever is killed.

The group tells which partitions are ours and nothing else. How far the books are, the books say: a batch moves their offsets in the
transaction that writes it, from the value that was read. After any trouble the outcome of the last batch is unknown, so everything is
asked again and goes on from there. Two projectors that both think a partition theirs meet at the row of its offset: one writes, the
other finds itself overtaken and asks again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import structlog
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaError

from stores import offsets, projection, schema
from stores.offsets import Overtaken
from stores.pool import LOST
from streams.agents.feed import feeding

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from aiokafka import TopicPartition

    from stores.offsets import Place
    from stores.schema import Connection
    from streams.agents.feed import Feed, Feeds
    from streams.agents.finding import Finder
    from streams.agents.projector_meters import Meters
    from streams.agents.sealing import Sealer

BATCH: Final = 4000
WAIT_MS: Final = 100
RETRY_S: Final = 0.5
POLL_MS: Final = 200
LAG_S: Final = 5.0

log: Final = structlog.get_logger(__name__)


class Projector:
    """One member of the projectors' group; `pool` is of Postgres, entered already."""

    def __init__(
        self,
        kafka: Mapping[str, Any],
        group: str,
        feeds: Feeds,
        pool: Connection,
        *,
        sealer: Sealer | None,
        finder: Finder,
        meters: Meters,
        session_s: float = 10.0,
        batch: int = BATCH,
    ) -> None:
        self.feeds = feeds
        self.meters = meters
        self._kafka, self._group = kafka, group
        self._pool, self._sealer, self._finder = pool, sealer, finder
        self._session_s, self._batch = session_s, batch
        self._numbers: frozenset[int] = frozenset()
        self._changed = asyncio.Event()
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Finish the batch in hand and leave the group; `run` returns."""
        self._stopping.set()
        self._changed.set()

    def share(self, numbers: Iterable[int]) -> None:
        """These partition numbers are ours now."""
        self._numbers = frozenset(numbers)
        self._changed.set()

    async def run(self) -> None:
        """Work until `stop`. Raises what a retry does not cure."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._belong())
            tasks.create_task(self._work())

    # -- the group

    async def _belong(self) -> None:
        """Be a member. No record comes this way."""
        session_ms = int(self._session_s * 1000)
        member = AIOKafkaConsumer(
            **self._kafka,
            group_id=self._group,
            enable_auto_commit=False,
            auto_offset_reset="latest",
            session_timeout_ms=session_ms,
            heartbeat_interval_ms=max(200, session_ms // 6),
            partition_assignment_strategy=(RangePartitionAssignor,),
        )
        member.subscribe([self.feeds.decisions], listener=_Listener(self, member))
        while not self._stopping.is_set():
            try:
                await member.start()
            except KafkaError as error:
                log.warning("cannot reach the cluster yet", error=repr(error))
                await asyncio.sleep(RETRY_S)
            else:
                break
        try:
            while not self._stopping.is_set():
                await member.getmany(timeout_ms=POLL_MS)
        finally:
            await member.stop()

    # -- the work

    async def _work(self) -> None:
        while not self._stopping.is_set():
            try:
                async with feeding(self._kafka, self.feeds, self._sealer) as feed:
                    while not self._stopping.is_set():
                        await self._go_on(feed)
            except (*LOST, KafkaError) as error:
                log.warning("the books wait", error=repr(error))
                self.meters.trouble(type(error).__name__)
                await self._rest(RETRY_S)

    async def _go_on(self, feed: Feed) -> None:
        """From what the books say until our share changes, or somebody overtakes us."""
        self._changed.clear()
        if not self._numbers:
            await self._rest(POLL_MS / 1000)
            return
        places = [(topic, number) for number in sorted(self._numbers) for topic in self.feeds.all]
        await seek(self._pool, feed, places)
        log.info("projecting", partitions=sorted(self._numbers))
        await self._finder.tell(self._pool)
        ahead = asyncio.ensure_future(feed.read(self._batch, WAIT_MS))
        try:
            await self._follow(feed, ahead)
        except Overtaken as other:
            log.info("overtaken", why=str(other))
            self.meters.trouble("overtaken")

    async def _follow(self, feed: Feed, ahead: asyncio.Future[projection.Batch | None]) -> None:
        """Write batch after batch; the next one is read and decoded while Postgres works on this one. Raises `Overtaken`."""
        measured = 0.0
        try:
            while not self._changed.is_set():
                batch = await ahead
                ahead = asyncio.ensure_future(feed.read(self._batch, WAIT_MS))
                if batch is not None and await self._write(batch):
                    await self._finder.tell(self._pool)
                now = asyncio.get_running_loop().time()
                if now - measured > LAG_S:
                    self.meters.lag(await feed.behind())
                    measured = now
        finally:
            ahead.cancel()
            await asyncio.gather(
                ahead, return_exceptions=True
            )  # whatever was read ahead is read again from the books' own offsets

    async def _write(self, batch: projection.Batch) -> bool:
        with self.meters.writing(len(batch.told), len(batch.raw), len(batch.dead)):
            async with self._pool.acquire() as connection:
                return await projection.write(connection, batch)

    async def _rest(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return


async def seek(pool: Connection, feed: Feed, places: list[Place]) -> None:
    """Go on where the books end; what they do not know begins where its topic begins."""
    beginnings = await feed.beginnings(places)
    async with pool.acquire() as connection:
        await schema.require(connection)
        known = await offsets.read(connection, places)
        await offsets.begin(connection, {place: beginnings[place] for place in places if place not in known})
        await feed.seek(await offsets.read(connection, places), beginnings)


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # the client publishes no types
    """Tells the projector its share. The client swallows what is raised here, so nothing may be."""

    def __init__(self, projector: Projector, member: AIOKafkaConsumer) -> None:
        self._projector, self._member = projector, member

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        if revoked:
            self._projector.share(())

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self._member.pause(*assigned)
        self._projector.share(one.partition for one in assigned)
