"""What a decision remembers for others. Holds R-101, R-104, R-107, R-117, R-118: every table can be built from decisions alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from streams.codec import encode
from streams.domain.contract import Contract, Failures, Idempotency
from streams.domain.decisions import Decision, Discrepancy
from streams.domain.events import Answer, Callback, Raw
from tests.support.worlds import World

if TYPE_CHECKING:
    from streams.domain.decisions import Said, Standing

TRUSTED = {
    "chA": Contract(
        idempotency=Idempotency(key="k", scope="account", life_s=600), most_submits=2, submit_retry_window_s=300,
        failures=Failures(not_accepted=("REFUSED",)),
    )
}  # fmt: skip


def decisions(*rows: str, contracts: Any = None) -> list[Decision]:
    world = World(contracts or {})
    for row in rows:
        world.row(row)
    return [message for message in world.said if isinstance(message, Decision)]


def last(*rows: str, contracts: Any = None) -> Standing:
    (standing,) = decisions(*rows, contracts=contracts)[-1].operations
    return standing


def heard(*rows: str) -> Said:
    said = decisions(*rows)[-1].said
    assert said is not None
    return said


def told(value: Any) -> Any:
    """As a reader of the topic sees it."""
    return msgspec.json.decode(msgspec.json.encode(value))


BEGUN = ("create P1", "start P1")


def test_a_created_payment_says_when_it_expires_and_nothing_was_asked():
    standing = told(last("create P1 order_total=1000"))
    assert standing == {
        "number": "P1", "kind": "PAY", "payment_no": "P1", "channel": "chA", "amount": 1000, "currency": "USD", "state": "INIT",
        "biz_code": "trade", "expires_at": "2025-03-03T10:15:00Z", "money": {"order_total": 1000},
    }  # fmt: skip


def test_a_started_payment_says_its_attempt_its_key_and_its_schedule():
    asked = told(last(*BEGUN, contracts=TRUSTED))["asked"]
    assert len(asked.pop("idempotency_key")) == 32
    assert (asked["attempts"], asked["sends"], asked["next_query_at"]) == (1, 1, "2025-03-03T10:02:00Z")
    assert asked["lease_ends_at"] > "2025-03-03T10:00:00Z"


def test_nothing_is_due_of_a_payment_that_has_ended():
    asked = last(*BEGUN, "callback P1 SUCCESS e=1 t=X1", contracts=TRUSTED).asked
    assert told(asked) == {"attempts": 1, "sends": 1}


def test_a_refused_attempt_names_its_witness_and_a_paid_one_its_money():
    refused = last(*BEGUN, "submit P1 REFUSED t=W a=-", contracts=TRUSTED)
    assert refused.asked is not None
    assert refused.asked.refused_by == "W"
    again = last(*BEGUN, "submit P1 REFUSED t=W a=-", "retry P1", contracts=TRUSTED)
    assert again.asked is not None
    assert (again.asked.attempts, again.asked.refused_by) == (2, None)
    paid = last(*BEGUN, "callback P1 SUCCESS e=1 t=X1 fee=3 version=2")
    assert (paid.state, paid.transaction, paid.evidence, paid.announced, paid.fee, paid.version) == (
        "SUCCESS", "X1", "1", True, 3, 2,
    )  # fmt: skip
    assert paid.asked is not None
    assert paid.asked.idempotency_key is None
    assert paid.money is not None
    assert paid.money.captured == 1000


def test_a_capture_tells_how_its_payment_stands_too():
    """The second capture moves no state of the payment, but its money."""
    rows = (*BEGUN, "callback P1 AUTHORIZED e=1 t=X1", "capture C1 of=P1 a=300", "captured C1 of=P1 SUCCESS t=C a=300")
    more = ("capture C2 of=P1 a=200", "captured C2 of=P1 SUCCESS t=D a=200")
    payment, capture = decisions(*rows, *more)[-1].operations
    assert payment.money is not None
    assert (payment.state, payment.money.captured, payment.money.held) == ("SUCCESS", 500, 500)
    assert (capture.number, capture.kind, capture.payment_no, capture.transaction) == ("C2", "CAPTURE", "P1", "D")


def test_a_capture_says_its_one_request_its_key_and_its_schedule_while_it_is_out_and_its_witness_after():
    hold = (*BEGUN, "callback P1 AUTHORIZED e=1 t=X1", "capture C1 of=P1 a=300")
    asked = told(last(*hold))["asked"]
    assert len(asked.pop("idempotency_key")) == 32
    assert asked == {
        "attempts": 1, "sends": 1, "next_query_at": "2025-03-03T10:02:00Z", "window_ends_at": "2025-03-04T10:00:00Z",
    }  # fmt: skip
    payment, capture = decisions(*hold, "captured C1 of=P1 SUCCESS t=D a=300")[-1].operations
    assert told(capture) == {
        "number": "C1", "kind": "CAPTURE", "payment_no": "P1", "channel": "chA", "amount": 300, "currency": "USD",
        "state": "SUCCESS", "transaction": "D", "evidence": "D", "success_at": "2025-03-03T10:00:00Z",
        "asked": {"attempts": 1, "sends": 1},
    }  # fmt: skip
    assert told(payment.money) == {"captured": 300, "held": 700}


def test_a_dispute_tells_how_the_money_of_its_payment_stands():
    paid = (*BEGUN, "callback P1 SUCCESS e=1 t=X1")
    assert told(last(*paid).money) == {"captured": 1000}
    assert told(last(*paid, "dispute P1 OPEN e=2 a=400").money) == {
        "captured": 1000, "disputed": 400, "dispute": "OPEN",
    }  # fmt: skip


def test_a_refund_shows_its_layers():
    rows = (*BEGUN, "callback P1 SUCCESS e=1 t=X1", "back R1 of=P1 a=300")
    refund = last(*rows, "layer R1 of=P1 merchant COMPLETED e=L1")
    assert told(refund.shown) == {"merchant": "COMPLETED"}
    assert (refund.kind, refund.amount, refund.payment_no) == ("REFUND", 300, "P1")


def test_what_two_people_book_is_told_of_the_payment():
    rows = (*BEGUN, "callback P1 SUCCESS e=1 t=X1", "notice - of=P1 SUCCESS e=2 r=RX a=200")
    booked = decisions(*rows, "decide book about=CHANNEL_ONLY")[-1]
    assert [one.number for one in booked.operations] == ["P1"]
    assert [(one.kind, one.status) for one in booked.discrepancies] == [("CHANNEL_ONLY", "resolved")]


@pytest.mark.parametrize("row", ["callback P1 SUCCESS e=1 t=X1", "create P1 command_id=again", "back R9 of=P1 a=5000"])
def test_what_changes_no_operation_tells_of_none(row: str):
    assert not decisions(*BEGUN, "callback P1 SUCCESS e=1 t=X1", row)[-1].operations


def test_what_had_waited_tells_only_of_what_it_changed_itself():
    """One command may set free what waited for it; each of these decisions is one of its own."""
    *_, begun, freed = decisions("callback P1 PENDING e=1", "create P1", "start P1")
    assert [one.number for one in begun.operations] == ["P1"]
    assert (freed.word, freed.operations) == ("PENDING", ())


def test_a_callback_is_kept_as_the_channel_said_it():
    row = (
        "callback P1 SUCCESS e=1 t=X1 a=999 sequence=4 version=7 event_time=2025-03-03T09:59:59Z event_type=paid fee=3"
    )
    assert told(heard(*BEGUN, row)) == {
        "channel": "chA", "event_id": "1", "transaction": "X1", "event_type": "paid", "version": 7, "sequence": 4,
        "event_time": "2025-03-03T09:59:59Z", "amount": 999, "currency": "USD", "fee": 3,
    }  # fmt: skip


def test_an_answer_is_kept_with_its_request_and_error_class():
    assert told(heard(*BEGUN, "submit P1 TIMEOUT a=- request_id=Q1 error_class=http_500")) == {
        "channel": "chA", "request_id": "Q1", "error_class": "http_500",
    }  # fmt: skip


def test_a_refunds_reference_is_the_refunds_own():
    rows = (*BEGUN, "callback P1 SUCCESS e=1 t=X1", "back R1 of=P1 a=300")
    said = heard(*rows, "notice R1 of=P1 PENDING e=2 r=RX t=X1 a=300 reason=odd")
    assert (said.transaction, said.amount, said.reason) == ("RX", 300, "odd")
    assert heard(*rows, "notice - of=P1 PENDING e=4 t=X1 a=300").transaction == "X1"
    assert heard(*rows, "layer R1 of=P1 card POSTED e=3").event_type == "card"


def test_evidence_that_waited_says_when_it_came():
    parked, *_, freed = decisions("callback P1 SUCCESS e=1 t=X1", "+60 create P1", "start P1")
    assert parked.said is not None
    assert parked.said.received_at is None
    assert freed.said is not None
    assert freed.said.received_at == parked.decided_at
    assert freed.decided_at > parked.decided_at


def test_a_repetition_says_nothing_again_and_another_payload_does():
    rows = (*BEGUN, "callback P1 SUCCESS e=1 t=X1")
    assert decisions(*rows, "callback P1 SUCCESS e=1 t=X1")[-1].said is None
    said = heard(*rows, "callback P1 SUCCESS e=1 t=X1 a=5")
    assert said.amount == 5


@pytest.mark.parametrize("kind", [Callback, Answer])
def test_the_hash_of_a_raw_delivery_is_kept_and_its_bytes_are_not(kind: type[Callback | Answer]):
    raw = Raw(body="c2VjcmV0", sha256="ab" * 32)
    world = World()
    for row in BEGUN:
        world.row(row)
    more: dict[str, Any] = {"request": "query"} if kind is Answer else {"event_id": "1"}
    world.tell(kind(order_id="O1", payment_no="P1", channel="chA", status="PENDING", transaction="X", raw=raw, **more))
    decision = world.said[-1]
    assert isinstance(decision, Decision)
    assert decision.said is not None
    assert decision.said.sha256 == "ab" * 32
    assert b"c2VjcmV0" not in encode(decision)


def test_a_discrepancy_is_told_whole_with_its_decision():
    world = World()
    for row in (*BEGUN, "callback P1 SUCCESS e=1 t=X1 a=999"):
        world.row(row)
    decision = world.said[-1]
    assert isinstance(decision, Decision)
    assert list(decision.discrepancies) == [one for one in world.said if isinstance(one, Discrepancy)]
