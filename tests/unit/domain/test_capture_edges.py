"""The edges of holds as tables: what is counted once, what lets go, and what a release leaves behind."""

from __future__ import annotations

import pytest

from streams.domain.contract import Contract
from streams.domain.decisions import Decision, Discrepancy
from streams.domain.order import due
from tests.support.worlds import World

TOLERANT = {"chA": Contract(overcapture_pct={"restaurant": 20})}
HELD = """
    create P1 category=restaurant                   -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 AUTHORIZED e=A t=X1                 -> applied authorised PAYING>AUTHORIZED
"""
CASES: dict[str, str] = {
    "a payment's own word takes the whole hold": f"""{HELD}
    callback P1 SUCCESS e=S t=X1                    -> applied success AUTHORIZED>SUCCESS announced
    release P1 SUCCESS e=R1                         -> stale no-hold SUCCESS
    """,
    "a leg that is taken in parts is announced by the part that reaches the total": """
    create L1 a=1000 order_total=1000               -> applied created INIT
    start L1                                        -> applied start INIT>PAYING SUBMIT
    callback L1 AUTHORIZED e=A t=X1                 -> applied authorised PAYING>AUTHORIZED
    capture C1 of=L1 a=600                          -> applied capture-asked PAYING CAPTURE
    captured C1 of=L1 SUCCESS a=600                 -> applied success PAYING>SUCCESS
    capture C2 of=L1 a=400                          -> applied capture-asked PAYING CAPTURE
    captured C2 of=L1 SUCCESS a=400                 -> applied success PAYING>SUCCESS announced
    """,
    "a leg whose hold is let go leaves the paid one alone": """
    create L1 a=300 order_total=1000                -> applied created INIT
    create L2 a=700 order_total=1000                -> applied created INIT
    start L1                                        -> applied start INIT>PAYING SUBMIT
    start L2                                        -> applied start INIT>PAYING SUBMIT
    callback L1 SUCCESS e=1 t=1 a=300               -> applied success PAYING>SUCCESS
    callback L2 AUTHORIZED e=A t=X1 a=700           -> applied authorised PAYING>AUTHORIZED
    release L2 SUCCESS e=R a=700                    -> \
        applied released AUTHORIZED>VOIDED AUTH_RELEASED:700 PARTIAL_TENDER:high:O1:opened
    """,
}


def play(text: str) -> World:
    world = World(TOLERANT)
    for line in filter(str.strip, text.splitlines()):
        row, _, expected = line.partition("->")
        assert " | ".join(world.row(row)) == " ".join(expected.split()), row
    assert world.told_all_that_it_implies()
    return world


def received(world: World) -> list[tuple[int, str]]:
    return [(one.amount, one.ref) for message in world.said for one in getattr(message, "ledger", ())]


@pytest.mark.parametrize("title", CASES)
def test_the_table_holds(title: str) -> None:
    play(CASES[title])


def test_captures_beyond_what_the_payments_own_word_took_are_received_and_the_rest_is_not_again() -> None:
    world = play(f"""{HELD}
    capture C1 of=P1 a=600                          -> applied capture-asked PAYING CAPTURE
    capture C2 of=P1 a=600                          -> applied capture-asked PAYING CAPTURE
    callback P1 SUCCESS e=S t=X1                    -> applied success AUTHORIZED>SUCCESS announced
    captured C1 of=P1 SUCCESS t=XC1 a=600           -> applied success PAYING>SUCCESS
    captured C2 of=P1 SUCCESS t=XC2 a=600           -> applied success PAYING>SUCCESS
    """)
    assert received(world) == [(1000, "P1"), (200, "C2")]
    assert world.order is not None
    assert world.order.payments[0].money.captured == 1200


def test_every_part_of_a_hold_is_received_under_its_own_capture() -> None:
    world = play(f"""{HELD}
    capture C1 of=P1 a=300                          -> applied capture-asked PAYING CAPTURE
    capture C2 of=P1 a=300                          -> applied capture-asked PAYING CAPTURE
    captured C1 of=P1 SUCCESS t=XC1 a=300           -> applied success PAYING>SUCCESS announced
    captured C2 of=P1 SUCCESS t=XC2 a=300           -> applied success PAYING>SUCCESS
    """)
    assert received(world) == [(300, "C1"), (300, "C2")]


def test_a_release_is_the_witness_of_the_end_and_leaves_nothing_due_but_its_rest() -> None:
    world = play(f"""{HELD}
    +60 release P1 SUCCESS e=R1                     -> applied released AUTHORIZED>VOIDED AUTH_RELEASED:1000
    """)
    assert world.order is not None
    assert world.order.payments[0].evidence == "R1"
    assert due(world.order) == world.order.age_at
    assert [one.query_at or one.stuck_at for one in world.order.payments] == [None]
    world.row("callback P1 SUCCESS e=S t=X1")
    [late] = [message for message in world.said if isinstance(message, Discrepancy)]
    assert "against R1" in late.detail


def test_a_void_keeps_the_channels_transaction() -> None:
    world = play(f"""{HELD}
    void V1 of=P1                                   -> applied void-asked PAYING VOID
    voided V1 of=P1 SUCCESS t=XV a=-                -> applied success PAYING>SUCCESS AUTH_RELEASED:1000
    """)
    assert world.order is not None
    assert world.order.operations[0].transaction == "XV"


@pytest.mark.parametrize("number", ["P1", "P9"])
def test_who_asks_for_too_much_of_a_hold_is_told_how_much_there_is(number: str) -> None:
    """Never less than nothing: of a hold that is asked for already, as of a payment that nobody knows."""
    world = play(f"""{HELD}
    capture C1 of=P1 a=1150                         -> applied capture-asked PAYING CAPTURE
    capture C2 of=P1 a=51                           -> refused over-capture - OVER_CAPTURE:info:C2:opened
    captured C1 of=P1 SUCCESS t=XC a=1150           -> applied success PAYING>SUCCESS announced
    capture C3 of={number} a=1                      -> refused over-capture - OVER_CAPTURE:info:C3:opened
    """)
    details = [one.detail for one in world.said if isinstance(one, Decision) and one.rule == "over-capture"]
    assert [detail.partition(" that")[0] for detail in details] == ["51 is more than the 50", "1 is more than the 0"]


def test_the_card_takes_the_smallest_amount_of_a_hold() -> None:
    world = play(f"""{HELD}
    purchase P1 e=C a=1                             -> applied card-cleared AUTHORIZED>SUCCESS announced
    """)
    assert received(world) == [(1, "P1")]


@pytest.mark.parametrize(("amount", "fitting"), [(300, "P1, P2"), (700, "P2"), (1001, "no payment of this order")])
def test_who_looks_at_a_card_refund_without_a_payment_is_told_which_it_could_be_of(amount: int, fitting: str) -> None:
    """R-217: amounts that fit are candidates, no proof."""
    world = World()
    for number, paid in (("P1", 500), ("P2", 1000)):
        for row in (f"create {number} biz_code={number} a={paid}", f"start {number}"):
            world.row(row)
        world.row(f"callback {number} SUCCESS e={number} t=X{number} a={paid}")
    world.row(f"refunded e=C a={amount}")
    [told] = [one for one in world.said if isinstance(one, Discrepancy)]
    assert told.kind == "UNLINKED_REFUND"
    assert f"; {fitting} would fit" in told.detail
