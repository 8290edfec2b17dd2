"""What time may do: ask a channel, tell a person, close what was never asked for. Nothing else."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime

import pytest

from streams.domain.contract import Contract
from streams.domain.decisions import ChannelRequest
from streams.domain.events import CreatePayment
from streams.domain.order import Order, due
from tests.support.worlds import START, World


def started(contract: Contract | None = None) -> World:
    world = World({} if contract is None else {"chA": contract})
    for row in ("create P1", "start P1"):
        world.row(row)
    return world


def unhurried(contract: Contract | None = None) -> World:
    """A started payment that does not expire."""
    world = World({} if contract is None else {"chA": contract})
    for row in ("create P1 expires_at=never", "start P1"):
        world.row(row)
    return world


def queries(world: World) -> list[int]:
    """Seconds after the start at which the channel was asked."""
    asked = [message for message in world.said if isinstance(message, ChannelRequest) and message.verb == "QUERY"]
    return [round(message.decided_at.timestamp() - START // 1000) for message in asked]


def test_queries_follow_the_contract_then_double_with_a_jitter_that_replays():
    world = unhurried()
    world.wind(90_000)
    asked = queries(world)
    assert asked[:3] == [120, 600, 1800]
    steps = [after - before for before, after in itertools.pairwise(asked[2:])]
    for power, step in enumerate(steps):
        distance = min(1800 << power, 21_600)
        assert distance <= step <= distance * 112 // 100 + 1
    assert asked[-1] < 86_400
    again = unhurried()
    again.wind(90_000)
    assert queries(again) == asked


def test_a_payment_that_nobody_settles_goes_to_a_person_and_stays_open():
    world = started(Contract(query_window_s=7200))
    assert world.row("+30 submit P1 TIMEOUT a=-") == ["applied unknown PAYING>UNKNOWN"]
    outcome = world.row("+7200 tick")
    assert outcome[-1] == "applied window-over UNKNOWN STUCK_UNKNOWN:high:P1:opened"
    assert world.state() == "UNKNOWN"
    assert world.order is not None
    assert due(world.order) is None
    assert world.row("query P1 SUCCESS t=X1") == [
        "applied success UNKNOWN>SUCCESS STUCK_UNKNOWN:high:P1:resolved announced"
    ]


def test_silence_is_told_as_well_and_later_doubt_starts_the_schedule_again():
    world = started()
    assert world.row("+86400 tick")[-1] == "applied window-over PAYING STUCK_UNKNOWN:high:P1:opened"
    asked = len(queries(world))
    assert world.row("query P1 PROCESSING a=-") == ["applied unknown PAYING>UNKNOWN"]
    world.wind(120)
    assert len(queries(world)) == asked + 1
    assert world.row("+86400 tick")[-1] == "applied window-over UNKNOWN"


def test_a_doubt_after_the_first_moments_never_asks_in_the_past():
    world = unhurried(Contract(query_after_s=(120, 600), query_window_s=300))
    world.wind(300)
    world.row("+3600 submit P1 TIMEOUT a=-")
    world.wind(120)
    assert queries(world) == [120, 300 + 3600 + 120]
    world.wind(10_000)
    assert len(queries(world)) == 2


def test_a_payment_expires_when_its_command_says_so():
    world = World()
    expires_at = datetime(2025, 3, 3, 10, 0, 7, tzinfo=UTC)
    command = CreatePayment(
        command_id="c", order_id="O1", payment_no="P1", biz_code="trade", channel="chA", amount=1, currency="USD",
        expires_at=expires_at,
    )  # fmt: skip
    world.tell(command)
    assert world.row("+6 tick") == []
    assert world.row("+1 tick") == ["applied init-expired INIT>CLOSED"]


def test_a_due_time_that_came_to_nothing_changes_nothing():
    world = World()
    assert world.tell(None) == []
    assert world.order is None
    world.row("create P1")
    order = world.order
    assert world.tell(None) == []
    assert world.order == order


def test_late_firing_lets_each_due_time_see_its_own_moment():
    world = started()
    messages = world.tell(None, world.at + 700_000)
    moments = [message.decided_at for message in messages if isinstance(message, ChannelRequest)]
    assert [(moment - datetime(2025, 3, 3, 10, tzinfo=UTC)).seconds for moment in moments] == [120, 600]


def test_nothing_is_due_for_an_order_at_rest():
    assert due(Order("O1")) is None


def test_the_earliest_due_time_wins():
    world = World({"chB": Contract(park_window_s=10)})
    world.row("callback P8 SUCCESS e=E1 t=X1 channel=chB")
    world.row("callback P9 SUCCESS e=E2 t=X2")
    world.row("create P1")
    world.row("create P2 biz_code=deposit")
    assert world.order is not None
    assert due(world.order) == START + 10_000
    world.wind(10)
    assert due(world.order) == START + 900_000


def test_each_piece_that_waits_in_vain_is_told_in_its_own_time_and_the_others_wait_on():
    """R-081."""
    world = World()
    for number in (1, 2, 3):
        world.row(f"+10 callback P{number} SUCCESS e=E{number} t=X{number}")
    told = [world.row(f"+{seconds} tick") for seconds in (86_380, 10, 10)]
    assert told == [[f"applied park-window-over - UNKNOWN_ORDER:high:E{number}:opened"] for number in (1, 2, 3)]
    assert world.order is not None
    assert len(world.order.parked) == 3


LAPSED = ("create P1", "start P1", "callback P1 AUTHORIZED e=A t=X1 auth_expires_at=2025-03-03T11:00:00Z", "+3600 tick")


ENDED = {"expired": ("create P1", "+900 tick"), "lapsed": LAPSED, "withdrawn": ("create P1", "give-up P1")}


@pytest.mark.parametrize("rows", ENDED.values(), ids=ENDED)
def test_late_money_contradicts_our_own_ending_beside_every_refusal_whichever_came_first(rows: tuple[str, ...]):
    """R-056: what time or a command ended was never denied by the channel; people see that, and its denial, in either order."""
    words = ("callback P1 FAILED e=F t=X1", "callback P1 SUCCESS e=S t=X1")
    found = []
    for told in (words, words[::-1]):
        world = World()
        for row in (*rows, *told):
            world.row(row)
        found.append(world.open_conflicts())
    assert len(found[0]) == 2
    assert found[0] == found[1]
