"""PayPal's webhooks, with keys, certificates and payloads of our own making."""

from __future__ import annotations

import base64
import json
import zlib
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streams.channels import paypal, paypal_certificates
from streams.channels.adapter import PAYMENT, REFUND, REFUND_TRANSACTION, TRANSACTION, Mapped, Received, Reference
from streams.channels.contracts import shipped
from streams.channels.verification import BadSignature, Malformed, Refused, Stale
from streams.domain.converge import converge
from streams.domain.decisions import ChannelRequest, PaymentSuccess
from streams.domain.events import Callback, CreatePayment, RefundNotice, StartPayment, Unmapped
from streams.simulator import paypal as simulated
from streams.simulator import seeded_rsa
from streams.simulator.dialect import Delivery, Fact

if TYPE_CHECKING:
    from streams.domain.order import Order

NOW = datetime(2026, 3, 3, 10, 0, 5, tzinfo=UTC)
CONTRACT = shipped()["paypal"]
SECRETS, FILE = simulated.secrets(1)
KEYS = paypal.keys(msgspec.convert(FILE, paypal.Credentials))
URL = SECRETS.address
LEAF, ROOT = FILE["certificates"][URL], FILE["roots"][0]
CAPTURE: dict[str, Any] = {
    "id": "C1",
    "status": "COMPLETED",
    "amount": {"value": "10.00", "currency_code": "USD"},
    "custom_id": "O1",
    "invoice_id": "P1",
    "supplementary_data": {"related_ids": {"order_id": "PO1"}},
}
SALE: dict[str, Any] = {
    "id": "S1",
    "state": "completed",
    "amount": {"total": "10.00", "currency": "USD"},
    "custom": "O1",
    "invoice_number": "P1",
    "parent_payment": "PAY-1",
}


def body(event_type: str, resource: dict[str, Any], **event: Any) -> bytes:
    plain = {"id": "WH-1", "create_time": "2026-03-03T10:00:00Z", "event_type": event_type, "resource": resource}
    return json.dumps(plain | event).encode()


def signed(content: bytes, at: datetime = NOW) -> Delivery:
    return simulated.signed(SECRETS, content, number="t-1", at=at)


def received(delivery: Delivery, at: datetime = NOW, **headers: str) -> Received:
    return Received(headers=delivery.headers | headers, body=delivery.body, account="shop", at=at)


def said(delivery: Delivery) -> Mapped:
    paypal.verify(KEYS, received(delivery))
    [one] = paypal.events(KEYS, received(delivery), CONTRACT)
    return one


def told(event_type: str, resource: dict[str, Any], **event: Any) -> Any:
    return said(signed(body(event_type, resource, **event))).event


def fact(**facts: Any) -> Fact:
    plain = {
        "about": "payment",
        "word": "SUCCESS",
        "event_id": "WH-1",
        "order_id": "O1",
        "payment_no": "P1",
        "transaction": "C1",
    }
    return Fact(**plain | {"amount": 1000, "currency": "USD", "at": NOW} | facts)


# -- what is said


def test_a_capture_of_version_2_says_all_that_a_success_needs():
    one = said(signed(body("PAYMENT.CAPTURE.COMPLETED", CAPTURE)))
    assert msgspec.structs.replace(one.event, raw=None) == Callback(
        order_id="O1",
        payment_no="P1",
        channel="paypal:shop",
        status="SUCCESS",
        event_type="PAYMENT.CAPTURE.COMPLETED",
        event_id="WH-1",
        transaction="C1",
        amount=1000,
        currency="USD",
        event_time="2026-03-03T10:00:00Z",
        received_at=NOW,
    )
    account = "paypal:shop"
    assert one.references == (
        Reference(PAYMENT, "P1"),
        Reference(TRANSACTION, "C1", account),
        Reference(TRANSACTION, "PO1", account),
    )


def test_a_sale_of_version_1_says_the_same():
    event = told("PAYMENT.SALE.COMPLETED", SALE)
    assert (event.status, event.order_id, event.payment_no, event.transaction) == ("SUCCESS", "O1", "P1", "S1")
    assert (event.amount, event.currency) == (1000, "USD")


