"""What a connector tells Prometheus: by account and verb, never by order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from streams.channels.requests import Reply

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from streams.channels.requests import Nothing

SECONDS: Final = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Meters:
    """The counters of one connector, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._calls = Counter(
            "concord_connector_calls", "Calls by what came back: an HTTP status, or why there was none",
            ["channel", "verb", "result"], registry=self.registry,
        )  # fmt: skip
        self._passed = Counter(
            "concord_connector_passed_over", "Requests that were not sent, by the reason",
            ["channel", "verb", "reason"], registry=self.registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "concord_connector_seconds", "From the call to its reply", ["channel", "verb"], buckets=SECONDS,
            registry=self.registry,
        )  # fmt: skip
        self._flying = Gauge("concord_connector_in_flight", "Calls in flight", ["channel"], registry=self.registry)
        self._paused = Gauge(
            "concord_connector_paused", "1 while the circuit breaker holds back", ["channel"], registry=self.registry
        )
        self._assigned = Gauge("concord_connector_partitions", "Partitions of this connector", registry=self.registry)
        self._members = Gauge("concord_connector_members", "Connectors that share the accounts", registry=self.registry)

    def answered(self, channel: str, verb: str, reply: Reply | Nothing, took_s: float, *, paused: bool) -> None:
        """A call has ended."""
        result = str(reply.status) if isinstance(reply, Reply) else reply
        self._calls.labels(channel, verb, result).inc()
        self._seconds.labels(channel, verb).observe(took_s)
        self._paused.labels(channel).set(int(paused))

    def passed_over(self, channel: str, verb: str, reason: str) -> None:
        """A request was not sent."""
        self._passed.labels(channel, verb, reason).inc()

    def in_flight(self, channel: str) -> AbstractContextManager[None]:
        """Counts a call while it lasts."""
        return self._flying.labels(channel).track_inprogress()

    def assigned(self, partitions: int, members: int) -> None:
        """The group gave out shares."""
        self._assigned.set(partitions)
        self._members.set(members)
