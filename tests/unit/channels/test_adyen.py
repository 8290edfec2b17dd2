"""Adyen's webhooks in both forms, with keys and payloads of our own making."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import msgspec
import pytest
from Adyen.util import (
    generate_notification_sig,
    generate_payload_sig,
    is_valid_hmac_notification,
    is_valid_hmac_payload,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streams.channels import adyen
from streams.channels.adapter import (
    AUTHORIZATION,
    PAYMENT,
    REFUND,
    REFUND_TRANSACTION,
    TRANSACTION,
    Mapped,
    Received,
    Reference,
)
from streams.channels.contracts import shipped
from streams.channels.verification import BadSignature, Malformed, Refused
from streams.domain.events import Callback, CardPosting, Dispute, RefundNotice, Release, Unmapped
from streams.simulator import adyen as simulated
from streams.simulator.dialect import Delivery, Fact

NOW = datetime(2026, 3, 3, 10, 0, 5, tzinfo=UTC)
CONTRACT = shipped()["adyen"]
SECRETS, FILE = simulated.secrets(1)
KEYS = adyen.keys(msgspec.convert(FILE, adyen.Credentials))
MANUAL = KEYS._replace(manual_capture=True)
PAID = {
    "additionalData": {},
    "amount": {"currency": "EUR", "value": 1000},
    "eventCode": "AUTHORISATION",
    "eventDate": "2026-03-03T11:00:05+01:00",
    "merchantAccountCode": "Shop",
    "merchantReference": "P1",
    "paymentMethod": "visa",
    "pspReference": "A1",
    "success": "true",
}
OF_PAYMENT = (Reference(TRANSACTION, "A1", "adyen:Shop"), Reference(PAYMENT, "P1"))


def received(delivery: Delivery, account: str = "Shop") -> Received:
    return Received(headers=delivery.headers, body=delivery.body, account=account, at=NOW)


def mapped(delivery: Delivery, keys: adyen.Keys = KEYS) -> list[Mapped]:
    adyen.verify(keys, received(delivery))
    return adyen.events(keys, received(delivery), CONTRACT)


def item(code: str = "AUTHORISATION", **fields: Any) -> dict[str, Any]:
    """A notification; a modification has its own reference, and the payment's as the original one."""
    own = (
        {}
        if code in {"AUTHORISATION", "PENDING", "REPORT_AVAILABLE"}
        else {"pspReference": "M1", "originalReference": "A1"}
    )
    return PAID | own | {"eventCode": code} | fields


def told(code: str = "AUTHORISATION", keys: adyen.Keys = KEYS, **fields: Any) -> Mapped:
    [one] = mapped(simulated.batch(SECRETS, [item(code, **fields)]), keys)
    return one


def refuse(body: bytes, headers: dict[str, str] | None = None, keys: adyen.Keys = KEYS) -> Refused:
    with pytest.raises(Refused) as caught:
        adyen.verify(keys, Received(headers=headers or {}, body=body, account="Shop", at=NOW))
    return caught.value


# -- what is verified


def test_an_authorisation_says_all_that_a_success_needs():
    one = told()
    raw, sent = one.event.raw, simulated.batch(SECRETS, [item()])
    assert raw is not None
    assert base64.b64decode(raw.body) == sent.body
    assert msgspec.structs.replace(one.event, raw=None) == Callback(
        order_id="",
        payment_no="P1",
        channel="adyen:Shop",
        status="SUCCESS",
        event_type="AUTHORISATION",
        event_id="A1/AUTHORISATION/true",
        transaction="A1",
        amount=1000,
        currency="EUR",
        event_time="2026-03-03T10:00:05Z",
        livemode=True,
        received_at=NOW,
    )
    assert one.references == OF_PAYMENT[::-1]


@pytest.mark.parametrize("at", [0, 1, 2])
def test_one_tampered_item_refuses_the_whole_batch(at: int):
    """The official library looks at the first item only, and calls such a batch genuine."""
    items = [simulated.sealed(SECRETS, item(pspReference=f"A{n}")) for n in range(3)]
    items[at]["amount"] = {"currency": "EUR", "value": 999_999}
    body = json.dumps({"live": "true", "notificationItems": [{"NotificationRequestItem": one} for one in items]})
    assert is_valid_hmac_notification(json.loads(body), SECRETS.hmac_key) is (at != 0)
    assert refuse(body.encode()).field == f"notificationItems[{at}].additionalData.hmacSignature"


