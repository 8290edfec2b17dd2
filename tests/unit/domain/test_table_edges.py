"""Rows of the law's tables that little else leans on, as tables of their own (see tests/support/worlds.py)."""

from __future__ import annotations

import pytest

from streams.domain import balance
from streams.domain.decisions import Decision
from streams.domain.order import MAX_SEEN
from tests.support.worlds import World

CASES: dict[str, str] = {
    "a refund in doubt holds its money (R-015)": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 SUCCESS e=S t=X1                    -> applied success PAYING>SUCCESS announced
    back R1 of=P1 a=600                             -> applied refund-asked REFUNDING REFUND
    returned R1 of=P1 TIMEOUT a=-                   -> applied unknown REFUNDING>UNKNOWN
    back R2 of=P1 a=401                             -> refused over-refund - OVER_REFUND:info:R2:opened
    back R3 of=P1 a=400                             -> applied refund-asked REFUNDING REFUND
    """,
    "a lost dispute holds its money": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 SUCCESS e=S t=X1                    -> applied success PAYING>SUCCESS announced
    dispute P1 LOST e=D a=600                       -> applied dispute-lost SUCCESS
    back R1 of=P1 a=401                             -> refused money-is-disputed - REFUND_AND_DISPUTE:high:R1:opened
    back R2 of=P1 a=400                             -> applied refund-asked REFUNDING REFUND
    """,
    "nothing is captured of a hold while its void is out": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 AUTHORIZED e=A t=X1                 -> applied authorised PAYING>AUTHORIZED
    void V1 of=P1                                   -> applied void-asked PAYING VOID
    capture C1 of=P1 a=1                            -> refused over-capture - OVER_CAPTURE:info:C1:opened
    """,
    "a lapsed hold is an end without money: a capture's success is late, and another payment may take its place": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 AUTHORIZED e=A t=X1 auth_expires_at=2025-03-03T11:00:00Z -> applied authorised PAYING>AUTHORIZED
    create P2                                       -> refused one-payment -
    +3600 tick                                      -> applied authorisation-lapsed AUTHORIZED>EXPIRED AUTH_RELEASED:1000
    create P3                                       -> applied created INIT
    """,
    "legs stopped short only when none can still pay, be it in doubt or not yet begun": """
    create L1 a=300 order_total=1000                -> applied created INIT
    create L2 a=300 order_total=1000                -> applied created INIT
    create L3 a=200 order_total=1000                -> applied created INIT
    create L4 a=200 order_total=1000 expires_at=never -> applied created INIT
    start L1                                        -> applied start INIT>PAYING SUBMIT
    start L2                                        -> applied start INIT>PAYING SUBMIT
    start L3                                        -> applied start INIT>PAYING SUBMIT
    submit L3 TIMEOUT a=-                           -> applied unknown PAYING>UNKNOWN
    callback L1 SUCCESS e=1 t=1 a=300               -> applied success PAYING>SUCCESS
    callback L2 FAILED e=2 t=2 a=300                -> applied failure PAYING>FAIL
    callback L3 FAILED e=3 t=3 a=200                -> applied failure UNKNOWN>FAIL
    give-up L4                                      -> applied withdrawn INIT>CLOSED PARTIAL_TENDER:high:O1:opened
    decide close about=PARTIAL_TENDER               -> applied decided-close - PARTIAL_TENDER:high:O1:resolved
    create L5 a=100 order_total=1000                -> applied created INIT
    start L5                                        -> applied start INIT>PAYING SUBMIT
    callback L5 FAILED e=5 t=5 a=100                -> applied failure PAYING>FAIL PARTIAL_TENDER:high:O1:opened
    """,
    "a hold that lapses leaves the legs that were paid short of their total": """
    create L1 a=300 order_total=1000                -> applied created INIT
    create L2 a=700 order_total=1000                -> applied created INIT
    start L1                                        -> applied start INIT>PAYING SUBMIT
    start L2                                        -> applied start INIT>PAYING SUBMIT
    callback L2 AUTHORIZED e=A t=X2 a=700 auth_expires_at=2025-03-03T11:00:00Z -> applied authorised PAYING>AUTHORIZED
    callback L1 SUCCESS e=1 t=1 a=300               -> applied success PAYING>SUCCESS
    +3600 tick                                      -> \
        applied authorisation-lapsed AUTHORIZED>EXPIRED AUTH_RELEASED:700 PARTIAL_TENDER:high:O1:opened
    """,
    "legs are not told apart while one is in doubt": """
    create L1 a=300 order_total=1000                -> applied created INIT
    create L2 a=300 order_total=1000                -> applied created INIT
    create L3 a=200 order_total=1000                -> applied created INIT
    start L1                                        -> applied start INIT>PAYING SUBMIT
    start L2                                        -> applied start INIT>PAYING SUBMIT
    start L3                                        -> applied start INIT>PAYING SUBMIT
    submit L3 TIMEOUT a=-                           -> applied unknown PAYING>UNKNOWN
    callback L1 SUCCESS e=1 t=1 a=300               -> applied success PAYING>SUCCESS
    callback L2 FAILED e=2 t=2 a=300                -> applied failure PAYING>FAIL
    callback L3 SUCCESS e=3 t=3 a=200               -> applied success UNKNOWN>SUCCESS PARTIAL_TENDER:high:O1:opened
    """,
    "a leg's hold counts toward the total": """
    create L1 a=300 order_total=1000                -> applied created INIT
    start L1                                        -> applied start INIT>PAYING SUBMIT
    callback L1 AUTHORIZED e=A t=X1 a=300           -> applied authorised PAYING>AUTHORIZED
    create L2 a=701 order_total=1000                -> refused over-total -
    create L3 a=700 order_total=1000                -> applied created INIT
    """,
    "late money that goes back pays no leg": """
    create L1 a=300 order_total=1000                -> applied created INIT
    start L1                                        -> applied start INIT>PAYING SUBMIT
    callback L1 FAILED e=F a=300                    -> applied failure PAYING>FAIL
    create L2 a=700 order_total=1000                -> applied created INIT
    start L2                                        -> applied start INIT>PAYING SUBMIT
    callback L1 SUCCESS e=S t=1 a=300               -> illegal late-success FAIL LATE_SUCCESS:high:S:opened
    decide refund about=LATE_SUCCESS refund_no=R1   -> applied decided-refund - REFUND LATE_SUCCESS:high:S:resolved
    callback L2 SUCCESS e=2 t=2 a=700               -> applied success PAYING>SUCCESS PARTIAL_TENDER:high:O1:opened
    """,
}


