"""Why it is not settled, as tables: what is open, what settles it, who can and until when; and how the rest ended."""

from __future__ import annotations

import pytest

from streams.domain.why import Why, why
from tests.support.worlds import World

BEGUN = ("create P1", "start P1")
PAID = (*BEGUN, "callback P1 SUCCESS e=1 t=X1")
CLOSE = "two people who close it with the evidence that explains it"
MONEY = "two people who let the money pay the order after all or give the money back as a refund of its own"
OPS = "payment-operations"
UNASKED = "the final word on the payment, which automatic queries did not bring"
BY_SUPPORT = "the channel's final word, by its support; then it clears itself"
BACK = "the duplicate's refund in full, which clears it"
BOOK = "two people who book what the channel did or close it with the evidence that explains it"
OPEN: dict[str, tuple[tuple[str, ...], list[str]]] = {
    "a payment that nobody began": (
        ("create P1",),
        ["payment P1 is INIT: a start command; without one it closes unpaid; trade domain; 03T10:15"],
    ),
    "a payment that was asked for": (
        BEGUN,
        ["payment P1 is PAYING: the final word on the payment; we query it next; channel chA; 03T10:02"],
    ),
    "a payment after its last query": (
        (*BEGUN, "submit P1 TIMEOUT a=-", "+80000 tick"),
        ["payment P1 is UNKNOWN: the final word on the payment; then a person takes over; channel chA; 04T10:00"],
    ),
    "a payment that nobody could settle": (
        (*BEGUN, "+86400 tick"),
        [
            f"payment P1 is PAYING: {UNASKED}; {OPS}, with chA; -",
            f"STUCK_UNKNOWN about P1: {BY_SUPPORT}, or {CLOSE}; {OPS}; 04T14:00",
        ],
    ),
    "a hold and a capture of it": (
        (*BEGUN, "callback P1 AUTHORIZED e=1 t=X1 auth_expires_at=2025-03-09T10:00:00Z", "capture C1 of=P1 a=300"),
        [
            "payment P1 is AUTHORIZED: a capture, or the end of the hold; trade domain; -",
            "capture C1 is PAYING: the final word on the capture; we query it next; channel chA; 03T10:02",
        ],
    ),
    "a hold": (
        (*BEGUN, "callback P1 AUTHORIZED e=1 t=X1 auth_expires_at=2025-03-09T10:00:00Z"),
        ["payment P1 is AUTHORIZED: a capture, or the end of the hold; trade domain; 09T10:00"],
    ),
    "a refund": (
        (*PAID, "back R1 of=P1 a=300"),
        ["refund R1 is REFUNDING: the final word on the refund; we query it next; channel chA; 03T10:02"],
    ),
    "evidence that waits for an operation": (
        ("callback P9 SUCCESS e=1 t=X1",),
        ["evidence waits: the operation that 1 speaks of, started at its channel; trade domain; 04T10:00"],
    ),
    "evidence that waited in vain": (
        ("callback P9 SUCCESS e=1 t=X1", "+86400 tick"),
        [
            f"UNKNOWN_ORDER about 1: the operation's start; then it clears itself, or {CLOSE}; payment-operations; 05T10:00",
            "evidence waits: the operation that 1 speaks of, started at its channel; payment-operations; -",
        ],
    ),
    "evidence that is ahead of its payment's own word": (
        (*BEGUN, "notice - of=P1 SUCCESS e=9 r=R a=3"),
        [
            "payment P1 is PAYING: the final word on the payment; we query it next; channel chA; 03T10:02",
            "evidence waits: the payment's own word, which 9 can only follow; the payment's channel; -",
        ],
    ),
    "late money": (
        (*BEGUN, "callback P1 FAILED e=1", "callback P1 SUCCESS e=2 t=X1"),
        [f"LATE_SUCCESS about 2: {MONEY}; payment-operations; 03T14:00"],
    ),
    "money twice, and some that went back by itself": (
        (*PAID, "callback P1 SUCCESS e=2 t=X2", "notice - of=P1 SUCCESS e=3 r=R a=3"),
        [
            f"DUPLICATE_PAYMENT about P1: {BACK}, or {MONEY}; {OPS}; 03T14:00",
            f"CHANNEL_ONLY about R: {BOOK}; {OPS}; 04T10:00",
        ],
    ),
    "legs that stopped short": (
        (
            "create L1 a=300 order_total=1000", "create L2 a=700 order_total=1000", "start L1", "start L2",
            "callback L1 SUCCESS e=1 t=1 a=300", "callback L2 FAILED e=2 a=-",
        ),
        [f"PARTIAL_TENDER about O1: a payment of the rest; then it clears itself, or {CLOSE}; trade; 04T10:00"],
    ),
}  # fmt: skip


def asked(*rows: str) -> Why:
    world = World()
    for row in rows:
        world.row(row)
    assert world.order is not None
    return why(world.order, world.at)


@pytest.mark.parametrize("title", OPEN)
def test_whatever_is_open_has_its_answer(title: str):
    rows, expected = OPEN[title]
    found = [
        f"{one.about}: {one.what}; {one.whom}; {'-' if one.deadline is None else f'{one.deadline:%dT%H:%M}'}"
        for one in asked(*rows).open
    ]
    assert found == expected


def test_what_we_do_next_and_until_when_are_told_apart():
    """We ask at a moment of our own; what a person has to settle has a deadline and no such moment."""
    payment, stuck = asked(*BEGUN, "+86400 tick").open
    assert (payment.when, stuck.when) == (None, None)
    [open_] = asked(*BEGUN).open
    assert open_.when == open_.deadline is not None


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (("create P1", "+900 tick"), ["payment P1 CLOSED no request was made: by time"]),
        (PAID, ["payment P1 SUCCESS 1: The channel confirmed it"]),
        ((*BEGUN, "query P1 FAILED t=X"), ["payment P1 FAIL X: on the evidence X"]),
        (
            (*PAID, "callback P1 SUCCESS e=2 t=X1", "callback P1 FAILED e=3", "back R1 of=P1 a=1", "notice R1 of=P1 SUCCESS e=4 r=R a=1"),
            ["payment P1 SUCCESS 1: The channel confirmed it", "refund R1 SUCCESS 4: The channel confirmed it"],
        ),
    ],
)  # fmt: skip
def test_whatever_has_ended_names_its_witness_and_the_rule_that_heard_it(rows: tuple[str, ...], expected: list[str]):
    found = [f"{one.about} {one.state} {one.witness}: {one.because}" for one in asked(*rows).ended]
    assert [one.partition(" with transaction")[0] for one in found] == expected


def test_a_refund_that_failed_shows_the_way_it_went_and_the_answer_that_ended_it():
    ended = asked(*PAID, "back R1 of=P1 a=1", "returned R1 of=P1 FAILED a=-").ended[-1]
    assert (ended.about, ended.state, ended.witness) == ("refund R1", "FAIL", "R1")
    assert ended.path == ("INIT", "REFUNDING", "FAIL")