def test_every_item_of_a_batch_becomes_a_record_of_its_own():
    said = mapped(simulated.batch(SECRETS, [item(), item("CAPTURE"), item("REPORT_AVAILABLE")]))
    assert [one.event.event_id for one in said] == [
        "A1/AUTHORISATION/true",
        "M1/CAPTURE/true",
        "A1/REPORT_AVAILABLE/true",
    ]


@pytest.mark.parametrize("data", [None, {}, {"hmacSignature": ""}, {"hmacSignature": 7}, {"hmacSignature": None}])
def test_an_item_without_a_signature_is_refused(data: Any):
    """The official library answers None to an absent one, which is easily read as no objection."""
    body = json.dumps({"notificationItems": [{"NotificationRequestItem": PAID | {"additionalData": data}}]})
    assert isinstance(refuse(body.encode()), Malformed)


@pytest.mark.parametrize("reference", ["\\:/\\/slashes", "\\\\slashes", ":slashes", "a:b:c", "单号/1", "😀"])
def test_nothing_is_escaped_in_the_signed_text(reference: str):
    event = told(merchantReference=reference).event
    assert isinstance(event, Callback)
    assert event.payment_no == reference


@pytest.mark.parametrize(
    "moved",
    [
        {"pspReference": "A1:", "originalReference": "", "merchantAccountCode": "Shop"},
        {"pspReference": "A1", "originalReference": ":Shop", "merchantAccountCode": "Shop"},
    ],
)
def test_a_signed_text_that_could_be_cut_another_way_moves_nothing(moved: dict[str, str]):
    assert isinstance(told(**moved).event, Unmapped)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("pspReference", "A2"),
        ("originalReference", "A0"),
        ("merchantAccountCode", "Shop2"),
        ("merchantReference", "P2"),
        ("amount", {"currency": "EUR", "value": 1001}),
        ("amount", {"currency": "USD", "value": 1000}),
        ("eventCode", "REFUND"),
        ("success", "false"),
    ],
)
def test_each_of_the_eight_signed_fields_is_held(field: str, value: Any):
    sealed = simulated.sealed(SECRETS, item()) | {field: value}
    body = json.dumps({"notificationItems": [{"NotificationRequestItem": sealed}]}).encode()
    assert isinstance(refuse(body), BadSignature)


def test_any_live_key_will_do_during_a_rotation():
    other, file = simulated.secrets(2)
    both = adyen.keys(adyen.Credentials(hmac_keys=[*FILE["hmac_keys"], *file["hmac_keys"]]))
    adyen.verify(both, received(simulated.batch(other, [item()])))
    with pytest.raises(BadSignature):
        adyen.verify(KEYS, received(simulated.batch(other, [item()])))


def test_no_time_is_signed_so_an_old_notification_is_no_refusal():
    delivery = simulated.batch(SECRETS, [item()])
    adyen.verify(KEYS, Received(headers={}, body=delivery.body, account="Shop", at=NOW + timedelta(days=30)))


def test_a_refusal_shows_neither_key_nor_signature_nor_body():
    sealed = simulated.sealed(SECRETS, item()) | {"pspReference": "SECRETREFERENCE"}
    text = str(refuse(json.dumps({"notificationItems": [{"NotificationRequestItem": sealed}]}).encode()))
    assert sealed["additionalData"]["hmacSignature"] not in text
    assert SECRETS.hmac_key.upper() not in text.upper()
    assert "SECRETREFERENCE" not in text


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b'"x"', b'{"notificationItems":[]}', b'{"notificationItems":[{}]}', b"\xff"]
)
def test_what_is_no_notification_is_refused(body: bytes):
    assert isinstance(refuse(body), Malformed)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({}, "hmac_keys"),
        ({"hmac_keys": ["no hex"]}, r"hmac_keys\[0\]"),
        ({"hmac_keys": ["00" * 32, "00ff"]}, r"hmac_keys\[1\]"),
        ({"platform_hmac_keys": ["zz"]}, r"platform_hmac_keys\[0\]"),
        ({"hmac_keys": ["00" * 32], "api_key": "a\nb"}, "api_key"),
    ],
)
def test_credentials_that_cannot_be_used_name_their_field(fields: dict[str, Any], field: str):
    with pytest.raises(ValueError, match=field):
        adyen.keys(adyen.Credentials(**fields))


