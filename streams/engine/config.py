"""Bounds and deadlines of the engine. Every one exists because a broker call without it was seen to hang."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from pathlib import Path

Probe: TypeAlias = Callable[[str, int, Any], Awaitable[None]]
"""Called between the steps of a transaction and of an opening with (step, partition, the partition's producer session)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """How one worker runs a topology. Seconds, unless a name says otherwise."""

    kafka: dict[str, Any] = field(repr=False)
    """Keyword arguments of every client: bootstrap_servers, TLS, SASL."""
    state_dir: Path | None = None
    """Folder of the RocksDB tables; None keeps tables in memory."""
    batch: int = 2000
    """Most input records and due times in one transaction."""
    batch_bytes: int = 4 << 20
    """Outputs and rows of one transaction stop growing past this."""
    record_bytes: int = 1_000_000
    """Largest record (key, value and headers) that may be sent to an output or the changelog."""
    dead_letter_bytes: int = 2_000_000
    """Largest record that may be sent to the dead letters."""
    linger: float = 0.02
    """Rest after a transaction that was not full, so that a busy partition gathers more. An idle partition commits at once."""
    session: float = 10.0
    """Group session timeout: how long a dead worker keeps its partitions."""
    transaction: float = 30.0
    """Broker-side transaction timeout: how long a dead worker's open transaction holds back readers."""
    restore: float = 600.0
    """Deadline of one opening, restore included."""
    shutdown: float = 20.0
    failures: int = 20
    """Failed openings in a row before the worker gives up."""
    watch: float = 2.0
    """How often committed transactions are checked to have become visible."""
    stuck: float = 5.0
    """A committed transaction that is invisible for longer has lost a marker."""
    report: float = 0.25
    """How often group offsets are committed, for lag tools only."""
    upstream: float = 60.0
    """An input whose last stable offset trails for longer hangs on somebody's open transaction."""
    warm: bool = True
    """Keep retained partitions open across a rebalance."""
    probe: Probe | None = field(default=None, repr=False)
    """For fault tests only."""

    @property
    def deadline(self) -> float:
        """Client-side deadline of every transaction: shorter than the broker's, so that we give up before it does."""
        return self.transaction * 2 / 3

    @property
    def request(self) -> float:
        """Deadline of one request."""
        return min(10.0, self.transaction / 3)
