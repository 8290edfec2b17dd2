"""What a router tells Prometheus: fallbacks by the channel that refused, downgrades, and whether it can go on (R-164)."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge


class Meters:
    """The counters of one router, in a registry of their own. What is answered again counts again."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._fallbacks = Counter(
            "concord_router_fallbacks", "Refused attempts, by what was asked for: retry or close",
            ["channel", "asked"], registry=self.registry,
        )  # fmt: skip
        self._downgrades = Counter(
            "concord_router_downgrades",
            "Channels that were passed over from then on",
            ["channel"],
            registry=self.registry,
        )
        self._trouble = Gauge(
            "concord_router_trouble", "1 while Postgres or Kafka cannot be used", registry=self.registry
        )

    def answered(self, channel: str, *, retried: bool) -> None:
        """A refusal by `channel` was answered."""
        self._fallbacks.labels(channel, "retry" if retried else "close").inc()

    def downgraded(self, channel: str) -> None:
        self._downgrades.labels(channel).inc()

    def trouble(self, *, is_there: bool) -> None:
        self._trouble.set(int(is_there))
