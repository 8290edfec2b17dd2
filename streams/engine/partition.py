"""One partition number: open it, run its transactions one after another, watch that they become visible, close it.

The task owns everything: the producer session, the table, the consumer. `lock` is held during an opening and during every
transaction; whoever holds it instead (a rebalance, a shutdown) knows that nothing is in flight.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final, Protocol

import structlog
from aiokafka import TopicPartition

from streams.engine import position as positions
from streams.engine.failures import Exit, Refused, Stuck, Verdict, classify
from streams.engine.horizon import Horizon
from streams.engine.inputs import Inputs
from streams.engine.moving import Mover
from streams.engine.recovery import Opened, Recovery, change
from streams.engine.stats import Stats
from streams.engine.table import Checkpoint, Table
from streams.engine.transaction import Session
from streams.engine.work import RowTooLargeError, Work

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from streams.engine.config import Config
    from streams.engine.position import Position, Tag
    from streams.engine.topology import Record, Topology
    from streams.engine.transaction import Sending

log: Final = structlog.get_logger(__name__)
AHEAD_MS: Final = 60_000
UNCONFIRMED_ROWS: Final = 50_000
"""A table that holds more rows back asks for a watch before its time."""


class Owner(Protocol):
    """What a partition needs from the worker it runs in."""

    topology: Topology[Any, Any, Any]
    config: Config
    open_table: Callable[[int], Table]
    partition_count: int
    """Into how many partitions the inputs divide the keys."""

    async def stable_offsets(self, logs: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The last stable offset of each log."""

    async def confirm_member(self, partition: Partition) -> None:
        """Return once the group accepts this worker's generation, or the partition is closing."""

    async def reported(self, topics: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Group offsets, for the one question whether this group has ever run here."""

    def die(self, code: Exit, why: str) -> None:
        """End the process."""


class Partition:
    """See the module. `ready` is set while the partition is open."""

    def __init__(self, owner: Owner, number: int) -> None:
        self.owner = owner
        self.topology = owner.topology
        self.config = owner.config
        self.number = number
        self.own = [self.topology.changelog, *self.topology.outputs, self.topology.dead_letters]
        self.log = log.bind(partition=number)
        logs = [TopicPartition(topic, number) for topic in self.topology.inputs]
        self.inputs = Inputs(self.config, logs, self.log, owner.stable_offsets)
        self.stats = Stats()
        self.lock = asyncio.Lock()
        self.ready = asyncio.Event()
        self.closing = asyncio.Event()
        self.failures = 0
        self.offsets: dict[str, int] = {}
        self.session: Session | None = None
        self.table: Table | None = None
        self.mover: Mover | None = None
        self.task = asyncio.create_task(self.run(), name=f"partition-{number}")
        self.task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.owner.die(Exit.STATE_UNKNOWN, f"partition {self.number}: its task ended with {error!r}")

    async def run(self) -> None:
        """Open, loop, and open again after anything that can be tried again."""
        while not self.closing.is_set():
            try:
                async with self.lock:
                    await self.open()
                await self.loop()
            except Exception as error:  # noqa: BLE001  the engine's one place: any failure is classified, none passes
                if not await self.survive(error):
                    return

    async def survive(self, error: Exception) -> bool:
        """Apply the policy to a failure. True: open again."""
        self.ready.clear()
        verdict = classify(error, self.session.errors() if self.session else ())
        self.failures += 1
        self.stats.reopened += 1
        why = f"partition {self.number}: {type(error).__name__}: {error}"
        if verdict is not Verdict.RETRY or self.failures > self.config.failures:
            self.owner.die(Exit.FENCED if verdict is Verdict.FENCED else Exit.STATE_UNKNOWN, why)
            return False
        self.log.warning("reopening", error=repr(error), failures=self.failures)
        await self.discard()
        await asyncio.sleep(min(2.0, 0.05 * 2**self.failures))
        if not self.closing.is_set():
            # Outside the lock, and before the producer: a worker that was suspended must not fence the rightful owner.
            await self.owner.confirm_member(self)
        return not self.closing.is_set()

    # ------------------------------------------------------------------ opening

    async def open(self) -> None:
        async with asyncio.timeout(self.config.restore):
            self.session = Session(self.config, f"{self.topology.name}-{self.number}", self.number)
            await self.session.start(self.own)
            self.table = self.owner.open_table(self.number)
            recovery = Recovery(self.topology, self.config, self.number, self.owner.partition_count)
            recovery.progress = self._restored
            opened = await recovery.run(self.session, self.table)
            await self._step("recovered")
            self.horizon = Horizon(opened.session, self.own, opened.ends, opened.position, self.owner.partition_count)
            self.marked_position, self.watched = b"", time.monotonic()
            if (checkpoint := recovery.checkpoint(opened)) is not None:
                self.table.confirm(checkpoint)
            await self.inputs.start([*self.topology.inputs, *self.own])
            self.offsets = await self.start_offsets(opened.position)
            await self.write_missed(opened)
            self.inputs.seek(self.offsets)
            self.look_ahead(self.table)
        self.stats.opened_in = opened.seconds
        self.log.info(
            "opened",
            session=opened.session,
            after=opened.after,
            rows=len(self.table),
            restored=opened.rows,
            seconds=round(opened.seconds, 3),
            offsets=self.offsets,
        )
        self.ready.set()

    def _restored(self, count: int, target: int) -> None:
        self.stats.restored, self.stats.restore_target = count, target

    async def start_offsets(self, position: Position | None) -> dict[str, int]:
        """Where to read the inputs from; refuses if the retention has deleted what was never read."""
        logs = self.inputs.logs
        lows = await self.inputs.client.beginning_offsets(logs)
        if position is None:
            reported = await self.owner.reported(logs)
            if any(offset > 0 for offset in reported.values()):
                raise Refused(
                    f"the group {self.topology.name} has read up to {reported}, but {self.topology.changelog}/{self.number} is empty: "
                    "the changelog was lost; restore it, or delete the group's offsets and the output topics to start from nothing"
                )
            return {tp.topic: lows[tp] for tp in logs}
        offsets = {tp.topic: position.inputs.get(tp.topic, lows[tp]) for tp in logs}
        for tp in logs:
            if offsets[tp.topic] < lows[tp]:
                raise Refused(
                    f"{tp.topic}/{tp.partition} begins at {lows[tp]}, but was read only up to {offsets[tp.topic]}: "
                    "the retention deleted records that were never handled; bring them back from the channel's own retries "
                    "or a backup, and raise retention.ms"
                )
        return offsets

    async def write_missed(self, opened: Opened) -> None:
        """Roll forward: one transaction with the outputs and the last row of each key that lost their marker."""
        if not opened.missed:
            return
        assert self.table is not None
        counts = {topic: len(entries) for topic, entries in opened.missed.items()}
        self.log.warning(
            "rolling forward records that lost their transaction marker", after=opened.after, records=counts
        )
        rows = {
            entry.key: entry.value
            for entry in opened.missed.pop(self.topology.changelog, [])
            if entry.key not in (None, positions.KEY)
        }
        records: dict[str, list[Sending]] = {topic: list(entries) for topic, entries in opened.missed.items()}
        records[self.topology.changelog] = [(key, value, []) for key, value in rows.items()]
        await self.write(records, self.offsets)
        self.table.apply({key: change(self.topology, value) for key, value in rows.items()})
        self.stats.rolled_forward += sum(counts.values())

    # ------------------------------------------------------------------ running

    async def loop(self) -> None:
        while not self.closing.is_set():
            assert self.table is not None
            self.look_ahead(self.table)
            caught_up = await self.inputs.fetch(self.table.next_due())
            async with self.lock:
                if self.closing.is_set():
                    return
                await self.transact(caught_up=caught_up)
                late = time.monotonic() - self.watched > self.config.watch
                if late or self.table.unconfirmed > UNCONFIRMED_ROWS:
                    await self.watch()

    @staticmethod
    def look_ahead(table: Table) -> None:
        """Have the due times of the next moments on the agenda, so that the wait for records ends when one comes."""
        table.reach(int(time.time() * 1000) + AHEAD_MS)

    def lag(self) -> dict[str, int]:
        """Committed input records that were not handled yet, by topic; empty before the first fetch."""
        ends = self.inputs.ends() if self.ready.is_set() else {}
        return {topic: max(0, end - self.offsets.get(topic, 0)) for topic, end in ends.items()}

    @property
    def stalled(self) -> dict[TopicPartition, float]:
        """Inputs that somebody's open transaction holds back, and since when."""
        return self.inputs.stalled

    async def transact(self, *, caught_up: bool) -> None:
        """Decide what is there and commit it, or do nothing if nothing is."""
        assert self.table is not None
        work, taken = self.decide(caught_up=caught_up, careful=False)
        try:
            rows = work.rows()
        except RowTooLargeError:
            work.undo()
            self.inputs.backlog.extendleft(reversed(taken))
            work, taken = self.decide(caught_up=caught_up, careful=True)
            rows = work.rows()
        if work.doubt:
            self.inputs.hold()
        if not work:
            return
        began = time.monotonic()
        if work.misplaced:
            await self.move(work.misplaced)
        await self.write(work.entries(self.next_tag), {**self.offsets, **work.offsets}, tagged=True)
        self.table.settle(rows)
        self.offsets.update(work.offsets)
        self.failures = 0
        ended = time.monotonic()
        self.inputs.rest_until = 0.0 if work.full else ended + self.config.linger
        self.count(work, ended - began)

    def decide(self, *, caught_up: bool, careful: bool) -> tuple[Work, list[Record]]:
        assert self.table is not None
        work = Work(
            self.topology,
            self.config,
            self.table,
            self.number,
            partitions=self.owner.partition_count,
            careful=careful,
            known=self.inputs.known,
        )
        taken: list[Record] = []
        backlog = self.inputs.backlog
        while backlog and work.take(backlog[0]):
            taken.append(backlog.popleft())
        if caught_up and not taken:
            work.fire(int(time.time() * 1000))
        return work, taken

    async def move(self, records: Sequence[Record]) -> None:
        """Bring records to the partitions where their keys live. They count as read only after that."""
        assert self.topology.place is not None
        if self.mover is None:
            self.mover = Mover(self.config, self.topology.place, self.owner.partition_count)
        first = records[0]
        self.log.warning(
            "moving records that lie in a partition where their key does not live",
            topic=first.topic, offset=first.offset, records=len(records),
            fix="let their producer use the default partitioner of the Java client: murmur2 of the key",
        )  # fmt: skip
        await self.mover.move(records)

    @property
    def tag(self) -> Tag:
        """The tag of the last transaction of this session; its number is 0 before the first."""
        return self.horizon.tag

    @property
    def next_tag(self) -> Tag:
        return (self.horizon.tag[0], self.horizon.tag[1] + 1)

    @property
    def position_bytes(self) -> bytes:
        """The last `@position` that was written or found; empty until there is one."""
        return self.horizon.written

    async def write(
        self, records: dict[str, list[Sending]], offsets: Mapping[str, int], *, tagged: bool = False
    ) -> None:
        """One transaction with `@position`. Returns when it is committed; the books change only then."""
        assert self.session is not None
        tag = self.next_tag
        mark = [positions.header(tag)]
        if not tagged:
            records = {
                topic: [(key, value, [*headers, *mark]) for key, value, headers in entries]
                for topic, entries in records.items()
            }
        counts = {topic: len(entries) for topic, entries in records.items()}
        position = self.horizon.position(tag, counts, offsets)
        encoded = positions.encode(position)
        records[self.topology.changelog].append((positions.KEY, encoded, mark))
        ends = await self.session.write({topic: entries for topic, entries in records.items() if entries})
        self.horizon.commit(position, encoded, counts, ends)

    def count(self, work: Work, seconds: float) -> None:
        stats = self.stats
        stats.records += work.records
        stats.timers += work.timers
        stats.dead += work.dead
        stats.moved += len(work.misplaced)
        stats.transactions += 1
        stats.commit.add(seconds)
        for topic, sent in work.sends.items():
            stats.sent[topic] += len(sent)
        for label, number in work.labels.items():
            stats.labels[label] += number
        if work.timers:
            stats.due_delay.add(max(0.0, time.time() - work.latest_due / 1000))

    async def watch(self) -> None:
        """Have our commits become visible? An older mark is compared: EndTxn answers before the markers are written."""
        assert self.table is not None
        self.watched = now = time.monotonic()
        horizon, changelog = self.horizon, self.topology.changelog
        dirty = horizon.dirty()
        if not dirty:
            return
        async with asyncio.timeout(self.config.deadline):
            stable = await self.owner.stable_offsets([TopicPartition(topic, self.number) for topic in dirty])
        for topic in dirty:
            if horizon.mark(topic, now) and topic == changelog:
                self.table.mark()
                self.marked_position = horizon.written
            end, _, since = horizon.marks[topic]
            seen = stable[TopicPartition(topic, self.number)]
            if horizon.passed(topic, seen):
                if topic == changelog:
                    self.table.confirm(Checkpoint(end, self.marked_position, int(time.time() * 1000)))
            elif now - since > self.config.stuck:
                raise Stuck(
                    f"{topic}/{self.number}: committed up to {end}, visible up to {seen}, for {now - since:.1f} s: a marker was lost"
                )

    async def _step(self, name: str) -> None:
        if self.config.probe is not None:
            await self.config.probe(name, self.number, self.session)

    # ------------------------------------------------------------------ closing

    async def discard(self) -> None:
        """Let go of the session and the table: neither may be trusted after a failure."""
        self.ready.clear()
        session, self.session = self.session, None
        mover, self.mover = self.mover, None
        table, self.table = self.table, None
        if session is not None:
            await session.drop()
        if table is not None:
            table.close()
        if mover is not None:
            await mover.stop()

    async def close(self) -> None:
        """Stop for good. aiokafka can swallow a cancellation, so it is repeated; a task that never ends ends the process."""
        self.closing.set()
        self.ready.clear()
        for _ in range(5):
            self.task.cancel()
            if (await asyncio.wait([self.task], timeout=1.0))[0]:
                break
        else:
            self.owner.die(Exit.SHUTDOWN_DEADLINE, f"partition {self.number} does not stop")
            return
        await self.discard()
        await self.inputs.stop()
