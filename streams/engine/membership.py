"""Who owns which partition: a consumer-group member that carries no data, and starts and stops partitions as the group says.

Its listener must not raise (the client swallows it) and must not block while partitions are assigned (no heartbeat is sent meanwhile),
so it only starts tasks. On revocation each running transaction is finished within a bound, then the partition is held; retained ones
go on warm. Group offsets are reported for lag tools, best effort, and are never read back.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import structlog
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka import errors as kafka
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.structs import OffsetAndMetadata

from streams.engine.failures import ADVICE, Exit, Refused, Verdict, classify
from streams.engine.partition import Partition
from streams.engine.recovery import reading
from streams.engine.table import opener

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Never

    from streams.engine.config import Config
    from streams.engine.topology import Topology

log: Final = structlog.get_logger(__name__)


def leave(code: Exit, why: str) -> Never:
    """End the process at once: no cleanup can be trusted now. The next owner's opening puts everything right."""
    log.critical("exit", code=int(code), name=code.name.lower(), why=why, todo=ADVICE[code])
    sys.stderr.flush()
    os._exit(code)


class Worker(ConsumerRebalanceListener):  # type: ignore[misc]  # the client publishes no types
    """Runs a topology on this worker's share of the partitions, until `stop`."""

    def __init__(
        self, topology: Topology[Any, Any, Any], config: Config, end: Callable[[Exit, str], None] = leave
    ) -> None:
        self.topology = topology
        self.config = config
        self.open_table = opener(config.state_dir)
        self.partitions: dict[int, Partition] = {}
        self.holds: dict[Partition, asyncio.Future[bool]] = {}
        """Whose lock we have, or wait for. A revocation and a shutdown may wait at once, and take it once."""
        self.stopping = asyncio.Event()
        self.assigned = False
        self.partition_count = 0
        self.member: AIOKafkaConsumer | None = None
        self.clerk: AIOKafkaConsumer | None = None
        """Asks for last stable offsets. It never fetches: behind a partition's long poll the answer would take half a second."""
        self._end = end
        self._reported: dict[TopicPartition, OffsetAndMetadata] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def die(self, code: Exit, why: str) -> None:
        self._end(code, why)

    @property
    def ready(self) -> bool:
        """Whether we are in touch with the group, and every partition it gave us is open."""
        return (
            self.assigned
            and not self.stopping.is_set()
            and self.member is not None
            and self.member._coordinator.coordinator_id is not None  # noqa: SLF001  no public way
            and all(partition.ready.is_set() for partition in self.partitions.values())
        )

    # ------------------------------------------------------------------ life

    async def run(self) -> None:
        """Join the group and serve it until `stop`; then finish what runs, close, and leave the group."""
        self.member = await self.join()
        own = [self.topology.changelog, *self.topology.outputs, self.topology.dead_letters]
        async with reading(self.config, "read_committed", [*self.topology.inputs, *own]) as self.clerk:
            try:
                self.member.subscribe(list(self.topology.inputs), listener=self)
                await self.serve(self.member)
            finally:
                await self.shut_down()

    def stop(self) -> None:
        self.stopping.set()

    async def join(self) -> AIOKafkaConsumer:
        """A started member. It delivers no records; it reads uncommitted, so that its `end_offsets` are high watermarks."""
        session_ms = int(self.config.session * 1000)
        while True:
            member = AIOKafkaConsumer(
                **self.config.kafka,
                group_id=self.topology.name,
                enable_auto_commit=False,
                auto_offset_reset="latest",
                isolation_level="read_uncommitted",
                session_timeout_ms=session_ms,
                heartbeat_interval_ms=max(200, session_ms // 6),
                rebalance_timeout_ms=session_ms * 2,
                max_poll_interval_ms=300_000,
                request_timeout_ms=max(5000, session_ms * 2 + 5000),
                partition_assignment_strategy=(RangePartitionAssignor,),
                metadata_max_age_ms=30_000,
            )
            try:
                await member.start()
            except kafka.KafkaError as error:
                await member.stop()
                if classify(error) is not Verdict.RETRY or self.stopping.is_set():
                    raise
                log.warning("cannot reach the cluster yet", error=repr(error))
                await asyncio.sleep(0.5)
            else:
                return member

    async def serve(self, member: AIOKafkaConsumer) -> None:
        reported = 0.0
        while not self.stopping.is_set():
            if time.monotonic() - reported > self.config.report:
                await self.report(member)
                reported = time.monotonic()
            try:
                await member.getmany(
                    timeout_ms=200
                )  # keeps the poll interval alive, and brings the coordinator's errors here
            except kafka.KafkaError as error:
                if classify(error) is not Verdict.RETRY:
                    self.die(Exit.MEMBERSHIP, f"the group refused this member: {error!r}")
                    return
                log.warning("group trouble", error=repr(error))

    async def shut_down(self) -> None:
        self.stopping.set()
        loop = asyncio.get_running_loop()
        deadline = loop.call_later(
            self.config.shutdown, self.die, Exit.SHUTDOWN_DEADLINE, f"not closed within {self.config.shutdown:g} s"
        )
        partitions = list(self.partitions.values())
        opened = [partition for partition in partitions if partition.ready.is_set()]  # an opening need not be finished
        await asyncio.gather(*(self.hold(partition, self.config.deadline) for partition in opened))
        if self.member is not None:
            await self.report(self.member)
        await asyncio.gather(*(self.drop(partition) for partition in partitions))
        if self.member is not None:
            await asyncio.wait({asyncio.ensure_future(self.member.stop())}, timeout=5.0)
        deadline.cancel()

    # ------------------------------------------------------------------ rebalance

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:  # noqa: ARG002  the eager protocol revokes everything
        try:
            self.assigned = False
            partitions = list(self.partitions.values())
            holding = await asyncio.gather(*(self.hold(partition, self.config.session / 2) for partition in partitions))
            for partition, is_held in zip(partitions, holding, strict=True):
                if not (is_held and self.config.warm):
                    await self.drop(partition)
        except Exception as error:  # noqa: BLE001  the client would swallow it and go on with partitions in an unknown state
            self.die(Exit.MEMBERSHIP, f"a revocation failed: {error!r}")

    async def hold(self, partition: Partition, within: float) -> bool:
        """Wait until the partition's running transaction has ended, and keep it from starting another."""
        taken = self.holds.get(partition)
        if taken is None:
            taken = self.holds[partition] = asyncio.ensure_future(partition.lock.acquire())
        return bool((await asyncio.wait({taken}, timeout=within))[0])

    async def drop(self, partition: Partition) -> None:
        """Close it and forget it. A shutdown may overtake a revocation that drops it as well."""
        if self.partitions.get(partition.number) is partition:
            del self.partitions[partition.number]
        await partition.close()
        if (taken := self.holds.pop(partition, None)) is not None:
            taken.cancel()

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        try:
            self.assign(list(assigned))
        except Exception as error:  # noqa: BLE001  as above
            self.die(Exit.MEMBERSHIP, f"an assignment failed: {error}")

    def assign(self, assigned: Sequence[TopicPartition]) -> None:
        assert self.member is not None
        self.member.pause(*assigned)
        if self.stopping.is_set():  # a rebalance during the shutdown: what it would start, nobody would close
            return
        topics = defaultdict(set)
        for tp in assigned:
            topics[tp.partition].add(tp.topic)
        for number, found in topics.items():
            if found != set(self.topology.inputs):
                missing = sorted(set(self.topology.inputs) - found)
                raise Refused(
                    f"partition {number} came without {missing}: the inputs need equal partition counts; "
                    "`concord topics check` says which differ"
                )
        self.partition_count = len(self.member.partitions_for_topic(self.topology.inputs[0]) or ())
        for partition in [partition for number, partition in self.partitions.items() if number not in topics]:
            del self.partitions[partition.number]
            self.start(self.drop(partition))
        for number in topics:
            if number not in self.partitions:
                self.partitions[number] = Partition(self, number)
            else:
                del self.holds[self.partitions[number]]
                self.partitions[number].lock.release()
        self.assigned = True
        log.info("assigned", partitions=sorted(topics))

    def start(self, closing: Any) -> None:
        task = asyncio.ensure_future(closing)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ------------------------------------------------------------------ what partitions ask

    async def stable_offsets(self, logs: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The last stable offset of each log. The caller holds the deadline."""
        assert self.clerk is not None
        offsets: dict[TopicPartition, int] = await self.clerk.end_offsets(list(logs))
        return offsets

    async def confirm_member(self, partition: Partition) -> None:
        """Return once the coordinator accepts our generation. If it does not, the client rejoins and the listener decides."""
        while not partition.closing.is_set():
            coordinator = self.member._coordinator if self.member is not None else None  # noqa: SLF001  heartbeats have no public door
            if coordinator is not None and coordinator.coordinator_id is not None and coordinator.member_id:
                with contextlib.suppress(kafka.KafkaError):
                    if await coordinator._do_heartbeat():  # noqa: SLF001
                        return
            await asyncio.sleep(0.2)

    async def reported(self, topics: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Group offsets of these partitions. Raises until the coordinator answers: an unknown answer is not "none"."""
        admin = AIOKafkaAdminClient(**self.config.kafka, request_timeout_ms=int(self.config.request * 1000))
        try:
            await admin.start()
            found = await admin.list_consumer_group_offsets(self.topology.name, partitions=list(topics))
        finally:
            await admin.close()
        return {tp: at.offset for tp, at in found.items() if at.offset >= 0}

    async def report(self, member: AIOKafkaConsumer) -> None:
        offsets = {
            TopicPartition(topic, p.number): OffsetAndMetadata(at, "")
            for p in self.partitions.values()
            for topic, at in p.offsets.items()
            if p.position_bytes  # else an offset would say that this group has run here, and an empty changelog was lost
        }
        subscription = member._subscription.subscription  # noqa: SLF001  a commit that neither waits for a rebalance nor raises
        if offsets == self._reported or subscription is None or subscription.assignment is None:
            return
        with contextlib.suppress(kafka.KafkaError, TimeoutError):
            await asyncio.wait_for(member._coordinator.commit_offsets(subscription.assignment, offsets), 2.0)  # noqa: SLF001
            self._reported = offsets
