"""Opening a partition: what it believes, what it restores, what it rolls forward, and what it refuses to run on."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from structlog.testing import capture_logs

from streams.engine import position as positions
from streams.engine.failures import Exit
from streams.engine.recovery import Recovery
from streams.engine.table import RocksTable
from tests.integration.engine.stage import until
from tests.support.toy import ORDER, PAY, Event, order_with_payment, writing

if TYPE_CHECKING:
    from tests.integration.engine.stage import Actor, Stage

pytestmark = pytest.mark.kafka


def orders(count: int, first: int = 0) -> list[Event]:
    return [event for n in range(first, first + count) for event in order_with_payment(f"o{n:03}")]


def names(count: int, first: int = 0) -> list[str]:
    return [f"o{n:03}" for n in range(first, first + count)]


def unpaid(count: int) -> list[Event]:
    """Events that change state and say nothing."""
    return [Event(f"u{n}:1", f"u{n}", ORDER, 1) for n in range(count)]


def handled(worker: Actor) -> int:
    return sum(partition.stats.records for partition in worker.partitions.values())


async def run(stage: Stage, events: list[Event], **config) -> None:
    """A worker handles these events and leaves."""
    await stage.toy.produce(stage.bootstrap, events)
    worker = await stage.start(**config)
    await until(lambda: handled(worker) == len(events))
    await worker.stop()


async def refusal(stage: Stage, **config) -> str:
    """Why a worker does not start."""
    worker = stage.begin(**config)
    code, why = await worker.ended()
    assert code is Exit.STATE_UNKNOWN
    await worker.stop()
    return why


class TestWhereItStands:
    async def test_a_restart_goes_on_where_the_changelog_says(self, stage):
        await run(stage, orders(10))
        await stage.toy.produce(stage.bootstrap, orders(10, first=10))
        worker = await stage.start()
        await until(lambda: handled(worker) == 20)
        assert await stage.paid() == names(20)

    @pytest.mark.parametrize("to", ["beginning", "end"])
    async def test_group_offsets_are_never_read_back(self, stage, to):
        """Design §3: committed outside, best effort, for lag tools."""
        await run(stage, orders(10))
        await stage.toy.produce(stage.bootstrap, orders(10, first=10))
        tool = AIOKafkaConsumer(bootstrap_servers=stage.bootstrap, group_id=stage.toy.prefix, enable_auto_commit=False)
        await tool.start()
        logs = [TopicPartition(topic, number) for topic in stage.toy.inputs for number in range(2)]
        tool.assign(logs)
        ends = await tool.end_offsets(logs)
        await tool.commit({log: 0 if to == "beginning" else ends[log] for log in logs})
        await tool.stop()
        worker = await stage.start()
        await until(lambda: handled(worker) == 20)
        assert await stage.paid() == names(20)
        states = await stage.states()
        assert all(len(order.seen) == 2 for order in states.values())

    async def test_each_opening_has_a_session_of_its_own(self, stage):
        sessions = []
        for number in range(3):
            await stage.toy.produce(stage.bootstrap, orders(10, first=10 * number))
            worker = await stage.start()
            await until(lambda worker=worker: handled(worker) == 20)
            sessions.append(worker.partitions[0].tag[0])
            await worker.stop()
        assert sessions == [1, 2, 3]

    async def test_an_idle_worker_may_restart_where_the_retention_has_deleted_everything(self, stage):
        """Group offsets of a partition that never wrote are no proof that a changelog was lost."""
        await stage.toy.produce(stage.bootstrap, orders(10))
        for topic in stage.toy.inputs:
            await stage.cut(topic, await stage.ends(topic))
        worker = await stage.start()
        await worker.stop()
        again = await stage.start()
        assert all(partition.offsets[stage.toy.orders] > 0 for partition in again.partitions.values())


class TestRefusals:
    async def test_a_lost_changelog_is_noticed_by_the_outputs_it_explains(self, stage):
        await run(stage, orders(20))
        await stage.lose(stage.toy.changelog)
        why = await refusal(stage)
        assert "outputs prove transaction" in why
        assert f"{stage.toy.changelog} ends with nothing" in why
        assert "restore it from a replica or a backup" in why

    async def test_a_lost_changelog_is_noticed_by_group_offsets_where_there_are_no_outputs(self, stage):
        await run(stage, unpaid(20))
        await stage.lose(stage.toy.changelog)
        why = await refusal(stage)
        assert f"the group {stage.toy.prefix} has read up to" in why
        assert "the changelog was lost; restore it, or delete the group's offsets" in why

    async def test_rows_without_a_position_are_refused(self, stage):
        async with writing(stage.bootstrap) as producer:
            row = b'{"id":"o"}'
            await producer.send_and_wait(stage.toy.changelog, row, key=b"o", partition=0)
        why = await refusal(stage)
        assert f"{stage.toy.changelog}/0 has rows but no @position record" in why

    async def test_a_damaged_position_is_refused(self, stage):
        async with writing(stage.bootstrap) as producer:
            await producer.send_and_wait(stage.toy.changelog, b"damaged", key=positions.KEY, partition=0)
        why = await refusal(stage)
        assert f"{stage.toy.changelog}/0: the changelog's @position record cannot be read" in why

    async def test_input_that_was_deleted_unread_is_refused(self, stage):
        await run(stage, orders(10))
        await stage.toy.produce(stage.bootstrap, orders(20, first=10))
        await stage.cut(stage.toy.orders, await stage.ends(stage.toy.orders))
        why = await refusal(stage)
        assert "was read only up to" in why
        assert "the retention deleted records that were never handled" in why
        assert "raise retention.ms" in why

    async def test_input_that_was_read_may_be_deleted(self, stage):
        await run(stage, orders(10))
        for topic in stage.toy.inputs:
            await stage.cut(topic, await stage.ends(topic))
        await run(stage, orders(5, first=10))
        assert await stage.paid() == names(15)

    async def test_outputs_lost_above_the_base_are_refused(self, stage):
        await run(stage, orders(20), watch=60.0)
        await stage.lose(stage.toy.success)
        why = await refusal(stage)
        assert f"{stage.toy.success}/" in why
        assert "the topic lost data" in why

    async def test_outputs_that_retention_deleted_are_not_missed(self, stage):
        await run(stage, orders(20), watch=60.0)
        await stage.cut(stage.toy.success, await stage.ends(stage.toy.success))
        await run(stage, orders(5, first=20))
        assert await stage.paid() == names(5, first=20)

    async def test_outputs_deleted_only_below_the_base_are_not_missed(self, stage):
        await run(stage, orders(20))
        worker = await stage.start(watch=0.1)
        await stage.toy.produce(stage.bootstrap, orders(20, first=20))
        await until(lambda: handled(worker) == 40)
        await until(
            lambda: all(
                p.horizon.bases[stage.toy.success] == p.horizon.ends[stage.toy.success]
                for p in worker.partitions.values()
            )
        )
        bases = {number: partition.horizon.bases[stage.toy.success] for number, partition in worker.partitions.items()}
        await stage.toy.produce(stage.bootstrap, orders(20, first=40))
        await until(lambda: handled(worker) == 80)
        await worker.stop()
        await stage.cut(stage.toy.success, bases)
        await run(stage, orders(5, first=60))
        assert await stage.paid() == names(25, first=40)


class TestScrub:
    async def test_a_transaction_left_open_is_ended_and_its_work_done_again(self, stage):
        """The worker dies between its sends and its commit; the next opening aborts what hangs and decides it again."""
        died = []

        async def probe(step, partition, session):
            if step == "acked" and not died:
                died.append(partition)
                raise ConnectionError("the worker is cut off here")

        await stage.toy.produce(stage.bootstrap, orders(10))
        worker = await stage.start(probe=probe, batch=4)
        await until(lambda: handled(worker) == 20)
        assert died
        assert sum(partition.stats.reopened for partition in worker.partitions.values()) == 1
        assert await stage.paid() == names(10)
        seen = [record.value for record in await stage.read(stage.toy.success, "read_uncommitted")]
        assert len(seen) >= 10

    async def test_a_transaction_whose_commit_was_not_heard_is_not_done_twice(self, stage):
        died = []

        async def probe(step, partition, session):
            if step == "committed" and not died:
                died.append(partition)
                raise ConnectionError("the answer to the commit is lost")

        await stage.toy.produce(stage.bootstrap, orders(10))
        worker = await stage.start(probe=probe)
        await until(lambda: len(died) == 1 and worker.worker.ready)
        await stage.toy.produce(stage.bootstrap, orders(10, first=10))
        await until(lambda: stage_paid(stage, 20))
        assert await stage.paid() == names(20)
        assert all(len(order.seen) == 2 for order in (await stage.states()).values())

    @pytest.mark.parametrize(
        "step", ["fenced", "scrub_begun", "sent", "scrubbed", "recovered", "begun", "acked", "committing", "committed"]
    )
    async def test_a_failure_at_any_step_is_opened_again(self, stage, step):
        left = {0: 2, 1: 2}

        async def probe(at, partition, session):
            if at == step and left[partition]:
                left[partition] -= 1
                raise ConnectionError(f"at {step}")

        await stage.toy.produce(stage.bootstrap, orders(10))
        await stage.start(probe=probe)
        await until(lambda: stage_paid(stage, 10))
        await stage.toy.produce(stage.bootstrap, orders(10, first=10))
        await until(lambda: stage_paid(stage, 20))
        assert await stage.paid() == names(20)
        await until(lambda: left == {0: 0, 1: 0})

    async def test_a_fatal_failure_stops_the_worker_with_its_reason(self, stage):
        async def probe(step, partition, session):
            if step == "recovered":
                raise ValueError("the disk speaks in tongues")

        code, why = await stage.begin(probe=probe).ended()
        assert code is Exit.STATE_UNKNOWN
        assert "ValueError: the disk speaks in tongues" in why

    async def test_failures_without_end_stop_the_worker(self, stage):
        async def probe(step, partition, session):
            if step == "scrubbed":
                raise ConnectionError("again")

        code, why = await stage.begin(probe=probe, failures=2).ended()
        assert code is Exit.STATE_UNKNOWN
        assert "ConnectionError: again" in why

    async def test_failures_are_counted_in_a_row_only(self, stage):
        fail = [False]

        async def probe(step, partition, session):
            if step == "begun" and fail.pop():
                raise ConnectionError("now and then")
            if step == "begun":
                fail.append(False)

        fail[:] = [False]
        worker = await stage.start(probe=probe, failures=1)
        for number in range(3):
            fail[:] = [False, True]
            await stage.toy.produce(stage.bootstrap, [Event(f"x{number}", "same", ORDER, 1)])
            await until(lambda number=number: handled(worker) == number + 1 or worker.ends)
        assert worker.ends == []


async def stage_paid(stage, count):
    return len(await stage.paid()) >= count


class TestTail:
    """A table on disk restarts from its checkpoint and reads only what the changelog has beyond it."""

    async def test_a_restart_reads_only_the_tail(self, stage, tmp_path):
        await run(stage, orders(60), state_dir=tmp_path)
        await run(stage, orders(3, first=60), state_dir=tmp_path)
        with capture_logs() as lines:
            worker = await stage.start(state_dir=tmp_path)
        restored = sum(line["restored"] for line in lines if line["event"] == "opened")
        changelog = len(await stage.read(stage.toy.changelog))
        assert restored < 15
        assert changelog > 63
        assert {
            name for name in names(63) if any(p.table.get(name.encode()) for p in worker.partitions.values())
        } == set(names(63))

    async def test_due_times_come_back_from_the_checkpoint(self, stage, tmp_path):
        await run(stage, unpaid(20), state_dir=tmp_path)
        for _ in range(2):
            worker = await stage.start(state_dir=tmp_path)
            tables = [partition.table for partition in worker.partitions.values()]
            assert not any(table.dues for table in tables), "an hour is far"
            for table in tables:
                table.reach(int(time.time() * 1000) + stage.toy.due_ms)
            assert sum(len(table.dues) for table in tables) == 20
            await worker.stop()

    async def test_a_session_follows_the_last_one_even_if_nothing_is_left_to_read(self, stage, tmp_path):
        """The checkpoint is evidence: else a restart with an empty tail would begin with session 1 again."""
        await run(stage, unpaid(10))
        for _ in range(2):
            await run(stage, [], state_dir=tmp_path)
        worker = await stage.start(state_dir=tmp_path, watch=0.1)
        await stage.toy.produce(stage.bootstrap, [Event(f"{n}", f"n{n}", ORDER, 1) for n in range(10)])
        await until(lambda: handled(worker) == 10)
        await until(lambda: all(p.table.unconfirmed == 0 for p in worker.partitions.values()))
        await worker.stop()
        tail = await stage.start(state_dir=tmp_path)
        sessions = {number: partition.tag[0] for number, partition in tail.partitions.items()}
        await tail.stop()
        shutil.rmtree(tmp_path)
        whole = await stage.start(state_dir=tmp_path)
        assert {number: partition.tag[0] for number, partition in whole.partitions.items()} == sessions
        assert all(session > 2 for session in sessions.values())
        await stage.toy.produce(stage.bootstrap, [Event(f"m{n}", f"n{n}", PAY, 1) for n in range(10)])
        await until(lambda: stage_paid(stage, 10))
        await whole.stop()
        await stage.start()  # from memory: the whole changelog must tell one story

    async def test_a_killed_table_goes_on_from_its_last_checkpoint(self, stage, tmp_path):
        await stage.toy.produce(stage.bootstrap, orders(20))
        worker = await stage.start(state_dir=tmp_path / "one", watch=0.1)
        await until(lambda: handled(worker) == 40)
        await until(lambda: all(p.table.unconfirmed == 0 for p in worker.partitions.values()))
        shutil.copytree(tmp_path / "one", tmp_path / "killed")
        await stage.toy.produce(stage.bootstrap, orders(20, first=20))
        await until(lambda: handled(worker) == 80)
        await worker.stop()
        again = await stage.start(state_dir=tmp_path / "killed")
        assert {n for n in names(40) if any(p.table.get(n.encode()) for p in again.partitions.values())} == set(
            names(40)
        )
        await stage.toy.produce(stage.bootstrap, orders(20))  # all of them duplicates
        await until(lambda: handled(again) == 40)
        assert await stage.paid() == names(40)

    async def test_a_checkpoint_beyond_the_changelog_is_discarded(self, stage, tmp_path, kafka, topic_prefix):
        """A folder that is left of another cluster, or of a changelog that was deleted on purpose."""
        await run(stage, orders(40), state_dir=tmp_path)
        for topic in stage.toy.own:
            await stage.lose(topic)
        async with stage.admin() as client:
            found = await client.list_consumer_group_offsets(stage.toy.prefix)
        tool = AIOKafkaConsumer(bootstrap_servers=stage.bootstrap, group_id=stage.toy.prefix, enable_auto_commit=False)
        await tool.start()
        tool.assign(list(found))
        await tool.commit(dict.fromkeys(found, 0))
        await tool.stop()
        worker = await stage.start(state_dir=tmp_path)
        await until(lambda: handled(worker) == 80)
        assert await stage.paid() == names(40)

    async def test_a_folder_in_use_is_waited_for(self, stage, tmp_path):
        """A worker on the same machine that has not quite ended yet."""
        holder = RocksTable(tmp_path / "0")
        with capture_logs() as lines:
            worker = stage.begin(state_dir=tmp_path)
            await until(lambda: any("in use by another process" in str(line.get("error")) for line in lines))
            holder.close()
            await worker.ready()


class TestRollForward:
    """Real marker loss is the fault suite's; here a committed record is made to look as if its marker were lost."""

    async def test_an_unstable_scrub_is_tried_again(self, stage, monkeypatch):
        asked = []
        scrub = Recovery.scrub

        async def late(self, session):
            if not asked:
                asked.append(self.partition)
                real = self.client.end_offsets

                async def behind(logs):
                    return dict.fromkeys(await real(logs), 0)

                self.client.end_offsets = behind
            return await scrub(self, session)

        monkeypatch.setattr(Recovery, "scrub", late)
        with capture_logs() as lines:
            await stage.start(stuck=0.3)
        assert any("the scrub is not visible" in str(line.get("error")) for line in lines)

    async def test_a_commit_that_stays_invisible_is_opened_again(self, stage):
        worker = await stage.start(watch=0.1, stuck=0.4)
        partition = worker.partitions[0]
        real = partition.owner.stable_offsets

        async def behind(logs):
            return dict.fromkeys(await real(logs), 0)

        partition.owner.stable_offsets = behind
        with capture_logs() as lines:
            await stage.toy.produce(stage.bootstrap, orders(20))
            await until(lambda: any("a marker was lost" in str(line.get("error")) for line in lines))
        partition.owner.stable_offsets = real
        await until(lambda: stage_paid(stage, 20))
        assert await stage.paid() == names(20)
