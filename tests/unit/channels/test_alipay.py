"""Alipay's notices, with keys and payloads of our own making."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
import pytest
from alipay import AliPay
from alipay.exceptions import AliPayException
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streams.channels import alipay, alipay_requests, forms
from streams.channels.adapter import PAYMENT, REFUND, TRANSACTION, Mapped, Received, Reference
from streams.channels.contracts import shipped
from streams.channels.verification import BadSignature, Malformed, Refused
from streams.domain.converge import converge
from streams.domain.decisions import ChannelRequest, Discrepancy
from streams.domain.events import (
    Answer,
    Callback,
    CreatePayment,
    RefundNotice,
    RefundPayment,
    StartPayment,
    Unmapped,
)
from streams.simulator import alipay as simulated
from streams.simulator import seeded_rsa
from streams.simulator.dialect import Delivery, Fact

NOW = datetime(2026, 3, 3, 10, 0, 5, tzinfo=UTC)
CONTRACT = shipped()["alipay"]
SECRETS, FILE = simulated.secrets(1)
KEYS = alipay.keys(msgspec.convert(FILE, alipay.Credentials))
TRADE = {
    "notify_type": "trade_status_sync",
    "notify_id": "N1",
    "notify_time": "2026-03-03 18:00:06",
    "app_id": simulated.APP,
    "seller_id": simulated.SELLER,
    "charset": "utf-8",
    "sign_type": "RSA2",
    "trade_no": "T1",
    "out_trade_no": "P1",
    "trade_status": "TRADE_SUCCESS",
    "total_amount": "10.00",
    "subject": "一双 鞋 + 1",
    "gmt_create": "2026-03-03 17:59:00",
    "gmt_payment": "2026-03-03 18:00:05",
    "passback_params": quote('{"order_id": "O1"}', safe=""),
}


def received(delivery: Delivery, account: str = "shop") -> Received:
    return Received(headers=delivery.headers, body=delivery.body, account=account, at=NOW)


def said(delivery: Delivery, keys: alipay.Keys = KEYS) -> list[Mapped]:
    alipay.verify(keys, received(delivery))
    return alipay.events(keys, received(delivery), CONTRACT)


def told(**fields: str) -> list[Any]:
    """The events of a trade's notice with these fields, empty ones left out, without how they travelled."""
    delivery = simulated.signed(SECRETS, TRADE | fields)
    return [msgspec.structs.replace(one.event, raw=None) for one in said(delivery)]


def fact(**facts: Any) -> Fact:
    plain = {
        "about": "payment",
        "word": "SUCCESS",
        "event_id": "N1",
        "order_id": "O1",
        "payment_no": "P1",
        "transaction": "T1",
    }
    return Fact(**plain | {"amount": 1000, "currency": "CNY", "at": NOW} | facts)


def test_a_paid_notice_says_all_that_a_success_needs():
    assert told() == [
        Callback(
            order_id="O1",
            payment_no="P1",
            channel="alipay:shop",
            status="SUCCESS",
            event_type="TRADE_SUCCESS",
            event_id="N1",
            transaction="T1",
            amount=1000,
            currency="CNY",
            event_time="2026-03-03T10:00:05Z",
            received_at=NOW,
        )
    ]


def test_the_order_is_also_found_by_our_number_and_then_by_the_channels():
    [one] = said(simulated.signed(SECRETS, TRADE | {"passback_params": ""}))
    assert isinstance(one.event, Callback)
    assert one.event.order_id == ""
    assert one.references == (Reference(PAYMENT, "P1"), Reference(TRANSACTION, "T1", "alipay:shop"))


@pytest.mark.parametrize(
    ("passback", "order"),
    [
        ('{"order_id": "O 1"}', "O 1"),
        (quote('{"order_id": "O/1"}'), "O/1"),
        ("", ""),
        ("a merchant's own text", ""),
        ('{"order_id": 7}', ""),
        ('{"other": "O1"}', ""),
        ("[" * 5000, ""),
    ],
)
def test_only_our_own_json_in_the_passback_names_an_order(passback: str, order: str):
    assert alipay.order_id(passback) == order


def test_both_rules_about_the_signature_type_are_accepted():
    for keep in (False, True):
        assert said(simulated.signed(SECRETS, TRADE, keep_sign_type=keep))