# -- what is mapped to what


@pytest.mark.parametrize(
    ("code", "fields", "keys", "status"),
    [
        ("AUTHORISATION", {"success": "false"}, KEYS, "FAILED"),
        ("AUTHORISATION", {}, MANUAL, "AUTHORIZED"),
        ("PENDING", {}, KEYS, "PENDING"),
        ("OFFER_CLOSED", {}, KEYS, "CLOSED"),
        ("CAPTURE", {}, KEYS, "SUCCESS"),
        ("CAPTURE", {"success": "false"}, KEYS, "FAILED"),
        ("CAPTURE", {"success": "false"}, MANUAL, "PENDING"),
        ("CAPTURE_FAILED", {}, KEYS, "FAILED"),
        ("CANCELLATION", {}, KEYS, "CLOSED"),
        ("CANCELLATION", {"success": "false"}, KEYS, "PENDING"),
        ("TECHNICAL_CANCEL", {}, KEYS, "CLOSED"),
        ("CANCEL_OR_REFUND", {"additionalData": {"modification.action": "cancel"}}, KEYS, "CLOSED"),
        ("AUTHORISATION_ADJUSTMENT", {}, MANUAL, "AUTHORIZED"),
    ],
)
def test_each_word_about_a_payment_is_mapped(code: str, fields: dict[str, Any], keys: adyen.Keys, status: str):
    one = told(code, keys, **fields)
    assert isinstance(one.event, Callback)
    assert (one.event.status, one.event.transaction, one.event.amount) == (status, "A1", 1000)
    assert set(one.references) == set(OF_PAYMENT) or one.references[0] == Reference(TRANSACTION, "M1", "adyen:Shop")


@pytest.mark.parametrize(
    ("code", "reference", "success", "number", "status"),
    [
        ("CAPTURE", "capture/C1", "true", "C1", "SUCCESS"),
        ("CAPTURE", "capture/C1", "false", "C1", "FAILED"),
        ("CAPTURE_FAILED", "capture/C1", "true", "C1", "FAILED"),
        ("CANCELLATION", "void/V1", "true", "V1", "SUCCESS"),
        ("CANCELLATION", "void/V1", "false", "V1", "FAILED"),
    ],
)
def test_an_operation_of_ours_is_known_by_its_reference(
    code: str, reference: str, success: str, number: str, status: str
):
    one = told(code, MANUAL, merchantReference=reference, success=success)
    assert isinstance(one.event, Callback)
    assert (one.event.payment_no, one.event.status, one.event.transaction) == (number, status, "M1")
    assert one.references == OF_PAYMENT[:1]


@pytest.mark.parametrize("code", ["CAPTURE", "CANCELLATION", "TECHNICAL_CANCEL"])
def test_a_failed_modification_by_somebody_else_cannot_end_a_hold(code: str):
    one = told(code, MANUAL, success="false")
    assert isinstance(one.event, Callback)
    assert one.event.status == "PENDING"


@pytest.mark.parametrize(
    ("code", "success", "status"),
    [
        ("REFUND", "true", "SUCCESS"),
        ("REFUND", "false", "FAILED"),
        ("REFUND_WITH_DATA", "true", "SUCCESS"),
        ("REFUND_FAILED", "true", "FAILED"),
        ("REFUNDED_REVERSED", "true", "REFUNDED_REVERSED"),
        ("POSTPONED_REFUND", "true", "PENDING"),
    ],
)
def test_each_word_about_a_refund_names_its_number_and_its_payment(code: str, success: str, status: str):
    one = told(code, merchantReference="R1", success=success)
    assert isinstance(one.event, RefundNotice)
    assert (one.event.refund_no, one.event.status) == ("R1", status)
    assert (one.event.refund_transaction, one.event.transaction, one.event.amount) == ("M1", "A1", 1000)
    assert one.references[:3] == (
        Reference(REFUND, "R1"),
        Reference(REFUND_TRANSACTION, "M1", "adyen:Shop"),
        Reference(TRANSACTION, "A1", "adyen:Shop"),
    )


