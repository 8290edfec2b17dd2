"""WeChat Pay notices, with keys, certificates and payloads of our own making."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.x509.oid import NameOID

from streams.channels import wechatpay
from streams.channels.verification import BadSignature, Malformed, Refused, Stale
from streams.domain.events import Callback, Unmapped

NOW = 1_740_996_000
API_KEY = b"own-test-apiv3-key-of-32-bytes!!"
SERIAL = "0A1B2C"
PLATFORM = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER = rsa.generate_private_key(public_exponent=65537, key_size=2048)
KEYS = {SERIAL: PLATFORM.public_key()}
PAID = {
    "mchid": "1900000001",
    "out_trade_no": "P1",
    "transaction_id": "4200001",
    "trade_state": "SUCCESS",
    "attach": '{"order_id": "O1"}',
    "success_time": "2025-03-03T18:00:00+08:00",
    "amount": {"total": 1000, "payer_total": 990, "currency": "CNY"},
}


def sealed(plain: bytes, key: bytes = API_KEY, **resource: Any) -> dict[str, Any]:
    nonce, associated = "0123456789ab", "transaction"
    ciphertext = AESGCM(key).encrypt(nonce.encode(), plain, associated.encode())
    return {
        "original_type": "transaction",
        "algorithm": "AEAD_AES_256_GCM",
        "ciphertext": base64.b64encode(ciphertext).decode(),
        "associated_data": associated,
        "nonce": nonce,
    } | resource


def notice(plain: dict[str, Any] | bytes, kind: str = "TRANSACTION.SUCCESS", **resource: Any) -> bytes:
    content = plain if isinstance(plain, bytes) else json.dumps(plain).encode()
    return json.dumps(
        {
            "id": "n-1",
            "create_time": "2025-03-03T18:00:01+08:00",
            "resource_type": "encrypt-resource",
            "event_type": kind,
            "resource": sealed(content, **resource),
        }
    ).encode()


def signed(body: bytes, key: rsa.RSAPrivateKey = PLATFORM, at: int = NOW, **extra: str) -> dict[str, str]:
    signature = key.sign(f"{at}\nnonce-1\n".encode() + body + b"\n", padding.PKCS1v15(), hashes.SHA256())
    return {
        "Wechatpay-Timestamp": str(at),
        "Wechatpay-Nonce": "nonce-1",
        "Wechatpay-Serial": SERIAL,
        "Wechatpay-Signature": base64.b64encode(signature).decode(),
    } | extra


def mapped(plain: dict[str, Any] | bytes, kind: str = "TRANSACTION.SUCCESS", **resource: Any) -> Callback | Unmapped:
    [result] = wechatpay.to_events({}, notice(plain, kind, **resource), "1900000001", api_keys=[API_KEY])
    return result


@pytest.mark.parametrize("extra", [{}, {"Wechatpay-Signature-Type": "WECHATPAY2-SHA256-RSA2048"}])
def test_a_platform_signature_is_accepted_and_an_absent_type_is_the_default(extra: dict[str, str]):
    wechatpay.verify(signed(b"{}", **extra), b"{}", KEYS, NOW)


def test_the_key_is_chosen_by_serial_so_that_two_can_be_live():
    keys = KEYS | {"PUB_KEY_ID_1": OTHER.public_key()}
    headers = signed(b"{}", OTHER) | {"Wechatpay-Serial": "PUB_KEY_ID_1"}
    wechatpay.verify(headers, b"{}", keys, NOW)
    wechatpay.verify(signed(b"{}"), b"{}", keys, NOW)
    with pytest.raises(BadSignature):
        wechatpay.verify(headers | {"Wechatpay-Serial": SERIAL}, b"{}", keys, NOW)


def test_a_serial_in_lower_case_or_with_leading_zeros_names_the_same_certificate():
    wechatpay.verify(signed(b"{}") | {"Wechatpay-Serial": "0a1b2c"}, b"{}", {"A1B2C": PLATFORM.public_key()}, NOW)


def test_an_unknown_serial_is_refused_and_says_what_to_add():
    with pytest.raises(BadSignature, match="Wechatpay-Serial: no live platform key"):
        wechatpay.verify(signed(b"{}"), b"{}", {"FF": PLATFORM.public_key()}, NOW)


@pytest.mark.parametrize("body", [b"", b"{} ", b"{}\n"])
def test_one_changed_byte_breaks_the_signature(body: bytes):
    with pytest.raises(BadSignature):
        wechatpay.verify(signed(b"{}"), body, KEYS, NOW)


@pytest.mark.parametrize("change", [{"Wechatpay-Timestamp": str(NOW + 1)}, {"Wechatpay-Nonce": "nonce-2"}])
def test_time_and_nonce_are_signed(change: dict[str, str]):
    with pytest.raises(BadSignature):
        wechatpay.verify(signed(b"{}") | change, b"{}", KEYS, NOW)


@pytest.mark.parametrize(
    "signature", ["WECHATPAY/SIGNTEST/xyz==", "WECHATPAY/SIGNTEST/" + "A" * 325, "%%%", "é", "QUJD"]
)
def test_a_probe_with_a_deliberately_bad_signature_is_refused_like_any_other(signature: str):
    with pytest.raises(BadSignature, match=r"^Wechatpay-Signature: the platform key did not make it"):
        wechatpay.verify(signed(b"{}") | {"Wechatpay-Signature": signature}, b"{}", KEYS, NOW)


@pytest.mark.parametrize("distance", [-300, 300, 86_400])
def test_an_authentic_notice_is_stale_in_either_direction(distance: int):
    with pytest.raises(Stale):
        wechatpay.verify(signed(b"{}", at=NOW + distance), b"{}", KEYS, NOW)


@pytest.mark.parametrize("distance", [-299, 299])
def test_less_than_five_minutes_is_inside_the_window(distance: int):
    wechatpay.verify(signed(b"{}", at=NOW + distance), b"{}", KEYS, NOW)


@pytest.mark.parametrize("name", ["Wechatpay-Timestamp", "Wechatpay-Nonce", "Wechatpay-Serial", "Wechatpay-Signature"])
def test_each_header_is_needed(name: str):
    headers = {key: value for key, value in signed(b"{}").items() if key != name}
    with pytest.raises(Malformed, match=f"^{name}: the header is absent"):
        wechatpay.verify(headers, b"{}", KEYS, NOW)


@pytest.mark.parametrize(
    "change", [{"Wechatpay-Timestamp": "soon"}, {"Wechatpay-Signature-Type": "WECHATPAY2-SM2-WITH-SM3"}]
)
def test_a_header_that_cannot_be_read_is_malformed(change: dict[str, str]):
    with pytest.raises(Malformed):
        wechatpay.verify(signed(b"{}") | change, b"{}", KEYS, NOW)


def test_a_refusal_shows_no_signature():
    headers = signed(b"{}", OTHER)
    with pytest.raises(Refused) as refusal:
        wechatpay.verify(headers, b"{}", KEYS, NOW)
    assert headers["Wechatpay-Signature"] not in str(refusal.value)


def test_a_platform_certificate_gives_its_serial_and_key():
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "own test platform")])
    moment = datetime(2025, 1, 1, tzinfo=UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(PLATFORM.public_key())
        .serial_number(0xABCDEF)
        .not_valid_before(moment)
        .not_valid_after(moment + timedelta(days=1))
        .sign(PLATFORM, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    serial, key = wechatpay.key_of_certificate(certificate)
    assert (serial, key.public_numbers()) == ("ABCDEF", PLATFORM.public_key().public_numbers())
    assert wechatpay.key_of_pem(certificate).public_numbers() == key.public_numbers()


def test_a_public_key_file_must_hold_an_rsa_key():
    def pem(key: Any) -> bytes:
        return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)

    assert wechatpay.key_of_pem(pem(PLATFORM.public_key())).key_size == 2048
    with pytest.raises(ValueError, match="not an RSA key"):
        wechatpay.key_of_pem(pem(ec.generate_private_key(ec.SECP256R1()).public_key()))


def test_a_paid_notice_is_a_success_of_the_order_in_attach():
    callback = mapped(PAID)
    assert isinstance(callback, Callback)
    assert (callback.order_id, callback.payment_no, callback.channel) == ("O1", "P1", "wechatpay:1900000001")
    assert (callback.status, callback.amount, callback.currency) == ("SUCCESS", 1000, "CNY")
    assert (callback.transaction, callback.event_id) == ("4200001", "n-1")
    assert (callback.event_type, callback.event_time) == ("TRANSACTION.SUCCESS", "2025-03-03T10:00:00Z")
    assert callback.livemode is None


@pytest.mark.parametrize("attach", [None, "", "gift card", "[1]", '{"shop": 7}', "\\u00"])
def test_without_an_order_in_attach_the_out_trade_number_is_the_order(attach: str | None):
    assert mapped(PAID | {"attach": attach}).order_id == "P1"


@pytest.mark.parametrize(
    ("state", "kind", "status"),
    [
        ("REFUND", "TRANSACTION.SUCCESS", "SUCCESS"),
        ("CLOSED", "TRANSACTION.CLOSED", "CLOSED"),
        ("REVOKED", "TRANSACTION.REVOKED", "CLOSED"),
        ("PAYERROR", "TRANSACTION.PAYERROR", "FAILED"),
        ("NOTPAY", "TRANSACTION.NOTPAY", "PENDING"),
        ("USERPAYING", "TRANSACTION.USERPAYING", "PROCESSING"),
        ("A_WORD_OF_NEXT_YEAR", "TRANSACTION.LATER", "A_WORD_OF_NEXT_YEAR"),
        ("CLOSED", "TRANSACTION.SUCCESS", "CONTRADICTORY"),
    ],
)
def test_each_trade_state_has_its_word(state: str, kind: str, status: str):
    assert mapped(PAID | {"trade_state": state}, kind).status == status


def test_an_absent_amount_or_currency_is_unknown_and_not_guessed():
    callback = mapped({key: value for key, value in PAID.items() if key != "amount"})
    assert (callback.amount, callback.currency) == (None, None)


@pytest.mark.parametrize(
    ("plain", "kind", "resource", "reason"),
    [
        ({}, "REFUND.SUCCESS", {}, "refund notices are not handled by this version"),
        ({}, "PAYSCORE.USER_OPEN_SERVICE", {}, "says nothing about a payment"),
        (PAID | {"mchid": "1900000002"}, "TRANSACTION.SUCCESS", {}, "about 1900000002, not 1900000001"),
        (PAID | {"attach": '{"order_id": 7}'}, "TRANSACTION.SUCCESS", {}, "out_trade_no and attach"),
        (PAID | {"attach": '{"order_id": ""}'}, "TRANSACTION.SUCCESS", {}, "out_trade_no and attach"),
        (PAID | {"out_trade_no": ""}, "TRANSACTION.SUCCESS", {}, "out_trade_no and attach"),
        (PAID | {"amount": {"total": 10.5}}, "TRANSACTION.SUCCESS", {}, "resource: Expected `int"),
        (b"\xff", "TRANSACTION.SUCCESS", {}, "resource: "),
        (b"", "TRANSACTION.SUCCESS", {}, "resource: "),
        (PAID, "TRANSACTION.SUCCESS", {"algorithm": "AES"}, "resource.algorithm: the algorithm is not supported"),
        (PAID, "TRANSACTION.SUCCESS", {"nonce": "short"}, "resource.nonce: it is not 12 bytes"),
        (PAID, "TRANSACTION.SUCCESS", {"ciphertext": "%"}, "resource.ciphertext: it is not base64"),
    ],
)
def test_a_verified_notice_that_cannot_be_mapped_is_kept_with_its_reason(
    plain: dict[str, Any] | bytes, kind: str, resource: dict[str, Any], reason: str
):
    unmapped = mapped(plain, kind, **resource)
    assert isinstance(unmapped, Unmapped)
    assert reason in unmapped.reason
    assert (unmapped.event_id, unmapped.event_type) == ("n-1", kind)
    assert unmapped.raw is not None


@pytest.mark.parametrize("body", [b"", b"\xff", b"[]", b'{"id": "n-1"}', b'{"id": "n-1", '])
def test_a_verified_body_that_is_no_notice_is_kept(body: bytes):
    [unmapped] = wechatpay.to_events({}, body, "1900000001", api_keys=[API_KEY])
    assert isinstance(unmapped, Unmapped)
    assert "not a notice" in unmapped.reason


def test_any_live_api_key_opens_the_resource():
    old = b"own-retired-apiv3-key-32-bytes!!"
    [callback] = wechatpay.to_events(
        {}, notice(PAID, **sealed(json.dumps(PAID).encode(), old)), "1900000001", api_keys=[API_KEY, old]
    )
    assert callback.order_id == "O1"


@pytest.mark.parametrize("change", [{"associated_data": "other"}, {"nonce": "ba9876543210"}, {"ciphertext": "QUJD"}])
def test_a_resource_that_no_live_key_opens_is_refused_so_that_it_comes_again(change: dict[str, Any]):
    with pytest.raises(BadSignature, match="no live APIv3 key opens it"):
        mapped(PAID, **change)


def test_absent_associated_data_counts_as_empty():
    ciphertext = base64.b64encode(AESGCM(API_KEY).encrypt(b"0123456789ab", b"hello", b"")).decode()
    resource = wechatpay.Resource(ciphertext=ciphertext, nonce="0123456789ab")
    assert wechatpay.decrypt(resource, [API_KEY]) == b"hello"


@pytest.mark.parametrize("size", [0, 16, 24, 31, 33])
def test_a_key_that_is_not_32_bytes_is_a_mistake_of_ours(size: int):
    with pytest.raises(ValueError, match="not 32 bytes long"):
        wechatpay.decrypt(wechatpay.Resource(ciphertext="", nonce="0123456789ab"), [b"k" * size])
