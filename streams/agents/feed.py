"""Committed records from known offsets, as batches for the books.

Which offset comes next is told by whoever keeps it, never by Kafka's groups: what is not in the books was not read.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition

from stores.projection import Batch, Rows
from streams.agents import telling

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from stores.offsets import Place
    from stores.told import Told
    from streams.agents.sealing import Sealer

FETCH_BYTES: Final = 2 << 20
STOP_S: Final = 5.0
SLICE: Final = 25
"""Decisions that are decoded at a time, which takes a tenth of a millisecond."""


class Feeds(NamedTuple):
    """The broker's names of what the books are made from."""

    decisions: str
    dead_letters: str
    inputs: tuple[str, ...]
    """Topics whose records carry raw messages."""

    @property
    def all(self) -> tuple[str, ...]:
        return (self.decisions, self.dead_letters, *self.inputs)


class BeginningLostError(Exception):
    """Records were deleted from the topic before they were written down; the text says which."""


class Feed:
    """A consumer of places, at offsets that `seek` is told."""

    def __init__(self, client: AIOKafkaConsumer, feeds: Feeds, sealer: Sealer | None) -> None:
        self._client = client
        self._feeds = feeds
        self._sealer = sealer
        self._next: dict[TopicPartition, int] = {}
        self._partial: set[int] = set()

    async def beginnings(self, places: Sequence[Place]) -> dict[Place, int]:
        """The first offset that each place still has."""
        found = await self._client.beginning_offsets([TopicPartition(*place) for place in places])
        return {(log.topic, log.partition): offset for log, offset in found.items()}

    async def ends(self, places: Sequence[Place]) -> dict[Place, int]:
        """The offset after the last stable record of each place."""
        found = await self._client.end_offsets([TopicPartition(*place) for place in places])
        return {(log.topic, log.partition): offset for log, offset in found.items()}

    async def seek(self, offsets: Mapping[Place, int], beginnings: Mapping[Place, int]) -> None:
        """Go on there. Raises `BeginningLostError` where that is not there any more."""
        lost = {place: offset for place, offset in offsets.items() if offset < beginnings.get(place, 0)}
        if lost:
            place, offset = min(lost.items())
            raise BeginningLostError(
                f"{place[0]}/{place[1]}: the books end before offset {offset}, the topic begins at {beginnings[place]}: what is "
                "between was deleted by retention; restore it to the topic, or begin with an empty database"
            )
        self._next = {TopicPartition(*place): offset for place, offset in offsets.items()}
        self._partial = {
            place[1] for place in offsets if place[0] == self._feeds.decisions and beginnings.get(place, 0) > 0
        }
        self._client.assign(list(self._next))
        for log, offset in self._next.items():
            self._client.seek(log, offset)

    @property
    def next(self) -> dict[Place, int]:
        """The offset after what was read, by place."""
        return {(log.topic, log.partition): offset for log, offset in self._next.items()}

    async def behind(self) -> dict[Place, int]:
        """How many records of each place were not read yet; markers of transactions are none."""
        ends = await self._client.end_offsets(list(self._next))
        return {(log.topic, log.partition): max(0, ends[log] - await self._client.position(log)) for log in self._next}

    async def read(self, most: int, wait_ms: int, until: Mapping[Place, int] | None = None) -> Batch | None:
        """The next records, at most so many, below `until`; None when none came in time."""
        logs = list(self._next)
        if until is not None:
            logs = [log for log in logs if self._next[log] < until.get((log.topic, log.partition), 0)]
        if not logs:
            return None
        fetched = await self._client.getmany(*logs, timeout_ms=wait_ms, max_records=most)
        moved: dict[Place, tuple[int, int]] = {}
        found: dict[str, list[Any]] = {}
        for log, records in fetched.items():
            place = (log.topic, log.partition)
            taken = records if until is None else [record for record in records if record.offset < until[place]]
            if taken:
                moved[place] = (self._next[log], taken[-1].offset + 1)
                self._next[log] = taken[-1].offset + 1
                found.setdefault(log.topic, []).extend(taken)
            if len(taken) < len(records):
                self._client.seek(
                    log, self._next[log]
                )  # the client has handed out what lies beyond, and would not do so again
        return await self._batch(moved, found) if moved else None

    async def _batch(self, moved: dict[Place, tuple[int, int]], found: dict[str, list[Any]]) -> Batch:
        told, rows = await decoded(found.pop(self._feeds.decisions, ()))
        dead = found.pop(self._feeds.dead_letters, ())
        return Batch(
            moved=moved,
            told=told,
            rows=rows,
            raw=[one for records in found.values() for one in telling.raw_messages(records, self._sealer)],
            dead=[telling.dead_letter(record) for record in dead],
            whole=not self._partial,
        )


async def decoded(records: Sequence[Any]) -> tuple[list[Told], Rows]:
    """What these records of decisions say, and its rows; in slices, so that whoever waits for Postgres goes on once it answers."""
    told: list[Told] = []
    rows = Rows()
    for record in records:
        told.append(telling.told(record))
        rows.see(told[-1])
        if not len(told) % SLICE:
            await asyncio.sleep(0)
    return told, rows


@asynccontextmanager
async def feeding(kafka: Mapping[str, Any], feeds: Feeds, sealer: Sealer | None) -> AsyncIterator[Feed]:
    """A feed for the length of a block."""
    client = AIOKafkaConsumer(
        **kafka,
        group_id=None,
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="none",
        max_partition_fetch_bytes=FETCH_BYTES,
        fetch_max_wait_ms=100,
    )
    await client.start()
    try:
        await client._client.set_topics(feeds.all)  # noqa: SLF001  no public way to learn them in one request
        yield Feed(client, feeds, sealer)
    finally:
        await asyncio.wait({asyncio.ensure_future(client.stop())}, timeout=STOP_S)
