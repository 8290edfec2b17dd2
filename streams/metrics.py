"""What a worker tells Prometheus: the engine's counters, read when they are asked for."""

from __future__ import annotations

import time
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from streams.engine.stats import BUCKETS, Histogram

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.metrics_core import Metric

    from streams.engine.membership import Worker
    from streams.engine.partition import Partition

COUNTERS: Final = {
    "records": ("concord_events", "Input records in committed transactions"),
    "timers": ("concord_due_times", "Due times fired in committed transactions"),
    "dead": ("concord_dead_letters", "Input records sent to the dead letters"),
    "transactions": ("concord_transactions", "Committed transactions"),
    "reopened": ("concord_reopenings", "Times that a partition was opened again after a failure"),
    "moved": ("concord_moved_records", "Input records that lay in a partition where their key does not live"),
    "rolled_forward": (
        "concord_rolled_forward_records",
        "Records that had lost their transaction marker and were written again",
    ),
}


def registry(worker: Worker) -> CollectorRegistry:
    """A registry that reads this worker's partitions."""
    found = CollectorRegistry()
    found.register(EngineCollector(worker))
    return found


class EngineCollector(Collector):
    """One family per counter, labelled by partition."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def collect(self) -> Iterable[Metric]:
        partitions = list(self._worker.partitions.values())
        yield GaugeMetricFamily(
            "concord_ready", "1 when every assigned partition has recovered", value=int(self._worker.ready)
        )
        yield GaugeMetricFamily("concord_assigned_partitions", "Partitions of this worker", value=len(partitions))
        yield from self._counters(partitions)
        yield from self._labelled(partitions)
        yield from self._gauges(partitions)
        yield from self._histograms(partitions)

    @staticmethod
    def _counters(partitions: list[Partition]) -> Iterable[Metric]:
        for field, (name, text) in COUNTERS.items():
            family = CounterMetricFamily(name, text, labels=["partition"])
            for partition in partitions:
                family.add_metric([str(partition.number)], getattr(partition.stats, field))
            yield family

    @staticmethod
    def _labelled(partitions: list[Partition]) -> Iterable[Metric]:
        sent = CounterMetricFamily("concord_sent_records", "Committed output records", labels=["partition", "topic"])
        verdicts = CounterMetricFamily(
            "concord_verdicts", "Committed verdicts, by kind", labels=["partition", "verdict"]
        )
        for partition in partitions:
            for topic, number in partition.stats.sent.items():
                sent.add_metric([str(partition.number), topic], number)
            for label, number in partition.stats.labels.items():
                verdicts.add_metric([str(partition.number), label], number)
        yield sent
        yield verdicts

    @staticmethod
    def _gauges(partitions: list[Partition]) -> Iterable[Metric]:
        rows = GaugeMetricFamily("concord_state_rows", "Rows in the partition's table", labels=["partition"])
        held = GaugeMetricFamily(
            "concord_state_unconfirmed_rows", "Rows held in memory until visible", labels=["partition"]
        )
        due = GaugeMetricFamily(
            "concord_due_times_pending",
            "Due times on the agenda: all in memory, those of the next hours on disk",
            labels=["partition"],
        )
        overdue = GaugeMetricFamily(
            "concord_due_time_overdue_seconds", "Age of the earliest due time", labels=["partition"]
        )
        restored = GaugeMetricFamily(
            "concord_restored_records", "Changelog records read by the current opening", labels=["partition"]
        )
        target = GaugeMetricFamily(
            "concord_restore_target_records", "Changelog offsets the opening has to pass", labels=["partition"]
        )
        opened = GaugeMetricFamily("concord_opened_seconds", "Duration of the last opening", labels=["partition"])
        is_open = GaugeMetricFamily(
            "concord_partition_open", "1 when the partition has recovered", labels=["partition"]
        )
        lag = GaugeMetricFamily(
            "concord_lag_records", "Committed input records not handled yet", labels=["partition", "topic"]
        )
        for partition in partitions:
            label = [str(partition.number)]
            is_open.add_metric(label, int(partition.ready.is_set()))
            restored.add_metric(label, partition.stats.restored)
            target.add_metric(label, partition.stats.restore_target)
            opened.add_metric(label, partition.stats.opened_in)
            for topic, behind in partition.lag().items():
                lag.add_metric([*label, topic], behind)
            if partition.table is not None:
                rows.add_metric(label, len(partition.table))
                held.add_metric(label, partition.table.unconfirmed)
                due.add_metric(label, len(partition.table.dues))
                earliest = partition.table.next_due()
                overdue.add_metric(label, max(0.0, time.time() - earliest / 1000) if earliest is not None else 0.0)
        yield from (is_open, rows, held, due, overdue, restored, target, opened, lag)

    @staticmethod
    def _histograms(partitions: list[Partition]) -> Iterable[Metric]:
        commit = HistogramMetricFamily(
            "concord_commit_seconds", "From begin to the committed transaction", labels=["partition"]
        )
        delay = HistogramMetricFamily(
            "concord_due_time_delay_seconds", "From a due time to its commit", labels=["partition"]
        )
        for partition in partitions:
            _add(commit, partition.number, partition.stats.commit)
            _add(delay, partition.number, partition.stats.due_delay)
        yield commit
        yield delay


def _add(family: HistogramMetricFamily, partition: int, histogram: Histogram) -> None:
    bounds = [*(str(bound) for bound in BUCKETS), "+Inf"]
    family.add_metric(
        [str(partition)], list(zip(bounds, accumulate(histogram.counts), strict=True)), sum_value=histogram.total
    )
