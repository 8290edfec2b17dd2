"""A simulated world: whatever channels lose, delay, double and deny, the law's states agree with the truth about the money.

`WORLD_ORDERS=100000 WORLD_SEED=7` plays more, or again.
"""

from __future__ import annotations

import os

import pytest

from streams.domain import gate
from streams.domain.tables import WORDS, Meaning
from tests.support.world import World

ORDERS = int(os.environ.get("WORLD_ORDERS", "1500"))
SEEDS = [int(os.environ["WORLD_SEED"])] if "WORLD_SEED" in os.environ else [1, 2]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", SEEDS)
def test_no_order_ends_against_the_truth(seed: int):
    """R-014, R-050, R-060, R-139: zero false failures, zero double successes, every payment explained."""
    world = World(seed, ORDERS).play()
    found = world.judge()
    states = found.pop("states")
    print(f"seed {seed}: {ORDERS} orders, {world.events} events, {world.crashes} crashes, {dict(states)}")
    assert {what: count for what, count in found.items() if count} == {}, (
        f"replay with WORLD_SEED={seed} WORLD_ORDERS={ORDERS}"
    )
    assert not world.doubled
    assert states["SUCCESS"] > ORDERS // 3
    assert states["FAIL"]
    assert states["CLOSED"]


def test_the_world_sees_a_gate_that_stands_open(monkeypatch: pytest.MonkeyPatch):
    """A mutant: another attempt without a witness. The world must find the second charge."""
    monkeypatch.setattr(gate, "_earlier", lambda *_: None)
    world = World(1, 400).play()
    assert world.judge()["charged twice"] or world.doubled


def test_the_world_sees_a_law_that_takes_silence_for_failure(monkeypatch: pytest.MonkeyPatch):
    """A mutant: a timeout is a failure (R-005 forbids it)."""
    monkeypatch.setitem(WORDS, "TIMEOUT", Meaning("failure", "failure"))
    assert World(1, 400).play().judge()["false failure"]


def test_the_world_sees_a_law_that_believes_not_found(monkeypatch: pytest.MonkeyPatch):
    """A mutant: a query that finds nothing is a witness at once, though the copy may lag and the submit be on its way."""
    monkeypatch.setattr(gate, "not_found_witnesses", lambda *_: True)
    world = World(1, 400).play()
    assert world.judge()["charged twice"] or world.doubled