def test_a_gbk_notice_is_verified_over_its_own_bytes_and_its_charset_field_beats_the_header():
    delivery = simulated.signed(
        SECRETS, TRADE | {"charset": "GBK", "subject": "鞋", "passback_params": '{"order_id":"订单"}'}, charset="gbk"
    )
    wrong_header = Delivery(
        headers={"content-type": "application/x-www-form-urlencoded; charset=UTF-8"}, body=delivery.body
    )
    [one] = said(wrong_header)
    assert (one.event.order_id, one.event.amount) == ("订单", 1000)


@pytest.mark.parametrize("charset", ["latin-1", "utf-16", "UTF-8"])
def test_a_notice_that_is_not_text_in_its_charset_is_kept_and_moves_nothing(charset: str):
    fields = TRADE | {"charset": charset, "subject": "中国"}
    [one] = said(simulated.signed(SECRETS, fields, charset="gbk"))
    assert isinstance(one.event, Unmapped)
    assert one.event.reason.startswith("charset: ")


def test_empty_fields_may_be_signed_or_not():
    body = simulated.signed(SECRETS, TRADE).body + b"&body="
    alipay.verify(KEYS, Received({}, body, "shop", NOW))
    form = {name: value.encode() for name, value in TRADE.items()} | {"body": b""}
    *_, everything = forms.signed_texts(form, {"sign", "sign_type"})
    form["sign"] = simulated._signature(SECRETS, everything).encode()
    alipay.verify(KEYS, Received({}, urlencode(form).encode(), "shop", NOW))


def test_a_trade_that_nobody_paid_is_closed():
    [event] = told(trade_status="TRADE_CLOSED", gmt_payment="", gmt_close="2026-03-03 18:15:00", refund_fee="0.00")
    assert (event.status, event.event_time) == ("CLOSED", "2026-03-03T10:15:00Z")


@pytest.mark.parametrize(
    "fields",
    [
        {"gmt_payment": "2026-03-03 18:00:05"},
        {"gmt_payment": "", "refund_fee": "10.00"},
        {"gmt_payment": "", "gmt_refund": "2026-03-03 19:00:00.123"},
    ],
)
def test_a_trade_closed_after_it_went_back_in_full_was_a_success(fields: dict[str, str]):
    payment, *_ = told(trade_status="TRADE_CLOSED", gmt_close="2026-03-03 19:00:00", **fields)
    assert (payment.status, payment.amount, payment.event_type) == ("SUCCESS", 1000, "TRADE_CLOSED")


def test_a_refund_inside_a_success_asks_for_its_own_amount_as_only_the_total_is_stated():
    payment, refund = told(refund_fee="4.00", gmt_refund="2026-03-03 19:00:00.123", out_biz_no="R1")
    assert (payment.status, payment.event_id) == ("SUCCESS", "N1")
    assert isinstance(refund, RefundNotice)
    assert (refund.refund_no, refund.status, refund.amount, refund.cumulative_refunded) == ("R1", "SUCCESS", None, 400)
    assert (refund.event_id, refund.event_time) == ("N1/refund", "2026-03-03T11:00:00Z")


def test_a_refund_is_found_by_its_own_number_too():
    *_, refund = said(
        simulated.notice(SECRETS, fact(about="refund", operation_no="R1", amount=400), "shop", NOW, CONTRACT)
    )
    assert refund.references[-1] == Reference(REFUND, "R1")
    assert refund.event.cumulative_refunded == 400


@pytest.mark.parametrize("number", ["", "P1"])
def test_a_refund_without_a_number_of_its_own_is_a_total(number: str):
    _, total = told(refund_fee="4.00", gmt_refund="2026-03-03 19:00:00", out_biz_no=number)
    assert isinstance(total, Callback)
    assert (total.status, total.cumulative_refunded, total.amount) == ("REFUND_TOTAL", 400, None)


def test_a_finished_trade_is_a_success_that_takes_no_more_refunds():
    success, finished = told(trade_status="TRADE_FINISHED")
    assert (success.status, finished.status) == ("SUCCESS", "FINISHED")
    assert (success.event_id, finished.event_id) == ("N1", "N1/finished")


