"""Who owns which partition: fencing, takeovers, rebalances, shutdowns, and the exit codes that supervisors read."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import signal
import sys
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import NewPartitions
from aiokafka.errors import GroupAuthorizationFailedError, KafkaConnectionError, NotCoordinatorForGroupError
from structlog.testing import capture_logs

from streams.engine.failures import Exit
from tests.integration.engine.stage import until
from tests.support.toy import ORDER, Event, order_with_payment

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.integration.engine.stage import Actor, Stage

pytestmark = pytest.mark.kafka


def orders(count: int, first: int = 0) -> list[Event]:
    return [event for n in range(first, first + count) for event in order_with_payment(f"o{n:03}")]


def names(count: int) -> list[str]:
    return [f"o{n:03}" for n in range(count)]


def handled(*workers: Actor) -> int:
    return sum(partition.stats.records for worker in workers for partition in worker.partitions.values())


async def paid(stage: Stage, count: int) -> bool:
    return len(await stage.paid()) >= count


class Process:
    """A worker process: its log lines, and its end."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[str] = []
        self.reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        while line := await self.process.stdout.readline():
            self.lines.append(line.decode())

    def says(self, text: str) -> bool:
        return any(text in line for line in self.lines)

    async def code(self, seconds: float = 30.0) -> int:
        code = await asyncio.wait_for(self.process.wait(), seconds)
        await self.reading
        return code

    def last_words(self) -> dict[str, object]:
        [line] = [json.loads(line) for line in self.lines if '"event": "exit"' in line]
        return line


