"""Opening a partition: scrub, restore, roll forward what lost its marker, refuse what cannot be explained.

Brokers have lost transaction markers (KAFKA-20734): a committed transaction can stay invisible in some logs. So nothing here trusts a
marker. The scrub makes every own log decided below an offset `end`. Whatever is visible anywhere with tag (s, n) proves that the
coordinator committed (s, n) and all earlier transactions of session s; whatever of those is invisible elsewhere is read uncommitted
and written again. `@position` says how many records each output log must hold, so that lost data is noticed and not passed over.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition

from streams.engine import position as positions
from streams.engine.failures import Refused, Stuck
from streams.engine.position import NEVER, Position, Tag, tag_of
from streams.engine.table import Change, Checkpoint, Table
from streams.engine.transaction import Entry

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from streams.engine.config import Config
    from streams.engine.topology import Topology
    from streams.engine.transaction import Session

FETCH_BYTES: Final = 2 << 20
READER_WAIT_MS: Final = 20
"""A reader of known ranges never waits for more to come; a long poll at the end of one log would only hold up the others."""
TOMBSTONES_LIVE_MS: Final = 12 * 3_600_000
"""Half of Kafka's default delete.retention.ms: an older checkpoint may have missed a deletion that compaction has dropped since."""


def consumer(config: Config, isolation: str, **more: Any) -> AIOKafkaConsumer:
    """A client that reads assigned partitions from explicit offsets, and nothing else."""
    return AIOKafkaConsumer(
        **config.kafka,
        group_id=None,
        isolation_level=isolation,
        enable_auto_commit=False,
        auto_offset_reset="none",
        max_partition_fetch_bytes=FETCH_BYTES,
        request_timeout_ms=int(config.request * 1000),
        **more,
    )


def change(topology: Topology[Any, Any, Any], value: bytes | None) -> Change:
    """A row of the changelog, with its due time."""
    return Change(value, None if value is None else topology.due(topology.load(value)))


@asynccontextmanager
async def reading(config: Config, isolation: str, topics: Sequence[str]) -> AsyncIterator[AIOKafkaConsumer]:
    """A consumer for the length of a block. It learns its topics in one request; it would ask for one after the other."""
    client = consumer(config, isolation, fetch_max_wait_ms=READER_WAIT_MS)
    try:
        await client.start()
        await client._client.set_topics(topics)  # noqa: SLF001  no public way
        yield client
    finally:
        await asyncio.wait({asyncio.ensure_future(client.stop())}, timeout=2.0)


async def scan(
    client: AIOKafkaConsumer, ranges: Mapping[TopicPartition, tuple[int, int]]
) -> AsyncIterator[tuple[TopicPartition, list[Any]]]:
    """Records of [start, end) of each partition. Done when each position, not each record, has passed its end: markers take offsets too."""
    todo = {tp: bounds for tp, bounds in ranges.items() if bounds[0] < bounds[1]}
    if not todo:
        return
    client.assign(list(todo))
    for tp, (start, _) in todo.items():
        client.seek(tp, start)
    left = set(todo)
    while left:
        fetched = await client.getmany(*left, timeout_ms=50)
        for tp, records in fetched.items():
            yield tp, [record for record in records if record.offset < todo[tp][1]]
        for tp in list(left):
            if await client.position(tp) >= todo[tp][1]:
                left.discard(tp)
                client.pause(tp)


@dataclass(slots=True)
class Opened:
    """What an opening found and leaves behind for the partition's loop."""

    position: Position | None
    session: int
    ends: dict[str, int]
    """Own topic -> offset below which everything is decided and visible."""
    missed: dict[str, list[Entry]]
    """Own topic -> records of committed transactions that lost their marker, to be written again."""
    after: Tag
    stop: int
    """Changelog offset after the last visible record."""
    rows: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class Evidence:
    """The tagged records of one own log from its base on: what is visible, and what is only physically there."""

    visible: list[tuple[Tag, int]] = field(default_factory=list)
    hidden: list[tuple[Tag, Any]] = field(default_factory=list)

    def top(self) -> Tag:
        return max((tag for tag, _ in self.visible), default=NEVER)

    def tags(self) -> list[Tag]:
        return [tag for tag, _ in self.visible] + [tag for tag, _ in self.hidden]


