"""What one partition reads: the same partition number of every input topic, merged by timestamp, and never ahead of itself.

Topics are fetched apart, so after an outage one of them may be far ahead. A record is handed out only when no older one can still lie at
the broker in another topic, so that neither records nor the due times that they let pass overtake what was stored before them. What has
been read to its end holds nobody back: nobody waits for a producer, only for what is there.

Where a topic ends is known from its last answer, which says nothing of what was stored since, and a leader that cannot be reached sends
no new one. That may delay a record, but a due time would overtake it. So a due time fires only through `known`, and a topic is known
through a moment when a record of it that is as young is here, or when its end was asked for after that moment and has been read.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from aiokafka import TopicPartition

from streams.engine.recovery import consumer
from streams.engine.work import merged

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

    from aiokafka import AIOKafkaConsumer

    from streams.engine.config import Config
    from streams.engine.topology import Record

SECOND_LOOK_MS: Final = 2
LOOK_S: Final = 0.02
"""How long to wait for a topic while records of another wait for it."""
_timestamp = attrgetter("timestamp")


class Inputs:
    """`backlog` are the records that may be taken now, in order. `ahead` are those that were fetched and must wait for another topic.

    `known` is the time (milliseconds) through which due times may fire. `ends` asks for last stable offsets; it must not stand in line
    behind a fetch that waits for records.
    """

    def __init__(
        self,
        config: Config,
        logs: Sequence[TopicPartition],
        log: Any,
        ends: Callable[[Sequence[TopicPartition]], Awaitable[Mapping[TopicPartition, int]]],
    ) -> None:
        self.config = config
        self.logs = list(logs)
        self.log = log
        self.ask_ends = ends
        self.consumer: AIOKafkaConsumer | None = None
        self.backlog: deque[Record] = deque()
        self.ahead: dict[TopicPartition, list[Record]] = {tp: [] for tp in self.logs}
        self.through: dict[TopicPartition, int] = dict.fromkeys(self.logs, 0)
        """When each end was asked for that was then found read."""
        self.known = 0
        self.rest_until = 0.0
        self.stalled: dict[TopicPartition, float] = {}

    @property
    def client(self) -> AIOKafkaConsumer:
        assert self.consumer is not None
        return self.consumer

    async def start(self, topics: Sequence[str]) -> None:
        """Be ready to seek. The client learns all `topics` at once, for who watches them through it too."""
        if self.consumer is None:
            self.consumer = consumer(self.config, "read_committed")
            await self.consumer.start()
        self.consumer.assign(self.logs)
        await self.consumer._client.set_topics(topics)  # noqa: SLF001  it would ask for each apart

    def seek(self, offsets: Mapping[str, int]) -> None:
        """Begin again at these offsets, by topic; what was fetched before is forgotten."""
        self.backlog.clear()
        self.ahead = {tp: [] for tp in self.logs}
        self.through = dict.fromkeys(self.logs, 0)
        self.known = 0
        for tp in self.logs:
            self.client.seek(tp, offsets[tp.topic])

    def hold(self) -> None:
        """Take the backlog back: a due time comes before its first record, and is later than `known`."""
        held: dict[TopicPartition, list[Record]] = {tp: [] for tp in self.logs}
        while self.backlog:
            record = self.backlog.popleft()
            held[TopicPartition(record.topic, record.partition)].append(record)
        self.ahead = {tp: [*held[tp], *self.ahead[tp]] for tp in self.logs}

    async def fetch(self, due: int | None) -> bool:
        """Fill the backlog if it is empty, waiting at most until `due` (milliseconds), the earliest due time there is. True: everything
        is read to its end, so the wall clock may fire due times through `known`."""
        if self.backlog:
            return False
        rest = self.rest_until - time.monotonic()
        if rest > 0:
            await asyncio.sleep(rest)
        hungry = [tp for tp in self.logs if not self.ahead[tp]]
        # Never 0: the client then returns without yielding, and its fetcher, which must run before a late due time may fire, never does.
        wait = LOOK_S if any(self.ahead.values()) else 0.5
        if due is not None:
            wait = min(wait, max(0.005, due / 1000 - time.time()))
        fetched = await self._get(hungry, int(wait * 1000))
        if rest > 0 and fetched:  # the client had fetched the first of them only, and then waited for us to take it
            await self._get(hungry, SECOND_LOOK_MS)
        behind = {tp for tp in self.logs if not await self.at_end(tp)}
        youngest = {tp: max(map(_timestamp, records)) for tp, records in self.ahead.items() if records}
        if due is not None and due <= max(int(time.time() * 1000), *youngest.values(), 0):
            doubted = [tp for tp in self.logs if max(self.through[tp], youngest.get(tp, 0)) < due]
            behind |= await self._unread(doubted, due)
        self.known = min(max(self.through[tp], youngest.get(tp, 0)) for tp in self.logs)
        self._release(behind)
        return not self.backlog and not behind

    async def _unread(self, doubted: Sequence[TopicPartition], due: int) -> set[TopicPartition]:
        """Of these, those whose end is not read. The others are known through now, and through `due`, which only a producer whose clock
        is ahead can have made later than now."""
        if not doubted:
            return set()
        now = int(time.time() * 1000)
        async with asyncio.timeout(self.config.deadline):
            ends = await self.ask_ends(doubted)
        unread = {tp for tp in doubted if await self.client.position(tp) < ends[tp]}
        self.through.update(dict.fromkeys(set(doubted) - unread, max(now, due)))
        return unread

    async def _get(self, logs: Sequence[TopicPartition], wait_ms: int) -> bool:
        fetched = await self.client.getmany(*logs, timeout_ms=wait_ms, max_records=self.config.batch)
        for tp, records in fetched.items():
            self.ahead[tp] += records
        return bool(fetched)

    def _release(self, behind: Collection[TopicPartition]) -> None:
        """Hand out what no older record can follow: of a topic that is behind, what comes is no older than its youngest here."""
        if not all(self.ahead[tp] for tp in behind):
            return
        if not behind:
            ready = self.ahead
            self.ahead = {tp: [] for tp in self.logs}
        else:
            bound = min(max(map(_timestamp, self.ahead[tp])) for tp in behind)
            ready = {tp: self._up_to(tp, bound) for tp in self.logs}
        self.backlog.extend(merged(ready))

    def _up_to(self, tp: TopicPartition, bound: int) -> list[Record]:
        records = self.ahead[tp]
        later = next((number for number, record in enumerate(records) if record.timestamp > bound), len(records))
        self.ahead[tp] = records[later:]
        return records[:later]

    async def at_end(self, tp: TopicPartition) -> bool:
        """Whether everything committed to an input was read. Says so when somebody's open transaction holds it back."""
        stable, high = self.client.last_stable_offset(tp), self.client.highwater(tp)
        if stable is None or high is None or await self.client.position(tp) < stable:
            return False
        if stable >= high:
            self.stalled.pop(tp, None)
        elif time.monotonic() - self.stalled.setdefault(tp, time.monotonic()) > self.config.upstream:
            self.stalled[tp] = time.monotonic()
            self.log.error(
                "an input is held back by an open transaction of its producer",
                topic=tp.topic, stable=stable, high=high, fix="end that producer's transaction, or `kafka-transactions.sh abort` it",
            )  # fmt: skip
        return True

    def ends(self) -> dict[str, int]:
        """The last stable offset of each topic, as far as one is known."""
        if self.consumer is None:
            return {}
        ends = {tp.topic: self.consumer.last_stable_offset(tp) for tp in self.logs}
        return {topic: end for topic, end in ends.items() if end is not None}

    async def stop(self) -> None:
        """Let the client go, within a bound."""
        if self.consumer is None:
            return
        # In a task of its own: the client lets the cancellation of its fetcher out, which would pass for one of our caller's.
        stopping = asyncio.ensure_future(self.consumer.stop())
        stopping.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.wait({stopping}, timeout=2.0)
