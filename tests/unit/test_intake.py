"""From verified notices to records: topic, key, bytes and headers."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from streams.agents.intake import linked, record, records
from streams.channels.adapter import Mapped, Reference
from streams.codec import TOPICS
from streams.domain.events import Callback, CardPosting, Dispute, Raw, RefundLayer, RefundNotice, Release, Unmapped

AT = datetime(2025, 3, 3, 10, 0, tzinfo=UTC)
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
WHO = {"channel": "stripe:acct_1", "order_id": "订单-1"}
PAYMENT = {**WHO, "payment_no": "P1", "status": "SUCCESS", "event_id": "evt_1"}
RAW = Raw(body="", sha256="ab" * 32)
CALLBACK = Callback(**PAYMENT)
POSTING = CardPosting(**WHO, event_id="evt_1", amount=1, currency="USD", status="PURCHASE")
EVENTS = [
    (CALLBACK, "channel-callbacks", "callback"),
    (RefundNotice(**PAYMENT), "channel-callbacks", "refund_notice"),
    (RefundLayer(**PAYMENT, refund_no="R1", layer="card"), "channel-callbacks", "refund_layer"),
    (Release(**PAYMENT), "channel-callbacks", "release"),
    (Dispute(**PAYMENT, amount=1, currency="USD"), "channel-callbacks", "dispute"),
    (POSTING, "card-postings", "card_posting"),
]


@pytest.mark.parametrize(("event", "topic", "kind"), EVENTS)
def test_each_event_goes_to_its_topic_under_its_orders_key(event, topic: str, kind: str):
    stored = record(event, at=AT, traceparent=TRACE)
    assert (stored.topic, stored.key, stored.reference) == (topic, "订单-1".encode(), "stripe:acct_1/evt_1")
    assert msgspec.json.decode(stored.value, type=TOPICS[topic]) == event
    assert dict(stored.headers) == {
        "ce_specversion": b"1.0",
        "ce_id": b"stripe:acct_1/evt_1",
        "ce_type": kind.encode(),
        "ce_source": b"stripe:acct_1",
        "ce_time": b"2025-03-03T10:00:00Z",
        "content-type": b"application/json",
        "traceparent": TRACE.encode(),
    }


def test_what_cannot_be_mapped_is_keyed_by_its_source_and_reference():
    known = Unmapped(channel="stripe:acct_1", event_type="x", reason="y", event_id="evt_1", raw=RAW)
    [first, second] = records([Mapped(known), Mapped(msgspec.structs.replace(known, event_id=None))], at=AT)
    assert (first.topic, first.key) == ("channel-callbacks", b"stripe:acct_1/evt_1")
    assert second.key == f"stripe:acct_1/{'ab' * 32}/1".encode()


def test_events_without_ids_of_one_notice_keep_apart():
    event = msgspec.structs.replace(CALLBACK, event_id=None, raw=RAW)
    assert len({one.reference for one in records([Mapped(event), Mapped(event)], at=AT)}) == 2


def test_the_same_notice_gives_the_same_records():
    assert records([Mapped(CALLBACK)], at=AT) == records([Mapped(CALLBACK)], at=AT)


def test_an_event_without_its_order_is_not_a_record():
    lost = Mapped(msgspec.structs.replace(POSTING, order_id=""), (Reference("authorization", "iauth_1"),))
    with pytest.raises(ValueError, match="find its order by the references first"):
        records([lost], at=AT)


@pytest.mark.parametrize("trace", ["", "00-x", TRACE + "\n", TRACE.upper()])
def test_a_trace_that_is_none_does_not_travel(trace: str):
    assert "traceparent" not in dict(record(CALLBACK, at=AT, traceparent=trace).headers)


def test_a_link_fills_what_is_empty_and_replaces_nothing():
    empty = RefundNotice(**{**PAYMENT, "order_id": "", "payment_no": ""})
    assert linked(empty, "O9", "P9", "R9") == RefundNotice(
        **{**PAYMENT, "order_id": "O9", "payment_no": "P9"}, refund_no="R9"
    )
    assert linked(CALLBACK, "O9", "P9", "R9") == CALLBACK
    assert linked(msgspec.structs.replace(POSTING, order_id=""), "O9", "P9").payment_no == "P9"


def test_a_refund_under_its_payments_own_number_is_the_channels_own():
    """Made in the channel's own pages it carries the payment's reference; as a refund of ours it would be an unknown order."""
    made_there = RefundNotice(**{**PAYMENT, "order_id": "", "payment_no": ""}, refund_no="P9")
    assert linked(made_there, "O9", "P9").refund_no is None
    assert linked(made_there, "O9", "P9", "R9").refund_no == "R9"
    assert linked(msgspec.structs.replace(made_there, refund_no="R1"), "O9", "P9").refund_no == "R1"
