"""Channel health for Prometheus: the last half hour as gauges, by account, all amount bands together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from stores import channel_health

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.metrics_core import Metric

    from stores.channel_health import Seen


class ChannelCollector(Collector):
    """What this process saw last, of its own parts of the stream."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []

    def collect(self) -> Iterable[Metric]:
        results = GaugeMetricFamily(
            "concord_channel_results", "Attempts that ended in the last half hour", labels=["channel", "result"]
        )
        unknown = GaugeMetricFamily("concord_channel_unknown", "Payments whose result nobody knows", labels=["channel"])
        failures = GaugeMetricFamily(
            "concord_channel_failures", "Attempts that failed, by class", labels=["channel", "failure"]
        )
        latency = GaugeMetricFamily(
            "concord_channel_latency_seconds", "From submit to success, on average", labels=["channel"]
        )
        for channel, health in channel_health.by_channel(self.seen).items():
            ours = [one for one in self.seen if one.channel == channel]
            results.add_metric([channel, "succeeded"], health.succeeded)
            results.add_metric([channel, "failed"], health.failed)
            unknown.add_metric([channel], health.unknown)
            if health.succeeded:
                latency.add_metric([channel], sum(one.latency_ms_total for one in ours) / health.succeeded / 1000)
            for name in sorted({name for one in ours for name in one.failures}):
                failures.add_metric([channel, name], sum(one.failures.get(name, 0) for one in ours))
        yield from (results, unknown, failures, latency)
