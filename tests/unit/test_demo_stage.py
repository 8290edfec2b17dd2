"""The demonstration's own choices: when it crashes a worker, and what it shows."""

from __future__ import annotations

import asyncio
import io
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from streams.demo.run import Demo
from streams.demo.show import Counts, draw

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def demo(tmp_path: Path) -> Demo:
    return Demo(tmp_path, Console(file=io.StringIO()), started="127.0.0.1:1")


async def test_a_worker_is_killed_only_in_the_middle_and_with_events_in_flight(demo: Demo):
    counts = Counts(total=1000, produced=399, handled=390)
    waiting = asyncio.create_task(demo.middle(counts))
    for produced, handled, dead in (
        (399, 390, 0),
        (500, 500, 0),
        (600, 590, 10),
    ):  # too early; nothing in flight, twice
        counts.produced, counts.handled, counts.dead = produced, handled, dead
        done, _ = await asyncio.wait({waiting}, timeout=0.05)
        assert not done, (produced, handled, dead)
    counts.produced = 650
    await asyncio.wait_for(waiting, 5)


async def test_traffic_that_was_over_too_soon_is_not_waited_for(demo: Demo):
    await asyncio.wait_for(demo.middle(Counts(total=10, produced=10, handled=10)), 5)


@pytest.mark.parametrize("timers", [0, 7])
def test_due_times_are_shown_only_if_there_were_any(demo: Demo, timers: int):
    console = Console(file=io.StringIO(), width=80)
    console.print(draw(Counts(total=10, timers=timers), demo.workers))
    shown = console.file.getvalue()
    assert ("due times" in shown) == bool(timers)
    assert max(map(len, shown.splitlines())) <= 80
