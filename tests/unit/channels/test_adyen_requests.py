"""Requests to Adyen and what its replies prove, with the simulator's own API."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.channels import adyen, adyen_requests
from streams.channels.adapter import Received
from streams.channels.contracts import shipped
from streams.channels.requests import Call, Reply, Said
from streams.domain.decisions import ChannelRequest
from streams.domain.events import Callback, RefundNotice
from streams.simulator import adyen as simulated
from streams.simulator.dialect import Asked, Fact

NOW = datetime(2026, 3, 3, 10, 0, 5, tzinfo=UTC)
CONTRACT = shipped()["adyen"]
SECRETS, FILE = simulated.secrets(1)
KEYS = adyen.keys(msgspec.convert(FILE, adyen.Credentials))
OPERATIONS = {"CAPTURE": ("captures", "capture/N1"), "REFUND": ("refunds", "N1"), "VOID": ("cancels", "void/N1")}


def request(verb: str, **facts: Any) -> ChannelRequest:
    plain: dict[str, Any] = {
        "id": "q",
        "verb": verb,
        "order_id": "O1",
        "payment_no": "P1",
        "merchant": None,
        "channel": "adyen:Shop",
        "amount": 1005,
        "currency": "EUR",
        "idempotency_key": "k",
        "transaction": None,
        "why": "start",
        "decision": "d",
        "decided_at": NOW,
    }
    own = {"operation_no": "N1", "operation": verb, "payment_transaction": "A/1"} if verb in OPERATIONS else {}
    return ChannelRequest(**plain | own | facts)


def call(asked: ChannelRequest, keys: adyen.Keys = KEYS) -> Call:
    return adyen_requests.build(asked, keys, "Shop", "https://api.example/v71/", NOW, CONTRACT)


def proved(asked: ChannelRequest, status: int, said: Any, headers: dict[str, str] | None = None) -> Said:
    body = said if isinstance(said, bytes) else json.dumps(said).encode()
    return adyen_requests.classify(asked, Reply(status=status, headers=headers or {}, body=body), KEYS, CONTRACT)


def test_a_submit_names_order_and_payment_and_carries_its_key():
    given = {"payment_method": '{"type": "scheme"}', "return_url": "https://shop.example/", "unknown": "x"}
    made = call(request("SUBMIT", details=given))
    assert (made.method, made.url) == ("POST", "https://api.example/v71/payments")
    assert (made.headers["X-API-Key"], made.headers["Idempotency-Key"]) == (SECRETS.api_key, "k")
    assert json.loads(made.body) == {
        "merchantAccount": "Shop",
        "amount": {"value": 1005, "currency": "EUR"},
        "reference": "P1",
        "metadata": {"order_id": "O1", "payment_no": "P1"},
        "paymentMethod": {"type": "scheme"},
        "returnUrl": "https://shop.example/",
    }
    manual = json.loads(call(request("SUBMIT"), KEYS._replace(manual_capture=True)).body)
    assert manual["additionalData"] == {"manualCapture": "true"}


@pytest.mark.parametrize("verb", OPERATIONS)
def test_an_operation_names_the_payment_and_its_own_number(verb: str):
    made, (what, reference) = call(request(verb)), OPERATIONS[verb]
    assert made.url == f"https://api.example/v71/payments/A%2F1/{what}"
    assert json.loads(made.body)["reference"] == reference


def test_a_close_goes_by_our_number_where_the_channels_is_not_known():
    unknown, known = call(request("CLOSE")), call(request("CLOSE", transaction="A1", id="q2"))
    assert unknown.url.endswith("/cancels")
    assert json.loads(unknown.body)["paymentReference"] == "P1"
    assert known.url.endswith("/payments/A1/cancels")
    assert unknown.headers["Idempotency-Key"] != known.headers["Idempotency-Key"]


@pytest.mark.parametrize(
    ("asked", "keys", "field"),
    [
        (request("QUERY"), KEYS, "verb: Adyen has no QUERY"),
        (request("SUBMIT"), KEYS._replace(api_key=""), "api_key"),
        (request("SUBMIT", amount=0), KEYS, "amount"),
        (request("SUBMIT", currency="CVE", amount=150), KEYS, "amount"),
        (request("SUBMIT", payment_no="P" * 81), KEYS, "reference"),
        (request("SUBMIT", details={"payment_method": "card"}), KEYS, "details.payment_method"),
        (request("REFUND", payment_transaction=None), KEYS, "payment_transaction"),
    ],
)
def test_what_cannot_be_asked_names_the_field(asked: ChannelRequest, keys: adyen.Keys, field: str):
    with pytest.raises(ValueError, match=field):
        call(asked, keys)


@pytest.mark.parametrize(("currency", "ours", "theirs"), [("CLP", 10, 1000), ("CVE", 1000, 10), ("JPY", 7, 7)])
def test_amounts_leave_in_the_channels_exponents(currency: str, ours: int, theirs: int):
    body = json.loads(call(request("SUBMIT", currency=currency, amount=ours)).body)
    assert body["amount"] == {"value": theirs, "currency": currency}
    said = proved(request("SUBMIT"), 200, {"resultCode": "Authorised", "pspReference": "A1", "amount": body["amount"]})
    assert (said.amount, said.currency) == (ours, currency)


@pytest.mark.parametrize(("code", "word"), adyen_requests.WORDS.items())
def test_every_result_code_is_mapped(code: str, word: str):
    said = proved(request("SUBMIT"), 200, {"resultCode": code, "pspReference": "A1"})
    assert (said.status, said.transaction) == (word, "A1")
    assert (code in CONTRACT.failures.final) is (word == "FAILED")


def test_an_authorisation_of_an_account_that_captures_on_request_is_a_hold():
    reply = Reply(status=200, body=b'{"resultCode":"Authorised","pspReference":"A1"}')
    said = adyen_requests.classify(request("SUBMIT"), reply, KEYS._replace(manual_capture=True), CONTRACT)
    assert said.status == "AUTHORIZED"


def test_the_payers_next_step_is_handed_on():
    said = proved(request("SUBMIT"), 200, {"resultCode": "RedirectShopper", "action": {"url": "https://a.example"}})
    assert said.payer_action is not None
    assert json.loads(said.payer_action) == {"url": "https://a.example"}


@pytest.mark.parametrize("verb", OPERATIONS)
def test_received_is_no_result(verb: str):
    said = proved(request(verb), 201, {"status": "received", "pspReference": "M1"})
    assert said == Said(status="ACCEPTED", transaction="M1")


@pytest.mark.parametrize(
    ("verb", "status", "body", "word", "error"),
    [
        ("SUBMIT", 422, {"errorType": "validation", "errorCode": "130"}, "FAILED", "validation"),
        ("SUBMIT", 401, {}, "FAILED", "401"),
        ("REFUND", 403, {}, "FAILED", "403"),
        ("REFUND", 422, {"errorType": "validation", "errorCode": "167"}, "PROCESSING", "422/167"),
        ("CLOSE", 422, {"errorType": "validation", "errorCode": "167"}, "PENDING", "422/167"),
        ("SUBMIT", 422, {"errorType": "validation", "errorCode": "704"}, "PROCESSING", "422/704"),
        ("SUBMIT", 422, {"errorType": "internal", "errorCode": "905"}, "PROCESSING", "422/905"),
        ("SUBMIT", 429, {}, "PROCESSING", "429/"),
        ("SUBMIT", 500, {}, "PROCESSING", "500"),
        ("SUBMIT", 200, b"", "PROCESSING", "200 unreadable"),
        ("SUBMIT", 200, {"resultCode": "New"}, "PROCESSING", "New"),
        ("REFUND", 201, {"status": "new"}, "PROCESSING", "status"),
    ],
)
def test_a_refusal_proves_only_what_nothing_else_can_explain(verb: str, status: int, body: Any, word: str, error: str):
    """R-005, R-006: a refusal of an operation's form may be the echo of its own earlier sending."""
    said = proved(request(verb), status, body)
    assert (said.status, said.error_class) == (word, error)
    assert (error in CONTRACT.failures.not_accepted) is ((verb == "SUBMIT" and word == "FAILED") or error == "403")


