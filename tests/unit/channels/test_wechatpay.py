"""WeChat Pay notices, with keys, certificates and payloads of our own making."""

from __future__ import annotations

import base64
import contextlib
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import wechatpayv3
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.x509.oid import NameOID
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streams.channels import wechatpay, wechatpay_events
from streams.channels.adapter import Mapped, Received
from streams.channels.contracts import shipped
from streams.channels.credentials import CredentialsError
from streams.channels.credentials import keys as read_keys
from streams.channels.verification import BadSignature, Malformed, Refused, Stale
from streams.codec import TOPICS
from streams.domain.events import Callback, RefundNotice, Unmapped
from streams.simulator.dialect import Fact
from streams.simulator.wechatpay import DIALECT, secrets
from streams.simulator.wechatpay import SERIAL as THEIR_SERIAL

NOW = 1_740_996_000
API_KEY = b"own-test-apiv3-key-of-32-bytes!!"
SERIAL = "0A1B2C"
PLATFORM = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER = rsa.generate_private_key(public_exponent=65537, key_size=2048)
KEYS = {SERIAL: PLATFORM.public_key()}
CONTRACT = shipped()["wechatpay"]
SAMPLES = Path(__file__).parents[4] / "shared" / "fixtures" / "wechatpay"
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


def live(platform: Any = KEYS, *api_keys: bytes) -> wechatpay.Keys:
    return wechatpay.Keys(api_keys or (API_KEY,), platform, None)


def received(headers: dict[str, str], body: bytes, at: float = NOW) -> Received:
    lowered = {name.lower(): value for name, value in headers.items()}
    return Received(lowered, body, "1900000001", datetime.fromtimestamp(at, UTC))


def verify(headers: dict[str, str], body: bytes, platform: Any = KEYS, at: float = NOW) -> None:
    wechatpay.verify(live(platform), received(headers, body, at))


def events(body: bytes, *api_keys: bytes) -> list[Mapped]:
    return wechatpay.ADAPTER.events(live(KEYS, *api_keys), received({}, body), CONTRACT)


def found(plain: dict[str, Any] | bytes, kind: str = "TRANSACTION.SUCCESS", **resource: Any) -> Mapped:
    [result] = events(notice(plain, kind, **resource))
    return result


def mapped(plain: dict[str, Any] | bytes, kind: str = "TRANSACTION.SUCCESS", **resource: Any) -> Any:
    return found(plain, kind, **resource).event


@pytest.mark.parametrize("extra", [{}, {"Wechatpay-Signature-Type": "WECHATPAY2-SHA256-RSA2048"}])
def test_a_platform_signature_is_accepted_and_an_absent_type_is_the_default(extra: dict[str, str]):
    verify(signed(b"{}", **extra), b"{}", KEYS)


def test_the_key_is_chosen_by_serial_so_that_two_can_be_live():
    keys = KEYS | {"PUB_KEY_ID_1": OTHER.public_key()}
    headers = signed(b"{}", OTHER) | {"Wechatpay-Serial": "PUB_KEY_ID_1"}
    verify(headers, b"{}", keys)
    verify(signed(b"{}"), b"{}", keys)
    with pytest.raises(BadSignature):
        verify(headers | {"Wechatpay-Serial": SERIAL}, b"{}", keys)


def test_a_serial_in_lower_case_or_with_leading_zeros_names_the_same_certificate():
    verify(signed(b"{}") | {"Wechatpay-Serial": "0a1b2c"}, b"{}", {"A1B2C": PLATFORM.public_key()})


def test_an_unknown_serial_is_refused_and_says_what_to_add():
    with pytest.raises(BadSignature, match="Wechatpay-Serial: no live platform key"):
        verify(signed(b"{}"), b"{}", {"FF": PLATFORM.public_key()})


@pytest.mark.parametrize("body", [b"", b"{} ", b"{}\n"])
def test_one_changed_byte_breaks_the_signature(body: bytes):
    with pytest.raises(BadSignature):
        verify(signed(b"{}"), body, KEYS)


@pytest.mark.parametrize("change", [{"Wechatpay-Timestamp": str(NOW + 1)}, {"Wechatpay-Nonce": "nonce-2"}])
def test_time_and_nonce_are_signed(change: dict[str, str]):
    with pytest.raises(BadSignature):
        verify(signed(b"{}") | change, b"{}", KEYS)


