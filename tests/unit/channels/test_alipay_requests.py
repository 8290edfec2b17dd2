"""Requests to Alipay and what its replies prove, with keys of our own making and the simulator's own gateway."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from random import Random
from typing import Any

import msgspec
import pytest
from alipay import AliPay
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streams.channels import alipay, alipay_requests, forms
from streams.channels.contracts import shipped
from streams.channels.requests import Call, Reply, Said
from streams.domain.decisions import ChannelRequest
from streams.simulator import alipay as simulated
from streams.simulator import seeded_rsa
from streams.simulator.dialect import Asked, Fact

NOW = datetime(2026, 3, 3, 10, 0, 5, tzinfo=UTC)
CONTRACT = shipped()["alipay"]
SECRETS, FILE = simulated.secrets(1)
KEYS = alipay.keys(msgspec.convert(FILE, alipay.Credentials))
TRADE = Fact(
    about="payment",
    word="SUCCESS",
    event_id="N1",
    order_id="O1",
    payment_no="P1",
    transaction="T1",
    amount=1005,
    currency="CNY",
    at=NOW,
)


def request(verb: str, **facts: Any) -> ChannelRequest:
    plain: dict[str, Any] = {
        "id": "q",
        "verb": verb,
        "order_id": "O1",
        "payment_no": "P1",
        "merchant": None,
        "channel": "alipay:shop",
        "amount": 1005,
        "currency": "CNY",
        "idempotency_key": "k",
        "transaction": None,
        "why": "start",
        "decision": "d",
        "decided_at": NOW,
    }
    return ChannelRequest(**plain | facts)


def call(asked: ChannelRequest, keys: alipay.Keys = KEYS) -> Call:
    return alipay_requests.build(asked, keys, "shop", "https://gateway.example/", NOW, CONTRACT)


def fields(asked: ChannelRequest) -> dict[str, str]:
    return {name: value.decode() for name, value in forms.fields_of(call(asked).body).items()}


def biz(asked: ChannelRequest) -> dict[str, str]:
    content: dict[str, str] = json.loads(fields(asked)["biz_content"])
    return content


def reply(said: dict[str, Any], name: str = "alipay_trade_query_response") -> Reply:
    return simulated._reply(SECRETS, name, said)


def proved(asked: ChannelRequest, **said: Any) -> Said:
    return alipay_requests.classify(asked, reply({"code": "10000"} | said), KEYS, CONTRACT)


def read(asked: ChannelRequest) -> Asked:
    called = call(asked)
    found = simulated.read(SECRETS, msgspec.structs.replace(called, url="/gateway.do?charset=utf-8"))
    assert found is not None
    return found


SUBMIT, QUERY, CLOSE = request("SUBMIT"), request("QUERY"), request("CLOSE")
REFUND = request("REFUND", operation_no="R1")
REFUND_QUERY = request("QUERY", operation_no="R1", operation="REFUND")


# -- what is asked


def test_a_payment_is_started_as_a_code_to_scan_under_our_own_number():
    sent = fields(request("SUBMIT", details={"subject": "a&b=c", "timeout_express": "15m", "unread": "x"}))
    content = json.loads(sent["biz_content"])
    assert sent["method"] == "alipay.trade.precreate"
    assert sent["timestamp"] == "2026-03-03 18:00:05"
    assert content["out_trade_no"] == "P1"
    assert content["total_amount"] == "10.05"
    assert content["subject"] == "a b=c"
    assert content["timeout_express"] == "15m"
    assert "unread" not in content
    assert alipay.order_id(content["passback_params"]) == "O1"


def test_a_code_that_the_buyer_shows_makes_it_a_direct_charge():
    content = biz(request("SUBMIT", details={"auth_code": "28763443825664394"}))
    assert fields(request("SUBMIT", details={"auth_code": "1"}))["method"] == "alipay.trade.pay"
    assert (content["auth_code"], content["scene"]) == ("28763443825664394", "bar_code")


def test_a_refund_has_a_number_of_its_own_and_is_asked_for_by_it():
    assert biz(REFUND) == {"out_trade_no": "P1", "out_request_no": "R1", "refund_amount": "10.05"}
    assert biz(REFUND_QUERY) == {"out_trade_no": "P1", "out_request_no": "R1"}
    assert fields(REFUND_QUERY)["method"] == "alipay.trade.fastpay.refund.query"
    assert biz(QUERY) == biz(CLOSE) == {"out_trade_no": "P1"}


def test_notices_go_where_the_credentials_say():
    keys = alipay.keys(msgspec.convert(FILE | {"notify_url": "https://shop.example/cb"}, alipay.Credentials))
    assert forms.fields_of(call(SUBMIT, keys).body)["notify_url"] == b"https://shop.example/cb"
    assert "notify_url" not in forms.fields_of(call(QUERY, keys).body)


@pytest.mark.parametrize(
    ("asked", "match"),
    [
        (request("CAPTURE", operation_no="C1"), "^verb: "),
        (request("VOID", operation_no="V1"), "^verb: "),
        (request("SUBMIT", currency="USD"), "^currency: "),
        (request("REFUND"), "^operation_no: "),
    ],
)
def test_what_alipay_does_not_have_is_refused_before_anything_is_sent(asked: ChannelRequest, match: str):
    with pytest.raises(ValueError, match=match):
        call(asked)


def test_a_request_cannot_be_made_without_the_applications_key():
    keys = alipay.keys(msgspec.convert(FILE | {"app_private_key": ""}, alipay.Credentials))
    with pytest.raises(ValueError, match=r"^app_private_key: "):
        call(QUERY, keys)


def test_the_library_accepts_our_signature_on_a_thousand_requests():
    own = seeded_rsa.public_pem(seeded_rsa.loaded(FILE["app_private_key"]))
    oracle = AliPay(appid="a", app_private_key_string=FILE["app_private_key"], alipay_public_key_string=own)
    chance = Random(7)
    for number in range(1000):
        subject = "".join(chance.choices(["鞋", "+", "%", "=", "é", '"', "\\"], k=4))
        asked = request(
            "SUBMIT", payment_no=f"P{number}", amount=chance.randrange(1, 10**9), details={"subject": subject}
        )
        sent = fields(asked)
        text = "&".join(f"{name}={value}" for name, value in sorted(sent.items()) if name != "sign")
        assert oracle._verify(text, sent["sign"])


def test_the_gateway_understands_what_we_ask_and_refuses_a_changed_request():
    assert read(SUBMIT) == Asked(verb="submit", order_id="O1", payment_no="P1", amount=1005, currency="CNY", key="P1")
    refund = read(REFUND)
    assert (refund.verb, refund.operation_no, refund.amount, refund.about, refund.key) == (
        "refund",
        "R1",
        1005,
        "refund",
        "R1",
    )
    assert (read(REFUND_QUERY).about, read(QUERY).about, read(CLOSE).verb) == ("refund", "payment", "close")
    sent = call(SUBMIT)
    forged = msgspec.structs.replace(sent, url="/gateway.do", body=sent.body.replace(b"10.05", b"10.06"))
    found = simulated.read(SECRETS, forged)
    assert found is not None
    assert not found.signed
    refused = simulated.answer(SECRETS, found, "SUCCESS", TRADE, duplicate=False, now=NOW, contract=CONTRACT)
    assert alipay_requests.classify(SUBMIT, refused, KEYS, CONTRACT).status == "PROCESSING"


@pytest.mark.parametrize(
    "sent",
    [
        Call(method="GET", url="/gateway.do"),
        Call(method="POST", url="/other"),
        Call(method="POST", url="/gateway.do", body=b"method=alipay.trade.query&biz_content={"),
        Call(method="POST", url="/gateway.do", body=b'method=x&biz_content={"out_trade_no":"P"}'),
    ],
)
def test_the_gateway_has_no_other_address_or_method(sent: Call):
    assert simulated.read(SECRETS, sent) is None


# -- what a reply proves


@pytest.mark.parametrize("nothing", ["not_sent", "timeout", "reset", "too_large"])
def test_no_reply_is_no_proof(nothing: Any):
    assert alipay_requests.classify(SUBMIT, nothing, KEYS, CONTRACT) == Said(status="TIMEOUT", error_class=nothing)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, b""),
        (502, b"<html>"),
        (200, b""),
        (200, b"<html>"),
        (200, b"[]"),
        (200, b"{}"),
        (200, b'{"a_response":{},"b_response":{}}'),
        (200, b'{"a_response":{"code":7},"sign":"x"}'),
        (200, b'{"a_response":{"code":"10000"},"sign":7}'),
        (200, b'{"a_response":{"code":"10000","trade_status":"TRADE_SUCCESS"},"sign":"QUJD"}'),
        (200, b'{"a_response":{"code":"10000","trade_status":"TRADE_SUCCESS"},"sign":"%"}'),
        (200, b'{"a_response":{"code":"10000","trade_status":"TRADE_SUCCESS"}}'),
        (200, b'{"error_response":{"code":"40002","sub_code":"isv.invalid-signature"}}'),
        (200, b'{"a_response":{"code":"40002"},"sign":null}'),
        (200, b"[" * 100_000),
    ],
)
def test_what_is_not_alipays_signed_word_is_no_proof(status: int, body: bytes):
    said = alipay_requests.classify(SUBMIT, Reply(status=status, body=body), KEYS, CONTRACT)
    assert said.status == "PROCESSING"
    assert said.error_class not in CONTRACT.failures.not_accepted


def test_the_signature_covers_the_raw_text_of_the_response_with_its_escapes_and_order():
    text = (
        '{ "trade_status":"TRADE_SUCCESS", "code":"10000","x":"\\u978b \\/", "total_amount":"10.05","trade_no":"T1" }'
    )
    sign = simulated._signature(SECRETS, text.encode())
    body = f'{{"sign":"{sign}", "alipay_trade_query_response":{text} }}'.encode()
    said = alipay_requests.classify(QUERY, Reply(status=200, body=body), KEYS, CONTRACT)
    assert said == Said(status="SUCCESS", transaction="T1", amount=1005, currency="CNY")
    changed = body.replace(b"\\/", b"/")
    assert (
        alipay_requests.classify(QUERY, Reply(status=200, body=changed), KEYS, CONTRACT).error_class == "bad-signature"
    )


def test_the_library_finds_the_same_raw_text_in_a_thousand_replies():
    public = FILE["alipay_public_keys"][0]
    oracle = AliPay(appid="a", app_private_key_string=FILE["app_private_key"], alipay_public_key_string=public)
    chance = Random(9)
    for number in range(1000):
        said = {
            "code": "10000",
            "trade_no": str(number),
            "x": "".join(chance.choices(["{", "}", '"', "/", "鞋", "\\"], k=5)),
        }
        answered = reply(said)
        opened = alipay_requests.response_of(answered.body)
        assert opened is not None
        assert oracle._verify(opened[0].decode(), opened[1])
        assert json.loads(opened[0]) == said


@pytest.mark.parametrize(
    ("said", "proof"),
    [
        ({"qr_code": "https://qr.example/1"}, Said(status="ACCEPTED", payer_action="https://qr.example/1")),
        ({}, Said(status="PROCESSING")),
        ({"trade_no": "T1", "total_amount": "10.05"}, Said(status="PROCESSING", transaction="T1")),
        (
            {"trade_no": "T1", "total_amount": "10.05", "gmt_payment": "2026-03-03 18:00:05"},
            Said(status="SUCCESS", transaction="T1", amount=1005, currency="CNY"),
        ),
    ],
)
def test_a_code_of_10000_is_a_success_only_with_a_payment_in_it(said: dict[str, str], proof: Said):
    assert proved(SUBMIT, out_trade_no="P1", **said) == proof


@pytest.mark.parametrize(
    ("code", "sub_code", "status"),
    [
        ("10003", "", "PENDING"),
        ("20000", "isp.unknow-error", "PROCESSING"),
        ("20000", "ACQ.INVALID_PARAMETER", "PROCESSING"),
        ("40004", "ACQ.SYSTEM_ERROR", "PROCESSING"),
        ("40004", "AQC.SYSTEM_ERROR", "PROCESSING"),
        ("40004", "ACQ.NOBODY_KNOWS", "PROCESSING"),
        ("40004", "ACQ.TRADE_NOT_EXIST", "PROCESSING"),
        ("40004", "ACQ.TRADE_HAS_SUCCESS", "ALREADY_PAID"),
        ("40004", "ACQ.INVALID_PARAMETER", "ACQ.INVALID_PARAMETER"),
        ("40004", "ACQ.PAYMENT_AUTH_CODE_INVALID", "ACQ.PAYMENT_AUTH_CODE_INVALID"),
        ("40005", "", "40005"),
        ("40006", "isv.insufficient-permissions", "40006"),
        ("", "", "PROCESSING"),
    ],
)
def test_only_the_contracts_own_codes_refuse_a_submit(code: str, sub_code: str, status: str):
    said = proved(SUBMIT, code=code, sub_code=sub_code)
    assert said.status == status
    refused = {said.status, said.error_class} & set(CONTRACT.failures.not_accepted)
    assert bool(refused) == (status in CONTRACT.failures.not_accepted)


@pytest.mark.parametrize(
    ("said", "status", "amount"),
    [
        ({"trade_status": "TRADE_SUCCESS"}, "SUCCESS", 1005),
        ({"trade_status": "TRADE_FINISHED"}, "SUCCESS", 1005),
        ({"trade_status": "WAIT_BUYER_PAY"}, "PENDING", None),
        ({"trade_status": "TRADE_CLOSED"}, "CLOSED", None),
        ({"trade_status": "TRADE_CLOSED", "receipt_amount": "0.00"}, "CLOSED", None),
        ({"trade_status": "TRADE_CLOSED", "send_pay_date": "2026-03-03 18:00:05"}, "SUCCESS", 1005),
        ({"trade_status": "TRADE_CLOSED", "buyer_pay_amount": "10.05"}, "SUCCESS", 1005),
        ({"trade_status": "TRADE_FROZEN"}, "PROCESSING", None),
        ({}, "PROCESSING", None),
        ({"code": "40004", "sub_code": "ACQ.TRADE_NOT_EXIST"}, "NOT_FOUND", None),
        ({"code": "40004", "sub_code": "ACQ.INVALID_PARAMETER"}, "PROCESSING", None),
        ({"code": "40001"}, "PROCESSING", None),
    ],
)
def test_a_query_tells_the_two_kinds_of_closed_apart(said: dict[str, str], status: str, amount: int | None):
    proof = proved(QUERY, **({"out_trade_no": "P1", "trade_no": "T1", "total_amount": "10.05"} | said))
    assert (proof.status, proof.amount) == (status, amount)


def test_an_answer_about_another_operation_proves_nothing():
    paid = {"trade_status": "TRADE_SUCCESS", "trade_no": "T1", "total_amount": "10.05"}
    assert proved(QUERY, out_trade_no="P2", **paid).status == "PROCESSING"
    found = {"refund_status": "REFUND_SUCCESS", "refund_amount": "10.05"}
    assert proved(REFUND_QUERY, out_request_no="R2", **found).status == "PROCESSING"


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ({}, "CLOSED"),
        ({"code": "40004", "sub_code": "ACQ.TRADE_NOT_EXIST"}, "NOT_FOUND"),
        ({"code": "40004", "sub_code": "ACQ.TRADE_STATUS_ERROR"}, "ALREADY_PAID"),
        ({"code": "40004", "sub_code": "ACQ.TRADE_HAS_CLOSE"}, "ALREADY_PAID"),
        ({"code": "40004", "sub_code": "ACQ.SYSTEM_ERROR"}, "PROCESSING"),
    ],
)
def test_a_close_that_is_refused_is_asked_about(said: dict[str, str], status: str):
    assert proved(CLOSE, **said).status == status


@pytest.mark.parametrize(
    ("said", "status", "amount"),
    [
        ({"fund_change": "Y", "refund_fee": "10.05"}, "SUCCESS", 1005),
        ({"fund_change": "Y", "refund_fee": "15.00"}, "SUCCESS", None),
        ({"fund_change": "N", "refund_fee": "10.05"}, "PROCESSING", None),
        ({"refund_fee": "10.05"}, "PROCESSING", None),
        ({"code": "40004", "sub_code": "ACQ.SELLER_BALANCE_NOT_ENOUGH"}, "FAILED", None),
        ({"code": "40004", "sub_code": "ACQ.TRADE_HAS_CLOSE"}, "PROCESSING", None),
        ({"code": "40004", "sub_code": "ACQ.TOTAL_FEE_EXCEED"}, "PROCESSING", None),
        ({"code": "40004", "sub_code": "ACQ.DISCORDANT_REPEAT_REQUEST"}, "PROCESSING", None),
        ({"code": "40005"}, "PROCESSING", None),
    ],
)
def test_a_refund_fails_only_by_what_its_own_earlier_sending_cannot_cause(
    said: dict[str, str], status: str, amount: int | None
):
    proof = proved(REFUND, out_trade_no="P1", trade_no="T1", **said)
    assert (proof.status, proof.amount) == (status, amount)
    assert proof.transaction == ("R1" if status == "SUCCESS" else None)


@pytest.mark.parametrize(
    ("said", "status", "amount"),
    [
        ({"refund_status": "REFUND_SUCCESS", "refund_amount": "4.00", "total_amount": "10.05"}, "SUCCESS", 400),
        ({"refund_amount": "4.00"}, "PROCESSING", None),
        ({}, "PROCESSING", None),
        ({"code": "40004", "sub_code": "ACQ.TRADE_NOT_EXIST"}, "NOT_FOUND", None),
    ],
)
def test_a_refund_succeeds_by_its_own_status_and_amount(said: dict[str, str], status: str, amount: int | None):
    proof = proved(REFUND_QUERY, **({"out_trade_no": "P1", "out_request_no": "R1"} | said))
    assert (proof.status, proof.amount) == (status, amount)


@pytest.mark.parametrize(
    ("asked", "word", "fact", "status"),
    [
        (SUBMIT, "PROCESSING", None, "ACCEPTED"),
        (SUBMIT, "SUCCESS", TRADE, "ACCEPTED"),
        (SUBMIT, "REFUSED", None, "ACQ.ACCESS_FORBIDDEN"),
        (SUBMIT, "CLOSED", TRADE, "ACCEPTED"),
        (QUERY, "SUCCESS", TRADE, "SUCCESS"),
        (QUERY, "CLOSED", TRADE, "CLOSED"),
        (QUERY, "PROCESSING", TRADE, "PENDING"),
        (QUERY, "NOT_FOUND", None, "NOT_FOUND"),
        (CLOSE, "CLOSED", TRADE, "CLOSED"),
        (CLOSE, "REFUSED", TRADE, "ALREADY_PAID"),
        (REFUND, "SUCCESS", TRADE, "SUCCESS"),
        (REFUND, "PROCESSING", TRADE, "PROCESSING"),
        (REFUND, "REFUSED", None, "FAILED"),
        (REFUND_QUERY, "SUCCESS", TRADE, "SUCCESS"),
        (REFUND_QUERY, "PROCESSING", TRADE, "PROCESSING"),
        (REFUND_QUERY, "NOT_FOUND", None, "NOT_FOUND"),
    ],
)
def test_the_simulated_gateway_is_understood(asked: ChannelRequest, word: Any, fact: Fact | None, status: str):
    answered = simulated.answer(SECRETS, read(asked), word, fact, duplicate=False, now=NOW, contract=CONTRACT)
    assert alipay_requests.classify(asked, answered, KEYS, CONTRACT).status == status


@pytest.mark.parametrize(("word", "status"), [("SUCCESS", "ALREADY_PAID"), ("CLOSED", "ACQ.TRADE_HAS_CLOSE")])
def test_only_the_same_number_again_finds_that_the_simulated_trade_has_ended(word: Any, status: str):
    answered = simulated.answer(SECRETS, read(SUBMIT), word, TRADE, duplicate=True, now=NOW, contract=CONTRACT)
    assert alipay_requests.classify(SUBMIT, answered, KEYS, CONTRACT).status == status


@settings(max_examples=1000, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from([SUBMIT, QUERY, CLOSE, REFUND, REFUND_QUERY]), st.integers(0, 2**32), st.binary(max_size=60))
def test_a_hostile_reply_never_succeeds_and_never_raises(asked: ChannelRequest, seed: int, junk: bytes):
    paid = {"code": "10000", "trade_status": "TRADE_SUCCESS", "total_amount": "10.05", "trade_no": "T1"}
    honest = reply(paid).body
    place = Random(seed).randrange(len(honest))
    for body in (honest[:place] + (junk or b"~~") + honest[place + 1 :], junk):
        said = alipay_requests.classify(asked, Reply(status=200, body=body), KEYS, CONTRACT)
        if said.error_class in {"unreadable", "bad-signature"} or str(said.error_class).startswith("unsigned"):
            assert said.status == "PROCESSING"
        else:
            assert alipay_requests.response_of(body) == alipay_requests.response_of(honest)