@pytest.mark.parametrize("title", CASES)
def test_the_table_holds(title: str) -> None:
    world = World()
    for line in filter(str.strip, CASES[title].splitlines()):
        row, _, expected = line.partition("->")
        assert " | ".join(world.row(row)) == " ".join(expected.split()), row
    assert world.told_all_that_it_implies()


def entries(world: World) -> list[tuple[str, str, int, str]]:
    return [(one.dr, one.cr, one.amount, one.ref) for message in world.said for one in getattr(message, "ledger", ())]


def test_even_the_smallest_refund_of_money_in_time_leaves_suspense_alone() -> None:
    world = World()
    for row in ("create P1", "start P1", "callback P1 SUCCESS e=S t=X1", "back R1 of=P1 a=1"):
        world.row(row)
    assert world.row("returned R1 of=P1 SUCCESS t=RX a=1") == ["applied success REFUNDING>SUCCESS REFUND_SUCCESS:1"]
    assert entries(world)[1:] == [("order_clearing", "chan_recv:chA", 1, "R1")]


def test_what_may_be_refunded_is_never_below_zero() -> None:
    world = World()
    for row in (
        "create P1",
        "start P1",
        "callback P1 SUCCESS e=S t=X1",
        "back R1 of=P1",
        "notice - of=P1 SUCCESS e=C r=RC",
    ):
        world.row(row)
    assert world.order is not None
    assert balance.refundable(world.order, world.order.payments[0]) == 0
    world.row("back R2 of=P1 a=1")
    assert "more than the 0 that may still be refunded" in next(
        message.detail for message in reversed(world.said) if isinstance(message, Decision)
    )


def test_a_person_is_asked_again_when_a_silence_becomes_a_doubt() -> None:
    """R-056: people closed over how things stood, not over a fact."""
    world = World()
    for row in ("create P1", "start P1", "+86400 tick"):
        world.row(row)
    assert world.row("decide close about=STUCK_UNKNOWN") == ["applied decided-close - STUCK_UNKNOWN:high:P1:resolved"]
    assert world.row("query P1 TIMEOUT a=-") == ["applied unknown PAYING>UNKNOWN"]
    assert world.row("+86400 tick")[-1] == "applied window-over UNKNOWN STUCK_UNKNOWN:high:P1:opened"


def test_a_person_is_told_again_when_forgotten_evidence_of_no_order_comes_again() -> None:
    """R-081."""
    world = World()
    for row in ("create P0", "start P0", "callback P0 SUCCESS e=S t=X0", "callback P1 SUCCESS e=E t=X1"):
        world.row(row)
    assert world.row("+86400 tick") == ["applied park-window-over - UNKNOWN_ORDER:high:E:opened"]
    assert world.row("decide close about=UNKNOWN_ORDER") == ["applied decided-close - UNKNOWN_ORDER:high:E:resolved"]
    for number in range(MAX_SEEN):
        world.row(f"callback P0 SUCCESS e=S{number} t=X0")
    assert world.row("callback P1 SUCCESS e=E t=X1") == ["parked waits-for-payment -"]
    assert world.row("+86400 tick") == ["applied park-window-over - UNKNOWN_ORDER:high:E:opened"]
