"""What the projector counts: rows written, time taken, trouble, and how far the books are behind the topics."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stores.offsets import Place


class Meters:
    """One registry for one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._records = Counter(
            "concord_projector_records_total", "Records written to the books", ["kind"], registry=self.registry
        )
        self._took = Histogram("concord_projector_batch_seconds", "One batch, from its first statement to its commit",
                               registry=self.registry)  # fmt: skip
        self._trouble = Counter(
            "concord_projector_trouble_total",
            "Batches whose outcome had to be asked for again",
            ["why"],
            registry=self.registry,
        )
        self._lag = Gauge(
            "concord_projector_lag_records", "Records of a partition that are not in the books", ["topic", "partition"],
            registry=self.registry,
        )  # fmt: skip

    @contextmanager
    def writing(self, told: int, raw: int, dead: int) -> Iterator[None]:
        """Counts a batch, if it is written."""
        with self._took.time():
            yield
        for kind, number in (("decision", told), ("raw_message", raw), ("dead_letter", dead)):
            self._records.labels(kind).inc(number)

    def trouble(self, why: str) -> None:
        self._trouble.labels(why).inc()

    def lag(self, behind: Mapping[Place, int]) -> None:
        """How many records each place has that were not read; what is not ours any more is forgotten."""
        self._lag.clear()
        for (topic, partition), records in behind.items():
            self._lag.labels(topic, str(partition)).set(records)