def test_a_sale_without_our_numbers_is_found_by_the_channels():
    bare = {name: value for name, value in SALE.items() if name not in {"custom", "invoice_number"}}
    one = said(signed(body("PAYMENT.SALE.COMPLETED", bare)))
    assert (one.event.order_id, one.references) == (
        "",
        (Reference(TRANSACTION, "S1", "paypal:shop"), Reference(TRANSACTION, "PAY-1", "paypal:shop")),
    )


@pytest.mark.parametrize("state", ["REFUNDED", "PARTIALLY_REFUNDED"])
def test_a_capture_that_was_refunded_was_paid(state: str):
    assert told("PAYMENT.CAPTURE.COMPLETED", CAPTURE | {"status": state}).status == "SUCCESS"


@pytest.mark.parametrize(
    ("event_type", "state"),
    [
        ("PAYMENT.CAPTURE.DECLINED", "DECLINED"),
        ("PAYMENT.CAPTURE.DENIED", "FAILED"),
        ("PAYMENT.CAPTURE.DENIED", "COMPLETED"),
        ("PAYMENT.CAPTURE.COMPLETED", "DECLINED"),
        ("PAYMENT.CAPTURE.PENDING", "COMPLETED"),
        ("PAYMENT.CAPTURE.COMPLETED", ""),
        ("PAYMENT.CAPTURE.REVERSED", "COMPLETED"),
        ("PAYMENT.AUTHORIZATION.CREATED", "CREATED"),
        ("PAYMENT.AUTHORIZATION.COMPLETED", "COMPLETED"),
        ("PAYMENT.AUTHORIZATION.VOIDED", "VOIDED"),
        ("PAYMENT.SALE.DENIED", "denied"),
    ],
)
def test_a_failure_a_hold_or_a_contradiction_is_only_a_reason_to_ask(event_type: str, state: str):
    assert told(event_type, CAPTURE | {"status": state}).status == "CONTRADICTORY"


def test_a_pending_capture_waits():
    assert told("PAYMENT.CAPTURE.PENDING", CAPTURE | {"status": "PENDING"}).status == "PENDING"


def test_a_refund_of_version_2_is_linked_by_the_capture_above_it():
    links = [{"rel": "self", "href": "https://x.example/R"}, {"rel": "up", "href": "https://x.example/captures/C1"}]
    resource = CAPTURE | {"id": "F1", "invoice_id": "R1", "links": links, "supplementary_data": {}}
    one = said(signed(body("PAYMENT.CAPTURE.REFUNDED", resource)))
    assert isinstance(one.event, RefundNotice)
    assert (one.event.refund_no, one.event.refund_transaction, one.event.transaction) == ("R1", "F1", "C1")
    assert (one.event.status, one.event.amount, one.event.order_id) == ("SUCCESS", 1000, "O1")
    account = "paypal:shop"
    assert one.references == (
        Reference(REFUND, "R1"),
        Reference(TRANSACTION, "C1", account),
        Reference(REFUND_TRANSACTION, "F1", account),
    )


def test_a_refund_of_version_1_comes_as_a_sale_with_a_negative_amount():
    resource = SALE | {
        "id": "F1",
        "sale_id": "S1",
        "amount": {"total": "-4.00", "currency": "USD"},
        "invoice_number": "",
    }
    event = told("PAYMENT.SALE.REFUNDED", resource, resource_type="sale")
    assert isinstance(event, RefundNotice)
    assert (event.transaction, event.refund_transaction, event.refund_no, event.amount) == ("S1", "F1", None, 400)
    assert event.order_id == ""  # its payment is not named, so it is found by the sale


@pytest.mark.parametrize(
    ("event_type", "state", "word"),
    [
        ("PAYMENT.REFUND.PENDING", "PENDING", "PENDING"),
        ("PAYMENT.REFUND.COMPLETED", "COMPLETED", "SUCCESS"),
        ("PAYMENT.REFUND.FAILED", "FAILED", "CONTRADICTORY"),
        ("PAYMENT.CAPTURE.REFUNDED", "CANCELLED", "CONTRADICTORY"),
        ("PAYMENT.CAPTURE.REFUNDED", "PENDING", "CONTRADICTORY"),
    ],
)
def test_a_refund_that_fails_is_only_a_reason_to_ask(event_type: str, state: str, word: str):
    assert told(event_type, CAPTURE | {"status": state}).status == word


