"""From the topics into `notifications`, exactly once: offsets move in the transaction that records, and nowhere else.

One notifier records, whoever holds the lock in Postgres; the others stand by. Two topics tell of one payment, so their records are put
back into the order in which they were decided: by the worker's tag of their transaction, which all its records carry. What lies in one
topic waits until the other was read as far as it reached when this was visible, its uncommitted end included.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import OffsetOutOfRangeError

from stores import notifications
from streams.agents.notifier_notices import Told, UnreadableError, notice, rank, read
from streams.engine import position

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from aiokafka import ConsumerRecord

    from stores.notifications import Notice
    from stores.schema import Connection

FETCH_MS: Final = 500
MOST_RECORDS: Final = 1000
MOST_WAITING: Final = 5000
"""Records of one partition of one topic that wait for the other's; then it is fetched no further."""
LOCK: Final = 0x6E6F74696679
"""`notify` in ASCII, as the key of the advisory lock."""
STANDBY_S: Final = 1.0

log: Final = structlog.get_logger(__name__)


class Waiting(NamedTuple):
    """One record that was read and not recorded yet. `told` None: it is passed over."""

    tag: position.Tag
    offset: int
    told: Told | None


class Recorder:
    """Reads both topics, all partitions, and records. `now` is UTC; `counted(what, number)` hears of what was recorded."""

    def __init__(
        self,
        kafka: Mapping[str, Any],
        topics: tuple[str, str],
        partitions: int,
        now: Callable[[], datetime],
        counted: Callable[[str, int], None],
    ) -> None:
        self._kafka, self._topics, self._now, self._counted = kafka, topics, now, counted
        self._places = [TopicPartition(topic, number) for topic in topics for number in range(partitions)]
        self._waiting: dict[TopicPartition, deque[Waiting]] = defaultdict(deque)
        self._recorded: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}

    async def run(self, connection: Connection) -> None:
        """Record for as long as this connection holds the lock. Raises what breaks it: asyncpg's and Kafka's errors."""
        while not await connection.fetchval("SELECT pg_try_advisory_lock($1)", LOCK):  # noqa: ASYNC110  Postgres tells nobody
            await asyncio.sleep(STANDBY_S)
        consumer = AIOKafkaConsumer(
            **self._kafka, enable_auto_commit=False, auto_offset_reset="none", isolation_level="read_committed"
        )
        ahead = AIOKafkaConsumer(**self._kafka, enable_auto_commit=False)
        try:
            await consumer.start()
            await ahead.start()
            await self._begin(consumer, connection)
            log.info("recording", topics=self._topics)
            while True:
                await self._round(consumer, ahead, connection)
        finally:
            await asyncio.gather(consumer.stop(), ahead.stop())

    async def _begin(self, consumer: AIOKafkaConsumer, connection: Connection) -> None:
        """Where Postgres says; a topic that was never recorded from its beginning."""
        self._waiting.clear()
        known = await notifications.positions(connection, self._topics)
        consumer.assign(self._places)
        first = await consumer.beginning_offsets(self._places)
        for place in self._places:
            at = known.get(place, first[place])
            if at < first[place]:
                self._lost(place, at, first[place])
            self._recorded[place] = at
            consumer.seek(place, max(at, first[place]))

    def _lost(self, place: TopicPartition, at: int, first: int) -> None:
        """Retention has removed what nobody recorded: its merchants find it by asking the cashier."""
        self._counted("lost", first - at)
        log.error(
            "records were deleted before they were recorded", topic=place.topic, partition=place.partition, offset=at,
            first=first, fix="merchants were not told of these: let them query; record within the topic's retention",
        )  # fmt: skip

    async def _round(self, consumer: AIOKafkaConsumer, ahead: AIOKafkaConsumer, connection: Connection) -> None:
        try:
            batches = await consumer.getmany(timeout_ms=FETCH_MS, max_records=MOST_RECORDS)
        except OffsetOutOfRangeError:
            await self._begin(consumer, connection)
            return
        for place, records in batches.items():
            self._waiting[place].extend(self._read(record) for record in records)
        if not any(self._waiting.values()):
            return
        self._ends = await ahead.end_offsets(self._places)
        reached = {place: await consumer.position(place) for place in self._places}
        self._hold_back(consumer)
        if not await self._record(connection, reached):
            log.warning("somebody has recorded beside us; reading again from where they are")
            await self._begin(consumer, connection)

    def _hold_back(self, consumer: AIOKafkaConsumer) -> None:
        for place in self._places:
            waiting = self._waiting[place]
            if (
                len(waiting) >= MOST_WAITING and waiting[0].tag != waiting[-1].tag
            ):  # one transaction is always read whole
                consumer.pause(place)
            elif place in consumer.paused():
                consumer.resume(place)

    def _read(self, record: ConsumerRecord) -> Waiting:
        tag = position.tag_of(record.headers) or position.NEVER
        try:
            return Waiting(tag, record.offset, read(record.value))
        except UnreadableError as error:
            self._counted("unreadable", 1)
            log.error(  # noqa: TRY400  its text says it all
                "a record cannot be read",
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
                error=str(error),
            )
            return Waiting(tag, record.offset, None)

    async def _record(self, connection: Connection, reached: Mapping[TopicPartition, int]) -> bool:
        notices: list[Notice] = []
        moves: dict[tuple[str, int], tuple[int, int]] = {}
        rest: dict[TopicPartition, int] = {}
        for number in {place.partition for place in self._places}:
            for place, count in self._ready(number, reached).items():
                rest[place] = count
                moves[place] = (self._recorded[place], self._waiting[place][count - 1].offset + 1)
            notices += self._in_order(number, rest)
        if not moves:
            return True
        done = await notifications.record(connection, notices, moves, self._now())
        if done is None:
            return False
        for place, count in rest.items():
            self._recorded[place] = moves[place][1]
            for _ in range(count):
                self._waiting[place].popleft()
        self._counted("recorded", done)
        return True

    def _ready(self, number: int, reached: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """How many of what waits in each topic's partition may be recorded: none that a record still to be read may precede."""
        places = [TopicPartition(topic, number) for topic in self._topics]
        unread = [place for place in places if reached[place] < self._ends[place]]
        tags = [self._waiting[place][-1].tag if self._waiting[place] else position.NEVER for place in unread]
        horizon = min(tags, default=None)
        ready = {}
        for place in places:
            count = sum(1 for one in self._waiting[place] if horizon is None or one.tag < horizon)
            if count:
                ready[place] = count
        return ready

    def _in_order(self, number: int, counts: Mapping[TopicPartition, int]) -> list[Notice]:
        found = [
            one
            for topic in self._topics
            for place in [TopicPartition(topic, number)]
            for one in list(self._waiting[place])[: counts.get(place, 0)]
        ]
        told = [(one.tag, rank(one.told), one.told) for one in found if one.told is not None]
        told.sort(key=lambda one: one[:2])
        return [made for *_, one in told if (made := notice(one)) is not None]
