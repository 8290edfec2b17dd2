"""What is held, for how long, and what becomes of it when nobody knows its order."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from streams.agents import intake
from streams.channels.adapter import AUTHORIZATION, REFUND, Reference
from streams.channels.contracts import shipped
from streams.domain.contract import Contract
from streams.domain.converge import decider
from streams.domain.events import CardPosting, RefundLayer, RefundNotice
from streams.engine.topology import DUE
from streams.gateway.holding import Held, Unlinked, belonging, led, orphaned, window_s
from streams.gateway.links import Link

AT = datetime(2026, 1, 1, tzinfo=UTC)
AUTH = Reference(AUTHORIZATION, "auth1", "lithic:a")


def posting(status: str = "REFUND", **more: object) -> CardPosting:
    plain = {"channel": "lithic:a", "order_id": "", "event_id": "e1", "amount": 100, "currency": "USD"}
    return CardPosting(status=status, **{**plain, **more})


def layer() -> RefundLayer:
    return RefundLayer(
        order_id="", payment_no="", refund_no="r1", channel="lithic:a", layer="card", status="POSTED", event_id="e2"
    )


def held(*, minutes: int = 0, event=None, references=(AUTH,)) -> Unlinked:
    return Unlinked(event=event or posting(), references=references, received_at=AT + timedelta(minutes=minutes))


def test_a_link_fills_what_an_event_does_not_say_and_replaces_nothing():
    link = Link("o1", "p1", "m1", "r9")
    assert led(intake, posting(), link) == posting(order_id="o1", payment_no="p1", merchant="m1")
    assert led(intake, layer(), link).refund_no == "r1"
    assert belonging(posting(merchant="m0"), "m1").merchant == "m0"
    assert belonging(posting(), None).merchant is None


def test_a_card_refund_without_an_order_names_no_payment_in_the_end():
    over = orphaned(posting(payment_no="p1"), "lithic:a/e1", (AUTH,))
    assert (over.order_id, over.payment_no) == ("lithic:a/e1", None)


@pytest.mark.parametrize("event", [posting("PURCHASE"), layer()])
def test_anything_else_without_an_order_names_the_number_that_led_nowhere(event):
    over = orphaned(event, "lithic:a/e", (Reference(REFUND, "r1"), AUTH))
    assert (over.order_id, over.payment_no) == ("lithic:a/e", "r1")


def verdicts(event, *, windows: int = 0):
    """What the law says of an event under its source and reference, and when its park window is over."""
    decide = decider(shipped(), DUE)
    order, said = decide(None, event, int(AT.timestamp() * 1000))
    if windows:
        later = AT + timedelta(seconds=windows * Contract().park_window_s + 60)
        _order, more = decide(order, DUE, int(later.timestamp() * 1000))
        said = [*said, *more]
    return {getattr(message, "kind", "") for message in said}


def test_the_law_calls_an_orphaned_card_refund_unlinked():
    assert "UNLINKED_REFUND" in verdicts(orphaned(posting(), "lithic:a/e1", (AUTH,)))


@pytest.mark.parametrize("event", [posting("PURCHASE"), layer()])
def test_the_law_calls_any_other_orphan_an_unknown_order(event):
    assert "UNKNOWN_ORDER" in verdicts(orphaned(event, "lithic:a/e", (AUTH,)), windows=1)


def test_a_card_entry_is_held_by_its_own_window_where_there_is_one():
    contracts = {"lithic:a": Contract(card_posting_window_s=60, park_window_s=3600)}
    notice = RefundNotice(order_id="", payment_no="p", channel="lithic:a", status="SUCCESS")
    assert [window_s(contracts, event) for event in (posting(), layer(), notice)] == [60, 60, 3600]
    assert window_s({}, posting()) == Contract().park_window_s


def test_a_window_ends_once_for_each_notice():
    items = Held(lambda _event: 60.0)
    items.add(0, b"a", held())
    items.add(0, b"b", held(minutes=5))
    assert items.ended(AT + timedelta(seconds=59)) == []
    assert items.ended(AT + timedelta(seconds=60)) == [b"a"]
    assert items.ended(AT + timedelta(seconds=61)) == []


def test_a_notice_that_comes_again_keeps_its_first_window():
    items = Held(lambda _event: 60.0)
    items.add(0, b"a", held())
    items.add(0, b"a", held(minutes=30))
    assert items.ended(AT + timedelta(minutes=1)) == [b"a"]


def test_what_was_passed_on_waits_for_nothing():
    items = Held(lambda _event: 60.0)
    items.add(0, b"a", held())
    items.add(1, b"b", held())
    assert items.waiting == {AUTH.key: {b"a", b"b"}}
    items.drop(b"a")
    items.drop(b"a")
    items.drop_partitions({1})
    assert (items.items, items.waiting) == ({}, {})
    assert items.ended(AT + timedelta(days=1)) == []