@pytest.mark.parametrize(
    ("value", "currency", "expected"),
    [
        ("1000", "JPY", (1000, "JPY", None)),
        ("1000.00", "JPY", (1000, "JPY", None)),
        ("10.005", "USD", (None, "USD", "10.005")),
        ("10", "", (None, None, "10")),
        ("", "USD", (None, None, None)),
    ],
)
def test_an_amount_that_its_currency_cannot_express_stays_text(value: str, currency: str, expected: tuple[Any, ...]):
    event = told("PAYMENT.CAPTURE.COMPLETED", CAPTURE | {"amount": {"value": value, "currency_code": currency}})
    assert (event.amount, event.currency, event.amount_text) == expected


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "the body is no event"),
        (b"\xff", "the body is no event"),
        (b"[]", "the body is no event"),
        (b"[" * 100_000, "the body is no event"),
        (body("CUSTOMER.DISPUTE.CREATED", {}), "event_type: a dispute moves money"),
        (body("CHECKOUT.ORDER.APPROVED", CAPTURE), "event_type: CHECKOUT.ORDER.APPROVED says nothing"),
        (body("PAYMENT.CAPTURE", CAPTURE), "event_type: "),
        (body("PAYMENT.CAPTURE.COMPLETED", CAPTURE | {"amount": 7}), "resource: "),
        (body("PAYMENT.CAPTURE.COMPLETED", CAPTURE | {"id": "x" * 257}), "Expected `str` of length <= 256"),
        (body("PAYMENT.CAPTURE.COMPLETED", {"status": "COMPLETED"}), "neither an order id"),
        (b'{"id":"1","event_type":"PAYMENT.CAPTURE.X","resource":' + b"[" * 50_000, "the body is no event"),
    ],
)
def test_what_says_nothing_about_a_payment_is_kept_with_the_reason(content: bytes, reason: str):
    event = said(signed(content)).event
    assert isinstance(event, Unmapped)
    assert event.reason.startswith(reason)
    assert event.raw is not None


# -- what is verified


def test_only_a_checksum_of_the_body_is_signed_so_another_body_can_be_put_under_the_same_headers():
    """The flaw that everything here is built around: it is the channel's, and it verifies."""
    honest = signed(body("PAYMENT.CAPTURE.COMPLETED", CAPTURE))
    forged = with_checksum(
        lambda room: body("PAYMENT.CAPTURE.COMPLETED", CAPTURE | {"id": "EVIL", "note": room}), honest.body
    )
    assert zlib.crc32(forged) == zlib.crc32(honest.body)
    one = said(Delivery(headers=honest.headers, body=forged))
    assert isinstance(one.event, Callback)
    assert one.event.transaction == "EVIL"


def with_checksum(written: Any, of: bytes) -> bytes:
    """A body with the checksum of another: a CRC is linear, so which of 48 letters to change is a system of 32 equations."""
    base = written("a" * 48)
    start, wanted = base.index(b"a" * 48), zlib.crc32(base) ^ zlib.crc32(of)
    basis: dict[int, tuple[int, int]] = {}
    for place in range(48):
        changed = bytearray(base)
        changed[start + place] ^= 2
        effect, which = zlib.crc32(bytes(changed)) ^ zlib.crc32(base), 1 << place
        while effect and effect.bit_length() in basis:
            known, used = basis[effect.bit_length()]
            effect, which = effect ^ known, which ^ used
        if effect:
            basis[effect.bit_length()] = (effect, which)
    chosen = 0
    while wanted:
        known, used = basis[wanted.bit_length()]
        wanted, chosen = wanted ^ known, chosen ^ used
    result = bytearray(base)
    for place in range(48):
        result[start + place] ^= 2 * (chosen >> place & 1)
    return bytes(result)


