"""Whether payments come to their end: the figures of Postgres beside how far the projection trails, judged by limits, and as metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition
from msgspec import Struct
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from stores import figures, offsets

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from prometheus_client.metrics_core import Metric

    from stores.figures import Figures
    from stores.schema import Connection


class Measured(Struct, frozen=True):
    """Figures, and the projection's lag: committed records of each partition of the decisions that are not projected.

    Markers of transactions are none. Beyond `COUNTED` the offsets between are told, which a lag of that size may be.
    """

    figures: Figures
    lag: dict[int, int]


class Limits(Struct, frozen=True, kw_only=True):
    """The most that is well. Shares are per cent, times seconds."""

    stuck: int = 0
    single_sided: int = 0
    unknown: int = 1000
    by_query_pct: int = 20
    callback_delay_s: int = 300
    backlog_s: int = 900
    dead: int = 0
    overdue: int = 0
    lag: int = 10_000


class Finding(NamedTuple):
    """One number beside its limit."""

    name: str
    found: int
    most: int

    @property
    def well(self) -> bool:
        return self.found <= self.most


async def measure(
    connection: Connection, kafka: Mapping[str, Any], decisions: str, partitions: int, now: datetime
) -> Measured:
    """Ask Postgres, then the broker. Raises asyncpg's and Kafka's errors."""
    read = await figures.read(connection, now)
    projected = await offsets.read(connection, [(decisions, number) for number in range(partitions)])
    consumer = AIOKafkaConsumer(**kafka, enable_auto_commit=False, isolation_level="read_committed")
    await consumer.start()
    try:
        places = [TopicPartition(decisions, number) for number in range(partitions)]
        first, ends = await consumer.beginning_offsets(places), await consumer.end_offsets(places)
        lag = {}
        for place in places:
            begin = max(first[place], projected.get((decisions, place.partition), 0))
            lag[place.partition] = await _behind(consumer, place, begin, ends[place])
    finally:
        await consumer.stop()
    return Measured(read, lag)


async def _behind(consumer: AIOKafkaConsumer, place: TopicPartition, begin: int, end: int) -> int:
    """How many records lie between: read, as the offsets of markers look like any other."""
    if not 0 < end - begin <= COUNTED:
        return max(0, end - begin)
    consumer.assign([place])
    consumer.seek(place, begin)
    count = 0
    while await consumer.position(place) < end:
        found = await consumer.getmany(place, timeout_ms=WAIT_MS)
        count += sum(record.offset < end for records in found.values() for record in records)
        if not found:
            break  # what is left are markers
    return count


def judge(measured: Measured, limits: Limits) -> list[Finding]:
    """Every number beside its limit. A channel's share counts from 20 successes on: fewer say nothing."""
    found = measured.figures
    shares = [100 * one.by_query // one.successes for one in found.learned.values() if one.successes >= FEWEST]
    delays = [int(one.p99) for one in found.callback_delay.values()]
    return [
        Finding("payments stuck for 30 minutes", sum(found.stuck.values()), limits.stuck),
        Finding("single-sided", found.single_sided, limits.single_sided),
        Finding("payments UNKNOWN", sum(found.unknown.values()), limits.unknown),
        Finding("successes learned by query, %, worst channel", max(shares, default=0), limits.by_query_pct),
        Finding("callback delay p99, s, worst channel", max(delays, default=0), limits.callback_delay_s),
        Finding("oldest notice not delivered, s", int(found.notices.oldest_s), limits.backlog_s),
        Finding("dead notices", found.notices.dead, limits.dead),
        Finding("discrepancies past their deadline", found.discrepancies.overdue, limits.overdue),
        Finding("decisions not projected", sum(measured.lag.values()), limits.lag),
    ]


FEWEST: Final = 20
COUNTED: Final = 20_000
WAIT_MS: Final = 500


class HealthCollector(Collector):
    """The last measurement as metrics; without one, only that there is none."""

    def __init__(self) -> None:
        self.measured: Measured | None = None

    def collect(self) -> Iterable[Metric]:
        yield GaugeMetricFamily(
            "concord_health_measured",
            "1 while the figures are those of the last try",
            value=int(self.measured is not None),
        )
        if self.measured is None:
            return
        found, lag = self.measured.figures, self.measured.lag
        by_query = {channel: one.by_query for channel, one in found.learned.items()}
        successes = {channel: one.successes for channel, one in found.learned.items()}
        yield _by("concord_stuck_payments", "PAYING or UNKNOWN for 30 minutes", "channel", found.stuck)
        yield _by("concord_unknown_payments", "Payments whose outcome nobody knows", "channel", found.unknown)
        yield GaugeMetricFamily("concord_single_sided", "Open as known to one side only", value=found.single_sided)
        yield _by("concord_recent_successes", "Successes of the last day", "channel", successes)
        yield _by("concord_recent_successes_by_query", "Of these, first learned by asking", "channel", by_query)
        yield from self._delays(found)
        yield GaugeMetricFamily("concord_notices_waiting", "Notices not delivered", value=found.notices.waiting)
        yield GaugeMetricFamily(
            "concord_notices_oldest_seconds", "Age of the oldest of them", value=found.notices.oldest_s
        )
        yield GaugeMetricFamily("concord_notices_dead", "Notices given up", value=found.notices.dead)
        yield _by("concord_discrepancies_open", "Open discrepancies", "severity", found.discrepancies.by_severity)
        yield GaugeMetricFamily("concord_discrepancies_overdue", "Past deadline", value=found.discrepancies.overdue)
        yield _by("concord_projection_lag_records", "Decisions not projected", "partition", lag)

    @staticmethod
    def _delays(found: Figures) -> Iterable[Metric]:
        family = GaugeMetricFamily(
            "concord_callback_delay_seconds",
            "From a channel's event to our hearing of it",
            labels=["channel", "quantile"],
        )
        for channel, one in found.callback_delay.items():
            family.add_metric([channel, "0.5"], one.p50)
            family.add_metric([channel, "0.99"], one.p99)
        yield family


def _by(name: str, text: str, label: str, values: Mapping[Any, int]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([str(key)], value)
    return family
