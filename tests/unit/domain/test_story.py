"""`story` answers for every open payment what is awaited, from whom and when."""

from __future__ import annotations

from datetime import UTC, datetime

from streams.domain.order import Order
from streams.domain.story import story
from tests.support.worlds import World


def told(world: World):
    return story(world.order or Order("O1"), world.at)


def test_a_new_payment_awaits_its_start():
    world = World()
    world.row("create P1")
    awaited = told(world).payments[0].awaited
    assert awaited is not None
    assert awaited.whom == "trade domain"
    assert awaited.when == datetime(2025, 3, 3, 10, 15, tzinfo=UTC)


def test_an_open_payment_awaits_its_channel_then_a_person():
    world = World()
    for row in ("create P1", "start P1", "submit P1 TIMEOUT a=-"):
        world.row(row)
    first = told(world)
    assert first.payments[0].awaited is not None
    assert first.payments[0].awaited.whom == "channel chA"
    assert first.next_due == first.payments[0].awaited.when == datetime(2025, 3, 3, 10, 2, tzinfo=UTC)
    assert [piece.rule for piece in first.evidence] == ["created", "start", "unknown"]
    world.wind(80_000)
    last = told(world).payments[0].awaited
    assert last is not None
    assert "a person takes over" in last.what
    world.wind(90_000)
    stuck = told(world)
    assert stuck.next_due is None
    assert stuck.payments[0].awaited is not None
    assert stuck.payments[0].awaited.whom == "payment-operations, with chA"
    assert [(item.kind, item.owner) for item in stuck.open] == [("STUCK_UNKNOWN", "payment-operations")]


def test_an_ended_payment_names_its_witness_and_awaits_nothing():
    world = World()
    for row in ("create P1", "start P1", "callback P1 SUCCESS e=E1 t=X1"):
        world.row(row)
    payment = told(world).payments[0]
    assert (payment.state, payment.witness, payment.transaction, payment.awaited) == ("SUCCESS", "E1", "X1", None)
    assert payment.path == ("INIT", "PAYING", "SUCCESS")
    assert "equal to ours" in told(world).evidence[-1].because


def test_waiting_evidence_says_whom_it_waits_for():
    world = World()
    world.row("callback P1 SUCCESS e=E1 t=X1")
    assert [one.whom for one in told(world).waiting] == ["trade domain"]
    assert "E1" in told(world).waiting[0].what
    world.wind(86_400)
    assert [(one.whom, one.when) for one in told(world).waiting] == [("payment-operations", None)]


def test_what_may_still_go_back_is_told_wherever_money_is_and_is_nothing_elsewhere():
    """R-015: also of money that came late and that people let pay after all."""
    world = World()
    for row in ("create P1", "start P1", "callback P1 FAILED e=1"):
        world.row(row)
    assert told(world).payments[0].refundable == 0
    for row in ("callback P1 SUCCESS e=2 t=X1", "decide fulfil about=LATE_SUCCESS"):
        world.row(row)
    assert (told(world).payments[0].state, told(world).payments[0].refundable) == ("FAIL", 1000)
    assert world.row("back R1 of=P1 a=300") == ["applied refund-asked REFUNDING REFUND"]
    assert told(world).payments[0].refundable == 700


def test_of_a_success_what_refunds_hold_may_not_go_back_again():
    world = World()
    for row in ("create P1", "start P1", "callback P1 SUCCESS e=2 t=X1"):
        world.row(row)
    assert told(world).payments[0].refundable == 1000
    world.row("back R1 of=P1 a=300")
    assert told(world).payments[0].refundable == 700