@pytest.mark.parametrize(
    ("event_type", "state"),
    [
        ("PAYMENT.CAPTURE.COMPLETED", "COMPLETED"),
        ("PAYMENT.CAPTURE.DECLINED", "DECLINED"),
        ("PAYMENT.AUTHORIZATION.CREATED", "CREATED"),
        ("PAYMENT.AUTHORIZATION.VOIDED", "VOIDED"),
    ],
)
def test_no_webhook_ends_a_payment_and_each_of_these_makes_us_ask(event_type: str, state: str):
    """R-002, R-003: whatever a forger writes, the law only asks the channel."""
    common = {"order_id": "O1", "payment_no": "P1"}
    create = CreatePayment(command_id="1", biz_code="b", channel="paypal:shop", amount=1000, currency="USD", **common)
    order: Order | None = None
    for event in (create, StartPayment(command_id="2", **common)):
        order, _ = converge(order, event, 1_772_532_000_000, {"paypal:shop": CONTRACT})
    event = told(event_type, CAPTURE | {"status": state})
    order, messages = converge(order, event, 1_772_532_006_000, {"paypal:shop": CONTRACT})
    assert order is not None
    assert order.payments[0].state == "UNKNOWN"
    assert [one.verb for one in messages if isinstance(one, ChannelRequest)] == ["QUERY"]
    assert not any(isinstance(one, PaymentSuccess) for one in messages)


def test_any_of_our_webhooks_may_have_been_told():
    both = paypal.keys(msgspec.convert(FILE | {"webhook_ids": ["other", simulated.WEBHOOK]}, paypal.Credentials))
    paypal.verify(both, received(signed(b"{}")))
    other = paypal.keys(msgspec.convert(FILE | {"webhook_ids": ["other"]}, paypal.Credentials))
    with pytest.raises(BadSignature, match=r"^PAYPAL-TRANSMISSION-SIG: "):
        paypal.verify(other, received(signed(b"{}")))


def test_certificates_of_two_addresses_can_be_live():
    other, theirs = simulated.secrets(2)
    merged = {name: FILE[name] | theirs[name] if name == "certificates" else FILE[name] + theirs[name] for name in FILE}
    both = paypal.keys(msgspec.convert(merged, paypal.Credentials))
    for secrets in (SECRETS, other):
        paypal.verify(both, received(simulated.signed(secrets, b"{}", number="t", at=NOW)))
    with pytest.raises(BadSignature):
        paypal.verify(both, received(signed(b"{}"), **{"paypal-cert-url": other.address}))


@pytest.mark.parametrize(
    ("headers", "kind", "match"),
    [
        ({"paypal-transmission-id": ""}, Malformed, "PAYPAL-TRANSMISSION-ID: "),
        ({"paypal-transmission-id": "a|b"}, Malformed, "PAYPAL-TRANSMISSION-ID: "),
        ({"paypal-transmission-id": "\udcff"}, Malformed, "PAYPAL-TRANSMISSION-ID: "),
        ({"paypal-transmission-id": "t-2"}, BadSignature, "PAYPAL-TRANSMISSION-SIG: "),
        ({"paypal-transmission-time": "yesterday"}, Malformed, "PAYPAL-TRANSMISSION-TIME: "),
        ({"paypal-transmission-time": "2026-13-03T10:00:05Z"}, Malformed, "PAYPAL-TRANSMISSION-TIME: "),
        ({"paypal-transmission-time": "2026-03-03T10:00:06Z"}, BadSignature, "PAYPAL-TRANSMISSION-SIG: "),
        ({"paypal-auth-algo": "SHA1withRSA"}, Malformed, "PAYPAL-AUTH-ALGO: "),
        ({"paypal-transmission-sig": "%"}, BadSignature, "PAYPAL-TRANSMISSION-SIG: it is not base64"),
        ({"paypal-transmission-sig": "é"}, BadSignature, "PAYPAL-TRANSMISSION-SIG: it is not base64"),
        ({"paypal-transmission-sig": "QUJ="}, BadSignature, "PAYPAL-TRANSMISSION-SIG: it is not canonical"),
        ({"paypal-transmission-sig": "QUJD"}, BadSignature, "PAYPAL-TRANSMISSION-SIG: the certificate's key"),
        ({"paypal-cert-url": "https://evil.example/cert"}, BadSignature, "PAYPAL-CERT-URL: .*PayPal never names it"),
        ({"paypal-cert-url": simulated.ADDRESS + "9"}, BadSignature, "PAYPAL-CERT-URL: .*configure the certificate"),
    ],
)
def test_what_cannot_be_verified_is_refused_by_name(headers: dict[str, str], kind: type[Refused], match: str):
    with pytest.raises(kind, match=f"^{match}"):
        paypal.verify(KEYS, received(signed(b"{}"), **headers))


