"""Stripe's webhooks, with keys and payloads of our own making."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

import pytest

from streams.channels import stripe
from streams.channels.verification import BadSignature, Malformed, Refused, Stale
from streams.domain.events import Callback, Unmapped

NOW = 1_740_996_000
KEY = "whsec_own_test_secret"
OLD_KEY = "whsec_retired_yesterday"
BODY = b'{"id": "evt_1"}\n'
NAMED = {"order_id": "O1", "payment_no": "P1"}


def sign(body: bytes, key: str = KEY, at: int | str = NOW) -> str:
    return hmac.new(key.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()


def signed(body: bytes = BODY, key: str = KEY, at: int = NOW) -> dict[str, str]:
    return {"Stripe-Signature": f"t={at},v1={sign(body, key, at)}"}


def event(kind: str, obj: dict[str, Any], **envelope: Any) -> bytes:
    return json.dumps(
        {"id": "evt_1", "type": kind, "created": NOW, "livemode": True, "data": {"object": obj}, "future": [1]}
        | envelope
    ).encode()


def intent(status: str, **extra: Any) -> dict[str, Any]:
    return {
        "id": "pi_1",
        "object": "payment_intent",
        "status": status,
        "amount": 1099,
        "currency": "usd",
        "metadata": NAMED,
    } | extra


def charge(status: str, **extra: Any) -> dict[str, Any]:
    return {
        "id": "ch_1",
        "object": "charge",
        "status": status,
        "amount": 1099,
        "currency": "usd",
        "payment_intent": "pi_1",
        "metadata": NAMED,
    } | extra


def mapped(kind: str, obj: dict[str, Any]) -> Callback | Unmapped:
    [result] = stripe.to_events({}, event(kind, obj), "acct_1")
    return result


def test_a_signature_over_the_raw_bytes_is_accepted():
    stripe.verify(signed(), BODY, [KEY], NOW)


def test_any_live_key_and_any_v1_signature_will_do_during_a_rotation():
    stripe.verify(signed(key=OLD_KEY), BODY, [KEY, OLD_KEY], NOW)
    both = f"t={NOW},v1={sign(BODY, OLD_KEY)},v1={sign(BODY)}"
    stripe.verify({"stripe-signature": both}, BODY, [KEY], NOW)


@pytest.mark.parametrize("body", [b'{"id": "evt_1"}', b'{"id": "evt_1"}\r\n', b'{"id":"evt_1"}\n', b""])
def test_one_changed_byte_breaks_the_signature(body: bytes):
    with pytest.raises(BadSignature):
        stripe.verify(signed(), body, [KEY], NOW)


@pytest.mark.parametrize("keys", [[], ["whsec_other"], [KEY.upper()]])
def test_a_key_that_is_not_live_refuses(keys: list[str]):
    with pytest.raises(BadSignature):
        stripe.verify(signed(), BODY, keys, NOW)


def test_a_v0_signature_proves_nothing():
    header = f"t={NOW},v0={sign(BODY)},v1={'0' * 64}"
    with pytest.raises(BadSignature):
        stripe.verify({"Stripe-Signature": header}, BODY, [KEY], NOW)
    with pytest.raises(Malformed):
        stripe.verify({"Stripe-Signature": f"t={NOW},v0={sign(BODY)}"}, BODY, [KEY], NOW)


@pytest.mark.parametrize("distance", [-301, 301, 86_400])
def test_an_authentic_webhook_is_stale_in_either_direction(distance: int):
    with pytest.raises(Stale):
        stripe.verify(signed(at=NOW + distance), BODY, [KEY], NOW)


@pytest.mark.parametrize("distance", [-300, 300])
def test_the_edge_of_the_window_is_inside(distance: int):
    stripe.verify(signed(at=NOW + distance), BODY, [KEY], NOW)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "t=",
        "t,v1=,v0=",
        ",,",
        "t",
        "t=1",
        "v1=ab",
        "t=x,v1=ab",
        "t=1,t=2,v1=ab",
        "t=1,v1=",
        "t=1;v1=ab",
        "t=1" + ",v1=ab" * 17,
        "t=" + "1" * 9000,
    ],
)
def test_a_malformed_header_is_refused(value: str):
    with pytest.raises(Malformed, match=r"^Stripe-Signature"):
        stripe.verify({"Stripe-Signature": value}, BODY, [KEY], NOW)


def test_a_missing_header_is_malformed():
    with pytest.raises(Malformed, match="Stripe-Signature: the header is absent"):
        stripe.verify({}, BODY, [KEY], NOW)


@pytest.mark.parametrize("signature", ["é" * 64, "z" * 64, "0" * 63, "0" * 4000])
def test_a_signature_of_strange_characters_is_only_a_bad_one(signature: str):
    with pytest.raises(BadSignature):
        stripe.verify({"Stripe-Signature": f"t={NOW},v1={signature}"}, BODY, [KEY], NOW)


@pytest.mark.parametrize("at", [NOW, NOW - 999])
def test_a_refusal_shows_neither_key_nor_signature(at: int):
    headers = {"Stripe-Signature": f"t={at},v1={sign(BODY, 'other', at)}"}
    with pytest.raises(Refused) as refusal:
        stripe.verify(headers, BODY, [KEY], NOW)
    assert KEY not in str(refusal.value)
    assert sign(BODY, at=at) not in str(refusal.value)


def test_a_succeeded_intent_is_a_success_of_the_amount_received():
    body = event("payment_intent.succeeded", intent("succeeded", amount_received=1000))
    [callback] = stripe.to_events({"Content-Type": "application/json"}, body, "acct_1")
    assert isinstance(callback, Callback)
    assert (callback.order_id, callback.payment_no, callback.channel) == ("O1", "P1", "stripe:acct_1")
    assert (callback.status, callback.event_type) == ("SUCCESS", "payment_intent.succeeded")
    assert (callback.amount, callback.currency, callback.transaction) == (1000, "USD", "pi_1")
    assert (callback.event_id, callback.event_time, callback.livemode) == ("evt_1", "2025-03-03T10:00:00Z", True)
    assert callback.raw is not None
    assert callback.raw.sha256 == hashlib.sha256(body).hexdigest()


@pytest.mark.parametrize(
    ("kind", "obj", "status", "amount"),
    [
        ("payment_intent.canceled", intent("canceled"), "CLOSED", 1099),
        ("payment_intent.processing", intent("processing"), "PROCESSING", 1099),
        ("payment_intent.created", intent("requires_payment_method"), "PENDING", 1099),
        ("payment_intent.requires_action", intent("requires_action"), "PENDING", 1099),
        ("payment_intent.payment_failed", intent("requires_payment_method"), "DECLINED_RETRYABLE", 1099),
        (
            "payment_intent.amount_capturable_updated",
            intent("requires_capture", amount_capturable=900),
            "AUTHORIZED",
            900,
        ),
        ("payment_intent.succeeded", intent("canceled"), "CONTRADICTORY", 1099),
        ("payment_intent.payment_failed", intent("succeeded", amount_received=1), "CONTRADICTORY", 1),
        ("payment_intent.later_word", intent("a_word_of_next_year"), "a_word_of_next_year", 1099),
        ("charge.succeeded", charge("succeeded", captured=True), "SUCCESS", 1099),
        ("charge.captured", charge("succeeded", captured=True, amount_captured=500), "SUCCESS", 500),
        ("charge.succeeded", charge("succeeded", captured=False, amount_captured=0), "AUTHORIZED", 1099),
        ("charge.pending", charge("pending"), "PENDING", 1099),
        ("charge.failed", charge("failed"), "DECLINED_RETRYABLE", 1099),
        ("charge.failed", charge("failed", payment_intent=None), "FAILED", 1099),
        ("charge.failed", charge("succeeded"), "CONTRADICTORY", 1099),
        ("charge.updated", charge("succeeded"), "SUCCESS", 1099),
    ],
)
def test_each_status_has_its_word_and_its_amount(kind: str, obj: dict[str, Any], status: str, amount: int):
    callback = mapped(kind, obj)
    assert isinstance(callback, Callback)
    assert (callback.status, callback.amount) == (status, amount)


def test_an_intent_and_its_charge_name_one_transaction():
    of_intent = mapped("payment_intent.succeeded", intent("succeeded", amount_received=1099))
    of_charge = mapped("charge.succeeded", charge("succeeded", payment_intent={"id": "pi_1"}))
    alone = mapped("charge.succeeded", charge("succeeded", payment_intent=None))
    assert [each.transaction for each in (of_intent, of_charge, alone)] == ["pi_1", "pi_1", "ch_1"]


def test_a_currency_that_stripe_counts_in_whole_units_becomes_minor_units():
    callback = mapped("payment_intent.succeeded", intent("succeeded", amount_received=5, currency="mga"))
    assert (callback.amount, callback.currency) == (500, "MGA")
    callback = mapped("payment_intent.succeeded", intent("succeeded", amount_received=5, currency="jpy"))
    assert (callback.amount, callback.currency) == (5, "JPY")


@pytest.mark.parametrize(
    ("kind", "obj", "reason"),
    [
        ("charge.refunded", charge("succeeded"), "refund notices are not handled by this version"),
        ("charge.refund.updated", {}, "refund notices are not handled by this version"),
        ("refund.created", {}, "refund notices are not handled by this version"),
        ("charge.dispute.created", {}, "dispute notices are not handled by this version"),
        ("charge.expired", charge("failed"), "releases of an authorisation are not handled by this version"),
        ("customer.created", {"id": "cus_1"}, "customer.created says nothing about a payment"),
        ("payment_intent.succeeded", intent("succeeded", metadata={}), "metadata.order_id is absent"),
        ("payment_intent.succeeded", intent("succeeded", metadata=None), "metadata.order_id is absent"),
        ("payment_intent.succeeded", intent("succeeded", metadata={"order_id": "O1"}), "metadata.payment_no is absent"),
        ("payment_intent.succeeded", intent("succeeded", amount=10.5), "data.object: Expected `int`"),
        ("payment_intent.succeeded", intent("succeeded", amount=2**60), "data.object: Expected `int`"),
        ("payment_intent.succeeded", intent("succeeded", currency="us"), "data.object: Expected `str`"),
        ("charge.succeeded", {"id": "ch_1"}, "data.object: Object missing required field"),
    ],
)
def test_a_verified_webhook_that_cannot_be_mapped_is_kept_with_its_reason(kind: str, obj: dict[str, Any], reason: str):
    unmapped = mapped(kind, obj)
    assert isinstance(unmapped, Unmapped)
    assert reason in unmapped.reason
    assert (unmapped.event_id, unmapped.event_type, unmapped.channel) == ("evt_1", kind, "stripe:acct_1")
    assert unmapped.raw is not None


@pytest.mark.parametrize("body", [b"", b"\xff\xfe", b"[]", b'{"id": 1}', b'{"id": "evt_1", "type": "x"', b"null"])
def test_a_verified_body_that_is_no_event_is_kept(body: bytes):
    [unmapped] = stripe.to_events({}, body, "acct_1")
    assert isinstance(unmapped, Unmapped)
    assert "not a Stripe event" in unmapped.reason


def test_an_event_of_another_account_is_kept_and_not_mapped():
    body = event("payment_intent.succeeded", intent("succeeded", amount_received=1099), account="acct_1")
    [unmapped] = stripe.to_events({}, body, "acct_2")
    assert isinstance(unmapped, Unmapped)
    assert "about acct_1, not acct_2" in unmapped.reason