@pytest.mark.parametrize(
    "signature", ["WECHATPAY/SIGNTEST/xyz==", "WECHATPAY/SIGNTEST/" + "A" * 325, "%%%", "é", "QUJD"]
)
def test_a_probe_with_a_deliberately_bad_signature_is_refused_like_any_other(signature: str):
    with pytest.raises(BadSignature, match=r"^Wechatpay-Signature: the platform key did not make it"):
        verify(signed(b"{}") | {"Wechatpay-Signature": signature}, b"{}", KEYS)


@pytest.mark.parametrize("distance", [-300, 300, 86_400])
def test_an_authentic_notice_is_stale_in_either_direction(distance: int):
    with pytest.raises(Stale):
        verify(signed(b"{}", at=NOW + distance), b"{}", KEYS)


@pytest.mark.parametrize("distance", [-299, 299])
def test_less_than_five_minutes_is_inside_the_window(distance: int):
    verify(signed(b"{}", at=NOW + distance), b"{}", KEYS)


@pytest.mark.parametrize("name", ["Wechatpay-Timestamp", "Wechatpay-Nonce", "Wechatpay-Serial", "Wechatpay-Signature"])
def test_each_header_is_needed(name: str):
    headers = {key: value for key, value in signed(b"{}").items() if key != name}
    with pytest.raises(Malformed, match=f"^{name}: the header is absent"):
        verify(headers, b"{}", KEYS)


@pytest.mark.parametrize(
    "change", [{"Wechatpay-Timestamp": "soon"}, {"Wechatpay-Signature-Type": "WECHATPAY2-SM2-WITH-SM3"}]
)
def test_a_header_that_cannot_be_read_is_malformed(change: dict[str, str]):
    with pytest.raises(Malformed):
        verify(signed(b"{}") | change, b"{}", KEYS)


def test_a_refusal_shows_no_signature():
    headers = signed(b"{}", OTHER)
    with pytest.raises(Refused) as refusal:
        verify(headers, b"{}")
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


@pytest.mark.parametrize(
    "attach",
    [None, "", "gift card", "[1]", '{"shop": 7}', "\\u00", '{"order_id": 7}', '{"order_id": ""}', "[" * 100_000],
)
def test_without_an_order_in_attach_the_order_is_found_by_our_number(attach: str | None):
    one = found(PAID | {"attach": attach})
    assert (one.event.order_id, one.event.payment_no) == ("", "P1")
    assert [reference.key for reference in one.references] == [
        "payment//P1",
        "transaction/wechatpay:1900000001/4200001",
    ]


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
        ({}, "REFUND.SUCCESS", {}, "resource: Object missing required field"),
        ({}, "PAYSCORE.USER_OPEN_SERVICE", {}, "says nothing about a payment"),
        (PAID | {"mchid": "1900000002"}, "TRANSACTION.SUCCESS", {}, "about 1900000002, not 1900000001"),
        (PAID | {"out_trade_no": "", "transaction_id": None}, "TRANSACTION.SUCCESS", {}, "out_trade_no: it is empty"),
        (PAID | {"out_trade_no": "x" * 257}, "TRANSACTION.SUCCESS", {}, "resource: Expected `str`"),
        (PAID | {"trade_state": ""}, "TRANSACTION.SUCCESS", {}, "resource: Expected `str`"),
        (PAID | {"amount": {"total": -1}}, "TRANSACTION.SUCCESS", {}, "resource: Expected `int`"),
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


@pytest.mark.parametrize("body", [b"", b"\xff", b"[]", b'{"id": "n-1"}', b'{"id": "n-1", ', b"[" * 100_000])
def test_a_verified_body_that_is_no_notice_is_kept(body: bytes):
    [one] = events(body)
    assert isinstance(one.event, Unmapped)
    assert "not a notice" in one.event.reason


def test_any_live_api_key_opens_the_resource():
    old = b"own-retired-apiv3-key-32-bytes!!"
    [one] = events(notice(PAID, **sealed(json.dumps(PAID).encode(), old)), API_KEY, old)
    assert one.event.order_id == "O1"


@pytest.mark.parametrize("change", [{"associated_data": "other"}, {"nonce": "ba9876543210"}, {"ciphertext": "QUJD"}])
def test_a_resource_that_no_live_key_opens_is_refused_so_that_it_comes_again(change: dict[str, Any]):
    with pytest.raises(BadSignature, match="no live APIv3 key opens it"):
        mapped(PAID, **change)


