"""One channel transaction named for two payments of one order, as tables (see tests/support/worlds.py). Holds R-040, R-105, R-108."""

from __future__ import annotations

from itertools import permutations

import pytest

from streams.domain.contract import Contract, Failures
from streams.domain.decisions import PaymentSuccess
from tests.support.worlds import World

BEGIN = """
    create P1 biz_code=goods                        -> applied created INIT
    create P2 biz_code=freight                      -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    start P2                                        -> applied start INIT>PAYING SUBMIT
"""
LINKED = "REFERENCE_ALREADY_LINKED:high:X1:opened"
CASES: dict[str, str] = {
    "the second payment is not paid by the first one's transaction and its channel is asked": f"""
    callback P1 SUCCESS e=1 t=X1                    -> applied success PAYING>SUCCESS announced
    callback P2 SUCCESS e=2 t=X1                    -> conflict transaction-linked PAYING>UNKNOWN {LINKED} QUERY
    query P2 SUCCESS t=X1                           -> conflict transaction-linked UNKNOWN
    query P1 SUCCESS t=X1                           -> applied already-success SUCCESS
    decide close about=REFERENCE_ALREADY_LINKED     -> applied decided-close - REFERENCE_ALREADY_LINKED:high:X1:resolved
    callback P2 SUCCESS e=3 t=X1 fee=3              -> conflict transaction-linked UNKNOWN QUERY
    query P2 FAILED                                 -> applied failure UNKNOWN>FAIL LATE_SUCCESS:high:2:opened
    decide refund about=LATE_SUCCESS refund_no=R1   -> refused no-late-money -
    decide close about=LATE_SUCCESS                 -> applied decided-close - LATE_SUCCESS:high:2:resolved
    """,
    "a transaction of its own pays the second payment after all": f"""
    callback P1 SUCCESS e=1 t=X1                    -> applied success PAYING>SUCCESS announced
    callback P2 SUCCESS e=2 t=X1                    -> conflict transaction-linked PAYING>UNKNOWN {LINKED} QUERY
    query P2 SUCCESS t=X2                           -> \
        applied success UNKNOWN>SUCCESS DUPLICATE_PAYMENT:high:P2:opened announced
    """,
    "late money of another payment's transaction is no second money": f"""
    callback P1 FAILED e=1                          -> applied failure PAYING>FAIL
    callback P1 SUCCESS e=2 t=X1                    -> illegal late-success FAIL LATE_SUCCESS:high:2:opened
    callback P2 SUCCESS e=3 t=X1                    -> applied success PAYING>SUCCESS {LINKED} announced
    decide fulfil about=LATE_SUCCESS                -> refused no-late-money -
    """,
    "late money that people let pay stays with its payment": f"""
    callback P1 FAILED e=1                          -> applied failure PAYING>FAIL
    callback P1 SUCCESS e=2 t=X1                    -> illegal late-success FAIL LATE_SUCCESS:high:2:opened
    decide fulfil about=LATE_SUCCESS                -> \
        applied decided-fulfil - LATE_MONEY_FULFILLED:1000 LATE_SUCCESS:high:2:resolved
    callback P2 SUCCESS e=3 t=X1                    -> conflict transaction-linked PAYING>UNKNOWN {LINKED} QUERY
    """,
    "a hold is a claim as well": f"""
    callback P1 AUTHORIZED e=1 t=X1                 -> applied authorised PAYING>AUTHORIZED
    callback P2 AUTHORIZED e=2 t=X1                 -> conflict transaction-linked PAYING>UNKNOWN {LINKED} QUERY
    callback P2 SUCCESS e=3 t=X1                    -> conflict transaction-linked UNKNOWN QUERY
    callback P1 SUCCESS e=4 t=X1                    -> applied success AUTHORIZED>SUCCESS announced
    """,
    "a hold that was let go keeps nothing, but a person is told": f"""
    callback P1 AUTHORIZED e=1 t=X1                 -> applied authorised PAYING>AUTHORIZED
    release P1 SUCCESS e=2                          -> applied released AUTHORIZED>VOIDED AUTH_RELEASED:1000
    callback P2 SUCCESS e=3 t=X1                    -> applied success PAYING>SUCCESS {LINKED} announced
    """,
}


