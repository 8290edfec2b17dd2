"""The judge of payment runs sees what it must: a word of the channel without its announcement, one too many, a silent second charge."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from streams.topics import partition_of
from tests.faults.oracle import Facts, Row
from tests.faults.payments import Payments, check_announcements

JOB = Payments(prefix="judged")
HOME = partition_of(b"order-1", JOB.partitions)
MONEY: dict[str, Any] = {"amount": 700, "currency": "EUR"}
ASKED = [
    {"type": "create_payment", **MONEY},
    {"type": "start_payment"},
]


def paid(event: str, transaction: str, **fields: Any) -> dict[str, Any]:
    told = {"type": "callback", "status": "SUCCESS", "event_id": event, "transaction": transaction}
    return told | MONEY | fields


def rows(*bodies: dict[str, Any], partition: int = HOME) -> list[Row]:
    return [
        Row(partition, place, 1000 + place, b"order-1", msgspec.json.encode({"order_id": "order-1", **body}), {})
        for place, body in enumerate(bodies)
    ]


def judged(
    *words: dict[str, Any],
    announced: int = 0,
    discrepancies: tuple[str, ...] = (),
    asked: list[dict[str, Any]] = ASKED,
    acknowledged: int = 1002,
    strayed: tuple[dict[str, Any], ...] = (),
) -> list[str]:
    facts = Facts()
    logs: dict[str, list[Row]] = {topic: [] for topic in (*JOB.inputs, *JOB.own)}
    logs[JOB.topics["commands"]] = rows(*asked)
    logs[JOB.topics["channel-callbacks"]] = [*rows(*strayed, partition=HOME - 1), *rows(*words)]
    logs[JOB.topics["success"]] = rows(*[{}] * announced)
    logs[JOB.topics["discrepancies"]] = rows(*({"kind": kind} for kind in discrepancies))
    check_announcements(facts, JOB.topics, logs, {f"{JOB.topics['commands']}/{HOME}/1": acknowledged})
    return facts.violations


@pytest.mark.parametrize("announced", [0, 2])
def test_a_paid_order_that_is_not_announced_once_is_a_violation(announced: int):
    assert "announced" in judged(paid("e1", "t1"), announced=announced)[0]
    assert judged(paid("e1", "t1"), announced=1) == []


@pytest.mark.parametrize(
    "word", [paid("e1", "t1", amount=699), paid("e1", "t1", currency="USD"), paid("e1", "t1", status="FAILED")]
)
def test_an_announcement_without_the_right_word_is_a_violation(word: dict[str, Any]):
    assert judged(word, announced=1)
    assert judged(word) == []


def test_a_second_charge_must_be_told_as_a_discrepancy():
    twice = paid("e1", "t1"), paid("e2", "t2")
    assert "charged by" in judged(*twice, announced=1)[0]
    assert judged(*twice, announced=1, discrepancies=("DUPLICATE_PAYMENT",)) == []


def test_a_success_after_a_failure_is_not_announced():
    assert judged(paid("e1", "t1", status="FAILED"), paid("e2", "t1"), announced=1)
    assert judged(paid("e1", "t1", status="FAILED"), paid("e2", "t1")) == []


def test_what_was_said_first_is_read_where_the_order_lives():
    words = paid("e1", "t1", status="FAILED"), paid("e2", "t1")
    assert judged(*words, strayed=words[1:]) == []
    assert judged(*words, strayed=words[1:], announced=1)


def test_a_start_that_was_acknowledged_before_the_expiry_counts_and_one_after_may_not():
    """The start is stored at 1001; whoever reads sees it when all replicas have it."""
    expiring = [ASKED[0] | {"expires_at": "1970-01-01T00:00:01.500Z"}, ASKED[1]]
    success = paid("e1", "t1")
    assert "announced" in judged(success, asked=expiring, acknowledged=1499)[0]
    assert judged(success, asked=expiring, acknowledged=1500) == []
    assert judged(success, asked=expiring, acknowledged=1500, announced=1) == []


def test_a_start_past_the_expiry_must_not_be_announced():
    expiring = [ASKED[0] | {"expires_at": "1970-01-01T00:00:01.001Z"}, ASKED[1]]
    assert judged(paid("e1", "t1"), asked=expiring, announced=1)
    assert judged(paid("e1", "t1"), asked=expiring) == []