def test_a_repetition_says_the_same_though_it_is_sent_at_another_time():
    assert told() == told(notify_time="2026-03-03 18:10:06")


@pytest.mark.parametrize(("status", "word"), [("WAIT_BUYER_PAY", "PENDING"), ("TRADE_FROZEN", "TRADE_FROZEN")])
def test_a_trade_that_waits_or_is_not_understood_succeeds_and_fails_nothing(status: str, word: str):
    [event] = told(trade_status=status, gmt_payment="")
    assert event.status == word


@pytest.mark.parametrize("text", ["10.005", "1e3", "ten", "99999999999999999.00"])
def test_an_amount_that_yuan_cannot_express_stays_text(text: str):
    [event] = told(total_amount=text)
    assert (event.amount, event.amount_text, event.currency) == (None, text, "CNY")


def test_an_amount_in_another_currency_is_not_taken_for_yuan():
    [event] = told(trans_currency="JPY", total_amount="1000")
    assert (event.amount, event.currency) == (1000, "JPY")


def test_a_time_that_cannot_be_read_stays_as_it_is():
    [event] = told(gmt_payment="yesterday")
    assert event.event_time == "yesterday"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"app_id": "other"}, "app_id: "),
        ({"seller_id": "other"}, "seller_id: "),
        ({"notify_type": "servicemarket_order_notify"}, "notify_type: "),
        ({"trade_status": ""}, "trade_status: "),
        ({"trade_no": "T" * 257}, "Expected `str` of length <= 256"),
        ({"trade_status": "T" * 65}, "Expected `str` of length <= 64"),
        ({"subject": "x&total_amount=1.00&trade_no=y"}, "subject: "),
        ({"out_trade_no": "", "trade_no": "", "passback_params": ""}, "neither an order id"),
    ],
)
def test_a_notice_that_is_not_about_our_payment_is_kept_with_the_reason(fields: dict[str, str], reason: str):
    events = [one.event for one in said(simulated.signed(SECRETS, TRADE | fields))]
    assert all(isinstance(event, Unmapped) and event.event_id == "N1" and event.raw for event in events)
    assert events[0].reason.startswith(reason)


def test_a_buyers_text_cannot_be_cut_into_another_amount_under_the_same_signature():
    honest = TRADE | {"subject": "x&total_amount=9999.00&trade_no=y"}
    delivery = simulated.signed(SECRETS, honest)
    forged = {name: value for name, value in honest.items() if name not in {"subject", "total_amount", "trade_no"}}
    forged |= {"subject": "x", "total_amount": "9999.00", "trade_no": "y&total_amount=10.00&trade_no=T1"}
    forged["sign"] = forms.fields_of(delivery.body)["sign"].decode()
    [one] = said(Delivery(headers={}, body=urlencode(forged).encode()))
    assert isinstance(one.event, Unmapped)


def test_either_of_two_live_keys_is_accepted_and_a_retired_one_is_not():
    other, ours = simulated.secrets(2)
    both = alipay.keys(
        msgspec.convert(
            FILE | {"alipay_public_keys": FILE["alipay_public_keys"] + ours["alipay_public_keys"]}, alipay.Credentials
        )
    )
    for secrets in (SECRETS, other):
        alipay.verify(both, received(simulated.signed(secrets, TRADE)))
    with pytest.raises(BadSignature, match=r"^sign: no live public key made it"):
        alipay.verify(KEYS, received(simulated.signed(other, TRADE)))


@pytest.mark.parametrize(
    ("body", "kind", "match"),
    [
        (b"", Malformed, "^sign: "),
        (b"a", Malformed, "^body: "),
        (b"=a", Malformed, "^body: "),
        (b"{}", Malformed, "^body: "),
        (b"&".join(b"f%d=1" % n for n in range(300)), Malformed, "^body: "),
        (b"app_id=1&app_id=2", Malformed, "^app_id: "),
        (b"app_id=1&sign=", Malformed, "^sign: "),
        (b"app_id=1&sign=QUJD&sign_type=RSA", Malformed, "^sign_type: "),
        (b"app_id=1&sign=%ff", BadSignature, "^sign: "),
        (b"app_id=1&sign=QUJD", BadSignature, "^sign: "),
        (b"app_id=1&sign=QUJ=", BadSignature, "^sign: "),
    ],
)
def test_what_cannot_be_verified_is_refused_by_name(body: bytes, kind: type[Refused], match: str):
    with pytest.raises(kind, match=match):
        alipay.verify(KEYS, Received({}, body, "shop", NOW))