class Recovery:
    """One opening of one partition; the caller holds the deadline."""

    client: AIOKafkaConsumer

    def __init__(self, topology: Topology[Any, Any, Any], config: Config, partition: int, partitions: int = 0) -> None:
        self.topology = topology
        self.config = config
        self.partition = partition
        self.outputs = [*topology.outputs, topology.dead_letters]
        self.partitions = partitions
        self.topics = [topology.changelog, *self.outputs]
        self.logs = [self.tp(topic) for topic in self.topics]
        self.progress: Callable[[int, int], None] = lambda _records, _target: None

    def tp(self, topic: str) -> TopicPartition:
        return TopicPartition(topic, self.partition)

    async def run(self, session: Session, table: Table) -> Opened:
        """The whole procedure. Raises `Stuck` to be tried again, `Refused` if the logs contradict each other."""
        began = time.monotonic()
        async with reading(self.config, "read_committed", self.topics) as self.client:
            opened = await self.recover(session, table)
        opened.seconds = time.monotonic() - began
        return opened

    async def recover(self, session: Session, table: Table) -> Opened:
        changelog = self.topology.changelog
        ends = await self.scrub(session)
        lows = {tp.topic: low for tp, low in (await self.client.beginning_offsets(self.logs)).items()}
        log, position, stop, count = await self.restore(table, lows[changelog], ends[changelog])
        bases = {topic: self.base(topic, position, lows[topic]) for topic in self.outputs}
        evidence = await self.gather(log, stop, bases, ends)
        top = max(each.top() for each in evidence.values())
        missed = self.missed(evidence, top)
        position = self.roll_forward(missed[changelog], position)
        self.require_ours(position)
        self.require_explained(evidence, missed, position, top, lows)
        self.require_long_enough(position, ends)
        seen = max((tag for each in evidence.values() for tag in each.tags()), default=NEVER)
        return Opened(
            position=position,
            session=1 + max(seen, top)[0],
            ends=ends,
            missed={topic: [self.entry(record) for _, record in found] for topic, found in missed.items() if found},
            after=top,
            stop=stop,
            rows=count,
        )

    async def scrub(self, session: Session) -> dict[str, int]:
        """End whatever hangs in an own log, and prove it: the last stable offset of each must pass the scrub's own record."""
        ends = await session.scrub([self.topology.changelog, *self.outputs])
        began, pause = time.monotonic(), 0.005
        while True:
            stable = await self.client.end_offsets(self.logs)
            behind = {
                topic: (stable[self.tp(topic)], end) for topic, end in ends.items() if stable[self.tp(topic)] < end
            }
            if not behind:
                return ends
            if time.monotonic() - began > self.config.stuck:
                raise Stuck(
                    f"partition {self.partition}: the scrub is not visible, (stable, wanted) offsets are {behind}; if this repeats, "
                    "a producer that the broker has forgotten left a transaction open: end it with `kafka-transactions.sh abort "
                    f"--topic TOPIC --partition {self.partition} --start-offset STABLE`"
                )
            await asyncio.sleep(pause)
            pause = min(0.2, pause * 2)

    async def restore(self, table: Table, low: int, end: int) -> tuple[Evidence, Position | None, int, int]:
        """Read the changelog as committed into the table. Returns its tags, the last position, where its records stop, and their number."""
        start, known = self.resume(table, low, end)
        position: Position | None = None
        log, stop, count = Evidence(), start, 0
        async for _, records in scan(self.client, {self.tp(self.topology.changelog): (start, end)}):
            rows: dict[bytes, Change] = {}
            for record in records:
                if record.key == positions.KEY:
                    position = self.read_position(record.value)
                else:
                    rows[record.key] = change(self.topology, record.value)
                if (tag := tag_of(record.headers)) is not None:
                    log.visible.append((tag, record.offset))
            if records:
                table.restore(rows)
                stop = records[-1].offset + 1
                count += len(records)
                log.visible = [max(log.visible)] if log.visible else []
                self.progress(count, end - start)
        if known is not None and (position is None or position.log != known.log or position.tag < known.tag):
            table.clear()  # the table was made from another log of this name
            return await self.restore(table, low, end)
        if position is None and not table.is_empty:
            raise Refused(
                f"{self.topology.changelog}/{self.partition} has rows but no @position record: another program wrote it, or data was lost; "
                "restore the topic from a backup, or delete it and the group's offsets to start from nothing"
            )
        return log, position, stop, count

    def resume(self, table: Table, low: int, end: int) -> tuple[int, Position | None]:
        """Where to read on from, and what the table on disk says was the last position there.

        A checkpoint ends with its own `@position` record. It is read again: there, or later in this log, must be one that agrees. Only
        another log has none, as a position is compacted away only by a later one.
        """
        found = table.checkpoint()
        if found is None:
            if not table.is_empty:
                # A first restore that was cut short, or another release's layout: rows deleted since would stay.
                table.clear()
            return low, None
        stale = time.time() * 1000 - found.written_ms > TOMBSTONES_LIVE_MS
        if stale or not low < found.offset <= end:
            table.clear()
            return low, None
        return found.offset - 1, self.read_position(found.position)

    def read_position(self, value: bytes | None) -> Position:
        try:
            return positions.decode(value)
        except ValueError as error:
            raise Refused(f"{self.topology.changelog}/{self.partition}: {error}") from error

    @staticmethod
    def base(topic: str, position: Position | None, low: int) -> int:
        written = position.outputs.get(topic) if position else None
        return max(low, written.base) if written else low

    async def gather(
        self, log: Evidence, stop: int, bases: Mapping[str, int], ends: Mapping[str, int]
    ) -> dict[str, Evidence]:
        """Read each output log from its base, as committed and as it is, and the changelog's tail as it is."""
        evidence = {self.topology.changelog: log, **{topic: Evidence() for topic in bases}}
        async for tp, records in scan(
            self.client, {self.tp(topic): (base, ends[topic]) for topic, base in bases.items()}
        ):
            evidence[tp.topic].visible += [
                (tag, record.offset) for record in records if (tag := tag_of(record.headers)) is not None
            ]
        seen = {topic: {offset for _, offset in each.visible} for topic, each in evidence.items()}
        tails = {topic: (base, ends[topic]) for topic, base in bases.items()} | {
            self.topology.changelog: (stop, ends[self.topology.changelog])
        }
        async with reading(self.config, "read_uncommitted", self.topics) as raw:
            async for tp, records in scan(raw, {self.tp(topic): bounds for topic, bounds in tails.items()}):
                evidence[tp.topic].hidden += [
                    (tag, record)
                    for record in records
                    if (tag := tag_of(record.headers)) is not None and record.offset not in seen[tp.topic]
                ]
        return evidence

    @staticmethod
    def missed(evidence: Mapping[str, Evidence], top: Tag) -> dict[str, list[tuple[Tag, Any]]]:
        """Invisible records of transactions that are proven to be committed: those of the top session, up to the top."""
        session, last = top
        return {
            topic: [(tag, r) for tag, r in each.hidden if tag[0] == session and tag[1] <= last]
            for topic, each in evidence.items()
        }

    def roll_forward(self, missed: Sequence[tuple[Tag, Any]], position: Position | None) -> Position | None:
        for _, record in missed:
            if record.key == positions.KEY:
                position = self.read_position(record.value)
        return position

    def require_ours(self, position: Position | None) -> None:
        """Refuse a changelog that was written for other inputs, or when keys were divided otherwise."""
        if position is None:
            return
        if foreign := set(position.inputs) - set(self.topology.inputs):
            raise Refused(
                f"{self.topology.changelog}/{self.partition} was written by a worker that reads {sorted(foreign)}: "
                "it is another job's, or a copy; give this job a changelog of its own"
            )
        if position.partitions and self.partitions and position.partitions != self.partitions:
            raise Refused(
                f"{self.topology.changelog}/{self.partition} was written when the topics had {position.partitions} partitions, "
                f"now they have {self.partitions}: keys have moved away from their state; "
                "go on with new topics under another prefix, and replay the inputs"
            )

    def require_explained(
        self,
        evidence: Mapping[str, Evidence],
        missed: Mapping[str, Sequence[tuple[Tag, Any]]],
        position: Position | None,
        top: Tag,
        lows: Mapping[str, int],
    ) -> None:
        """Refuse to run on logs that contradict each other: then data was lost, and running on would hide it."""
        if top != NEVER and (position is None or position.tag != top):
            raise Refused(
                f"partition {self.partition}: outputs prove transaction {top}, but {self.topology.changelog} ends with "
                f"{position.tag if position else 'nothing'}: the changelog lost data; restore it from a replica or a backup"
            )
        if position is None:
            return
        for topic, (base, count) in position.outputs.items():
            if topic not in evidence or base < lows[topic]:
                continue
            found = [offset for tag, offset in evidence[topic].visible if tag[0] == top[0] and offset >= base]
            found += [record.offset for _, record in missed[topic] if record.offset >= base]
            if position.tag[0] == top[0] and len(found) != count:
                raise Refused(
                    f"{topic}/{self.partition} has {len(found)} of the {count} records that were committed since offset {base}: "
                    "the topic lost data; restore it from a replica or a backup"
                )

    def require_long_enough(self, position: Position | None, ends: Mapping[str, int]) -> None:
        """Refuse an output log that ends before what was seen to be committed there."""
        for topic, (base, _) in position.outputs.items() if position else ():
            if ends.get(topic, base + 1) <= base:
                raise Refused(
                    f"{topic}/{self.partition} ends at {ends[topic]}, and {base} of its offsets were seen before: "
                    "it was made anew or lost data; restore it from a replica or a backup"
                )

    @staticmethod
    def entry(record: Any) -> Entry:
        return Entry(record.key, record.value, [pair for pair in record.headers if pair[0] != positions.HEADER])

    def checkpoint(self, opened: Opened) -> Checkpoint | None:
        """What the restored table contains, if nothing has to be rolled forward into it first."""
        if opened.position is None or opened.missed.get(self.topology.changelog):
            return None
        # Not `ends`: the tail without visible records is where an aborted session shows, whose number must not be given again.
        return Checkpoint(opened.stop, positions.encode(opened.position), int(time.time() * 1000))