def test_one_flipped_byte_of_the_sealed_content_is_refused():
    resource = sealed(json.dumps(PAID).encode())
    content = base64.b64decode(resource["ciphertext"])
    for place in range(len(content)):
        flipped = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
        with pytest.raises(BadSignature):
            mapped(PAID, ciphertext=base64.b64encode(flipped).decode())


def test_absent_associated_data_counts_as_empty():
    ciphertext = base64.b64encode(AESGCM(API_KEY).encrypt(b"0123456789ab", b"hello", b"")).decode()
    resource = wechatpay_events.Resource(ciphertext=ciphertext, nonce="0123456789ab")
    assert wechatpay_events.decrypt(resource, [API_KEY]) == b"hello"


# -- refunds

BACK = {
    "mchid": "1900000001",
    "out_trade_no": "P1",
    "transaction_id": "4200001",
    "out_refund_no": "R1",
    "refund_id": "5000001",
    "refund_status": "SUCCESS",
    "success_time": "2025-03-03T18:00:00+08:00",
    "user_received_account": "零钱",
    "amount": {"total": 1000, "refund": 300, "payer_total": 990, "payer_refund": 297},
}


def test_a_refund_notice_has_no_currency_and_is_in_yuan():
    one = found(BACK, "REFUND.SUCCESS")
    assert isinstance(one.event, RefundNotice)
    assert (one.event.payment_no, one.event.refund_no, one.event.refund_transaction) == ("P1", "R1", "5000001")
    assert (one.event.status, one.event.amount, one.event.currency) == ("SUCCESS", 300, "CNY")
    assert (one.event.order_id, one.event.event_time) == ("", "2025-03-03T10:00:00Z")
    assert [reference.kind for reference in one.references] == [
        "payment",
        "refund",
        "transaction",
        "refund_transaction",
    ]


@pytest.mark.parametrize(
    ("state", "kind", "status"),
    [
        ("CLOSED", "REFUND.CLOSED", "CLOSED"),
        ("PROCESSING", "REFUND.PROCESSING", "PROCESSING"),
        ("ABNORMAL", "REFUND.ABNORMAL", "PROCESSING"),
        ("LATER", "REFUND.LATER", "LATER"),
        ("CLOSED", "REFUND.SUCCESS", "CONTRADICTORY"),
        ("SUCCESS", "REFUND.CLOSED", "CONTRADICTORY"),
    ],
)
def test_each_refund_status_has_its_word_and_an_abnormal_one_has_not_failed(state: str, kind: str, status: str):
    assert mapped(BACK | {"refund_status": state}, kind).status == status


def test_a_refund_notice_of_another_merchant_is_kept_and_not_mapped():
    assert "about 1900000002" in mapped(BACK | {"mchid": "1900000002"}, "REFUND.SUCCESS").reason


# -- credentials


def pem_of(key: Any) -> str:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_bytes(serialization.Encoding.PEM, form).decode()


GOOD: dict[str, Any] = {
    "api_v3_keys": [API_KEY.decode()],
    "platform_public_keys": {SERIAL: pem_of(PLATFORM.public_key())},
}
SIDE = {"app_id": "wx1", "merchant_serial": "0A", "merchant_private_key": "x"}


def test_good_credentials_make_keys():
    keys = read_keys(wechatpay.ADAPTER, json.dumps(GOOD))
    wechatpay.verify(keys, received(signed(b"{}"), b"{}"))
    assert keys.api_keys == (API_KEY,)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"platform_public_keys": {}}, "platform_certificates, platform_public_keys: both are empty"),
        ({"platform_public_keys": {"A": "no-pem-at-all"}}, "platform_public_keys: it is not an RSA key"),
        ({"platform_certificates": ["no-pem-at-all"]}, "platform_certificates: it is not an RSA key"),
        ({"app_id": "wx1"}, "merchant_serial: it is empty; requests need"),
        (SIDE | {"merchant_serial": "no-hex"}, "merchant_serial: it is not hexadecimal"),
        (SIDE | {"merchant_private_key": "no-pem-at-all"}, "merchant_private_key: it is not an RSA key"),
        *(({"api_v3_keys": ["k" * size]}, "api_v3_keys: one is not 32 bytes long") for size in (0, 16, 24, 31, 33)),
    ],
)
def test_credentials_that_cannot_be_keys_are_refused_by_field(change: dict[str, Any], field: str):
    with pytest.raises(CredentialsError, match=field) as error:
        read_keys(wechatpay.ADAPTER, json.dumps(GOOD | change))
    assert "no-pem-at-all" not in str(error.value)


