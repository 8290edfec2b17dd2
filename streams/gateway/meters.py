"""What the gateway tells Prometheus: notices by channel and outcome, how long they took, how full the pool is, what is held."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

if TYPE_CHECKING:
    from streams.gateway.holding import Held
    from streams.gateway.limits import Pool
    from streams.gateway.links import Links
    from streams.gateway.store import Store

BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
UNKNOWN: Final = "unknown"
"""The channel of a notice to an address that is not there: labels are never made of what a caller wrote."""


class Meters:
    """The counters of one gateway, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._notices = Counter(
            "concord_callbacks",
            "Callbacks answered, by channel and outcome",
            ["channel", "outcome"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "concord_callback_seconds",
            "From the headers to the answer",
            ["channel"],
            buckets=BUCKETS,
            registry=self.registry,
        )
        self._events = Counter(
            "concord_callback_events",
            "Events stored, by channel and what became of them",
            ["channel", "way"],
            registry=self.registry,
        )

        # A look-up by labels locks and joins texts each time. There are as many as channels times outcomes, all names of ours.
        self._answered = cache(self._notices.labels)
        self._taken = cache(self._seconds.labels)
        self._became = cache(self._events.labels)

    def answered(self, channel: str, outcome: str, seconds: float) -> None:
        self._answered(channel, outcome).inc()
        self._taken(channel).observe(seconds)

    def stored(self, channel: str, way: str, count: int) -> None:
        """`way` is linked, mapped, unmapped or held."""
        self._became(channel, way).inc(count)

    def watch(self, pool: Pool, store: Store, links: Links, held: Held) -> None:
        """Gauges that are read when they are asked for."""
        for name, text, read in (
            ("concord_callbacks_in_flight", "Callbacks being taken in", lambda: pool.taken),
            ("concord_broker_ready", "1 when the broker acknowledges in time", lambda: not store.trouble),
            ("concord_links", "References that lead to an order", lambda: len(links)),
            ("concord_held_notices", "Notices held until their order is known", lambda: len(held.items)),
        ):
            Gauge(name, text, registry=self.registry).set_function(read)