def test_a_refund_under_the_payments_own_reference_was_not_asked_for_here():
    names = {"metadata.order_id": "O1", "metadata.payment_no": "P1"}
    event = told("REFUND", additionalData=names).event
    assert isinstance(event, RefundNotice)
    assert (event.order_id, event.payment_no, event.refund_no) == ("O1", "P1", None)
    other = told("CANCEL_OR_REFUND", additionalData={"modification.action": "refund"}).event
    assert isinstance(other, RefundNotice)
    assert other.refund_no is None


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("CHARGEBACK", "OPEN"),
        ("CHARGEBACK_REVERSED", "WON"),
        ("SECOND_CHARGEBACK", "LOST"),
        ("PREARBITRATION_WON", "WON"),
        ("PREARBITRATION_LOST", "LOST"),
    ],
)
def test_a_dispute_is_a_ledger_event_that_happened(code: str, status: str):
    one = told(code)
    assert isinstance(one.event, Dispute)
    assert (one.event.status, one.event.amount, one.event.transaction) == (status, 1000, "A1")
    assert isinstance(told(code, success="false").event, Unmapped)


def test_an_expired_authorisation_is_a_release_and_no_refund():
    """R-212."""
    one = told("EXPIRE")
    assert isinstance(one.event, Release)
    assert (one.event.status, one.event.transaction, one.references) == ("SUCCESS", "A1", OF_PAYMENT)


@pytest.mark.parametrize(
    "code",
    ["REPORT_AVAILABLE", "NOTIFICATION_OF_CHARGEBACK", "REQUEST_FOR_INFORMATION", "SOMETHING_NEW", "CANCEL_OR_REFUND"],
)
def test_what_moves_no_money_is_kept_with_its_reason(code: str):
    event = told(code).event
    assert isinstance(event, Unmapped)
    assert event.event_type == code
    assert event.reason


@pytest.mark.parametrize("success", ["True", "yes", ""])
def test_success_is_one_of_two_texts(success: str):
    assert isinstance(told(success=success).event, Unmapped)


def test_a_value_may_be_text_and_a_report_has_none():
    assert told(amount={"currency": "EUR", "value": "1000"}).event == msgspec.structs.replace(
        told().event, raw=told(amount={"currency": "EUR", "value": "1000"}).event.raw
    )
    assert isinstance(told("REPORT_AVAILABLE", amount={"currency": "EUR", "value": "0"}).event, Unmapped)


@pytest.mark.parametrize(
    ("currency", "value", "amount"),
    [("CLP", 1000, 10), ("CVE", 10, 1000), ("IDR", 10, 1000), ("ISK", 1000, 10), ("JPY", 10, 10), ("KWD", 1000, 1000)],
)
def test_the_channels_own_exponents_are_counted_once(currency: str, value: int, amount: int):
    event = told(amount={"currency": currency, "value": value}).event
    assert isinstance(event, Callback)
    assert (event.amount, event.amount_text) == (amount, None)


@pytest.mark.parametrize(
    ("currency", "value"), [("CLP", 1005), ("EUR", "10.00"), ("EUR", 10**17), ("XAU", 1), ("EUR", "9" * 200)]
)
def test_an_amount_that_the_currency_cannot_express_is_kept_as_text(currency: str, value: Any):
    event = told(amount={"currency": currency, "value": value}).event
    assert isinstance(event, Callback)
    assert (event.amount, event.amount_text) == (None, str(value))
    assert isinstance(told("CHARGEBACK", amount={"currency": currency, "value": value}).event, Unmapped)


def test_the_same_reference_succeeds_after_it_had_failed_under_another_id():
    """`success` is part of the id: one AUTHORISATION may be told twice with two results (R-072)."""
    assert told(success="false").event.event_id != told().event.event_id