def test_a_short_key_is_taken_only_when_told_so_for_published_vectors():
    short = GOOD | {"api_v3_keys": ["k" * 16], "allow_short_keys": True}
    assert read_keys(wechatpay.ADAPTER, json.dumps(short)).api_keys == (b"k" * 16,)


# -- the simulated channel, the official library, and hostile input

SECRETS, CREDENTIALS = secrets(7)
THEIRS = read_keys(wechatpay.ADAPTER, json.dumps(CREDENTIALS))
AT = datetime.fromtimestamp(NOW, UTC)


def fact(about: Any = "payment", word: Any = "SUCCESS", **extra: Any) -> Fact:
    plain = {"event_id": "n-1", "order_id": "O1", "payment_no": "P1", "transaction": "p1", "amount": 1099}
    return Fact(about=about, word=word, **plain | {"currency": "CNY", "at": AT} | extra)


@pytest.mark.parametrize(
    ("about", "word", "kind", "status"),
    [
        ("payment", "SUCCESS", Callback, "SUCCESS"),
        ("payment", "FAILED", Callback, "FAILED"),
        ("payment", "CLOSED", Callback, "CLOSED"),
        ("payment", "PROCESSING", Callback, "PROCESSING"),
        ("payment", "NOT_FOUND", Callback, "PENDING"),
        ("refund", "SUCCESS", RefundNotice, "SUCCESS"),
        ("refund", "FAILED", RefundNotice, "CLOSED"),
        ("refund", "PROCESSING", RefundNotice, "PROCESSING"),
    ],
)
def test_what_the_simulator_tells_is_verified_and_understood(about: str, word: str, kind: type, status: str):
    delivery = DIALECT.notice(SECRETS, fact(about, word, operation_no="R1"), "1900000001", AT, CONTRACT)
    came = received(delivery.headers, delivery.body)
    wechatpay.ADAPTER.verify(THEIRS, came)
    [one] = wechatpay.ADAPTER.events(THEIRS, came, CONTRACT)
    assert isinstance(one.event, kind)
    assert (one.event.status, one.event.amount, one.event.currency) == (status, 1099, "CNY")


OFFICIAL = wechatpayv3.WeChatPay(
    wechatpay_type=wechatpayv3.WeChatPayType.NATIVE,
    mchid="1900000001",
    private_key=SECRETS.merchant,
    cert_serial_no="0A1B2C3D",
    appid="wx1",
    apiv3_key=SECRETS.api_key,
    public_key=CREDENTIALS["platform_public_keys"][THEIR_SERIAL],
    public_key_id=THEIR_SERIAL,
)


def test_the_official_library_opens_a_thousand_messages_and_reads_them_as_we_do():
    for number in range(1000):
        one = fact(
            amount=number + 1,
            event_id=f"n-{number}",
            order_id="é\u2028\U0001f600" * (number % 5),
            payment_no=f"P{number}",
        )
        delivery = DIALECT.notice(SECRETS, one, "1900000001", AT, CONTRACT)
        theirs = OFFICIAL.callback(delivery.headers, delivery.body)["resource"]
        came = received(delivery.headers, delivery.body)
        wechatpay.ADAPTER.verify(THEIRS, came)
        [ours] = wechatpay.ADAPTER.events(THEIRS, came, CONTRACT)
        assert (theirs["out_trade_no"], theirs["amount"]["total"]) == (ours.event.payment_no, ours.event.amount)
        assert json.loads(theirs["attach"])["order_id"] == ours.event.order_id


def test_unlike_the_official_library_we_take_an_absent_signature_type_for_the_default_as_the_vendors_go_library_does():
    delivery = DIALECT.notice(SECRETS, fact(), "1900000001", AT, CONTRACT)
    headers = {name: value for name, value in delivery.headers.items() if name != "Wechatpay-Signature-Type"}
    wechatpay.ADAPTER.verify(THEIRS, received(headers, delivery.body))
    with pytest.raises(Exception, match="does not support this algorithm"):
        OFFICIAL.callback(headers, delivery.body)


