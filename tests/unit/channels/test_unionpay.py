"""UnionPay's back notices, with keys, certificates and payloads of our own making."""

from __future__ import annotations

import base64
import hashlib
import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streams.channels import forms, unionpay
from streams.channels.adapter import PAYMENT, REFUND, REFUND_TRANSACTION, TRANSACTION, Mapped, Received, Reference
from streams.channels.contracts import shipped
from streams.channels.verification import BadSignature, Malformed, Refused, Stale
from streams.domain.events import Callback, RefundNotice, Unmapped
from streams.simulator import seeded_rsa
from streams.simulator import unionpay as simulated
from streams.simulator.dialect import Delivery, Fact

NOW = datetime(2026, 3, 3, 10, 0, 5, tzinfo=UTC)
CONTRACT = shipped()["unionpay"]
SECRETS, FILE = simulated.secrets(1)
KEYS = unionpay.keys(msgspec.convert(FILE, unionpay.Credentials))
SALE = {
    "version": "5.1.0",
    "encoding": "UTF-8",
    "signMethod": "01",
    "txnType": "01",
    "merId": simulated.MERCHANT,
    "orderId": "P1",
    "txnTime": "20260303180005",
    "txnAmt": "1000",
    "currencyCode": "156",
    "queryId": "Q1",
    "respCode": "00",
    "respMsg": "成功",
    "reqReserved": base64.b64encode(b'{"order_id": "O1"}').decode(),
    "signPubKeyCert": SECRETS.certificate,
}


def received(delivery: Delivery, at: datetime = NOW) -> Received:
    return Received(headers=delivery.headers, body=delivery.body, account="shop", at=at)


def said(delivery: Delivery) -> Mapped:
    unionpay.verify(KEYS, received(delivery))
    [one] = unionpay.events(KEYS, received(delivery), CONTRACT)
    return one


def told(**fields: str) -> Any:
    return said(simulated.signed(SECRETS, SALE | fields)).event


def fact(**facts: Any) -> Fact:
    plain = {
        "about": "payment",
        "word": "SUCCESS",
        "event_id": "N1",
        "order_id": "O1",
        "payment_no": "P1",
        "transaction": "Q1",
    }
    return Fact(**plain | {"amount": 1000, "currency": "CNY", "at": NOW} | facts)


def test_a_sale_says_all_that_a_success_needs():
    assert msgspec.structs.replace(told(), raw=None) == Callback(
        order_id="O1",
        payment_no="P1",
        channel="unionpay:shop",
        status="SUCCESS",
        event_type="01",
        event_id="Q1/01/00",
        transaction="Q1",
        amount=1000,
        currency="CNY",
        event_time="2026-03-03T10:00:05Z",
        received_at=NOW,
    )


def test_what_is_signed_is_the_text_of_a_hash():
    form = forms.fields_of(simulated.signed(SECRETS, SALE).body)
    text = b"&".join(name.encode() + b"=" + form[name] for name in sorted(form) if name != "signature")
    inner = hashlib.sha256(text).hexdigest().encode()
    public = seeded_rsa.loaded(SECRETS.private_key).public_key()
    public.verify(base64.b64decode(form["signature"]), inner, padding.PKCS1v15(), hashes.SHA256())
    once = seeded_rsa.loaded(SECRETS.private_key).sign(text, padding.PKCS1v15(), hashes.SHA256())
    single = form | {"signature": base64.b64encode(once)}
    with pytest.raises(BadSignature, match=r"^signature: "):
        unionpay.verify(KEYS, Received({}, urlencode(single).encode(), "shop", NOW))


def test_a_certificate_that_only_came_with_the_notice_is_not_believed():
    other, _ = simulated.secrets(2)
    delivery = simulated.signed(other, SALE | {"signPubKeyCert": other.certificate})
    with pytest.raises(BadSignature, match=r"^signPubKeyCert: the certificate is not pinned"):
        unionpay.verify(KEYS, received(delivery))


def test_naming_the_pinned_certificate_does_not_make_its_signature():
    other, _ = simulated.secrets(2)
    with pytest.raises(BadSignature, match=r"^signature: "):
        unionpay.verify(KEYS, received(simulated.signed(other, SALE)))


def test_two_certificates_can_be_live():
    other, theirs = simulated.secrets(2)
    both = unionpay.keys(
        unionpay.Credentials(
            merchant_ids=[simulated.MERCHANT], certificates=FILE["certificates"] + theirs["certificates"]
        )
    )
    for secrets in (SECRETS, other):
        unionpay.verify(both, received(simulated.signed(secrets, SALE | {"signPubKeyCert": secrets.certificate})))


@pytest.mark.parametrize("at", [datetime(2014, 12, 31, tzinfo=UTC), datetime(2100, 1, 2, tzinfo=UTC)])
def test_a_certificate_is_believed_only_while_it_is_valid(at: datetime):
    with pytest.raises(Stale, match=r"^signPubKeyCert: "):
        unionpay.verify(KEYS, received(simulated.signed(SECRETS, SALE), at))