def test_another_accounts_notification_is_kept_and_moves_nothing():
    assert isinstance(told(merchantAccountCode="Other").event, Unmapped)
    named = adyen.keys(msgspec.convert({**FILE, "merchant_account": "Other"}, adyen.Credentials))
    assert isinstance(told(keys=named, merchantAccountCode="Other").event, Callback)


def test_a_test_notification_says_so():
    [one] = mapped(simulated.batch(SECRETS, [item()], live="false"))
    assert isinstance(one.event, Callback)
    assert one.event.livemode is False


# -- platform webhooks


def fact(about: Any = "payment", **facts: Any) -> Fact:
    plain = {"word": "SUCCESS", "event_id": "N1", "order_id": "O1", "payment_no": "P1", "transaction": "A1"}
    return Fact(about=about, **plain | {"amount": 1000, "currency": "EUR", "at": NOW} | facts)


def transfer(**data: Any) -> dict[str, Any]:
    whole = simulated._transfer(fact("card"), NOW, CONTRACT)
    return whole | {"data": whole["data"] | data}


def posted(**data: Any) -> Mapped:
    [one] = mapped(simulated.platform(SECRETS, transfer(**data)))
    return one


def test_a_captured_transfer_is_a_purchase_on_the_card():
    one = posted()
    assert isinstance(one.event, CardPosting)
    assert (one.event.status, one.event.amount, one.event.currency) == ("PURCHASE", 1000, "EUR")
    assert (one.event.order_id, one.event.payment_no, one.event.authorization) == ("O1", "P1", "A1")
    assert (one.event.event_id, one.references) == ("A1/1", (Reference(AUTHORIZATION, "A1", "adyen:Shop"),))


def test_a_refunded_transfer_is_a_refund_on_the_card_whatever_its_sign():
    event = posted(status="refunded", direction="incoming", amount={"currency": "EUR", "value": -300}).event
    assert isinstance(event, CardPosting)
    assert (event.status, event.amount) == ("REFUND", 300)


@pytest.mark.parametrize(
    "status", ["received", "authorised", "refused", "error", "expired", "cancelled", "refundPending"]
)
def test_a_hold_or_a_decline_posts_nothing_on_the_card(status: str):
    assert isinstance(posted(status=status).event, Unmapped)


def test_what_is_booked_after_its_capture_is_posted_once():
    assert isinstance(posted(status="booked", events=[{"status": "captured"}]).event, Unmapped)
    assert isinstance(posted(status="booked", events=[{"status": "authorised"}]).event, CardPosting)


@pytest.mark.parametrize(
    "changed",
    [
        {"type": "balancePlatform.accountHolder.created"},
        {"environment": "test"},
        {"data": {}},
        {"data": 7},
        {"type": None},
    ],
)
def test_another_platform_webhook_is_kept_and_moves_nothing(changed: dict[str, Any]):
    [one] = mapped(simulated.platform(SECRETS, transfer() | changed))
    assert isinstance(one.event, Unmapped)


def test_one_flipped_bit_anywhere_of_a_platform_webhook_is_refused():
    delivery = simulated.platform(SECRETS, transfer())
    for place in range(len(delivery.body)):
        body = bytearray(delivery.body)
        body[place] ^= 1
        assert isinstance(refuse(bytes(body), delivery.headers), Refused)
    with pytest.raises(Malformed):
        adyen.verify(KEYS, Received(headers={}, body=delivery.body, account="Shop", at=NOW))


def test_a_platform_webhook_needs_a_platform_key():
    only = adyen.keys(adyen.Credentials(hmac_keys=FILE["hmac_keys"]))
    delivery = simulated.platform(SECRETS, transfer())
    assert isinstance(refuse(delivery.body, delivery.headers, only), BadSignature)


# -- the official library


