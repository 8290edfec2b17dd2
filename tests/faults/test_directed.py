"""Marker loss, failed sends and zombies, each at a chosen step: the engine must put it right within seconds (R-024)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults import directed, zombies
from tests.faults.plans import OLD, UNVERIFIED
from tests.support import services

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.kafka,
    # A session that fails in the middle of a commit leaves the client's own task alone; the interpreter reports it when it ends.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


TRIES = 3


@pytest.fixture(scope="module")
def unverified(_servers: None) -> Iterator[str]:
    """A broker that takes records outside any transaction's list, so that markers can be lost on purpose: its address."""
    with services.cluster(version=OLD, properties=UNVERIFIED) as cluster:
        yield cluster.bootstrap


@pytest.mark.parametrize(
    ("name", "table"),
    [
        *((name, "memory") for name in directed.LOSSES),
        *((name, "rocksdb") for name in ("changelog", "outputs_only", "repair")),
    ],
)
async def test_a_lost_marker_is_rolled_forward(unverified: str, tmp_path: Path, name: str, table: str):
    """Where the broker was quicker than whoever takes the marker away, nothing was lost, and it is tried again."""
    for number in range(TRIES):
        lab = directed.Lab(unverified, tmp_path / str(number) if table == "rocksdb" else None)
        assert await directed.SCENARIOS[name](lab) == []
        if lab.rolled_forward > 0:
            return
    pytest.fail(f"no marker was lost in {TRIES} tries")


async def test_a_transaction_of_unknown_outcome_is_neither_lost_nor_doubled(unverified: str):
    lab = directed.Lab(unverified)

    assert await directed.unknown_outcome(lab) == []
    assert lab.reopened >= 7


async def test_nothing_is_committed_after_a_send_that_failed(unverified: str):
    assert await directed.failed_send(directed.Lab(unverified)) == []


@pytest.mark.parametrize("name", ["fenced", "humble"])
async def test_a_zombie_is_fenced_and_does_not_fence(unverified: str, tmp_path: Path, name: str):
    assert await zombies.SCENARIOS[name](zombies.Stage(unverified, tmp_path)) == []
