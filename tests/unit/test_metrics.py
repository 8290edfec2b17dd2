"""What Prometheus reads: every family, labelled by partition, from a real worker that reaches no broker."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from streams import metrics
from streams.engine.config import Config
from streams.engine.membership import Worker
from streams.engine.partition import Partition
from streams.engine.stats import BUCKETS
from streams.engine.table import Change, MemoryTable
from tests.unit.engine import tally

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from prometheus_client.metrics_core import Metric

FAMILIES = {
    "concord_ready": "gauge",
    "concord_assigned_partitions": "gauge",
    "concord_events": "counter",
    "concord_due_times": "counter",
    "concord_dead_letters": "counter",
    "concord_transactions": "counter",
    "concord_reopenings": "counter",
    "concord_moved_records": "counter",
    "concord_rolled_forward_records": "counter",
    "concord_sent_records": "counter",
    "concord_verdicts": "counter",
    "concord_partition_open": "gauge",
    "concord_state_rows": "gauge",
    "concord_state_unconfirmed_rows": "gauge",
    "concord_due_times_pending": "gauge",
    "concord_due_time_overdue_seconds": "gauge",
    "concord_restored_records": "gauge",
    "concord_restore_target_records": "gauge",
    "concord_opened_seconds": "gauge",
    "concord_lag_records": "gauge",
    "concord_commit_seconds": "histogram",
    "concord_due_time_delay_seconds": "histogram",
}


@pytest.fixture
async def worker() -> AsyncIterator[Worker]:
    """A worker with partitions 0 and 3, whose broker does not answer."""
    made = Worker(tally.topology(), Config(kafka={"bootstrap_servers": "127.0.0.1:1"}), end=lambda _code, _why: None)
    for number in (0, 3):
        made.partitions[number] = Partition(made, number)
    yield made
    for partition in made.partitions.values():
        await partition.close()


def scraped(worker: Worker) -> dict[str, Metric]:
    text = generate_latest(metrics.registry(worker)).decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def value(families: dict[str, Metric], family: str, sample: str = "", **labels: str) -> float:
    [found] = [
        each.value for each in families[family].samples if each.name == (sample or family) and each.labels == labels
    ]
    return found


async def test_every_family_is_exposed_with_its_kind_and_a_help_text(worker):
    found = scraped(worker)
    assert {name: family.type for name, family in found.items()} == FAMILIES
    assert all(family.documentation for family in found.values())


async def test_every_family_is_exposed_before_anything_is_assigned(worker):
    for number in list(worker.partitions):
        await worker.partitions.pop(number).close()
    assert set(scraped(worker)) == set(FAMILIES)


async def test_counters_are_those_of_each_partition(worker):
    for number, count in ((0, 5), (3, 7)):
        stats = worker.partitions[number].stats
        stats.records, stats.dead, stats.sent["out"], stats.labels["paid"] = count, 1, count + 1, 2
    found = scraped(worker)
    assert value(found, "concord_events", "concord_events_total", partition="0") == 5
    assert value(found, "concord_events", "concord_events_total", partition="3") == 7
    assert value(found, "concord_sent_records", "concord_sent_records_total", partition="3", topic="out") == 8
    assert value(found, "concord_verdicts", "concord_verdicts_total", partition="0", verdict="paid") == 2
    assert value(found, "concord_dead_letters", "concord_dead_letters_total", partition="0") == 1


async def test_a_histogram_is_cumulative_and_sums(worker):
    stats = worker.partitions[0].stats
    for seconds in (0.0005, 0.03, 0.04, 60.0):
        stats.commit.add(seconds)
    found = scraped(worker)
    bucket = [
        value(found, "concord_commit_seconds", "concord_commit_seconds_bucket", partition="0", le=le)
        for le in ("0.001", "0.02", "0.05", str(BUCKETS[-1]), "+Inf")
    ]
    assert bucket == [1, 1, 3, 3, 4]
    assert value(found, "concord_commit_seconds", "concord_commit_seconds_count", partition="0") == 4
    assert value(found, "concord_commit_seconds", "concord_commit_seconds_sum", partition="0") == pytest.approx(60.0705)


async def test_the_table_is_measured_while_there_is_one(worker):
    table = worker.partitions[0].table = MemoryTable()
    overdue = int(time.time() * 1000) - 5000
    table.apply({b"a": Change(b"1", overdue), b"b": Change(b"1", overdue + 10**9), b"c": Change(b"1", None)})
    found = scraped(worker)
    assert value(found, "concord_state_rows", partition="0") == 3
    assert value(found, "concord_due_times_pending", partition="0") == 2
    assert 5 <= value(found, "concord_due_time_overdue_seconds", partition="0") < 60
    assert [sample.labels for sample in found["concord_state_rows"].samples] == [{"partition": "0"}]


async def test_nothing_due_is_nothing_overdue(worker):
    worker.partitions[0].table = MemoryTable()
    assert value(scraped(worker), "concord_due_time_overdue_seconds", partition="0") == 0


async def test_a_worker_is_ready_only_when_the_group_has_spoken_and_all_partitions_are_open(worker):
    assert value(scraped(worker), "concord_ready") == 0
    for partition in worker.partitions.values():
        partition.ready.set()
    assert value(scraped(worker), "concord_ready") == 0
    worker.assigned = True
    assert value(scraped(worker), "concord_ready") == 0, "not in touch with the group"
    worker.member = SimpleNamespace(_coordinator=SimpleNamespace(coordinator_id=1))
    assert value(scraped(worker), "concord_ready") == 1
    worker.partitions[3].ready.clear()
    found = scraped(worker)
    assert value(found, "concord_ready") == 0
    assert value(found, "concord_partition_open", partition="0") == 1
    assert value(found, "concord_partition_open", partition="3") == 0
    worker.partitions[3].ready.set()
    worker.stop()
    assert value(scraped(worker), "concord_ready") == 0
