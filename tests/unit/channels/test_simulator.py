"""The simulated channel's own adapter and requests, against its dialect."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.channels import simulator
from streams.channels.adapter import Received
from streams.channels.contracts import shipped
from streams.channels.requests import Call, Reply
from streams.channels.simulator_requests import REQUESTS
from streams.channels.verification import BadSignature, Malformed, Refused, Stale
from streams.domain.decisions import ChannelRequest
from streams.domain.events import Callback, CardPosting, Dispute, RefundNotice, Unmapped
from streams.simulator.dialect import Fact
from streams.simulator.simulator import DIALECT

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
CONTRACT = shipped()["simulator"]
OWN, CREDENTIALS = DIALECT.secrets(7)
KEYS = simulator.keys(simulator.Credentials(**CREDENTIALS))
SIGNATURE = "x-signature"


def fact(**changes):
    fields = {
        "about": "payment",
        "word": "SUCCESS",
        "event_id": "evt_1",
        "order_id": "订单-1",
        "payment_no": "P1",
        "transaction": "T1",
        "amount": 1099,
        "currency": "USD",
        "at": NOW,
    }
    return Fact(**fields | changes)


def received(one=None, at=NOW, **changes):
    sent = DIALECT.notice(OWN, one or fact(), "sim", at, CONTRACT)
    fields = {"headers": sent.headers, "body": sent.body, "account": "sim", "at": NOW}
    return Received(**fields | changes)


GOOD = received()


def said(one=None, **changes):
    notice = received(one, **changes)
    simulator.verify(KEYS, notice)
    [mapped] = simulator.events(KEYS, notice, CONTRACT)
    return mapped


def test_a_signed_notice_becomes_the_word_of_its_payment():
    event = said().event
    assert isinstance(event, Callback)
    assert (event.order_id, event.payment_no, event.channel, event.status) == (
        "订单-1",
        "P1",
        "simulator:sim",
        "SUCCESS",
    )
    assert (event.amount, event.currency, event.transaction, event.event_id) == (1099, "USD", "T1", "evt_1")
    assert event.raw is not None


@pytest.mark.parametrize(("about", "number"), [("capture", "C1"), ("void", "V1")])
def test_a_notice_of_a_capture_or_void_speaks_of_its_own_number(about, number):
    event = said(fact(about=about, operation_no=number, operation_transaction="T2")).event
    assert (event.payment_no, event.transaction) == (number, "T2")


def test_a_notice_of_a_refund_keeps_both_transactions_apart():
    event = said(fact(about="refund", operation_no="R1", operation_transaction="T2")).event
    assert isinstance(event, RefundNotice)
    assert (event.refund_no, event.transaction, event.refund_transaction) == ("R1", "T1", "T2")


def test_disputes_and_card_entries_have_events_of_their_own():
    assert isinstance(said(fact(about="dispute")).event, Dispute)
    body = msgspec.json.decode(received(fact(about="card")).body) | {"status": "PURCHASE"}
    assert isinstance(mapped_of(body).event, CardPosting)


def mapped_of(body):
    raw = msgspec.json.encode(body)
    headers = {"content-type": "application/json", SIGNATURE: simulator.sign(OWN.secret, raw, int(NOW.timestamp()))}
    notice = Received(headers, raw, "sim", NOW)
    simulator.verify(KEYS, notice)
    [mapped] = simulator.events(KEYS, notice, CONTRACT)
    return mapped


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"event_id": ""}, "event_id"),
        ({"currency": "XQQ"}, "currency"),
        ({"about": "refund"}, "operation_no"),
        ({"about": "dispute", "amount": None}, "amount"),
        ({"about": "card"}, "status"),
        ({"amount": "10.99"}, "amount"),
    ],
)
def test_what_cannot_be_mapped_is_kept_with_the_field_that_is_wrong(changes, field):
    event = mapped_of(msgspec.json.decode(received().body) | changes).event
    assert isinstance(event, Unmapped)
    assert field in event.reason
    assert event.raw is not None


def test_a_notice_without_its_order_names_its_payment_for_the_lookup():
    mapped = mapped_of(msgspec.json.decode(received().body) | {"order_id": ""})
    assert [reference.key for reference in mapped.references] == ["payment//P1", "transaction/simulator:sim/T1"]


def test_any_live_secret_of_a_rotation_verifies():
    keys = simulator.keys(simulator.Credentials(secrets=["old", *CREDENTIALS["secrets"]]))
    simulator.verify(keys, received())
    with pytest.raises(BadSignature):
        simulator.verify(simulator.keys(simulator.Credentials(secrets=["old"])), received())


@pytest.mark.parametrize("seconds", [-301, 301])
def test_a_notice_from_outside_the_window_is_stale_both_ways(seconds):
    with pytest.raises(Stale):
        simulator.verify(KEYS, received(at=NOW + timedelta(seconds=seconds)))


def test_one_flipped_byte_anywhere_of_what_is_signed_is_refused():
    good = received()
    for index in range(len(good.body)):
        body = bytearray(good.body)
        body[index] ^= 1
        with pytest.raises(BadSignature):
            simulator.verify(KEYS, Received(good.headers, bytes(body), "sim", NOW))


@pytest.mark.parametrize("value", ["", "t=", "t", "t=1", "v1=aa", "t=1,t=2,v1=aa", "t=x,v1=aa"])
def test_a_signature_that_cannot_be_read_is_malformed(value):
    with pytest.raises(Malformed):
        simulator.verify(KEYS, received(headers={SIGNATURE: value}))


@settings(max_examples=2000, deadline=None)
@given(
    st.binary(max_size=400),
    st.dictionaries(st.sampled_from([SIGNATURE, "content-type"]), st.text(max_size=80)),
    st.integers(0, 400),
)
def test_hostile_input_is_refused_or_kept_and_never_anything_else(junk, headers, cut):
    for notice in (
        Received(headers, junk, "sim", NOW),
        Received(GOOD.headers, GOOD.body[:cut] + junk, "sim", NOW),
    ):
        with contextlib.suppress(Refused):
            simulator.verify(KEYS, notice)
        [mapped] = simulator.events(KEYS, notice, CONTRACT)
        assert mapped.event.channel == "simulator:sim"


# -- requests


def request(verb="SUBMIT", **changes):
    fields = {
        "id": "r1",
        "verb": verb,
        "order_id": "O/1",
        "payment_no": "P/1?x",
        "merchant": None,
        "channel": "simulator:sim",
        "amount": 1099,
        "currency": "USD",
        "idempotency_key": "k1",
        "transaction": None,
        "why": "start",
        "decision": "d",
        "decided_at": NOW,
    }
    return ChannelRequest(**fields | changes)


@pytest.mark.parametrize(
    ("verb", "number"),
    [
        ("SUBMIT", None),
        ("QUERY", None),
        ("QUERY", "R/1"),
        ("CLOSE", None),
        ("CAPTURE", "C1"),
        ("VOID", "V1"),
        ("REFUND", "R1"),
    ],
)
def test_the_other_side_understands_every_request(verb, number):
    call = REQUESTS.build(request(verb, operation_no=number), KEYS, "sim", "http://x/simulator", NOW, CONTRACT)
    asked = DIALECT.read(OWN, msgspec.structs.replace(call, url=call.url.removeprefix("http://x/simulator")))
    assert asked is not None
    assert (asked.verb, asked.payment_no, asked.operation_no, asked.signed) == (verb.lower(), "P/1?x", number, True)
    assert asked.key == (None if verb in ("QUERY", "CLOSE") else "k1") or verb == "CLOSE"
    if verb == "SUBMIT":
        assert (asked.amount, asked.currency, asked.order_id) == (1099, "USD", "O/1")


def test_a_wrong_key_is_told_apart():
    call = REQUESTS.build(request(), msgspec.structs.replace(KEYS, api_key="other"), "sim", "", NOW, CONTRACT)
    assert DIALECT.read(OWN, call).signed is False
    assert DIALECT.read(OWN, Call(method="GET", url="/nothing")) is None


@pytest.mark.parametrize(
    "reply",
    [
        "timeout",
        "reset",
        "not_sent",
        "too_large",
        Reply(status=500),
        Reply(status=503, body=b'{"status":"SUCCESS"}'),
        Reply(status=200),
        Reply(status=200, body=b"<html>"),
        Reply(status=200, body=b'{"status":""}'),
    ],
)
def test_what_is_no_answer_is_unknown(reply):
    assert REQUESTS.classify(request(), reply, KEYS, CONTRACT).status == "TIMEOUT"


def test_a_close_of_what_was_paid_says_so_and_not_success():
    asked = DIALECT.read(OWN, Call(method="POST", url="/payments/P1/close", headers={}))
    duplicate = True
    reply = DIALECT.answer(OWN, asked, "SUCCESS", fact(), duplicate, NOW, CONTRACT)
    assert REQUESTS.classify(request("CLOSE"), reply, KEYS, CONTRACT).status == "ALREADY_PAID"