def test_unlike_the_official_library_we_refuse_an_old_notice_because_it_could_be_replayed_for_ever():
    delivery = DIALECT.notice(SECRETS, fact(), "1900000001", AT, CONTRACT)
    assert OFFICIAL.callback(delivery.headers, delivery.body)
    with pytest.raises(Stale):
        wechatpay.ADAPTER.verify(THEIRS, received(delivery.headers, delivery.body, NOW + 300))


GOOD_HEADERS: dict[bytes, dict[str, str]] = {
    body: signed(body) for body in (notice(PAID), notice(BACK, "REFUND.SUCCESS"), notice(b"\xff"), notice(PAID, "X.Y"))
}
ODD: list[Any] = [None, True, -1, 2**53, 2**70, 1.5, "", "\ud800", "\u0000", "x" * 300, [], {}, {"id": 7}]


@st.composite
def hostile(draw: st.DrawFn) -> tuple[bytes, dict[str, str]]:
    """Arbitrary bytes, or a good notice with some bytes, a field or a header replaced; signed or not."""
    body = draw(st.sampled_from(sorted(GOOD_HEADERS)))
    headers = dict(GOOD_HEADERS[body])
    how = draw(st.integers(0, 3))
    if how == 0:
        body = draw(st.binary(max_size=200))
    elif how == 1:
        place, size = draw(st.integers(0, len(body))), draw(st.integers(0, 8))
        body = body[:place] + draw(st.binary(max_size=8)) + body[place + size :]
    elif how == 2:
        plain = json.loads(body)
        at = draw(st.sampled_from([plain, plain["resource"]]))
        at[draw(st.sampled_from(sorted(at)))] = draw(st.sampled_from(ODD))
        body = json.dumps(plain).encode()
    else:
        name = draw(st.sampled_from(sorted(headers)))
        headers[name] = draw(st.text(st.characters(max_codepoint=255), max_size=60))
    return body, headers


@st.composite
def hostile_content(draw: st.DrawFn) -> bytes:
    """An authentic notice whose sealed content is not what it should be."""
    kind, plain = draw(st.sampled_from([("TRANSACTION.SUCCESS", PAID), ("REFUND.SUCCESS", BACK)]))
    changed = json.loads(json.dumps(plain))
    at = draw(st.sampled_from([changed, changed["amount"]]))
    at[draw(st.sampled_from([*sorted(at), "currency", "attach"]))] = draw(st.sampled_from(ODD))
    return notice(json.dumps(changed).encode() if draw(st.booleans()) else draw(st.binary(max_size=40)), kind)


def storable(found_: list[Mapped]) -> None:
    for one in found_:
        assert msgspec.json.decode(msgspec.json.encode(one.event), type=TOPICS["channel-callbacks"]) == one.event
        assert one.event.order_id or one.references or isinstance(one.event, Unmapped)


@settings(max_examples=1000, deadline=None, suppress_health_check=list(HealthCheck))
@given(hostile())
def test_whatever_comes_is_accepted_or_refused_by_name(came: tuple[bytes, dict[str, str]]):
    body, headers = came
    with contextlib.suppress(Refused):
        verify(headers, body)
    with contextlib.suppress(Refused):
        storable(events(body))


@settings(max_examples=1000, deadline=None, suppress_health_check=list(HealthCheck))
@given(hostile_content())
def test_whatever_was_sealed_is_mapped_or_kept_and_can_be_stored(body: bytes):
    storable(events(body))


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="no public samples beside this checkout")
def test_every_published_notice_verifies_and_one_flipped_byte_does_not():
    for vector in json.loads((SAMPLES / "signature_vectors.json").read_bytes()):
        if "headers" not in vector:
            continue
        body, headers = (SAMPLES / vector["body_file"]).read_bytes(), vector["headers"]
        platform = {headers["Wechatpay-Serial"]: wechatpay.key_of_pem((SAMPLES / vector["cert_file"]).read_bytes())}
        at = int(headers["Wechatpay-Timestamp"])
        verify(headers, body, platform, at)
        for place in range(len(body)):
            flipped = body[:place] + bytes([body[place] ^ 1]) + body[place + 1 :]
            with pytest.raises(BadSignature):
                verify(headers, flipped, platform, at)
        with pytest.raises(Stale):
            verify(headers, body, platform, at + 300)
