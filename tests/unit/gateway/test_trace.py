"""A trace is the caller's or fresh; a log line holds no name and no card number."""

from __future__ import annotations

import pytest

from streams.gateway.trace import TRACEPARENT, loggable, trace_id, traced

GOOD = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_the_callers_trace_goes_on():
    assert traced(GOOD) == GOOD
    assert trace_id(GOOD) == "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "junk",
        GOOD.upper(),
        f"{GOOD}\n",
        GOOD.replace("00-4", "ff-4", 1),
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-4bf92f3577b34da6a3ce929d0e0e4736-{'0' * 16}-01",
    ],
)
def test_what_is_no_trace_is_replaced_by_a_fresh_one(text: str):
    first, second = traced(text), traced(text)
    assert TRACEPARENT.fullmatch(first)
    assert first != second


@pytest.mark.parametrize("name", ["order-17", "pi_3Mt1", "20260101-0007", "evt:9.x@y"])
def test_an_identifier_may_be_logged(name: str):
    assert loggable(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "Jane Doe",
        "JaneDoe",
        "张三",
        "4111111111111111",
        "4111-1111-1111-1111",
        "x" * 65,
        "a\nb1",
        "whsec_17",
        "sk_live_9",
    ],
)
def test_what_may_be_a_name_or_a_card_is_logged_as_a_hash(name: str):
    assert loggable(name).startswith("sha256:")
    assert name not in loggable(name)


def test_nothing_is_logged_as_nothing():
    assert loggable("") == ""
