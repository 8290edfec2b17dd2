"""What a notifier tells Prometheus: what was recorded, what came of each try, how long it took. By outcome, never by merchant or order."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

SECONDS: Final = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Meters:
    """The counters of one notifier, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._records = Counter(
            "concord_notifier_records",
            "Notices recorded, and records lost or unreadable",
            ["what"],
            registry=self.registry,
        )
        self._tries = Counter(
            "concord_notifier_tries",
            "Tries to deliver, by what became of the notice",
            ["outcome"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "concord_notifier_try_seconds", "How long a try took", buckets=SECONDS, registry=self.registry
        )
        self._flying = Gauge("concord_notifier_in_flight", "Notices on their way", registry=self.registry)
        self._trouble = Gauge(
            "concord_notifier_trouble", "1 while Postgres or Kafka cannot be used", ["part"], registry=self.registry
        )

    def recorded(self, what: str, number: int) -> None:
        """`what` is recorded, lost or unreadable."""
        self._records.labels(what).inc(number)

    def tried(self, outcome: str, took_s: float) -> None:
        """`outcome` is delivered, failed, dead, or late: it had been taken by another."""
        self._tries.labels(outcome).inc()
        self._seconds.observe(took_s)

    def in_flight(self, number: int) -> None:
        self._flying.set(number)

    def trouble(self, part: str, *, is_there: bool) -> None:
        """`part` is recording, delivering or finding."""
        self._trouble.labels(part).set(int(is_there))