CASES |= {
    "a transaction that a channel named for an open payment is no claim, as it may name another when it is done": f"""
    callback P1 PENDING e=1 t=X1                    -> applied pending PAYING
    callback P2 SUCCESS e=2 t=X1                    -> applied success PAYING>SUCCESS announced
    callback P1 SUCCESS e=3 t=X1                    -> conflict transaction-linked PAYING>UNKNOWN {LINKED} QUERY
    """,
    "the smallest hold is a claim, whatever stands before it": f"""
    create P3 biz_code=duty a=1                     -> applied created INIT
    start P3                                        -> applied start INIT>PAYING SUBMIT
    callback P3 AUTHORIZED e=1 t=X1 a=1             -> applied authorised PAYING>AUTHORIZED
    callback P2 SUCCESS e=2 t=X1                    -> conflict transaction-linked PAYING>UNKNOWN {LINKED} QUERY
    """,
}


@pytest.mark.parametrize("title", CASES)
def test_the_table_holds(title: str) -> None:
    world = World()
    for line in filter(str.strip, (BEGIN + CASES[title]).splitlines()):
        row, _, expected = line.partition("->")
        assert " | ".join(world.row(row)) == " ".join(expected.split()), row
    assert world.told_all_that_it_implies()


def after(*rows: str) -> World:
    world = World()
    for row in rows:
        world.row(row)
    return world


def announced(world: World) -> list[str]:
    return [one.payment_no for one in world.said if isinstance(one, PaymentSuccess)]


WORDS = (
    "callback P1 SUCCESS e=1 t=X1",
    "callback P2 SUCCESS e=2 t=X1",
    "callback P1 FAILED e=3",
    "query P2 SUCCESS t=X1",
)


def test_every_order_of_arrival_names_one_conflict_and_announces_one_payment():
    """R-040, R-105."""
    opened = [line.partition("->")[0] for line in BEGIN.splitlines() if line.strip()]
    ends = [after(*opened, *arrangement) for arrangement in permutations(WORDS)]
    assert all(len(announced(world)) == 1 for world in ends)
    linked = [{i.id for i in w.order.conflicts if i.kind == "REFERENCE_ALREADY_LINKED"} for w in ends if w.order]
    assert all(len(found) == 1 for found in linked)
    assert len({next(iter(found)) for found in linked}) == 1
    assert len({frozenset(world.open_conflicts()) for world in ends}) == 1


@pytest.mark.parametrize("field", ["channel=chB", "merchant=M2"])
def test_equal_names_at_another_account_are_two_transactions(field: str):
    world = after(
        "create P1 biz_code=goods", f"create P2 biz_code=freight {field}", "start P1", f"start P2 {field}",
        "callback P1 SUCCESS e=1 t=X1", f"callback P2 SUCCESS e=1 t=X1 {field}",
    )  # fmt: skip
    assert announced(world) == ["P1", "P2"]
    assert not world.items()


def test_a_success_at_an_earlier_channel_is_of_that_channel():
    """P1 was refused at chA and paid at chB; what chA says later is no transaction of chB, whatever its name."""
    world = World({"chA": Contract(failures=Failures(not_accepted=("REFUSED",)))})
    for row in (
        "create P1 biz_code=goods", "start P1", "submit P1 REFUSED a=-", "retry P1 channel=chB",
        "callback P1 SUCCESS e=1 t=X0 channel=chB", "callback P1 SUCCESS e=2 t=X1 channel=chA",
        "create P2 biz_code=freight channel=chB", "start P2 channel=chB", "callback P2 SUCCESS e=3 t=X1 channel=chB",
        "create P3 biz_code=duty", "start P3",
    ):  # fmt: skip
        world.row(row)
    assert announced(world) == ["P1", "P2"]
    assert ("REFERENCE_ALREADY_LINKED", "high", "X1") not in world.items()
    assert world.row("callback P3 SUCCESS e=4 t=X1") == [f"applied success PAYING>SUCCESS {LINKED} announced"]


def test_two_legs_of_one_total_need_two_transactions():
    world = after(
        "create L1 a=300 order_total=1000", "create L2 a=700 order_total=1000", "start L1", "start L2",
        "callback L1 SUCCESS e=1 t=X1 a=300", "callback L2 SUCCESS e=2 t=X1 a=700",
    )  # fmt: skip
    assert not announced(world)
    assert (world.state(0), world.state(1)) == ("SUCCESS", "UNKNOWN")
    assert ("REFERENCE_ALREADY_LINKED", "high", "X1") in world.items()
