"""The state is written at every event, so it must stay small whatever is thrown at it, and nothing may be lost in silence."""

from __future__ import annotations

from streams.codec import dump
from streams.domain.decisions import Discrepancy, message_id
from streams.domain.implied import implied
from streams.domain.order import (
    MAX_ATTEMPTS,
    MAX_CARDS,
    MAX_CONFLICTS,
    MAX_FACTS,
    MAX_OPERATIONS,
    MAX_PARKED,
    MAX_PAYMENTS,
    MAX_SEEN,
)
from tests.support.worlds import World


def started() -> World:
    world = World()
    for row in ("create P1", "start P1"):
        world.row(row)
    return world


def test_a_bound_is_the_same_in_every_release():
    """What lies beyond one is refused or forgotten, so under another bound a replay would decide otherwise."""
    refuse = {"payments": MAX_PAYMENTS, "operations": MAX_OPERATIONS, "attempts": MAX_ATTEMPTS, "waiting": MAX_PARKED}
    assert refuse == {"payments": 16, "operations": 64, "attempts": 8, "waiting": 16}
    forget = {"evidence": MAX_SEEN, "discrepancies": MAX_CONFLICTS, "facts": MAX_FACTS, "cards": MAX_CARDS}
    assert forget == {"evidence": 64, "discrepancies": 64, "facts": 8, "cards": 32}


def test_a_flood_of_wrong_amounts_stays_small_and_each_is_told_once():
    world = started()
    for number in range(300):
        world.row(f"callback P1 SUCCESS e={'E' * 60}{number} t=X1 a={number + 1}")
    assert world.order is not None
    assert len(dump(world.order)) < 40_000
    assert len(world.order.seen) == MAX_SEEN
    assert world.order.forgotten == 302 - MAX_SEEN
    assert len(world.order.conflicts) == MAX_CONFLICTS
    told = {message_id(message) for message in world.said if isinstance(message, Discrepancy)}
    assert len(told) == 300
    assert told == {name for kind, name in implied(world.order) if kind == "discrepancies"}
    assert world.told_all_that_it_implies()


def test_too_much_waiting_is_told_to_a_person_at_once():
    world = World()
    for number in range(MAX_PARKED):
        assert world.row(f"callback P1 PENDING e=E{number}") == ["parked waits-for-payment -"]
    assert world.row("callback P1 PENDING e=more") == ["refused waiting-room-full - UNKNOWN_ORDER:high:more:opened"]
    assert world.row("callback P1 PENDING e=more") == ["duplicate same-key-same-payload -"]


def test_an_order_has_a_bounded_number_of_payments():
    world = World()
    for number in range(MAX_PAYMENTS):
        assert world.row(f"create P{number} biz_code=b{number}") == ["applied created INIT"]
    assert world.row("create more biz_code=more") == ["refused too-many-payments -"]


def test_failures_and_transactions_beyond_the_bound_are_still_contested():
    world = started()
    world.row("callback P1 SUCCESS e=E t=X")
    for number in range(MAX_FACTS + 2):
        assert "ILLEGAL_TRANSITION" in world.row(f"callback P1 FAILED e=F{number}")[0]
        assert "DUPLICATE_PAYMENT" in world.row(f"callback P1 SUCCESS e=S{number} t=X{number}")[0]
    assert world.order is not None
    assert len(world.order.payments[0].refusals) == MAX_FACTS
    assert len(world.order.payments[0].paid) == MAX_FACTS


def test_beyond_the_bound_of_discrepancies_a_word_without_a_key_still_makes_us_ask():
    world = started()
    for number in range(MAX_CONFLICTS):
        world.row(f"callback P1 SUCCESS e=E{number} t=X1 a={number + 1}")
    assert world.row("callback P1 SUCCESS a=-") == ["conflict no-key PAYING MISSING_DEDUP_KEY:high:P1:opened QUERY"]


def test_card_entries_are_bounded():
    world = started()
    world.row("callback P1 SUCCESS e=E1 t=X1")
    for number in range(MAX_CARDS + 5):
        world.row(f"purchase P1 e=C{number}")
    assert world.order is not None
    assert len(world.order.cards) == MAX_CARDS


def test_evidence_that_was_forgotten_while_parked_is_still_heard():
    world = World()
    world.row("callback P1 SUCCESS e=E t=X1")
    for number in range(MAX_SEEN):
        world.row(f"callback P9 PENDING e=F{number}")
    world.wind(86_400)
    assert world.order is not None
    assert any(kind == "UNKNOWN_ORDER" for kind, _, _ in world.items())
    assert "applied operation-appeared - UNKNOWN_ORDER:high" in world.row("create P1")[1]
    assert "applied success PAYING>SUCCESS announced" in world.row("start P1")[1]


def test_a_person_is_told_that_the_refund_appeared_though_what_spoke_of_it_was_forgotten():
    """R-081."""
    world = started()
    world.row("callback P1 SUCCESS e=E t=X1")
    world.row("layer R1 of=P1 merchant PROCESSING e=L")
    for number in range(MAX_SEEN):
        world.row(f"callback P1 PENDING e=F{number}")
    world.wind(86_400)
    assert [kind for kind, _, _ in world.items()] == ["UNKNOWN_ORDER"]
    assert world.row("back R1 of=P1 a=100")[-1].startswith("applied layer REFUNDING UNKNOWN_ORDER:high:")
    assert not world.items()


def test_a_card_entry_that_comes_again_after_its_key_was_forgotten_is_kept_once():
    """R-219: the same card entry synced twice is booked once."""
    world = started()
    world.row("callback P1 SUCCESS e=PAID t=X1")
    world.row("purchase P1 e=CARD")
    for number in range(MAX_SEEN):
        world.row(f"callback P1 PENDING e=E{number}")
    world.row("purchase P1 e=CARD")
    assert world.order is not None
    assert [card.event_id for card in world.order.cards] == ["CARD"]
