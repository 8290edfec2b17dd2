"""The continuous audit: an independent reader that recomputes what the outputs must be, from the changelog alone.

Every row of the changelog implies a set of outputs (`Topology.implied`), over the whole life of its state. What a new row implies beyond
its former version is owed; an output record pays it. After both were read, nothing may be owed and nothing may have been paid twice. The
reader sees partitions at different moments, so a difference counts only after it has stood for a while.
"""

from __future__ import annotations

import time
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from aiokafka import TopicPartition
from aiokafka.partitioner import murmur2

from streams.engine import position as positions
from streams.engine.position import NEVER, Tag, tag_of
from streams.engine.recovery import consumer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping

    from aiokafka import AIOKafkaConsumer

    from streams.engine.config import Config
    from streams.engine.topology import Headers, Topology

ID_HEADER: Final = "ce_id"
IDLE: Final = 0.2


class Difference(NamedTuple):
    """One disagreement between the changelog and an output topic. `since` is the monotonic time of its discovery."""

    kind: str
    """`missing` (implied, not there), `extra` (there, not implied, or there twice), `disorder` (a log's tags went back), `misplaced` (a key
    in a partition where no producer would put it: its order may be decided twice)."""
    topic: str
    partition: int
    id: str
    since: float


@dataclass(slots=True)
class Books:
    """Debts of one partition: pure, and told everything, the time included."""

    topology: Topology[Any, Any, Any]
    partition: int
    partitions: int = 0
    """Into how many partitions the keys are divided; 0: not known, and not checked."""
    trimmed: frozenset[str] = frozenset()
    """Output topics whose beginning the retention has deleted: what is missing there cannot be judged."""
    rows: dict[bytes, bytes] = field(default_factory=dict)
    owed: dict[tuple[str, str], tuple[int, float]] = field(default_factory=dict)
    """(topic, id) -> (how many are owed, negative: too many; since when)."""
    disorder: list[Difference] = field(default_factory=list)
    tags: dict[str, Tag] = field(default_factory=dict)
    outputs: Counter[str] = field(default_factory=Counter)

    def row(self, key: bytes, value: bytes | None, now: float) -> None:
        """A row of the changelog: what it implies beyond its former version is owed."""
        before = self.rows.pop(key, None)
        if value is None:
            return
        if (
            before is None
            and self.partitions
            and (home := (murmur2(key) & 0x7FFFFFFF) % self.partitions) != self.partition
        ):
            where = f"{key!r} belongs into partition {home}"
            self.disorder.append(Difference("misplaced", self.topology.changelog, self.partition, where, now))
        self.rows[key] = value
        former = Counter(self._implied(before)) if before is not None else Counter[tuple[str, str]]()
        for output, number in (Counter(self._implied(value)) - former).items():
            self._book(output, number, now)

    def output(self, topic: str, identity: str, now: float) -> None:
        """A record of an output topic pays its debt."""
        self.outputs[topic] += 1
        self._book((topic, identity), -1, now)

    def tag(self, topic: str, tag: Tag | None, offset: int, now: float) -> None:
        """Transactions appear in each log in the order in which they were committed; two writers at once would break it."""
        if tag is None:
            return
        if tag < self.tags.get(topic, NEVER):
            self.disorder.append(
                Difference("disorder", topic, self.partition, f"{tag} after {self.tags[topic]} at offset {offset}", now)
            )
        self.tags[topic] = tag

    def differences(self, now: float, grace: float) -> list[Difference]:
        """What has disagreed for at least `grace` seconds."""
        found = [each for each in self.disorder if now - each.since >= grace]
        for (topic, identity), (number, since) in self.owed.items():
            if now - since < grace or (number > 0 and topic in self.trimmed):
                continue
            found.append(Difference("missing" if number > 0 else "extra", topic, self.partition, identity, since))
        return found

    def _implied(self, value: bytes) -> Iterable[tuple[str, str]]:
        assert self.topology.implied is not None
        found: Iterable[tuple[str, str]] = self.topology.implied(self.topology.load(value))
        return found

    def _book(self, output: tuple[str, str], number: int, now: float) -> None:
        before, since = self.owed.get(output, (0, now))
        after = before + number
        if after:
            self.owed[output] = (after, since)
        else:
            self.owed.pop(output, None)


