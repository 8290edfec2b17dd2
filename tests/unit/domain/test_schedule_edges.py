"""The very moments of the schedule and of a discrepancy's life. Stored orders hold such moments, and a replay must mint them again."""

from __future__ import annotations

import itertools

import pytest

from streams.domain.contract import Contract, Failures
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


@pytest.mark.parametrize("silence_is_stuck", [True, False])
def test_a_query_is_not_asked_at_the_moment_the_window_ends(silence_is_stuck):
    """R-054, R-056: whether a person is told then or not."""
    world = unhurried(Contract(query_after_s=(600, 1200), query_window_s=1200, silence_is_stuck=silence_is_stuck))
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


def test_what_turns_out_to_be_worse_is_not_due_later():
    """The refusal looked older than the success by the channel's clock, and did not when it was heard again."""
    world = unhurried()
    world.row("callback P1 SUCCESS e=1 t=X1 event_time=2025-03-03T10:03:20Z")
    world.row("query P1 FAILED t=X1")
    world.row("callback P1 SUCCESS e=2 t=X1 a=5")
    world.row("+300 query P1 FAILED t=X1")
    assert life(world, "ILLEGAL_TRANSITION") == [(1, "opened", 24.0), (2, "updated", 24.0)]
    assert world.items() == {("ILLEGAL_TRANSITION", "high", "P1"), ("AMOUNT_MISMATCH", "high", "2")}


def test_a_silence_that_people_closed_and_a_doubt_after_it_have_a_deadline_each():
    world = unhurried()
    world.wind(86_400)
    for row in ("decide close about=STUCK_UNKNOWN", "query P1 TIMEOUT a=-", "+86400 tick"):
        world.row(row)
    assert life(world, "STUCK_UNKNOWN") == [(1, "opened", 4.0), (2, "resolved", 4.0), (3, "opened", 28.0)]


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


def steps(world: World) -> list[int]:
    """Seconds between the questions, the first from the start."""
    asked = [0, *queries(world)]
    return [(after - before) // 1000 for before, after in itertools.pairwise(asked)]


def test_a_distance_is_doubled_at_most_sixteen_times():
    year = 366 * 86_400
    world = unhurried(
        Contract(query_after_s=(1,), query_max_delay_s=year, query_window_s=year, query_jitter_pct=0, most_queries=21)
    )
    world.wind(year)
    assert steps(world) == [1, *(2 ** min(power, 16) for power in range(20))]


def test_the_longest_distance_is_never_shorter_than_the_last_that_the_contract_states():
    world = unhurried(Contract(query_after_s=(10, 110), query_max_delay_s=50, query_jitter_pct=0, most_queries=5))
    world.wind(3600)
    assert steps(world) == [10, 100, 110, 110, 110]


def test_another_attempt_is_asked_about_from_its_own_beginning():
    """R-050, R-059."""
    world = unhurried(Contract(failures=Failures(not_accepted=("REFUSED",))))
    world.wind(610)
    world.row("submit P1 REFUSED a=-")
    world.row("+90 retry P1")
    world.wind(1900)
    assert queries(world) == [120_000, 600_000, 820_000, 1_300_000, 2_500_000]


@pytest.mark.parametrize(("row", "window_s"), [("back R1 of=P1 a=100", 604_800), ("capture C1 of=P1 a=100", 86_400)])
def test_a_request_that_nobody_says_a_word_about_goes_to_a_person(row: str, window_s: int):
    """R-056: of a refund later than of a capture."""
    world = World()
    for one in ("create P1", "start P1", f"callback P1 {'SUCCESS' if 'back' in row else 'AUTHORIZED'} e=1 t=X1", row):
        world.row(one)
    world.wind(window_s - 1)
    assert not world.items()
    assert world.row("+1 tick")[-1].startswith("applied window-over")
    assert {(kind, severity) for kind, severity, _ in world.items()} == {("STUCK_UNKNOWN", "high")}


def test_a_doubt_goes_to_a_person_though_another_attempt_began_under_it_and_silence_alone_does_not():
    """R-056."""
    contract = Contract(failures=Failures(not_accepted=("REFUSED",)), silence_is_stuck=False)
    world = unhurried(contract)
    for row in ("query P1 PROCESSING a=-", "submit P1 REFUSED a=-", "retry P1", "submit P1 TIMEOUT a=-"):
        world.row(row)
    assert world.state() == "UNKNOWN"
    assert world.row("+86400 tick")[-1] == "applied window-over UNKNOWN STUCK_UNKNOWN:high:P1:opened"
    silent = unhurried(contract)
    silent.wind(200_000)
    assert (queries(silent)[-1] < 86_400_000, silent.items()) == (True, set())


def test_two_pieces_without_a_key_that_wait_in_vain_are_two_and_each_is_called_by_its_own_number():
    """R-081."""
    world = World()
    for number in (1, 2):
        world.row(f"callback P{number} SUCCESS")
    world.wind(86_400)
    assert world.items() == {("UNKNOWN_ORDER", "high", "P1"), ("UNKNOWN_ORDER", "high", "P2")}
    assert len(world.open_conflicts()) == 2


def test_a_channel_that_cannot_be_asked_is_not_and_a_person_hears_of_it_at_the_end():
    """R-050, R-056: no request that nobody can make; what is open waits for the channel's own word."""
    world = unhurried(Contract(asks=False, query_window_s=86_400))
    world.row("submit P1 TIMEOUT a=-")
    world.wind(86_399)
    assert (queries(world), world.items()) == ([], set())
    world.wind(2)
    assert {kind for kind, _, _ in world.items()} == {"STUCK_UNKNOWN"}
    assert world.row("callback P1 CONTRADICTORY e=E1 t=X1")
    assert queries(world) == []
    assert world.row("callback P1 SUCCESS e=E2 t=X1")[0].startswith("applied success")