def test_a_transient_error_and_a_lost_reply_are_unknown():
    transient = proved(request("SUBMIT"), 422, {"errorType": "validation"}, {"Transient-Error": "true"})
    lost = adyen_requests.classify(request("SUBMIT"), "timeout", KEYS, CONTRACT)
    assert (transient.status, lost.status, lost.error_class) == ("PROCESSING", "PROCESSING", "timeout")


@settings(max_examples=500, deadline=None)
@given(st.integers(100, 599), st.binary(max_size=64), st.sampled_from(["SUBMIT", "REFUND", "CLOSE"]))
def test_any_reply_is_classified_and_nothing_raises(status: int, body: bytes, verb: str):
    assert proved(request(verb), status, body).status in {"PROCESSING", "FAILED", "PENDING"}


# -- the simulator's side


def understood(asked: ChannelRequest) -> Asked:
    made = adyen_requests.build(asked, KEYS, "Shop", "", NOW, CONTRACT)
    found = simulated.read(SECRETS, made)
    assert found is not None
    return found


def test_the_simulated_channel_understands_every_request():
    paid = understood(request("SUBMIT"))
    assert (paid.verb, paid.order_id, paid.payment_no, paid.amount, paid.key) == ("submit", "O1", "P1", 1005, "k")
    for verb in OPERATIONS:
        found = understood(request(verb))
        assert (found.verb, found.operation_no, found.transaction) == (verb.lower(), "N1", "A/1")
    for transaction in (None, "A1"):
        closed = understood(request("CLOSE", transaction=transaction))
        assert (closed.verb, closed.payment_no) == ("close", "P1")