def test_a_refusal_shows_neither_key_nor_signature_nor_body():
    delivery = simulated.signed(simulated.secrets(2)[0], TRADE)
    with pytest.raises(BadSignature) as refusal:
        alipay.verify(KEYS, received(delivery))
    sign = forms.fields_of(delivery.body)["sign"].decode()
    assert not any(text in str(refusal.value) for text in (sign[:20], "T1", "10.00", "BEGIN"))


def test_any_changed_byte_of_what_is_signed_is_refused():
    form = forms.fields_of(simulated.signed(SECRETS, TRADE, keep_sign_type=True).body)
    for field, value in form.items():
        for place in range(0, len(value), 1 if len(value) < 20 else 17):
            changed = value[:place] + bytes([value[place] ^ 1]) + value[place + 1 :]
            with pytest.raises(Refused):
                alipay.verify(KEYS, Received({}, urlencode(form | {field: changed}).encode(), "shop", NOW))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"app_id": ""}, "^app_id: "),
        ({"alipay_public_keys": []}, "^alipay_public_keys: "),
        ({"alipay_public_keys": ["x"]}, r"^alipay_public_keys\[0\]: it is no public key"),
        ({"alipay_public_keys": ["-----BEGIN x"]}, r"^alipay_public_keys\[0\]: it is no public key"),
        ({"app_private_key": "QUJD"}, "^app_private_key: "),
    ],
)
def test_credentials_that_cannot_be_used_are_refused_by_field(change: dict[str, Any], match: str):
    with pytest.raises(ValueError, match=match):
        alipay.keys(msgspec.convert(FILE | change, alipay.Credentials))


def test_keys_are_taken_as_the_merchant_console_shows_them():
    bare = "".join(FILE["alipay_public_keys"][0].splitlines()[1:-1])
    keys = alipay.keys(msgspec.convert(FILE | {"alipay_public_keys": [bare]}, alipay.Credentials))
    alipay.verify(keys, received(simulated.signed(SECRETS, TRADE)))


# -- the library that merchants use, as an oracle

TEXTS = ("鞋", "a+b", "100%", "x=y", "a b", "é", '{"a":1}', "/\\", "~", "😀")


def made_up(chance: Random) -> dict[str, str]:
    names = chance.sample(["subject", "body", "buyer_id", "gmt_close", "voucher_detail_list", "point_amount"], 3)
    extra = {name: "".join(chance.choices(TEXTS, k=3)) for name in names}
    return TRADE | extra | {"trade_no": str(chance.getrandbits(64)), "total_amount": f"{chance.randrange(10**6)}.00"}


def library(seed: int = 1) -> AliPay:
    secrets, _ = simulated.secrets(seed)
    public = seeded_rsa.public_pem(seeded_rsa.loaded(secrets.alipay_private_key))
    return AliPay(
        appid=simulated.APP, app_private_key_string=secrets.alipay_private_key, alipay_public_key_string=public
    )


def test_the_library_accepts_what_we_accept_of_a_thousand_notices():
    oracle, chance = library(), Random(7)
    for _ in range(1000):
        fields = made_up(chance)
        form = forms.fields_of(simulated.signed(SECRETS, fields).body)
        alipay.verify(KEYS, Received({}, urlencode(form).encode(), "shop", NOW))
        assert oracle.verify(dict(fields), form["sign"].decode())


def test_we_accept_what_the_library_signs_of_a_thousand_notices():
    oracle, chance = library(), Random(8)
    for _ in range(1000):
        fields = made_up(chance)
        text = "&".join(f"{name}={value}" for name, value in sorted(fields.items()) if name != "sign_type")
        body = urlencode(fields | {"sign": oracle._sign(text)}).encode()
        alipay.verify(KEYS, Received({}, body, "shop", NOW))


def test_the_library_refuses_the_notices_that_keep_their_signature_type_and_we_do_not():
    """The library knows one of the two rules; the channel's own vectors need both."""
    delivery = simulated.signed(SECRETS, TRADE, keep_sign_type=True)
    form = {name: value.decode() for name, value in forms.fields_of(delivery.body).items()}
    assert not library().verify({name: text for name, text in form.items() if name != "sign"}, form["sign"])
    assert said(delivery)