def test_a_refund_and_a_void_of_a_sale_are_not_taken_for_each_other():
    fields = {"orderId": "R1", "queryId": "Q2", "origQryId": "Q1", "txnAmt": "400"}
    refund, void = told(txnType="04", **fields), told(txnType="31", **fields)
    assert isinstance(refund, RefundNotice)
    assert isinstance(void, RefundNotice)
    assert (refund.event_type, refund.reason) == ("04", None)
    assert (void.event_type, void.reason) == ("31", "void of the sale on its own day")
    for event in (refund, void):
        assert (event.refund_no, event.refund_transaction, event.transaction, event.amount) == ("R1", "Q2", "Q1", 400)
        assert event.status == "SUCCESS"


def test_a_refund_is_linked_by_its_number_and_then_by_the_sale_it_names():
    one = said(
        simulated.notice(
            SECRETS, fact(about="refund", operation_no="R1", operation_transaction="Q2"), "shop", NOW, CONTRACT
        )
    )
    assert one.event.order_id == "O1"
    assert isinstance(one.event, RefundNotice)
    assert one.event.payment_no == "P1"
    assert one.references == (
        Reference(REFUND, "R1"),
        Reference(TRANSACTION, "Q1", "unionpay:shop"),
        Reference(REFUND_TRANSACTION, "Q2", "unionpay:shop"),
    )


@pytest.mark.parametrize(("kind", "word"), [("02", "AUTHORIZED"), ("03", "SUCCESS"), ("32", "SUCCESS")])
def test_holds_completions_and_releases_speak_under_their_own_number(kind: str, word: str):
    event = told(txnType=kind, orderId="C1", origQryId="Q0")
    assert isinstance(event, Callback)
    assert (event.payment_no, event.status, event.event_type) == ("C1", word, kind)


def test_a_completion_is_found_by_the_hold_it_names():
    one = said(
        simulated.notice(
            SECRETS, fact(about="capture", operation_no="C1", operation_transaction="Q2"), "shop", NOW, CONTRACT
        )
    )
    assert one.references[0] == Reference(TRANSACTION, "Q1", "unionpay:shop")
    assert Reference(PAYMENT, "C1") in one.references


@pytest.mark.parametrize("code", ["01", "03", "04", "05", "12", "34", "60", "61", "A6", "zz"])
@pytest.mark.parametrize("kind", ["01", "04"])
def test_no_code_but_00_is_a_success_and_none_is_a_failure(kind: str, code: str):
    assert told(txnType=kind, respCode=code).status == "PROCESSING"


def test_doubt_and_later_success_of_one_transaction_are_two_events():
    assert told(respCode="05").event_id != told().event_id


@pytest.mark.parametrize(
    "reserved",
    ['{"order_id": "O1"}', "%7B%22order_id%22%3A%22O1%22%7D", base64.b64encode(b'{"order_id": "O1", "n": 1}').decode()],
)
def test_our_reserved_field_names_the_order_in_any_wrapping(reserved: str):
    assert told(reqReserved=reserved).order_id == "O1"


@pytest.mark.parametrize("reserved", ["", "a merchant's own text", "QUJD", "[" * 5000, '{"order_id": 7}'])
def test_without_our_reserved_field_the_numbers_find_the_order(reserved: str):
    one = said(simulated.signed(SECRETS, SALE | {"reqReserved": reserved}))
    assert one.event.order_id == ""
    assert one.references == (Reference(PAYMENT, "P1"), Reference(TRANSACTION, "Q1", "unionpay:shop"))


def test_a_gbk_notice_is_verified_over_its_own_bytes():
    one = said(simulated.signed(SECRETS, SALE | {"encoding": "GBK", "respMsg": "中国"}, charset="gbk"))
    assert isinstance(one.event, Callback)
    wrong = said(simulated.signed(SECRETS, SALE | {"respMsg": "中国"}, charset="gbk"))
    assert isinstance(wrong.event, Unmapped)
    assert wrong.event.reason.startswith("encoding: ")


@pytest.mark.parametrize(
    ("amount", "code", "expected"),
    [
        ("1000", "156", (1000, "CNY", None)),
        ("1000", "392", (1000, "JPY", None)),
        ("-1", "156", (None, "CNY", "-1")),
        ("1.5", "156", (None, "CNY", "1.5")),
        ("1000", "000", (None, None, "1000")),
        ("٣", "156", (None, "CNY", "٣")),
        ("", "156", (None, None, None)),
    ],
)
def test_an_amount_that_is_not_whole_minor_units_stays_text(amount: str, code: str, expected: tuple[Any, ...]):
    event = told(txnAmt=amount, currencyCode=code)
    assert (event.amount, event.currency, event.amount_text) == expected


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"merId": "other"}, "merId: "),
        ({"txnType": "79"}, "txnType: "),
        ({"respCode": ""}, "respCode: "),
        ({"queryId": "Q" * 257}, "Expected `str` of length <= 256"),
        ({"respMsg": "x&txnAmt=1&txnType=y"}, "respMsg: "),
        ({"orderId": "", "queryId": "", "reqReserved": ""}, "neither an order id"),
    ],
)
def test_a_notice_that_is_not_about_our_operation_is_kept_with_the_reason(fields: dict[str, str], reason: str):
    event = told(**fields)
    assert isinstance(event, Unmapped)
    assert event.reason.startswith(reason)
    assert event.raw is not None


