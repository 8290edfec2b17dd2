"""What a fault run does, drawn from its seed alone: which cluster, which table, which harm by chance, which events in which order.

Consecutive seeds walk through all kinds, so that a full suite holds every one; what else differs is drawn.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, Final

from tests.faults.worker import Faults
from tests.support.toy import COMPACTED, EAGER_COMPACTION

OLD: Final = "4.2.1"
NEW: Final = "4.4.0"
UNVERIFIED: Final = {"transaction.partition.verification.enable": "false"}
FAST_CLEANER: Final = {
    "log.cleaner.backoff.ms": "300",
    "log.cleaner.threads": "1",
    "log.retention.check.interval.ms": "1000",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One sort of run: its cluster, its chances, and the events that are drawn from."""

    events: tuple[str, ...]
    count: int = 7
    nodes: int = 1
    versions: tuple[str, ...] = (OLD, NEW)
    properties: dict[str, str] = field(default_factory=dict)
    compaction: dict[str, str] = field(default_factory=lambda: dict(COMPACTED))
    faults: Faults = field(default_factory=Faults)
    proxied: bool = False
    asleep: tuple[float, ...] = (7.5, 9.0)
    config: dict[str, Any] = field(default_factory=dict)


MILD: Final = Faults(kill=0.0004, error=0.001, delay=0.001)
KINDS: Final[dict[str, Kind]] = {
    "workers": Kind(
        events=("kill_worker", "kill_worker", "join_and_leave", "pause"),
        faults=Faults(kill=0.002, error=0.003, delay=0.002),
    ),
    "zombies": Kind(
        events=("suspend_worker", "suspend_worker", "kill_worker", "join_and_leave"),
        faults=Faults(stop=0.0012, error=0.001, delay=0.001),
        asleep=(7.5, 9.0, 17.0, 19.0),
    ),
    "broker": Kind(
        events=("kill_broker", "kill_broker", "end_broker", "kill_worker", "join_and_leave"), count=6, faults=MILD
    ),
    "markers": Kind(
        events=("kill_worker", "join_and_leave", "pause"),
        versions=(OLD,),
        properties=UNVERIFIED,
        faults=Faults(kill=0.001, error=0.002, delay=0.001, lose=0.02),
    ),
    "three": Kind(
        events=("roll_kill", "roll_end", "power_loss", "kill_worker", "join_and_leave"), nodes=3, count=5, faults=MILD
    ),
    "proxy": Kind(
        events=("cut", "slow", "silence", "cut_and_refuse", "kill_worker", "join_and_leave"),
        faults=Faults(error=0.001, delay=0.001),
        proxied=True,
    ),
    "compaction": Kind(
        events=("kill_worker", "kill_worker", "join_and_leave", "suspend_worker", "kill_broker"),
        properties=FAST_CLEANER,
        compaction=dict(EAGER_COMPACTION),
        versions=(OLD,),
        faults=Faults(kill=0.002, error=0.003, delay=0.002),
    ),
    "storm": Kind(
        events=("kill_broker", "suspend_worker", "kill_worker", "join_and_leave", "end_broker"),
        versions=(OLD,),
        properties=UNVERIFIED,
        faults=Faults(kill=0.0006, error=0.001, delay=0.001, stop=0.0003, lose=0.01),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run."""

    seed: int
    name: str
    kind: Kind
    version: str
    table: str
    loop: str
    workers: int
    warm: bool
    events: tuple[str, ...]

    def __str__(self) -> str:
        how = f"{self.kind.nodes} node{'s' if self.kind.nodes > 1 else ''} {self.version}"
        return f"{self.name}, {how}, {self.table}, {self.workers} workers, {self.loop}{'' if self.warm else ', cold'}"


def draw(seed: int, *, version: str | None = None, name: str | None = None, count: int | None = None) -> Plan:
    """The plan of a seed. A version, a kind or a number of events can be asked for; the rest stays as the seed has it."""
    chance = random.Random(f"plan {seed}")
    drawn = name or list(KINDS)[seed % len(KINDS)]
    kind = KINDS[drawn]
    return Plan(
        seed=seed,
        name=drawn,
        kind=kind,
        version=version or chance.choice(kind.versions),
        table=chance.choice(("memory", "rocksdb")),
        loop=chance.choice(("uvloop", "uvloop", "asyncio")),
        workers=chance.choice((2, 3)),
        warm=chance.random() < 0.8,
        events=tuple(_shuffled(chance, kind)[: count or kind.count]),
    )


def _shuffled(chance: random.Random, kind: Kind) -> list[str]:
    """Every event of the kind at least once, if there is room, then more of them by chance."""
    once = list(dict.fromkeys(kind.events))
    chance.shuffle(once)
    return once + [chance.choice(kind.events) for _ in range(max(0, kind.count - len(once)))]
