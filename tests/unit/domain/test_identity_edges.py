"""Minted ids, written out: consumers dedupe by them, so a release that mints others tells everything twice."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from streams.domain import identity
from streams.domain.events import Callback, Dispute, Raw, RefundNotice, Release
from streams.domain.order import Operation, Order, Payment

ORDER = Order("a/b")
PLAIN = Payment("P1", None, "trade", "chA", 1, "USD", "INIT", (), 0, 0)
NAMED = Payment("P%1", "m/1", "trade", "chA", 1, "USD", "INIT", (), 0, 0)


def test_every_id_is_spelled_as_consumers_know_it():
    assert [
        identity.decision_id(ORDER, 7),
        identity.success_id(ORDER, PLAIN),
        identity.success_id(ORDER, NAMED),
        identity.update_id(ORDER, PLAIN, "PAYING"),
        identity.movement_id(ORDER, PLAIN, "REFUND_SUCCESS"),
        identity.request_id(ORDER, PLAIN, "QUERY", 3),
        identity.discrepancy_id(ORDER, b"\x00\xff"),
        identity.overflow_id(ORDER, 2),
    ] == [
        "decision/a%2Fb/7",
        "success/a%2Fb/P1",
        "success/a%2Fb/m%2F1/P%251",
        "update/a%2Fb/P1/PAYING",
        "movement/a%2Fb/P1/REFUND_SUCCESS",
        "request/a%2Fb/P1/QUERY/3",
        "discrepancy/a%2Fb/00ff",
        "discrepancy/a%2Fb/more-2",
    ]


def test_a_key_of_the_channel_is_never_shared_by_operations_merchants_or_attempts():
    """R-031, R-036."""
    refund = Operation("P1", "REFUND", "P0", None, "chA", 1, "USD", "INIT", (), 0)
    keys = {
        identity.idempotency_key(order, target)
        for order in (Order("O1"), Order("O2"))
        for target in (PLAIN, NAMED, refund, replace(PLAIN, attempts=1), replace(PLAIN, merchant="m/1"))
    }
    assert len(keys) == 10


def test_without_an_event_id_the_transaction_type_status_and_version_tell_notices_apart():
    """R-072, R-108."""
    callback = Callback(order_id="O1", payment_no="P1", channel="chA", status="SUCCESS", transaction="X1")
    refund = RefundNotice(order_id="O1", payment_no="P1", channel="chA", status="SUCCESS", refund_transaction="X1")
    money = {
        "order_id": "O1",
        "payment_no": "P1",
        "channel": "chA",
        "amount": 1,
        "currency": "USD",
        "transaction": "X1",
    }
    notices = [
        callback,
        *(
            replace(callback, **{name: value})
            for name, value in (
                ("transaction", "X2"),
                ("event_type", "t"),
                ("status", "FAILED"),
                ("version", 1),
                ("channel", "chB"),
                ("merchant", "M"),
            )
        ),
        refund,
        *(
            replace(refund, **{name: value})
            for name, value in (
                ("refund_transaction", "X2"),
                ("event_type", "t"),
                ("status", "FAILED"),
                ("version", 1),
                ("merchant", "M"),
            )
        ),
        Dispute(status="OPEN", **money),
        Dispute(status="WON", **money),
        Release(status="OPEN", **money),
    ]
    keys = [identity.event_key(notice) for notice in notices]
    assert None not in keys
    assert len(set(keys)) == len(notices)


def test_a_refund_notice_falls_back_on_the_payments_transaction_and_then_has_no_key():
    notice = RefundNotice(order_id="O1", payment_no="P1", channel="chA", status="SUCCESS", transaction="X1")
    assert identity.event_key(notice) is not None
    assert identity.event_key(replace(notice, transaction=None)) is None


NOTICE = Callback(order_id="O1", payment_no="P1", channel="chA", status="SUCCESS", event_id="E1")
REFUND = RefundNotice(order_id="O1", payment_no="P1", channel="chA", status="SUCCESS", event_id="E1")
TRAVELLED = {
    "raw": Raw(body="e30=", sha256="00"),
    "received_at": datetime(2025, 3, 3, tzinfo=UTC),
    "subscription": "s2",
}


@pytest.mark.parametrize(
    ("notice", "name"),
    [*((NOTICE, name) for name in TRAVELLED), *((REFUND, name) for name in ("raw", "received_at"))],
)
def test_no_single_trace_of_how_a_notice_travelled_is_part_of_what_it_says(notice: Callback | RefundNotice, name: str):
    assert identity.said(replace(notice, **{name: TRAVELLED[name]})) == identity.said(notice)


def test_keys_that_stored_orders_hold_are_made_the_same_way_today():
    """R-072: another length or another packing would hear everything again that was heard before a release."""
    assert identity.digest("event", None, "chA", "E1").hex() == "708d2735b4608f2e"
    assert identity.event_key(NOTICE) == identity.digest("event", None, "chA", "E1")
    assert identity.event_key(replace(NOTICE, merchant="M")) == identity.digest("event", "M", "chA", "E1")
    bare = replace(NOTICE, event_id=None, transaction="X1", event_type="t", version=2, merchant="M")
    assert identity.event_key(bare) == identity.digest("transaction", "M", "chA", "X1", "t", "SUCCESS", 2)
