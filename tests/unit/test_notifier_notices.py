"""What a merchant is told of each record, and what stays inside."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from streams import codec
from streams.agents import notifier_notices as notices
from streams.domain.decisions import Movement, OperationUpdate, PayerAction, PaymentSuccess, PaymentUpdate
from streams.domain.tables import MACHINES, UNPAID

AT = datetime(2026, 5, 1, tzinfo=UTC)
FACTS = {
    "id": "update/订单", "order_id": "订单", "payment_no": "P1", "merchant": "shop", "channel": "stripe:a", "decision": "decision/订单/7",
    "decided_at": AT,
}  # fmt: skip
MONEY = {"amount": 1099, "currency": "USD", "transaction": "T1"}


def update(state: str, **more) -> PaymentUpdate:
    return PaymentUpdate(**FACTS | MONEY | {"biz_code": "SALE", "state": state, "before": None} | more)


def operation(kind: str, state: str) -> OperationUpdate:
    return OperationUpdate(**FACTS | MONEY | {"kind": kind, "operation_no": "R1", "state": state, "before": None})


def movement(kind: str) -> Movement:
    return Movement(**FACTS | MONEY | {"kind": kind, "operation_no": None, "state": "SUCCESS", "evidence": "e"})


def success() -> PaymentSuccess:
    return PaymentSuccess(**FACTS | MONEY | {"biz_code": "SALE", "evidence": "e"})


def type_of(told) -> str | None:
    made = notices.notice(told)
    return None if made is None else made.type


def test_a_success_is_told_with_its_stage_of_funds():
    """R-135, R-136"""
    made = notices.notice(notices.read(codec.encode(success())))
    assert made is not None
    told = msgspec.json.decode(made.body)
    assert (told["type"], told["timestamp"]) == ("payment.succeeded", "2026-05-01T00:00:00Z")
    assert told["data"] == {
        "conclusion": "SUCCESS", "order_id": "订单", "payment_no": "P1", "biz_code": "SALE", "channel": "stripe:a", "transaction": "T1",
        "amount": 1099, "currency": "USD", "funds_stage": "IN_TRANSIT", "evidence": "e",
    }  # fmt: skip
    assert made.id.isascii()
    assert made.id == notices.webhook_id(success())


def test_only_conclusions_of_a_payment_leave_and_success_never_by_its_state():
    """R-136, R-139"""
    states = MACHINES["PAY"]
    told = {state: type_of(update(state)) for state in states}
    assert {state for state, kind in told.items() if kind == "payment.failed"} == UNPAID
    assert {state: kind for state, kind in told.items() if kind and state not in UNPAID} == {
        "AUTHORIZED": "payment.authorized"
    }


@pytest.mark.parametrize(
    ("told", "kind"),
    [
        (operation("REFUND", "SUCCESS"), "refund.succeeded"),
        (operation("REFUND", "FAIL"), "refund.failed"),
        (operation("REFUND", "RETURNED"), "refund.returned"),
        (operation("REFUND", "UNKNOWN"), None),
        (operation("CAPTURE", "SUCCESS"), "capture.succeeded"),
        (operation("VOID", "CLOSED"), "void.failed"),
        (movement("PAYMENT_REVERSED"), "payment.reversed"),
        (movement("AUTH_RELEASED"), "authorization.released"),
        (movement("LATE_MONEY_FULFILLED"), "payment.fulfilled_late"),
        (movement("REFUND_SUCCESS"), None),
        (PayerAction(**FACTS | {"action": "secret"}), None),
        (update("FAIL", merchant=None), None),
    ],
)
def test_an_operation_is_told_when_it_has_ended_and_money_once(told, kind):
    assert type_of(notices.read(codec.encode(told))) == kind


def test_what_is_no_record_of_ours_is_refused():
    for value in (None, b"", b"{}", b'{"type":"callback"}'):
        with pytest.raises(notices.UnreadableError):
            notices.read(value)


def test_notices_of_one_order_are_placed_as_they_were_decided():
    tenth = update("FAIL", decision="decision/O/10")
    assert sorted([notices.rank(tenth), notices.rank(success()), notices.rank(update("AUTHORIZED"))]) == [
        (7, 0),
        (7, 1),
        (10, 0),
    ]


def test_a_settlement_is_told_as_such_and_a_failure_has_no_stage_of_funds():
    """R-134: payment result and settlement result are two things."""
    settled = notices.notice(update("SUCCESS", funds_stage="SETTLED"))
    assert settled is not None
    assert settled.type == "payment.settled"
    assert msgspec.json.decode(settled.body)["data"]["funds_stage"] == "SETTLED"
    failed = notices.notice(update("FAIL"))
    assert failed is not None
    assert "funds_stage" not in msgspec.json.decode(failed.body)["data"]
