"""What each word does in each state, written down once more, apart from the tables: an entry that goes missing shows here."""

from __future__ import annotations

import pytest

from streams.domain.contract import Contract, Failures
from tests.support.worlds import World

STARTED = ("create P1", "start P1")
WAYS = {
    "PAY PAYING": STARTED,
    "PAY UNKNOWN": (*STARTED, "submit P1 TIMEOUT a=-"),
    "PAY AUTHORIZED": (*STARTED, "callback P1 AUTHORIZED e=A t=X1"),
    "CAPTURE PAYING": (*STARTED, "callback P1 AUTHORIZED e=A t=X1", "capture C1 of=P1"),
    "CAPTURE UNKNOWN": (*STARTED, "callback P1 AUTHORIZED e=A t=X1", "capture C1 of=P1", "captured C1 of=P1 TIMEOUT a=-"),
    "VOID PAYING": (*STARTED, "callback P1 AUTHORIZED e=A t=X1", "void C1 of=P1"),
    "VOID UNKNOWN": (*STARTED, "callback P1 AUTHORIZED e=A t=X1", "void C1 of=P1", "voided C1 of=P1 TIMEOUT a=-"),
    "REFUND REFUNDING": (*STARTED, "callback P1 SUCCESS e=A t=X1", "back C1 of=P1"),
    "REFUND UNKNOWN": (*STARTED, "callback P1 SUCCESS e=A t=X1", "back C1 of=P1", "returned C1 of=P1 TIMEOUT a=-"),
}  # fmt: skip
"""How a world comes to hold an operation of each kind in each state."""
SAY = {
    "PAY": "callback P1 {} e=E t=X1",
    "CAPTURE": "captured C1 of=P1 {} t=T",
    "VOID": "voided C1 of=P1 {} t=T",
    "REFUND": "returned C1 of=P1 {} t=T",
}
WORDS = ("SUCCESS", "FAILED", "CLOSED", "PROCESSING", "PENDING", "AUTHORIZED")
TABLE = """
                  SUCCESS  FAILED  CLOSED  PROCESSING  PENDING     AUTHORIZED
PAY PAYING        SUCCESS  FAIL    CLOSED  UNKNOWN     PAYING      AUTHORIZED
PAY UNKNOWN       SUCCESS  FAIL    CLOSED  UNKNOWN     UNKNOWN     AUTHORIZED
PAY AUTHORIZED    SUCCESS  VOIDED  VOIDED  AUTHORIZED  AUTHORIZED  AUTHORIZED
CAPTURE PAYING    SUCCESS  FAIL    CLOSED  UNKNOWN     PAYING      -
CAPTURE UNKNOWN   SUCCESS  FAIL    CLOSED  UNKNOWN     UNKNOWN     -
VOID PAYING       SUCCESS  FAIL    CLOSED  UNKNOWN     PAYING      -
VOID UNKNOWN      SUCCESS  FAIL    CLOSED  UNKNOWN     UNKNOWN     -
REFUND REFUNDING  SUCCESS  FAIL    FAIL    UNKNOWN     REFUNDING   -
REFUND UNKNOWN    SUCCESS  FAIL    FAIL    UNKNOWN     UNKNOWN     -
"""
CASES = [
    (f"{kind} {state}", word, after)
    for kind, state, *afters in (line.split() for line in TABLE.strip().splitlines()[1:])
    for word, after in zip(WORDS, afters, strict=True)
]


def test_the_table_speaks_of_every_way_and_word():
    assert TABLE.split()[: len(WORDS)] == list(WORDS)
    assert {case[0] for case in CASES} == set(WAYS)


@pytest.mark.parametrize(("way", "word", "after"), CASES)
def test_a_word_does_in_a_state_what_is_written(way: str, word: str, after: str):
    world = World()
    for row in WAYS[way]:
        world.row(row)
    outcome = world.row(SAY[way.split(maxsplit=1)[0]].format(word))
    if after == "-":
        assert outcome[0].startswith("conflict not-mapped")
        return
    assert outcome[0].startswith("applied ")
    assert world.order is not None
    targets = {one.number: one.state for one in (*world.order.payments, *world.order.operations)}
    assert targets["P1" if way.startswith("PAY") else "C1"] == after


def test_a_payment_in_doubt_may_be_given_up_when_nothing_of_it_was_accepted():
    world = World({"chA": Contract(failures=Failures(not_accepted=("REFUSED",)))})
    for row in (*STARTED, "callback P1 PROCESSING e=E", "submit P1 REFUSED a=-"):
        world.row(row)
    assert world.row("give-up P1") == ["applied withdrawn UNKNOWN>CLOSED"]


@pytest.mark.parametrize("end", ["WON", "LOST"])
def test_an_open_dispute_ends_in_either_way(end: str):
    world = World()
    for row in (*STARTED, "callback P1 SUCCESS e=A t=X1", "dispute P1 OPEN e=D1 a=100"):
        world.row(row)
    assert world.row(f"dispute P1 {end} e=D2 a=100") == [f"applied dispute-{end.lower()} SUCCESS"]


def test_a_close_that_the_channel_calls_closed_is_one():
    world = World()
    for row in STARTED:
        world.row(row)
    assert world.row("close P1 CLOSED a=-") == ["applied closed PAYING>CLOSED"]