@pytest.mark.parametrize(
    ("change", "kind", "match"),
    [
        ({"signMethod": b"11"}, Malformed, "signMethod: "),
        ({"signMethod": b""}, Malformed, "signMethod: "),
        ({"signature": b""}, Malformed, "signature: "),
        ({"signature": b"%"}, BadSignature, "signature: "),
        ({"signature": b"QUJD"}, BadSignature, "signature: "),
        ({"signPubKeyCert": b""}, BadSignature, "signPubKeyCert: "),
        ({"signPubKeyCert": b"-----BEGIN CERTIFICATE-----%%%"}, BadSignature, "signPubKeyCert: "),
        ({"txnAmt": b"1001"}, BadSignature, "signature: "),
    ],
)
def test_what_cannot_be_verified_is_refused_by_name(change: dict[str, bytes], kind: type[Refused], match: str):
    form = forms.fields_of(simulated.signed(SECRETS, SALE).body) | change
    with pytest.raises(kind, match=f"^{match}"):
        unionpay.verify(KEYS, Received({}, urlencode(form).encode(), "shop", NOW))


def test_a_field_that_is_there_twice_is_refused():
    body = simulated.signed(SECRETS, SALE).body + b"&txnAmt=1"
    with pytest.raises(Malformed, match=r"^txnAmt: "):
        unionpay.verify(KEYS, Received({}, body, "shop", NOW))


def test_any_changed_byte_of_what_is_signed_is_refused():
    form = forms.fields_of(simulated.signed(SECRETS, SALE).body)
    for field, value in form.items():
        for place in range(0, len(value), 1 if len(value) < 40 else 23):
            changed = value[:place] + bytes([value[place] ^ 1]) + value[place + 1 :]
            with pytest.raises(Refused):
                unionpay.verify(KEYS, Received({}, urlencode(form | {field: changed}).encode(), "shop", NOW))


def certificate_of_another_kind() -> str:
    own = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(own.public_key()).serial_number(7)
    made = made.not_valid_before(NOW).not_valid_after(NOW + timedelta(days=1))
    return made.sign(own, hashes.SHA256()).public_bytes(Encoding.PEM).decode()


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"merchant_ids": []}, "merchant_ids: "),
        ({"certificates": []}, "certificates: "),
        ({"certificates": ["x"]}, r"certificates\[0\]: it is no certificate"),
        ({"certificates": [certificate_of_another_kind()]}, r"certificates\[0\]: its key is no RSA key"),
    ],
)
def test_credentials_that_cannot_be_used_are_refused_by_field(change: dict[str, Any], match: str):
    with pytest.raises(ValueError, match=f"^{match}"):
        unionpay.keys(msgspec.convert(FILE | change, unionpay.Credentials))


VALID = simulated.signed(SECRETS, SALE).body


def hostile(seed: int) -> bytes:
    """A valid notice with bytes changed, cut or doubled, or a form of valid fields with other values."""
    chance = Random(seed)
    if chance.random() < 0.4:
        fields = {name: chance.randbytes(chance.randrange(20)) for name in chance.sample(sorted(SALE), 6)}
        return urlencode(SALE | fields).encode()
    data = bytearray(VALID)
    for _ in range(chance.randrange(4)):
        place = chance.randrange(len(data))
        data[place : place + chance.randrange(3)] = chance.randbytes(chance.randrange(3))
    return bytes(data)


@settings(max_examples=2000, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.one_of(st.integers(0, 2**32).map(hostile), st.binary(max_size=60)))
def test_hostile_input_is_refused_or_kept_and_never_anything_else(body: bytes):
    notice = Received({"content-type": "text/plain"}, body, "shop", NOW)
    with suppress(Refused):
        unionpay.verify(KEYS, notice)
    for one in unionpay.events(KEYS, notice, CONTRACT):
        assert msgspec.json.decode(msgspec.json.encode(one.event), type=type(one.event)) == one.event


def test_the_dialect_says_what_the_simulator_decided():
    for word, status in [
        ("SUCCESS", "SUCCESS"),
        ("AUTHORIZED", "AUTHORIZED"),
        ("FAILED", "PROCESSING"),
        ("PROCESSING", "PROCESSING"),
    ]:
        one = said(simulated.notice(SECRETS, fact(word=word), "shop", NOW, CONTRACT))
        assert isinstance(one.event, Callback)
        assert (one.event.status, one.event.amount, one.event.order_id, one.event.transaction) == (
            status,
            1000,
            "O1",
            "Q1",
        )
    assert json.loads(msgspec.json.encode(simulated.secrets(1)[1])) == FILE
