"""What a partition counts about itself. Plain numbers: the shell turns them into metrics."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

BUCKETS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Upper bounds of the latency histograms, in seconds."""


@dataclass(slots=True)
class Histogram:
    """Counts of durations by bucket; the last bucket is everything above."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    total: float = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.total += seconds


@dataclass(slots=True)
class Stats:
    """Counters of one partition since this worker took it over; only committed work is counted."""

    records: int = 0
    timers: int = 0
    dead: int = 0
    transactions: int = 0
    reopened: int = 0
    moved: int = 0
    """Records that lay in a partition where their key does not live."""
    rolled_forward: int = 0
    """Records that had lost their transaction marker and were written again."""
    restored: int = 0
    """Changelog records read by the current opening."""
    restore_target: int = 0
    opened_in: float = 0.0
    commit: Histogram = field(default_factory=Histogram)
    due_delay: Histogram = field(default_factory=Histogram)
    sent: Counter[str] = field(default_factory=Counter)
    """Records by output topic."""
    labels: Counter[str] = field(default_factory=Counter)
