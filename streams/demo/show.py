"""What the demonstration shows while it runs: an independent reader's counts, drawn live."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec
from aiokafka import TopicPartition
from rich.columns import Columns
from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from streams.engine.recovery import reading

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from streams.demo.workers import WorkerProcess
    from streams.engine.config import Config
    from streams.topics import Topics

BAR: Final = 40


class Seen(msgspec.Struct):
    """The fields that the display counts; everything else in an output record is passed over."""

    verdict: str = ""
    rule: str = ""
    kind: str = ""
    status: str = ""
    source: str = ""


@dataclass
class Counts:
    """Everything the reader has seen, read_committed."""

    total: int
    produced: int = 0
    handled: int = 0
    dead: int = 0
    timers: int = 0
    successes: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    discrepancies: Counter[str] = field(default_factory=Counter)
    causes: set[bytes] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    @property
    def lag(self) -> int:
        return max(0, self.produced - self.handled - self.dead)

    @property
    def done(self) -> bool:
        return self.produced >= self.total and self.lag == 0

    def note(self, text: str) -> None:
        self.notes.append(f"{time.monotonic() - self.began:5.1f} s  {text}")


class Reader:
    """Reads decisions, successes, discrepancies and dead letters as any consumer would."""

    def __init__(self, topics: Topics, config: Config, counts: Counts) -> None:
        self.topics = topics
        self.config = config
        self.counts = counts
        self._decode = msgspec.json.Decoder(Seen).decode

    async def run(self) -> None:
        """Count until cancelled."""
        names = [self.topics[name] for name in ("decisions", "success", "discrepancies", "dead-letters")]
        logs = [TopicPartition(topic, number) for topic in names for number in range(self.topics.partitions)]
        async with reading(self.config, "read_committed", names) as client:
            client.assign(logs)
            for log in logs:
                client.seek(log, 0)
            while True:
                for log, records in (await client.getmany(timeout_ms=100)).items():
                    for record in records:
                        self.count(log.topic, record)

    def count(self, topic: str, record: Any) -> None:
        counts = self.counts
        if topic == self.topics["dead-letters"]:
            counts.dead += 1
        elif topic == self.topics["success"]:
            counts.successes += 1
        elif topic == self.topics["discrepancies"]:
            seen = self._decode(record.value)
            counts.discrepancies[seen.kind] += seen.status == "opened"
        else:
            seen = self._decode(record.value)
            counts.verdicts[seen.verdict] += 1
            cause = dict(record.headers).get("cause")
            if cause is None:
                counts.timers += 1
            elif cause not in counts.causes:
                counts.causes.add(cause)
                counts.handled += 1


def draw(counts: Counts, workers: Sequence[WorkerProcess]) -> RenderableType:
    """One frame."""
    share = counts.handled + counts.dead
    filled = int(BAR * share / max(1, counts.total))
    bar = Text("█" * filled + "░" * (BAR - filled), style="green")
    head = Table.grid(padding=(0, 2))
    head.add_row(
        "events in", f"{counts.produced:,} of {counts.total:,}", "handled", f"{share:,}", "lag", f"{counts.lag:,}"
    )
    due_times = ("due times", f"{counts.timers:,}") if counts.timers else ()  # the first come after two minutes
    head.add_row("successes out", f"{counts.successes:,}", "dead letters", f"{counts.dead}", *due_times)
    states = "   ".join(f"{worker.name} {'[green]runs[/]' if worker.alive else '[red]dead[/]'}" for worker in workers)
    tables = Columns(
        [_table("verdicts", counts.verdicts), _table("discrepancies opened", counts.discrepancies)], padding=(0, 6)
    )
    return Panel(
        Group(head, bar, Text.from_markup(states), tables, *counts.notes[-6:]), title="Concord", border_style="blue"
    )


def _table(title: str, counted: Counter[str]) -> Table:
    table = Table(title=title, title_justify="left", box=None, show_header=False)
    for name, number in counted.most_common(12):
        table.add_row(name, f"{number:,}")
    return table


async def settled(counts: Counts, within: float) -> bool:
    """Wait until everything produced was handled. False: not within that many seconds."""
    deadline = time.monotonic() + within
    while not counts.done:
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.1)
    return True