@pytest.mark.parametrize(
    ("distance", "fresh"),
    [
        (timedelta(days=3), True),
        (timedelta(minutes=-5), True),
        (timedelta(days=3, minutes=6), False),
        (timedelta(minutes=-6), False),
    ],
)
def test_a_notice_is_taken_for_as_long_as_it_is_sent_again_and_not_from_the_future(distance: timedelta, fresh: bool):  # noqa: FBT001
    delivery = signed(b"{}")
    if fresh:
        paypal.verify(KEYS, received(delivery, NOW + distance))
        return
    with pytest.raises(Stale, match=r"^PAYPAL-TRANSMISSION-TIME: "):
        paypal.verify(KEYS, received(delivery, NOW + distance))


def test_a_certificate_is_believed_only_while_it_is_valid():
    at = datetime(2100, 1, 2, tzinfo=UTC)
    with pytest.raises(Stale, match=r"^PAYPAL-CERT-URL: "):
        paypal.verify(KEYS, received(signed(b"{}", at), at))


def test_any_changed_byte_of_the_body_is_refused():
    delivery = signed(body("PAYMENT.CAPTURE.COMPLETED", CAPTURE))
    for place in range(len(delivery.body)):
        changed = bytearray(delivery.body)
        changed[place] ^= 1
        with pytest.raises(BadSignature):
            paypal.verify(KEYS, received(Delivery(headers=delivery.headers, body=bytes(changed))))


def test_what_is_signed_is_id_time_webhook_and_the_checksum_as_a_decimal():
    delivery = signed(b"\xff{}")
    text = f"t-1|2026-03-03T10:00:05Z|{simulated.WEBHOOK}|{zlib.crc32(delivery.body)}".encode()
    public = seeded_rsa.loaded(SECRETS.private_key).public_key()
    signature = base64.b64decode(delivery.headers["paypal-transmission-sig"])
    public.verify(signature, text, padding.PKCS1v15(), hashes.SHA256())


# -- certificates

LOOSE = seeded_rsa.key(1, "paypal")
OTHER_NAME = seeded_rsa.certificate_pem(
    seeded_rsa.certificate(LOOSE, "messageverificationcerts.paypal.com.evil.example")
)
OWN_ISSUER = seeded_rsa.certificate_pem(seeded_rsa.certificate(LOOSE, simulated.NAME))


@pytest.mark.parametrize(
    "url",
    [
        "http://api.paypal.com/v1/notifications/certs/CERT-1",
        "https://api.paypal.com.evil.example/v1/notifications/certs/CERT-1",
        "https://api.paypal.com@evil.example/v1/notifications/certs/CERT-1",
        "https://api.paypal.com:8443/v1/notifications/certs/CERT-1",
        "https://api.paypal.com/v1/notifications/certs/../CERT-1",
        "https://api.paypal.com/v1/notifications/certs/CERT-1?x",
        "https://api.paypal.com/v1/notifications/certs/CERT-1\n",
        "https://xapi.paypal.com/v1/notifications/certs/CERT-1",
        "https://api.paypal.com/other/CERT-1",
    ],
)
def test_only_paypals_own_addresses_are_believed(url: str):
    assert not paypal_certificates.is_paypals(url)
    with pytest.raises(ValueError, match=r"^certificates: an address is not PayPal's"):
        paypal.keys(msgspec.convert(FILE | {"certificates": {url: LEAF}}, paypal.Credentials))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"webhook_ids": []}, "webhook_ids: "),
        ({"certificates": {}}, "certificates: there is none"),
        ({"certificates": {URL: "x"}}, r"certificates\[.*\]: it is no certificate"),
        ({"certificates": {URL: OTHER_NAME}, "roots": []}, r"certificates\[.*\]: its name"),
        ({"certificates": {URL: OWN_ISSUER}}, r"certificates\[.*\]: its chain ends in none"),
        ({"certificates": {URL: LEAF + OWN_ISSUER}}, r"certificates\[.*\]: its chain is broken"),
        ({"certificates": {URL: LEAF + LEAF}}, r"certificates\[.*\]: its chain is broken"),
        ({"roots": ["x"]}, r"roots\[0\]: it is no certificate"),
        ({"roots": [LEAF]}, r"roots\[0\]: it is not one certificate of an authority"),
    ],
)
def test_credentials_that_cannot_be_used_are_refused_by_field(change: dict[str, Any], match: str):
    with pytest.raises(ValueError, match=f"^{match}"):
        paypal.keys(msgspec.convert(FILE | change, paypal.Credentials))


