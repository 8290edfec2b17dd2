"""What a broker does on its own: it compacts the changelog, forgets producers that were quiet for long, and has lost markers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.integration.engine.stage import Stage, until
from tests.support.toy import EAGER_COMPACTION, ORDER, PAY, Event, Toy, order_with_payment

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from streams.dev.kafka import KafkaCluster
    from tests.integration.engine.stage import Actor

pytestmark = pytest.mark.kafka


def handled(worker: Actor) -> int:
    return sum(partition.stats.records for partition in worker.partitions.values())


async def pause(seconds: float) -> None:
    """The broker's housekeeping goes by its clock."""
    over = time.monotonic() + seconds
    await until(lambda: time.monotonic() >= over, seconds + 10)


class TestCompaction:
    @pytest.fixture
    async def compacting(self, kafka_cluster: Callable[..., KafkaCluster], topic_prefix: str) -> AsyncIterator[Stage]:
        cluster = kafka_cluster(properties={"log.cleaner.backoff.ms": "100"})
        made = Stage(cluster.bootstrap, Toy(prefix=topic_prefix.rstrip("."), partitions=1, due_ms=3_600_000))
        await made.toy.create(cluster.bootstrap, compaction=EAGER_COMPACTION)
        yield made
        await made.close()

    async def test_a_changelog_that_is_compacted_while_it_is_read_restores_the_same_state(self, compacting, tmp_path):
        stage = compacting
        before = await self.fill(stage)
        written = len(await stage.read(stage.toy.changelog, "read_uncommitted"))

        async def compacted() -> bool:
            return len(await stage.read(stage.toy.changelog, "read_uncommitted")) < written / 2

        async def probe(step, _partition, _session) -> None:
            if step == "scrubbed":  # the bounds of the restore are fixed now; the segments behind them go
                await until(compacted, 30)

        await pause(1.2)  # the scrub's own records then begin a new segment, and the former one may be cleaned
        worker = await stage.start(probe=probe)
        partition = worker.partitions[0]
        restored = {key: partition.table.get(key.encode()) for key in before}
        assert {key: loaded(stage, row) for key, row in restored.items()} == before
        await stage.toy.produce(stage.bootstrap, [Event(f"late{n}", f"k{n}", PAY, 1) for n in range(5)])
        await until(lambda: handled(worker) == 5)
        assert await stage.paid() == [f"k{n}" for n in range(5)]
        await worker.stop()
        for folder in (None, tmp_path, tmp_path):
            again = await stage.start(state_dir=folder)
            assert await stage.states() == {
                key: loaded(stage, again.partitions[0].table.get(key.encode())) for key in before
            }
            await again.stop()

    @staticmethod
    async def fill(stage: Stage) -> dict[str, object]:
        """Five orders, each changed forty times, in many transactions and two segments."""
        worker = await stage.start(batch=5)
        count = 0
        for start in (0, 20):
            events = [Event(f"{n}:{start + i}", f"k{n}", ORDER, 1) for i in range(20) for n in range(5)]
            await stage.toy.produce(stage.bootstrap, events)
            count += len(events)
            await until(lambda count=count: handled(worker) == count)
            await pause(1.2)
        states = await stage.states()
        assert all(len(order.seen) == 40 for order in states.values())
        await worker.stop()
        return dict(states)


def loaded(stage: Stage, row: bytes | None) -> object:
    assert row is not None
    return stage.toy.topology().load(row)


class TestExpiredProducers:
    """A week without a transaction, in seconds."""

    @pytest.fixture
    async def forgetful(self, kafka_cluster: Callable[..., KafkaCluster], topic_prefix: str) -> AsyncIterator[Stage]:
        cluster = kafka_cluster(
            properties={
                "transactional.id.expiration.ms": "2000",
                "transaction.remove.expired.transaction.cleanup.interval.ms": "500",
                "producer.id.expiration.ms": "2000",
                "producer.id.expiration.check.interval.ms": "500",
            }
        )
        made = Stage(cluster.bootstrap, Toy(prefix=topic_prefix.rstrip("."), partitions=1, due_ms=3_600_000))
        await made.toy.create(cluster.bootstrap)
        yield made
        await made.close()

    async def test_a_worker_whose_producer_was_forgotten_opens_again(self, forgetful):
        stage = forgetful
        worker = await stage.start()
        for round_ in range(5):
            await stage.toy.produce(stage.bootstrap, order_with_payment(f"o{round_}"))
            await until(lambda count=2 * round_ + 2: handled(worker) == count)
            if worker.partitions[0].stats.reopened:
                break
            await pause(4.0)
        assert worker.partitions[0].stats.reopened >= 1
        assert worker.ends == []
        assert await stage.paid() == [f"o{n}" for n in range(round_ + 1)]

    async def test_a_worker_that_was_away_for_longer_than_its_producer_is_remembered_goes_on(self, forgetful, tmp_path):
        stage = forgetful
        await stage.toy.produce(stage.bootstrap, order_with_payment("before"))
        worker = await stage.start(state_dir=tmp_path)
        await until(lambda: handled(worker) == 2)
        await worker.stop()
        await pause(4.0)
        await stage.toy.produce(stage.bootstrap, order_with_payment("after"))
        again = await stage.start(state_dir=tmp_path)
        await until(lambda: handled(again) == 2)
        assert again.partitions[0].tag[0] == 2
        assert await stage.paid() == ["after", "before"]


class TestLostMarkers:
    """What a lost marker means is the fault suite's; here is the one case that only a table on disk has."""

    async def test_an_output_is_rolled_forward_though_the_checkpoint_leaves_nothing_to_read(
        self, kafka_cluster, topic_prefix, tmp_path
    ):
        """The changelog's marker arrived, the output's did not: the checkpoint alone proves that the transaction was committed."""
        cluster = kafka_cluster(properties={"transaction.partition.verification.enable": "false"})
        stage = Stage(cluster.bootstrap, Toy(prefix=topic_prefix.rstrip("."), partitions=1, due_ms=3_600_000))
        await stage.toy.create(cluster.bootstrap)

        async def probe(step, _partition, session) -> None:
            if step == "begun":
                session.lose_markers([stage.toy.success])

        await stage.toy.produce(stage.bootstrap, order_with_payment("o"))
        worker = await stage.start(state_dir=tmp_path, probe=probe, watch=0.1, stuck=60.0)
        await until(lambda: handled(worker) == 2)
        await until(lambda: worker.partitions[0].table.unconfirmed == 0)
        await worker.stop()
        assert await stage.paid() == []
        again = await stage.start(state_dir=tmp_path)
        assert again.partitions[0].stats.rolled_forward == 1
        assert await stage.paid() == ["o"]
        assert again.partitions[0].tag == (2, 1)
        await again.stop()
        whole = await stage.start()
        assert whole.partitions[0].stats.rolled_forward == 0
        assert await stage.paid() == ["o"]
        await stage.close()
