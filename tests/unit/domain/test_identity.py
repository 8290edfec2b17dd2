"""Keys and minted ids: what tells two things apart, and what never may."""

from __future__ import annotations

from datetime import UTC, datetime

from msgspec.structs import replace

from streams.domain import identity
from streams.domain.events import Answer, Callback, Raw
from streams.domain.order import Order, Payment

NOTICE = Callback(
    order_id="O1", payment_no="P1", channel="chA", status="SUCCESS", event_id="E1", transaction="X1", amount=1
)


def payment(number: str, merchant: str | None = None) -> Payment:
    return Payment(number, merchant, "trade", "chA", 1, "USD", "INIT", (), 0, 0)


def test_an_event_id_is_unique_only_within_its_merchant_and_channel():
    """R-072, R-108."""
    keys = {
        identity.event_key(replace(NOTICE, **change))
        for change in ({}, {"channel": "chB"}, {"merchant": "M"}, {"event_id": "E2"})
    }
    assert len(keys) == 4


def test_time_and_amount_are_no_part_of_any_key():
    """R-074."""
    for notice in (NOTICE, replace(NOTICE, event_id=None)):
        other = replace(notice, amount=2, currency="EUR", event_time="2025-03-03T10:00:00Z")
        assert identity.event_key(notice) == identity.event_key(other)


def test_an_empty_event_id_is_an_absent_one():
    assert identity.event_key(replace(NOTICE, event_id="")) == identity.event_key(replace(NOTICE, event_id=None))
    assert identity.event_key(replace(NOTICE, event_id="", transaction="")) is None


def test_how_a_notice_travelled_is_no_part_of_what_it_says():
    travelled = replace(
        NOTICE, subscription="s2", received_at=datetime(2025, 3, 3, tzinfo=UTC), raw=Raw(body="e30=", sha256="00")
    )
    assert identity.said(travelled) == identity.said(NOTICE)
    answer = Answer(request="query", order_id="O1", payment_no="P1", channel="chA", status="FAILED")
    assert identity.said(replace(answer, raw=Raw(body="", sha256=""))) == identity.said(answer)


def test_ids_of_different_things_differ_even_if_their_parts_hold_the_separator():
    named = [
        ("a/b", payment("c")), ("a", payment("b/c")), ("a", payment("c", "b")), ("a%2Fb", payment("c")),
        ("a", payment("b%2Fc")),
    ]  # fmt: skip
    assert len({identity.success_id(Order(order), one) for order, one in named}) == len(named)


def test_one_attempt_keeps_its_idempotency_key_and_another_has_another():
    """R-031, R-036."""
    order, one = Order("O1"), payment("P1")
    first = identity.idempotency_key(order, one)
    one.queries = 5
    one.state = "UNKNOWN"
    assert identity.idempotency_key(order, one) == first
    assert len(first) == 32
    one.attempts = 2
    assert identity.idempotency_key(order, one) != first