FIRST = (False, NOW, CONTRACT)
FACT = Fact(
    about="payment",
    word="SUCCESS",
    event_id="N1",
    order_id="O1",
    payment_no="P1",
    transaction="A1",
    amount=1005,
    currency="EUR",
    at=NOW,
)


@pytest.mark.parametrize(
    ("word", "status"),
    [("SUCCESS", "SUCCESS"), ("FAILED", "FAILED"), ("PROCESSING", "PENDING"), ("REFUSED", "FAILED")],
)
def test_the_simulated_reply_to_a_submit_is_understood(word: Any, status: str):
    reply = simulated.answer(SECRETS, understood(request("SUBMIT")), word, FACT, *FIRST)
    said = adyen_requests.classify(request("SUBMIT"), reply, KEYS, CONTRACT)
    assert said.status == status
    assert (said.error_class == "validation") is (word == "REFUSED")


def test_a_refund_is_one_and_the_same_in_reply_and_notification():
    fact = msgspec.structs.replace(FACT, about="refund", operation_no="N1", operation_transaction="M1")
    reply = simulated.answer(SECRETS, understood(request("REFUND")), "SUCCESS", fact, *FIRST)
    said = adyen_requests.classify(request("REFUND"), reply, KEYS, CONTRACT)
    sent = simulated.notice(SECRETS, fact, "Shop", NOW, CONTRACT)
    received = Received(headers=sent.headers, body=sent.body, account="Shop", at=NOW)
    adyen.verify(KEYS, received)
    [one] = adyen.events(KEYS, received, CONTRACT)
    assert isinstance(one.event, RefundNotice)
    assert (one.event.order_id, one.event.payment_no, one.event.refund_no) == ("O1", "P1", "N1")
    assert one.event.refund_transaction == said.transaction == "M1"


@pytest.mark.parametrize("about", ["capture", "void"])
def test_a_capture_or_void_comes_back_under_its_own_number(about: Any):
    fact = msgspec.structs.replace(FACT, about=about, operation_no="N1", operation_transaction="M1")
    sent = simulated.notice(SECRETS, fact, "Shop", NOW, CONTRACT)
    [one] = adyen.events(KEYS, Received(headers=sent.headers, body=sent.body, account="Shop", at=NOW), CONTRACT)
    assert isinstance(one.event, Callback)
    assert (one.event.order_id, one.event.payment_no, one.event.status) == ("O1", "N1", "SUCCESS")