@pytest.mark.parametrize(
    "change", [{"certificates": {URL: LEAF + ROOT}}, {"roots": []}, {"certificates": {URL: LEAF + ROOT}, "roots": []}]
)
def test_a_chain_is_followed_as_far_as_it_is_configured(change: dict[str, Any]):
    paypal.verify(paypal.keys(msgspec.convert(FILE | change, paypal.Credentials)), received(signed(b"{}")))


# -- hostile input

VALID = signed(body("PAYMENT.CAPTURE.REFUNDED", CAPTURE | {"links": [{"rel": "up", "href": "https://x.example/C1"}]}))


def hostile(seed: int) -> bytes:
    """A valid notice with bytes changed or cut, or with a value of another type."""
    chance = Random(seed)
    if chance.random() < 0.5:
        values: list[Any] = [None, 7, [], {}, "x" * 300, "\ud800", {"value": None}, [{"rel": "up"}], "-0.001", 1e300]
        resource = CAPTURE | {name: chance.choice(values) for name in chance.sample(sorted(CAPTURE), 2)}
        return body(chance.choice(["PAYMENT.CAPTURE.COMPLETED", "PAYMENT.REFUND.FAILED", "X" * 300]), resource)
    data = bytearray(VALID.body)
    for _ in range(chance.randrange(4)):
        place = chance.randrange(len(data))
        data[place : place + chance.randrange(3)] = chance.randbytes(chance.randrange(3))
    return bytes(data)


@settings(max_examples=2000, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.one_of(st.integers(0, 2**32).map(hostile), st.binary(max_size=60)),
    st.sampled_from(sorted(VALID.headers)),
    st.one_of(st.none(), st.text(max_size=8)),
)
def test_hostile_input_is_refused_or_kept_and_never_anything_else(content: bytes, name: str, value: str | None):
    headers = VALID.headers if value is None else VALID.headers | {name: value}
    notice = Received(headers, content, "shop", NOW)
    with suppress(Refused):
        paypal.verify(KEYS, notice)
    for one in paypal.events(KEYS, notice, CONTRACT):
        plain = msgspec.structs.replace(one.event, raw=None)
        assert msgspec.json.decode(msgspec.json.encode(plain), type=type(one.event)) == plain


@pytest.mark.parametrize(
    ("facts", "kind", "word"),
    [
        ({}, Callback, "SUCCESS"),
        ({"word": "PROCESSING"}, Callback, "PENDING"),
        ({"word": "FAILED"}, Callback, "CONTRADICTORY"),
        ({"word": "AUTHORIZED"}, Callback, "CONTRADICTORY"),
        ({"about": "void", "operation_no": "V1"}, Callback, "CONTRADICTORY"),
        ({"about": "capture", "operation_no": "K1", "operation_transaction": "C2"}, Callback, "SUCCESS"),
        ({"about": "refund", "operation_no": "R1", "operation_transaction": "F1"}, RefundNotice, "SUCCESS"),
        ({"about": "refund", "operation_no": "R1", "word": "FAILED"}, RefundNotice, "CONTRADICTORY"),
    ],
)
def test_the_dialect_says_what_the_simulator_decided(facts: dict[str, Any], kind: type, word: str):
    event = said(simulated.notice(SECRETS, fact(**facts), "shop", NOW, CONTRACT)).event
    assert isinstance(event, kind)
    assert (event.status, event.order_id, event.amount) == (word, "O1", 1000)
