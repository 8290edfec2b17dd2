"""The very moments of the schedule and of a discrepancy's life. Stored orders hold such moments, and a replay must mint them again."""

from __future__ import annotations

import pytest

from streams.domain.contract import Contract
from streams.domain.decisions import ChannelRequest, Discrepancy
from tests.support.worlds import START, World

HASTY = Contract(query_window_s=604_800, query_after_s=(1, 3), query_max_delay_s=50, most_queries=12)
MINUTE_MS = 60_000


def unhurried(contract: Contract | None = None) -> World:
    """A started payment that does not expire."""
    world = World({} if contract is None else {"chA": contract})
    for row in ("create P1 expires_at=never", "start P1"):
        world.row(row)
    return world


def queries(world: World) -> list[int]:
    """Milliseconds after the start at which the channel was asked."""
    asked = [said for said in world.said if isinstance(said, ChannelRequest) and said.verb == "QUERY"]
    return [round(said.decided_at.timestamp() * 1000) - START for said in asked]


@pytest.mark.parametrize(
    ("contract", "moments"),
    [
        (
            None,
            [120_000, 600_000, 1_800_000, 3_661_373, 7_290_652, 14_827_705, 29_758_912, 51_402_121, 73_442_064],
        ),
        (HASTY, [1000, 3000, 6328, 12_417, 25_093, 51_071, 100_944, 155_165, 211_093, 264_971, 319_688, 374_773]),
    ],
)
def test_a_number_is_asked_about_at_the_same_moments_in_every_release(contract, moments):
    """R-053, R-058, R-059: the jitter is derived from the number, so a replay asks when the first run asked."""
    world = unhurried(contract)
    world.wind(90_000)
    assert queries(world) == moments


def test_no_query_follows_another_within_a_minute_where_the_contract_begins_later():
    """A worker that was down catches up with one question, not with all that it missed at once."""
    world = unhurried(Contract(query_after_s=(600, 601, 602), query_window_s=86_400))
    world.wind(3600)
    asked = queries(world)
    assert asked[:3] == [600_000, 660_000, 720_000]


def test_a_query_is_not_asked_at_the_moment_the_window_ends():
    world = unhurried(Contract(query_after_s=(600, 1200), query_window_s=1200))
    world.wind(3600)
    assert queries(world) == [600_000]


def test_the_window_is_counted_from_the_doubt_where_there_is_one():
    world = unhurried(Contract(query_after_s=(600,), query_window_s=3000))
    world.wind(590)
    world.row("+3 submit P1 TIMEOUT a=-")
    world.wind(90_000)
    assert queries(world) == [600_000, 1_219_861, 2_540_383]
    [stuck] = [said for said in world.said if isinstance(said, Discrepancy)]
    assert round(stuck.decided_at.timestamp() * 1000) - START == (593 + 3000) * 1000


def life(world: World, kind: str) -> list[tuple[int, str, float]]:
    """Revision, status, and hours from the first opening to the deadline."""
    told = [said for said in world.said if isinstance(said, Discrepancy) and said.kind == kind]
    return [(said.revision, said.status, (said.deadline - told[0].decided_at).total_seconds() / 3600) for said in told]


def test_a_deadline_counts_from_the_opening_and_does_not_move_when_more_is_learned():
    world = unhurried()
    world.row("callback P1 FAILED e=1")
    world.row("callback P1 SUCCESS e=2 t=X1")
    world.row("+7200 callback P1 SUCCESS e=3 t=X1")
    assert [(number, hours) for number, _, hours in life(world, "LATE_SUCCESS")] == [(1, 4.0)]
    world.row("decide refund about=LATE_SUCCESS refund_no=R1")
    assert [hours for _, _, hours in life(world, "LATE_SUCCESS")][-1] == 4.0


def test_what_comes_back_is_opened_again_with_a_deadline_of_its_own():
    world = unhurried(Contract(query_window_s=3600))
    world.row("+1 submit P1 TIMEOUT a=-")
    world.wind(3600)
    world.row("+60 decide close about=STUCK_UNKNOWN")
    assert life(world, "STUCK_UNKNOWN")[:2] == [(1, "opened", 4.0), (2, "resolved", 4.0)]


def test_nothing_is_asked_once_a_person_was_told():
    """R-056: under a window that ends before the first query, as one may that was shortened meanwhile."""
    world = unhurried(Contract(query_after_s=(600,), query_window_s=300))
    world.wind(3600)
    assert [said.kind for said in world.said if isinstance(said, Discrepancy)] == ["STUCK_UNKNOWN"]
    assert queries(world) == []
