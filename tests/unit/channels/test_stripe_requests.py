"""Requests to Stripe: what is asked, and what each answer proves. The simulated channel reads and answers them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.channels.contracts import shipped
from streams.channels.credentials import keys as read_keys
from streams.channels.requests import Call, Reply, Said
from streams.channels.stripe import ADAPTER
from streams.channels.stripe_requests import ENDPOINT, REQUESTS
from streams.domain.decisions import ChannelRequest
from streams.simulator.dialect import Asked, Fact
from streams.simulator.faults import Chance, Rates
from streams.simulator.stripe import DIALECT, secrets
from streams.simulator.world import World

NOW = datetime(2025, 3, 3, 10, 0, tzinfo=UTC)
CONTRACT = shipped()["stripe"]
SECRETS, CREDENTIALS = secrets(3)
KEYS = read_keys(ADAPTER, json.dumps(CREDENTIALS))


def request(verb: str = "SUBMIT", **extra: Any) -> ChannelRequest:
    plain: dict[str, Any] = {
        "id": f"request/订单/P1/{verb}/1", "verb": verb, "order_id": "订单-1", "payment_no": "P'1\\", "merchant": None,
        "channel": "stripe:acct_1", "amount": 1099, "currency": "USD", "idempotency_key": "k" * 32, "transaction": None,
        "why": "", "decision": "d", "decided_at": NOW,
    }  # fmt: skip
    return ChannelRequest(**plain | extra)


def operation(kind: str, verb: str = "", **extra: Any) -> ChannelRequest:
    return request(verb or kind, **{"operation": kind, "operation_no": "N1", "payment_transaction": "pi_1"} | extra)


PAID = {"transaction": "pi_1"}


def build(one: ChannelRequest) -> Call:
    return REQUESTS.build(one, KEYS, "acct_1", ENDPOINT, NOW, CONTRACT)


def asked(one: ChannelRequest) -> Asked:
    """What the simulated channel understands of the call."""
    call = build(one)
    assert DIALECT.read is not None
    found = DIALECT.read(SECRETS, msgspec.structs.replace(call, url=call.url.removeprefix(ENDPOINT)))
    assert found is not None
    assert found.signed
    return found


def classify(one: ChannelRequest, reply: Any) -> Said:
    return REQUESTS.classify(one, reply, KEYS, CONTRACT)


def said(one: ChannelRequest, status: int, body: Any) -> Said:
    return classify(one, Reply(status=status, body=json.dumps(body).encode()))


def intent(status: str, **extra: Any) -> dict[str, Any]:
    plain = {"id": "pi_1", "status": status, "amount": 1099, "currency": "usd", "client_secret": "pi_1_secret"}
    received = {"amount_received": 1099 if status == "succeeded" else 0, "amount_capturable": 1099}
    return plain | received | extra


def problem(kind: str, code: str | None = None, **extra: Any) -> dict[str, Any]:
    return {"error": {"type": kind, "code": code, "message": "x"} | extra}


# -- out


def test_a_submit_with_a_payment_method_is_confirmed_at_once_under_our_key():
    call = build(request(details={"payment_method": "pm_1", "description": "x", "unheard_of": "y"}))
    fields = dict(parse_qsl(call.body.decode()))
    assert (call.method, call.url) == ("POST", "https://api.stripe.com/v1/payment_intents")
    assert call.headers["Idempotency-Key"] == "k" * 32
    assert call.headers["Authorization"] == f"Bearer {CREDENTIALS['api_key']}"
    assert (fields["amount"], fields["currency"], fields["confirm"]) == ("1099", "usd", "true")
    assert (fields["metadata[order_id]"], fields["metadata[payment_no]"]) == ("订单-1", "P'1\\")
    assert (fields["payment_method"], fields["description"]) == ("pm_1", "x")
    assert fields["automatic_payment_methods[allow_redirects]"] == "never"
    assert "unheard_of" not in fields


def test_a_submit_without_a_payment_method_is_left_to_the_payer_to_confirm():
    fields = dict(parse_qsl(build(request(details={"return_url": "https://shop.example/"})).body.decode()))
    assert "confirm" not in fields
    assert "return_url" not in fields


@pytest.mark.parametrize(("currency", "ours", "theirs"), [("MGA", 500, "5"), ("JPY", 5, "5"), ("KWD", 5000, "5000")])
def test_amounts_leave_in_stripes_own_units(currency: str, ours: int, theirs: str):
    fields = dict(parse_qsl(build(request(amount=ours, currency=currency)).body.decode()))
    assert fields["amount"] == theirs


@pytest.mark.parametrize(
    ("one", "field"),
    [
        (request(amount=501, currency="MGA"), "amount: 501 MGA"),
        (request(currency="ZZZ"), "amount: 1099 ZZZ"),
        (request(amount=0), "amount: 0 USD"),
        (request("CLOSE"), "transaction: CLOSE needs"),
        (operation("CAPTURE", payment_transaction=None), "transaction: CAPTURE needs"),
        (operation("REFUND", payment_transaction=None), "transaction: REFUND needs"),
        (operation("REFUND", "QUERY", payment_transaction=None), "transaction: QUERY needs"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_anything_is_sent(one: ChannelRequest, field: str):
    with pytest.raises(ValueError, match=field):
        build(one)


def test_without_an_api_key_nothing_is_asked():
    keys = read_keys(ADAPTER, "webhook_secrets: [whsec_x]")
    with pytest.raises(ValueError, match="api_key: it is empty"):
        REQUESTS.build(request(), keys, "acct_1", ENDPOINT, NOW, CONTRACT)


@pytest.mark.parametrize(
    ("one", "understood"),
    [
        (request(), {"verb": "submit", "order_id": "订单-1", "payment_no": "P'1\\", "amount": 1099, "currency": "USD"}),
        (request("QUERY"), {"verb": "query", "payment_no": "P'1\\", "transaction": None}),
        (request("QUERY", **PAID), {"verb": "query", "transaction": "pi_1"}),
        (request("CLOSE", **PAID), {"verb": "close", "transaction": "pi_1"}),
        (operation("CAPTURE", amount=500), {"verb": "capture", "transaction": "pi_1", "operation_no": "N1", "amount": 500}),
        (operation("CAPTURE", "QUERY"), {"verb": "query", "about": "payment", "transaction": "pi_1"}),
        (operation("VOID"), {"verb": "void", "transaction": "pi_1"}),
        (operation("REFUND", amount=300), {"verb": "refund", "transaction": "pi_1", "operation_no": "N1", "amount": 300}),
        (operation("REFUND", "QUERY", transaction="re_1"), {"verb": "query", "about": "refund", "transaction": "re_1"}),
        (operation("REFUND", "QUERY"), {"verb": "query", "about": "refund", "transaction": "pi_1"}),
    ],
)  # fmt: skip
def test_each_request_is_what_the_channel_understands(one: ChannelRequest, understood: dict[str, Any]):
    found = asked(one)
    assert {name: getattr(found, name) for name in understood} == understood


def test_every_write_carries_an_idempotency_key_of_plain_characters_and_a_close_has_its_own():
    keys = [build(one).headers["Idempotency-Key"] for one in (request(), request("CLOSE", **PAID), operation("REFUND"))]
    assert all(key.isascii() and len(key) <= 255 for key in keys)
    assert keys[0] != keys[1]
    assert "Idempotency-Key" not in build(request("QUERY")).headers


def test_a_wrong_key_is_seen_by_the_channel_and_proves_that_nothing_was_accepted():
    call = build(request())
    assert DIALECT.read is not None
    assert DIALECT.answer is not None
    wrong = msgspec.structs.replace(call, url="/v1/payment_intents", headers={"Authorization": "Bearer other"})
    found = DIALECT.read(SECRETS, wrong)
    assert found is not None
    assert not found.signed
    reply = DIALECT.answer(SECRETS, found, "REFUSED", None, False, NOW, CONTRACT)  # noqa: FBT003  as the dialect has it
    assert classify(request(), reply).error_class in CONTRACT.failures.not_accepted


# -- back


@pytest.mark.parametrize(
    ("status", "word"),
    [
        ("succeeded", "SUCCESS"),
        ("requires_capture", "AUTHORIZED"),
        ("canceled", "CLOSED"),
        ("processing", "PROCESSING"),
        ("requires_action", "PENDING"),
        ("requires_confirmation", "PENDING"),
        ("requires_payment_method", "PENDING"),
        ("a_later_word", "a_later_word"),
    ],
)
@pytest.mark.parametrize("verb", ["SUBMIT", "QUERY"])
def test_each_status_of_an_intent_has_its_word(verb: str, status: str, word: str):
    found = said(request(verb, **PAID), 200, intent(status))
    assert (found.status, found.transaction, found.amount, found.currency) == (word, "pi_1", 1099, "USD")
    assert (found.payer_action is not None) == (word == "PENDING")


def test_the_payer_goes_where_the_redirect_leads_or_on_with_the_client_secret():
    action = {"type": "redirect_to_url", "redirect_to_url": {"url": "https://bank.example/3ds"}}
    assert (
        said(request(), 200, intent("requires_action", next_action=action)).payer_action == "https://bank.example/3ds"
    )
    assert said(request(), 200, intent("requires_confirmation")).payer_action == "pi_1_secret"


def test_a_declined_attempt_of_an_open_intent_is_no_failure():
    found = said(
        request("QUERY", **PAID), 200, intent("requires_payment_method", last_payment_error={"code": "card_declined"})
    )
    assert (found.status, found.error_class) == ("DECLINED_RETRYABLE", "card_declined")


def test_a_hold_says_until_when_it_can_be_captured():
    charge = {"id": "ch_1", "payment_method_details": {"card": {"capture_before": 1_741_600_800}}}
    found = said(request(), 200, intent("requires_capture", latest_charge=charge))
    assert found.auth_expires_at == datetime(2025, 3, 10, 10, 0, tzinfo=UTC)


def test_a_search_finds_the_intent_that_has_the_money_or_nothing():
    two = {"data": [intent("canceled", id="pi_0"), intent("succeeded")]}
    assert said(request("QUERY"), 200, two).transaction == "pi_1"
    assert said(request("QUERY"), 200, {"data": []}).status == "NOT_FOUND"


@pytest.mark.parametrize(
    ("one", "status", "word"),
    [
        (operation("CAPTURE"), "succeeded", "SUCCESS"),
        (operation("CAPTURE", "QUERY"), "requires_capture", "PENDING"),
        (operation("CAPTURE"), "canceled", "CLOSED"),
        (operation("CAPTURE"), "processing", "TIMEOUT"),
        (operation("VOID"), "canceled", "SUCCESS"),
        (operation("VOID", "QUERY"), "succeeded", "FAILED"),
        (operation("VOID", "QUERY"), "requires_capture", "PENDING"),
        (request("CLOSE", **PAID), "canceled", "CLOSED"),
    ],
)
def test_an_intent_says_how_the_operation_on_it_stands(one: ChannelRequest, status: str, word: str):
    assert said(one, 200, intent(status)).status == word


def test_another_capture_of_the_intent_is_not_ours():
    assert (
        said(operation("CAPTURE", "QUERY"), 200, intent("succeeded", metadata={"capture_no": "N1"})).status == "SUCCESS"
    )
    assert (
        said(operation("CAPTURE", "QUERY"), 200, intent("succeeded", metadata={"capture_no": "N2"})).status == "TIMEOUT"
    )


def test_a_refund_is_found_by_its_number_among_those_of_the_payment():
    def refund(name: str, number: str) -> dict[str, Any]:
        metadata = {"refund_no": number}
        return {"id": name, "status": "succeeded", "amount": 300, "currency": "usd", "metadata": metadata}

    listed = {"data": [refund("re_0", "N0"), refund("re_1", "N1")]}
    found = said(operation("REFUND", "QUERY"), 200, listed)
    assert (found.status, found.transaction, found.amount) == ("SUCCESS", "re_1", 300)
    assert said(operation("REFUND", "QUERY"), 200, {"data": []}).status == "NOT_FOUND"
    assert said(operation("REFUND"), 200, refund("re_1", "N1") | {"status": "pending"}).status == "PENDING"


@pytest.mark.parametrize("nothing", ["not_sent", "timeout", "reset", "too_large"])
def test_no_reply_proves_nothing(nothing: Any):
    assert classify(request(), nothing) == Said(status="TIMEOUT", error_class=nothing)


@pytest.mark.parametrize("status", [409, 424, 500, 502, 503, 504, 302])
@pytest.mark.parametrize("body", [b"", b"<html>", json.dumps(problem("api_error")).encode()])
def test_a_server_error_proves_nothing_whatever_it_says(status: int, body: bytes):
    found = classify(request(), Reply(status=status, body=body))
    assert (found.status, found.error_class) == ("TIMEOUT", str(status))


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b"null", b'{"id": 7}'])
@pytest.mark.parametrize("status", [200, 400])
def test_an_empty_or_unreadable_reply_proves_nothing(status: int, body: bytes):
    assert classify(request(), Reply(status=status, body=body)).status == "TIMEOUT"


@pytest.mark.parametrize(
    ("status", "kind", "word"),
    [
        (402, "card_error", "DECLINED_RETRYABLE"),
        (400, "invalid_request_error", "FAILED"),
        (401, "invalid_request_error", "FAILED"),
        (429, "invalid_request_error", "FAILED"),
    ],
)
def test_an_error_of_the_request_proves_that_it_was_not_accepted(status: int, kind: str, word: str):
    found = said(request(), status, problem(kind))
    assert found.status == word
    assert found.error_class in CONTRACT.failures.not_accepted


@pytest.mark.parametrize("kind", ["idempotency_error", "api_error", "a_later_kind"])
def test_an_error_that_may_hide_an_earlier_request_proves_nothing(kind: str):
    found = said(request(), 400, problem(kind))
    assert found.status == "TIMEOUT"
    assert found.error_class not in CONTRACT.failures.not_accepted


def test_a_query_that_fails_proves_nothing_about_the_payment():
    for status in (400, 401, 402, 403, 429):
        assert said(request("QUERY", **PAID), status, problem("invalid_request_error")).status == "TIMEOUT"
    missing = problem("invalid_request_error", "resource_missing")
    assert said(request("QUERY", **PAID), 404, missing).status == "NOT_FOUND"


@pytest.mark.parametrize(
    ("status", "word"), [("succeeded", "ALREADY_PAID"), ("canceled", "CLOSED"), ("processing", "PENDING")]
)
def test_an_intent_that_cannot_be_closed_says_why(status: str, word: str):
    body = problem("invalid_request_error", "payment_intent_unexpected_state", payment_intent=intent(status))
    assert said(request("CLOSE", **PAID), 400, body).status == word
    assert said(request("CLOSE", **PAID), 404, problem("invalid_request_error")).status == "TIMEOUT"


# -- the simulated channel answers


def fact(about: Any, word: Any, **extra: Any) -> Fact:
    plain = {"event_id": "e", "order_id": "O1", "payment_no": "P1", "transaction": "pi_1", "amount": 1099}
    return Fact(about=about, word=word, **plain | {"currency": "USD", "at": NOW} | extra)


@pytest.mark.parametrize(
    ("one", "word", "about", "duplicate", "status"),
    [
        (request(), "SUCCESS", "payment", False, "SUCCESS"),
        (request(), "AUTHORIZED", "payment", False, "AUTHORIZED"),
        (request(), "PROCESSING", "payment", True, "PROCESSING"),
        (request(), "REFUSED", None, False, "FAILED"),
        (request(), "REFUSED", None, True, "TIMEOUT"),
        (request("QUERY"), "SUCCESS", "payment", False, "SUCCESS"),
        (request("QUERY"), "NOT_FOUND", None, False, "NOT_FOUND"),
        (request("QUERY", **PAID), "NOT_FOUND", None, False, "NOT_FOUND"),
        (request("CLOSE", **PAID), "CLOSED", "payment", False, "CLOSED"),
        (request("CLOSE", **PAID), "SUCCESS", "payment", True, "ALREADY_PAID"),
        (operation("CAPTURE"), "SUCCESS", "capture", False, "SUCCESS"),
        (operation("VOID"), "SUCCESS", "void", False, "SUCCESS"),
        (operation("REFUND"), "SUCCESS", "refund", False, "SUCCESS"),
        (operation("REFUND"), "REFUSED", None, False, "FAILED"),
        (operation("REFUND", "QUERY", transaction="re_1"), "FAILED", "refund", False, "FAILED"),
        (operation("REFUND", "QUERY"), "PROCESSING", "refund", False, "PENDING"),
        (operation("REFUND", "QUERY"), "NOT_FOUND", None, False, "NOT_FOUND"),
    ],
)
def test_what_the_simulated_channel_answers_is_understood(
    *, one: ChannelRequest, word: Any, about: str | None, duplicate: bool, status: str
):
    known = None if about is None else fact(about, word, operation_no=one.operation_no, operation_transaction="re_1")
    assert DIALECT.answer is not None
    reply = DIALECT.answer(SECRETS, asked(one), word, known, duplicate, NOW, CONTRACT)
    found = classify(one, reply)
    assert found.status == status
    if known is not None and status in ("SUCCESS", "AUTHORIZED"):
        assert (found.amount, found.currency) == (1099, "USD")


def test_a_simulated_account_carries_out_what_is_asked_and_finds_it_again():
    world = World("stripe", CONTRACT, Chance(1, Rates()))
    later = NOW + timedelta(seconds=60)

    def ask(one: ChannelRequest, at: datetime) -> Said:
        question = asked(one)
        taken = world.take(question, at)
        assert DIALECT.answer is not None
        return classify(one, DIALECT.answer(SECRETS, question, taken.word, taken.fact, taken.duplicate, at, CONTRACT))

    paid = ask(request(), NOW)
    assert (paid.status, paid.amount) == ("SUCCESS", 1099)
    assert ask(request("QUERY"), later).transaction == paid.transaction
    assert ask(request("QUERY", transaction=paid.transaction), later).status == "SUCCESS"
    assert ask(request("CLOSE", transaction=paid.transaction), later).status == "ALREADY_PAID"
    of = {"payment_transaction": paid.transaction, "amount": 300, "idempotency_key": "r" * 32}
    assert ask(operation("REFUND", "QUERY", **of), NOW).status == "NOT_FOUND"
    back = ask(operation("REFUND", **of), NOW)
    assert (back.status, back.amount) == ("SUCCESS", 300)
    assert ask(operation("REFUND", "QUERY", **of), later) == back
    assert ask(operation("REFUND", "QUERY", transaction=back.transaction, **of), later) == back


ODD: list[Any] = [None, True, -1, 2**70, 1.5, "", "\ud800", "x" * 5000, [], {}, {"url": 7}]


ASKED = [request(), request("QUERY"), request("CLOSE", **PAID), operation("REFUND", "QUERY"), operation("CAPTURE")]
GOOD = [intent("requires_action", next_action={}, latest_charge={}, metadata={}), problem("card_error"), {"data": [1]}]
NAMES = ["id", "status", "amount", "currency", "next_action", "latest_charge", "metadata", "error", "data"]


@settings(max_examples=1000, deadline=None)
@given(
    one=st.sampled_from(ASKED),
    status=st.sampled_from([200, 400, 402, 404, 500]),
    body=st.sampled_from(GOOD),
    name=st.sampled_from(NAMES),
    value=st.sampled_from(ODD),
    raw=st.none() | st.binary(max_size=60),
)
def test_whatever_comes_back_is_classified(
    *, one: ChannelRequest, status: int, body: dict[str, Any], name: str, value: Any, raw: bytes | None
):
    content = json.dumps(body | {name: value}).encode() if raw is None else raw
    found = classify(one, Reply(status=status, body=content))
    assert 0 < len(found.status) <= 64
    assert msgspec.json.encode(found)
