"""The demonstration's second part: payments over four channels that lose answers, repeat, reorder and contradict themselves.

Gateway, connector and worker are the real processes; the channels are played from their contracts. The gateway is killed in the middle.
No notice is dropped for good: what only a query finds out is asked for after two minutes, which is too long to watch.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.table import Table

from streams.demo.loop import Loop, ready, running
from streams.simulator.faults import Rates

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Mapping
    from pathlib import Path

    from rich.console import Console

    from streams.demo.loop import Verdict

CHANNELS: Final = ("simulator", "stripe:acct_1", "alipay:2021000000000001", "wechatpay:1900000001")
RATES: Final = Rates(delay=0.1, double=0.25, reorder=0.2, lose=0.2, contradict=0.1, fail=0.08, slow=0.3)
PER_SECOND: Final = 30
SETTLE_S: Final = 60.0
SPEED: Final = 40.0
"""A channel that was not acknowledged tries again after minutes; here, after seconds."""


@dataclass
class Seen:
    """What the second part came to. `states` counts by channel and state."""

    verdict: Verdict
    states: Counter[str]
    open: int
    seconds: float


class Edge:
    """The second part on a broker, under topics of its own."""

    def __init__(self, kafka: Mapping[str, str], prefix: str, folder: Path, console: Console) -> None:
        shutil.rmtree(folder, ignore_errors=True)  # the logs of another demonstration
        self.loop = Loop(kafka, prefix, folder, list(CHANNELS), RATES, speed=SPEED)
        self.console = console
        self._began = time.monotonic()

    async def run(self, payments: int) -> Seen:
        """Raises `loop.LoopError` if a process is not at work in time."""
        async with running(self.loop):
            self._note(f"gateway, connector and worker ready; {len(CHANNELS)} channels play")
            killing = asyncio.create_task(self._kill(payments / PER_SECOND / 2))
            await self.loop.pay(payments, rate=PER_SECOND)
            self._note(f"{payments} payments started")
            await killing
            states = await self.loop.settled(SETTLE_S)
            self._note("all channels have fallen silent")
            verdict = await self.loop.judge()
        return Seen(verdict, states, len(self.loop.open), time.monotonic() - self._began)

    async def _kill(self, after_s: float) -> None:
        await asyncio.sleep(after_s)
        self.loop.kill("gateway")
        self._note("[red]SIGKILL[/] gateway, with notices on their way")
        self.loop.start("gateway")
        await asyncio.to_thread(ready, self.loop, ["gateway"])
        self._note("gateway is back and ready")

    def _note(self, text: str) -> None:
        self.console.print(f"{time.monotonic() - self._began:5.1f} s  {text}", soft_wrap=True)


def table(seen: Seen) -> Table:
    """What became of the payments, by channel."""
    drawn = Table(box=None, pad_edge=False)
    drawn.add_column("channel")
    states = sorted({name.partition(" ")[2] for name in seen.states})
    for state in states:
        drawn.add_column(state, justify="right")
    for channel in CHANNELS:
        name = channel.partition(":")[0]
        drawn.add_row(name, *(str(seen.states[f"{name} {state}"] or "") for state in states))
    return drawn


def claims(seen: Seen) -> list[tuple[int, str]]:
    """How many times each claim is broken, and its words."""
    found = seen.verdict
    late = found.charged - found.announced - len(found.without_verdict)
    told = f"{found.announced} announced" + (f", {late} as money that came late" if late else "")
    return [
        (len(found.twice), f"no payment was charged twice ({found.charged} were charged)"),
        (len(found.without_verdict), f"every charge has exactly one verdict ({told})"),
        (len(found.unfounded), "nothing was announced that no channel charged"),
        (len(found.lost), f"every notice that was acknowledged is in Kafka ({found.acknowledged})"),
        (seen.open, "nothing is left open"),
    ]