@dataclass(frozen=True, slots=True)
class Report:
    """What an audit has read, and every difference that stands."""

    rows: int
    outputs: dict[str, int]
    differences: list[Difference]
    unjudged: frozenset[str]
    """Topics whose deleted beginning could not be compared."""


class Audit:
    """Reads the changelog and all outputs of a topology, read_committed, beside the workers."""

    def __init__(self, topology: Topology[Any, Any, Any], config: Config) -> None:
        if topology.implied is None:
            raise ValueError(
                f"topology {topology.name!r} does not say what its states imply, so its outputs cannot be audited"
            )
        self.topology = topology
        self.config = config
        self.books: dict[int, Books] = {}
        self._client: AIOKafkaConsumer | None = None

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        """Connect, and start every log at its beginning."""
        client = consumer(self.config, "read_committed")
        try:
            await client.start()
            topics = [self.topology.changelog, *self.topology.outputs]
            counts = {topic: await self._partitions(client, topic) for topic in topics}
            logs = [TopicPartition(topic, number) for topic, count in counts.items() for number in range(count)]
            client.assign(logs)
            lows = await client.beginning_offsets(logs)
            for log, low in lows.items():
                client.seek(log, low)
            for number in range(counts[self.topology.changelog]):
                trimmed = frozenset(t for t in self.topology.outputs if lows.get(TopicPartition(t, number), 0) > 0)
                self.books[number] = Books(self.topology, number, counts[self.topology.changelog], trimmed)
            self._client = client
            yield
        finally:
            await client.stop()

    @staticmethod
    async def _partitions(client: AIOKafkaConsumer, topic: str) -> int:
        await client._client._wait_on_metadata(topic)  # noqa: SLF001  the public call knows only subscribed topics
        return len(client.partitions_for_topic(topic) or ())

    async def read(self) -> int:
        """Take in what is there now. Returns the number of records; 0 when everything visible was read."""
        assert self._client is not None
        fetched: Mapping[TopicPartition, list[Any]] = await self._client.getmany(timeout_ms=int(IDLE * 1000))
        now = time.monotonic()
        for log, records in fetched.items():
            books = self.books[log.partition]
            for record in records:
                books.tag(log.topic, tag_of(record.headers), record.offset, now)
                if log.topic != self.topology.changelog:
                    books.output(log.topic, identity(record.headers), now)
            if (
                log.topic == self.topology.changelog
            ):  # a row implies what its former versions did: the last of each key is enough
                for key, value in {
                    record.key: record.value for record in records if record.key != positions.KEY
                }.items():
                    books.row(key, value, now)
        return sum(len(records) for records in fetched.values())

    async def ends(self) -> dict[TopicPartition, int]:
        """The last stable offset of each log, now."""
        assert self._client is not None
        ends: dict[TopicPartition, int] = await self._client.end_offsets(sorted(self._client.assignment()))
        return ends

    async def has_read(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Whether everything below these offsets was read."""
        assert self._client is not None
        return all([await self._client.position(log) >= end for log, end in ends.items()])

    def report(self, grace: float = 0.0) -> Report:
        """Everything that stands now."""
        now = time.monotonic()
        return Report(
            rows=sum(len(books.rows) for books in self.books.values()),
            outputs=dict(sum((books.outputs for books in self.books.values()), Counter[str]())),
            differences=[each for books in self.books.values() for each in books.differences(now, grace)],
            unjudged=frozenset(topic for books in self.books.values() for topic in books.trimmed),
        )

    async def once(self, settle: float) -> Report:
        """Read to where the logs end now, whatever is written meanwhile; then give what disagrees `settle` seconds to be explained."""
        ends = await self.ends()
        while not await self.has_read(ends):
            await self.read()
        reached = time.monotonic()
        while time.monotonic() < reached + settle and self.standing(reached).differences:
            await self.read()
        return self.standing(reached)

    def standing(self, until: float) -> Report:
        """What was found by then and still stands. Younger differences are in flight."""
        report = self.report()
        return replace(report, differences=[each for each in report.differences if each.since <= until])


def identity(headers: Headers) -> str:
    """The id of an output record: its CloudEvents id."""
    return next((value.decode() for name, value in headers if name == ID_HEADER), "(no ce_id header)")