@asynccontextmanager
async def process(stage: Stage, **config: object) -> AsyncIterator[Process]:
    started = Process(
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.integration.engine.run_toy"),
            *(stage.bootstrap, stage.toy.prefix, str(stage.toy.partitions), json.dumps(config)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
    )
    try:
        yield started
    finally:
        if started.process.returncode is None:
            started.process.kill()
        await started.code()


class TestFencing:
    async def test_another_producer_of_the_same_id_fences_the_worker(self, stage):
        worker = await stage.start()
        thief = AIOKafkaProducer(bootstrap_servers=stage.bootstrap, transactional_id=f"{stage.toy.prefix}-0")
        await thief.start()
        await stage.toy.produce(stage.bootstrap, orders(20))
        code, why = await worker.ended()
        assert code is Exit.FENCED
        assert "partition 0" in why
        await thief.stop()

    async def test_a_fenced_process_exits_with_3_and_says_why_and_what_to_do(self, stage):
        async with process(stage) as worker:
            await until(lambda: sum('"opened"' in line for line in worker.lines) == 2)
            thief = AIOKafkaProducer(bootstrap_servers=stage.bootstrap, transactional_id=f"{stage.toy.prefix}-0")
            await thief.start()
            await stage.toy.produce(stage.bootstrap, orders(20))
            assert await worker.code() == 3
            said = worker.last_words()
            assert said["level"] == "critical"
            assert "another worker owns the partition" in said["todo"]
            assert "partition 0" in said["why"]
            await thief.stop()
        await stage.start()
        await until(lambda: paid(stage, 20))
        assert await stage.paid() == names(20)

    async def test_a_lost_changelog_exits_with_4_and_the_text(self, stage):
        worker = await stage.start()
        await stage.toy.produce(stage.bootstrap, [Event(f"{n}", f"u{n}", ORDER, 1) for n in range(10)])
        await until(lambda: handled(worker) == 10)
        await worker.stop()
        await stage.lose(stage.toy.changelog)
        async with process(stage) as again:
            assert await again.code() == 4
            assert "the changelog was lost; restore it" in again.last_words()["why"]
            assert "repair what it names" in again.last_words()["todo"]

    async def test_a_suspended_worker_that_wakes_up_does_not_fence_its_successor(self, stage, tmp_path):
        """Before it opens anything again it asks the group, is refused, and joins anew."""
        wake = tmp_path / "wake"
        stage.toy = dataclasses.replace(stage.toy, prefix=f"{stage.toy.prefix}-one", partitions=1)
        await stage.toy.create(stage.bootstrap)
        await stage.toy.produce(stage.bootstrap, orders(10))
        async with process(stage, hang_at="acked", until=str(wake)) as sleeper:
            await until(lambda: sleeper.says("HANGS"))
            successor = await stage.start()
            await stage.toy.produce(stage.bootstrap, orders(10, first=10))
            await until(lambda: paid(stage, 20))
            wake.touch()
            await until(lambda: sleeper.says('"reopening"') or sleeper.process.returncode)
            await until(lambda: sum('"assigned"' in line for line in sleeper.lines) >= 2 or sleeper.process.returncode)
            await stage.toy.produce(stage.bootstrap, orders(20, first=20))
            await until(lambda: paid(stage, 40))
            assert successor.ends == []
            assert sleeper.process.returncode is None
        assert await stage.paid() == names(40)
        assert all(len(order.seen) == 2 for order in (await stage.states()).values())

    async def test_nothing_is_opened_again_before_the_group_accepts_this_worker(self, stage):
        steps: list[str] = []

        async def probe(step, _partition, _session):
            steps.append(step)
            if steps.count("begun") == 1 and step == "begun":
                raise ConnectionError("something that can be tried again")

        worker = await stage.start(probe=probe)
        coordinator = worker.worker.member._coordinator
        accepted, asked = coordinator._do_heartbeat, []

        async def refused() -> bool:
            asked.append(True)
            return False

        coordinator._do_heartbeat = refused
        await stage.toy.produce(stage.bootstrap, [Event("a", "o", ORDER, 1)])
        await until(lambda: len(asked) >= 5)
        assert steps.count("fenced") == 2
        coordinator._do_heartbeat = accepted
        await until(lambda: handled(worker) == 1)
        assert steps.count("fenced") == 3


class TestTakeover:
    async def test_what_a_killed_worker_left_in_the_middle_is_done_once(self, stage):
        await stage.toy.produce(stage.bootstrap, orders(60))
        async with process(stage, hang_at="acked", batch=7) as victim:
            await until(lambda: victim.says("HANGS"))
            os.kill(victim.process.pid, signal.SIGKILL)
            await victim.code()
            await stage.start()
            await until(lambda: paid(stage, 60), 40)
        assert await stage.paid() == names(60)
        assert all(len(order.seen) == 2 for order in (await stage.states()).values())

    async def test_what_a_killed_worker_had_committed_unheard_is_not_done_again(self, stage):
        await stage.toy.produce(stage.bootstrap, orders(60))
        async with process(stage, hang_at="committed", batch=7) as victim:
            await until(lambda: victim.says("HANGS"))
            os.kill(victim.process.pid, signal.SIGKILL)
            await victim.code()
            await stage.start()
            await until(lambda: paid(stage, 60), 40)
        assert await stage.paid() == names(60)

    async def test_sigterm_drains_leaves_the_group_and_exits_with_0(self, stage):
        """The successor need not wait for the session to time out."""
        await stage.toy.produce(stage.bootstrap, orders(20))
        async with process(stage, session=30.0) as worker:
            await until(lambda: paid(stage, 20))
            worker.process.terminate()
            assert await worker.code(10) == 0
        began = time.monotonic()
        await stage.start()
        assert time.monotonic() - began < 10
        assert await stage.paid() == names(20)

    async def test_a_shutdown_that_hangs_ends_at_its_deadline_with_8(self, stage):
        await stage.toy.produce(stage.bootstrap, orders(5))
        async with process(stage, hang_at="acked", hang="quiet", shutdown=1.0) as worker:
            await until(lambda: worker.says("HANGS"))
            worker.process.terminate()
            assert await worker.code(10) == 8
            assert "not closed within 1 s" in worker.last_words()["why"]

    async def test_a_worker_that_is_still_opening_stops_at_once(self, stage):
        reached = asyncio.Event()

        async def probe(step, _partition, _session):
            if step == "recovered":
                reached.set()
                await asyncio.Event().wait()

        worker = stage.begin(probe=probe, transaction=60.0)
        await asyncio.wait_for(reached.wait(), 20)
        began = time.monotonic()
        await worker.stop()
        assert time.monotonic() - began < 6
        assert worker.ends == []

    async def test_a_running_transaction_is_finished_before_the_worker_leaves(self, stage):
        reached, go = asyncio.Event(), asyncio.Event()

        async def probe(step, _partition, _session):
            if step == "acked":
                reached.set()
                await go.wait()

        await stage.toy.produce(stage.bootstrap, orders(1))
        worker = await stage.start(probe=probe)
        await asyncio.wait_for(reached.wait(), 20)
        worker.worker.stop()
        go.set()
        await asyncio.wait_for(worker.task, 20)
        assert (await stage.states())["o000"].seen
        assert worker.ends == []


class TestRebalance:
    async def test_partitions_are_shared_and_nothing_is_done_twice(self, stage):
        first = await stage.start()
        await stage.toy.produce(stage.bootstrap, orders(20))
        await until(lambda: handled(first) == 40)
        second = await stage.start()
        await until(lambda: len(first.partitions) == 1 and len(second.partitions) == 1 and first.worker.ready)
        assert set(first.partitions) | set(second.partitions) == {0, 1}
        await stage.toy.produce(stage.bootstrap, orders(40, first=20))
        await until(lambda: paid(stage, 60))
        assert await stage.paid() == names(60)
        assert handled(second) > 0

    async def test_a_partition_that_stays_is_not_opened_again(self, stage):
        first = await stage.start()
        before = {number: (partition, partition.tag[0]) for number, partition in first.partitions.items()}
        await stage.start()
        await until(lambda: len(first.partitions) == 1 and first.worker.ready)
        [(number, partition)] = first.partitions.items()
        assert (partition, partition.tag[0]) == before[number]
        await stage.toy.produce(stage.bootstrap, orders(20))
        await until(lambda: paid(stage, 20))
        assert partition.stats.reopened == 0
        assert not first.worker.holds

    async def test_a_shutdown_in_the_midst_of_a_revocation_closes_each_partition_once_and_in_order(self, stage):
        """Both wait for the same running transactions, and both drop the partitions."""
        actor = await stage.start(warm=False)
        busy = [partition.lock for partition in actor.partitions.values()]
        for lock in busy:
            await lock.acquire()
        began = time.monotonic()
        both = [
            asyncio.create_task(actor.worker.on_partitions_revoked([])),
            asyncio.create_task(actor.worker.shut_down()),
        ]
        await until(lambda: len(actor.worker.holds) == len(busy))
        for lock in busy:
            lock.release()
        await asyncio.gather(*both)
        assert actor.ends == []
        assert not actor.partitions
        assert not actor.worker.holds
        assert time.monotonic() - began < actor.worker.config.deadline

    async def test_without_warmth_every_partition_is_opened_anew(self, stage):
        first = await stage.start(warm=False)
        before = dict(first.partitions)
        await stage.start(warm=False)
        await until(lambda: len(first.partitions) == 1 and first.worker.ready)
        [(number, partition)] = first.partitions.items()
        assert partition is not before[number]

    async def test_partitions_of_a_worker_that_left_go_to_the_others(self, stage):
        first, second = await stage.start(), await stage.start()
        await until(lambda: len(first.partitions) == 1 and first.worker.ready)
        await second.stop()
        await until(lambda: len(first.partitions) == 2 and first.worker.ready)
        await stage.toy.produce(stage.bootstrap, orders(20))
        await until(lambda: paid(stage, 20))
        assert await stage.paid() == names(20)

    async def test_a_transaction_that_outlasts_the_revocation_costs_the_partition_its_warmth(self, stage):
        stuck = asyncio.Event()

        async def probe(step, partition, _session):
            if step == "begun" and partition == 0 and not stuck.is_set():
                stuck.set()
                await asyncio.Event().wait()

        first = await stage.start(probe=probe, transaction=60.0)
        await stage.toy.produce(stage.bootstrap, orders(20))
        await asyncio.wait_for(stuck.wait(), 20)
        await stage.start()
        await until(lambda: paid(stage, 20), 40)
        assert await stage.paid() == names(20)
        assert first.ends == []

    async def test_a_failing_revocation_ends_the_worker(self, stage):
        """The client would swallow the error and go on."""
        first = await stage.start()
        real = first.worker.hold

        async def broken(_partition, _within):
            raise RuntimeError("no more locks")

        first.worker.hold = broken
        second = stage.begin()
        code, why = await first.ended()
        first.worker.hold = real
        assert code is Exit.MEMBERSHIP
        assert "a revocation failed: RuntimeError('no more locks')" in why
        await second.stop()

    async def test_inputs_that_are_not_co_partitioned_are_refused(self, stage):
        async with stage.admin() as client:
            await client.create_partitions({stage.toy.payments: NewPartitions(total_count=3)})

            async def grown() -> bool:
                [found] = await client.describe_topics([stage.toy.payments])
                return len(found["partitions"]) == 3 and all(one["leader"] >= 0 for one in found["partitions"])

            await until(grown)
        worker = stage.begin()
        code, why = await worker.ended()
        assert code is Exit.MEMBERSHIP
        assert f"partition 2 came without ['{stage.toy.orders}']" in why
        assert "equal partition counts" in why
        assert worker.partitions == {}


class TestJoining:
    async def test_a_cluster_that_does_not_answer_yet_is_waited_for(self, stage):
        """The first address is one where nobody listens, until the worker has said so."""
        address, stage.bootstrap = stage.bootstrap, "127.0.0.1:1"
        with capture_logs() as lines:
            worker = stage.begin()
            await until(lambda: any("cannot reach the cluster yet" in line["event"] for line in lines))
        worker.worker.config.kafka["bootstrap_servers"] = address
        await worker.ready()

    async def test_a_worker_that_waits_for_a_cluster_can_be_stopped(self, stage):
        stage.bootstrap = "127.0.0.1:1"
        worker = stage.begin()
        with capture_logs() as lines:
            await until(lambda: any("cannot reach the cluster yet" in line["event"] for line in lines))
        worker.worker.stop()
        with pytest.raises(KafkaConnectionError):
            await asyncio.wait_for(worker.task, 10)
        stage.actors.clear()

    async def test_an_error_of_the_group_that_cannot_be_tried_again_ends_the_worker(self, stage):
        worker = await stage.start()

        async def refused(**_options):
            raise GroupAuthorizationFailedError(stage.toy.prefix)

        worker.worker.member.getmany = refused
        code, why = await worker.ended()
        assert code is Exit.MEMBERSHIP
        assert "the group refused this member: GroupAuthorizationFailedError" in why

    async def test_an_error_of_the_group_that_can_be_tried_again_is_said(self, stage):
        worker = await stage.start()
        real = worker.worker.member.getmany

        async def moved(**_options):
            worker.worker.member.getmany = real
            raise NotCoordinatorForGroupError

        with capture_logs() as lines:
            worker.worker.member.getmany = moved
            await until(lambda: any(line["event"] == "group trouble" for line in lines))
        assert worker.ends == []