def random_item(chance: Random) -> dict[str, Any]:
    letters = "aZ09:/\\-_ é单😀"
    text = "".join(chance.choice(letters) for _ in range(chance.randrange(12)))
    fields = {
        "pspReference": f"{chance.getrandbits(64):016X}",
        "merchantReference": text,
        "amount": {"currency": chance.choice(["EUR", "JPY", "KWD"]), "value": chance.choice([0, 1, 10**9, "25"])},
        "eventCode": chance.choice(["AUTHORISATION", "CAPTURE", "REFUND"]),
        "success": chance.choice(["true", "false"]),
    }
    return item(**fields, **({"originalReference": "A0"} if chance.random() < 0.5 else {}))


def test_the_official_library_and_we_agree_on_a_thousand_notifications_both_ways():
    chance = Random(7)
    for _ in range(1000):
        said = random_item(chance)
        ours = simulated.batch(SECRETS, [said])
        assert is_valid_hmac_notification(json.loads(ours.body), SECRETS.hmac_key) is True
        plain = {name: value for name, value in said.items() if name != "additionalData"}
        theirs = generate_notification_sig(plain, SECRETS.hmac_key).decode()
        sealed = said | {"additionalData": {"hmacSignature": theirs}}
        body = json.dumps({"live": "true", "notificationItems": [{"NotificationRequestItem": sealed}]}).encode()
        adyen.verify(KEYS, Received(headers={}, body=body, account="Shop", at=NOW))


def test_the_official_library_and_we_agree_on_a_thousand_payloads_both_ways():
    chance = Random(8)
    for _ in range(1000):
        ours = simulated.platform(SECRETS, transfer(reference=chance.randbytes(9).hex()))
        signature = ours.headers["HmacSignature"]
        assert is_valid_hmac_payload(signature, SECRETS.platform_hmac_key, ours.body)
        theirs = generate_payload_sig(ours.body, SECRETS.platform_hmac_key).decode()
        adyen.verify(KEYS, Received(headers={"hmacsignature": theirs}, body=ours.body, account="Shop", at=NOW))


def test_an_absent_field_and_a_null_one_are_both_signed_as_nothing():
    """The official Python library signs a null as `None`, the Java one as nothing; the channel's own is Java."""
    assert isinstance(told(originalReference=None).event, Callback)
    plain = {name: value for name, value in item(originalReference=None).items() if name != "additionalData"}
    assert (
        b"None"
        not in simulated.sealed(SECRETS, item(originalReference=None))["additionalData"]["hmacSignature"].encode()
    )
    assert generate_notification_sig(plain, SECRETS.hmac_key) != generate_notification_sig(
        {name: value for name, value in plain.items() if value is not None}, SECRETS.hmac_key
    )


# -- hostile input

BODIES = [simulated.batch(SECRETS, [item(), item("REFUND")]), simulated.platform(SECRETS, transfer())]


@settings(max_examples=2000, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_hostile_input_is_mapped_or_refused_and_nothing_else(data: st.DataObject):
    sent = data.draw(st.sampled_from(BODIES))
    body = bytearray(sent.body)
    for _ in range(data.draw(st.integers(0, 3))):
        place = data.draw(st.integers(0, max(len(body) - 1, 0)))
        body[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
    raw = data.draw(st.one_of(st.just(bytes(body)), st.binary(max_size=64)))
    headers = data.draw(
        st.one_of(st.just(sent.headers), st.dictionaries(st.sampled_from(["HmacSignature", "x"]), st.text()))
    )
    given, named = Received(headers=headers, body=raw, account="Shop", at=NOW), None
    try:
        adyen.verify(KEYS, given)
    except Refused as refused:
        named = refused
    assert named is None or (named.field and named.fix)
    for one in adyen.events(KEYS, given, CONTRACT):
        assert isinstance(one.event, Unmapped) or one.event.order_id or one.references


@settings(max_examples=500, deadline=None)
@given(
    st.dictionaries(st.sampled_from(sorted(PAID)), st.one_of(st.text(), st.integers(), st.none(), st.just("9" * 5000)))
)
def test_any_signed_content_is_mapped_or_kept(fields: dict[str, Any]):
    try:
        sent = simulated.batch(SECRETS, [item(**fields)])
    except (msgspec.ValidationError, OverflowError, UnicodeEncodeError, TypeError):
        return
    for one in mapped(sent):
        assert isinstance(one.event, Unmapped) or one.event.order_id or one.references