def test_the_library_signs_empty_values_and_the_channel_does_not_so_we_take_either():
    """The channel's document leaves empty values out; the library does not."""
    fields = TRADE | {"body": ""}
    form = forms.fields_of(simulated.signed(SECRETS, fields).body)
    assert not library().verify(dict(fields), form["sign"].decode())
    alipay.verify(KEYS, Received({}, urlencode(form | {"body": b""}).encode(), "shop", NOW))


def test_another_signature_type_is_a_refusal_here_and_an_error_there():
    """SHA-1 signatures are not taken from anybody."""
    with pytest.raises(AliPayException):
        library().verify(TRADE | {"sign_type": "RSA"}, "QUJD")
    with pytest.raises(Malformed, match=r"^sign_type: "):
        alipay.verify(KEYS, received(simulated.signed(SECRETS, TRADE | {"sign_type": "RSA"})))


# -- hostile input

VALID = simulated.signed(SECRETS, TRADE | {"refund_fee": "1.00", "out_biz_no": "R1"}).body


def hostile(seed: int) -> bytes:
    """A valid notice with bytes changed, cut or doubled, or a form of valid fields with other values."""
    chance = Random(seed)
    if chance.random() < 0.3:
        fields = {name: chance.randbytes(chance.randrange(20)) for name in chance.sample(sorted(TRADE), 8)}
        return urlencode(fields).encode()
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
        alipay.verify(KEYS, notice)
    for one in alipay.events(KEYS, notice, CONTRACT):
        assert msgspec.json.decode(msgspec.json.encode(one.event), type=type(one.event)) == one.event


def test_the_dialect_says_what_the_simulator_decided():
    later = NOW + timedelta(minutes=5)
    for word, status in [("SUCCESS", "SUCCESS"), ("CLOSED", "CLOSED"), ("FAILED", "CLOSED"), ("PROCESSING", "PENDING")]:
        [one] = said(simulated.notice(SECRETS, fact(word=word), "shop", later, CONTRACT))
        assert (one.event.status, one.event.amount, one.event.order_id) == (status, 1000, "O1")
    assert json.loads(msgspec.json.encode(simulated.secrets(1)[1])) == FILE


# -- together with the law


def test_a_refund_told_only_by_its_total_is_asked_for_and_succeeds_by_its_own_amount():
    """R-002: a success has an amount of its own; the total of several refunds is none."""
    common = {"order_id": "O1", "payment_no": "P1"}
    create = CreatePayment(command_id="1", biz_code="b", channel="alipay:shop", amount=1000, currency="CNY", **common)
    order, contracts, at = None, {"alipay:shop": CONTRACT}, int(NOW.timestamp() * 1000)
    for event in (create, StartPayment(command_id="2", **common), *told()):
        order, _ = converge(order, event, at, contracts)
    refund = RefundPayment(command_id="3", refund_no="R2", amount=400, currency="CNY", **common)
    order, _ = converge(order, refund, at, contracts)
    notices = told(notify_id="N2", refund_fee="7.00", gmt_refund="2026-03-03 19:00:00", out_biz_no="R2")
    asked: list[ChannelRequest] = []
    for event in notices:
        order, messages = converge(order, event, at, contracts)
        asked += [one for one in messages if isinstance(one, ChannelRequest)]
    assert [(one.verb, one.operation_no) for one in asked] == [("QUERY", "R2")]
    found = {"code": "10000", "out_request_no": "R2", "refund_status": "REFUND_SUCCESS", "refund_amount": "4.00"}
    reply = simulated._reply(SECRETS, "alipay_trade_fastpay_refund_query_response", found)
    proof = alipay_requests.classify(asked[0], reply, KEYS, CONTRACT)
    answer = Answer(request="query", channel="alipay:shop", operation_no="R2", **common | msgspec.structs.asdict(proof))
    order, messages = converge(order, answer, at, contracts)
    assert order is not None
    assert [(one.number, one.state) for one in order.operations] == [("R2", "SUCCESS")]
    assert not any(isinstance(one, Discrepancy) for one in messages)
