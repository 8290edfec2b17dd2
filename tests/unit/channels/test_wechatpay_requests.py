"""Requests to WeChat Pay: what is asked, and what each signed answer proves. The simulated channel reads and answers them."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from hypothesis import given, settings
from hypothesis import strategies as st
from wechatpayv3 import utils as official

from streams.channels import wechatpay
from streams.channels.contracts import shipped
from streams.channels.credentials import keys as read_keys
from streams.channels.requests import Call, Reply, Said
from streams.channels.wechatpay_requests import ENDPOINT, REQUESTS, authorization
from streams.domain.decisions import ChannelRequest
from streams.simulator import wechatpay as simulated
from streams.simulator.dialect import Asked, Fact
from streams.simulator.faults import Chance, Rates
from streams.simulator.wechatpay import DIALECT, secrets, signed
from streams.simulator.world import World

NOW = datetime(2025, 3, 3, 10, 0, tzinfo=UTC)
ACCOUNT = "1900000001"
CONTRACT = shipped()["wechatpay"]
SECRETS, CREDENTIALS = secrets(7)
KEYS = read_keys(wechatpay.ADAPTER, json.dumps(CREDENTIALS))


def request(verb: str = "SUBMIT", **extra: Any) -> ChannelRequest:
    plain: dict[str, Any] = {
        "id": f"request/订单/P1/{verb}/1", "verb": verb, "order_id": "订单-1", "payment_no": "PAY-000001", "merchant": None,
        "channel": f"wechatpay:{ACCOUNT}", "amount": 1099, "currency": "CNY", "idempotency_key": "k" * 32, "transaction": None,
        "why": "", "decision": "d", "decided_at": NOW,
    }  # fmt: skip
    return ChannelRequest(**plain | extra)


def refund(verb: str = "REFUND", **extra: Any) -> ChannelRequest:
    of = {"operation": "REFUND", "operation_no": "REF/1", "payment_amount": 1099, "amount": 300}
    return request(verb, **of | extra)


def build(one: ChannelRequest, at: datetime = NOW) -> Call:
    return REQUESTS.build(one, KEYS, ACCOUNT, ENDPOINT, at, CONTRACT)


def read(call: Call) -> Asked:
    """What the simulated channel understands of the call."""
    assert DIALECT.read is not None
    found = DIALECT.read(SECRETS, msgspec.structs.replace(call, url=call.url.removeprefix(ENDPOINT)))
    assert found is not None
    return found


def reply(status: int, body: Any, **headers: str) -> Reply:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    said = {name.lower(): value for name, value in signed(SECRETS, content, int(NOW.timestamp())).items()}
    return Reply(status=status, headers=said | headers, body=content)


def classify(one: ChannelRequest, back: Any) -> Said:
    return REQUESTS.classify(one, back, KEYS, CONTRACT)


def order(state: str, **extra: Any) -> dict[str, Any]:
    amount = {"total": 1099, "payer_total": 1000, "currency": "CNY"}
    plain = {"mchid": ACCOUNT, "out_trade_no": "PAY-000001", "trade_state": state, "transaction_id": "42"}
    return plain | {"amount": amount} | extra


# -- out


def test_a_native_order_names_our_numbers_and_carries_the_order_in_attach():
    call = build(request(details={"description": "tea"}))
    body = json.loads(call.body)
    assert (call.method, call.url) == ("POST", "https://api.mch.weixin.qq.com/v3/pay/transactions/native")
    assert (body["out_trade_no"], body["mchid"], body["appid"]) == ("PAY-000001", ACCOUNT, CREDENTIALS["app_id"])
    assert (body["description"], body["amount"]) == ("tea", {"total": 1099, "currency": "CNY"})
    assert (json.loads(body["attach"]), body["notify_url"]) == ({"order_id": "订单-1"}, CREDENTIALS["notify_url"])


def test_with_an_openid_the_order_is_for_the_payers_page():
    call = build(request(details={"openid": "o1"}, not_after=NOW))
    body = json.loads(call.body)
    assert call.url.endswith("/v3/pay/transactions/jsapi")
    assert body["payer"] == {"openid": "o1"}
    assert body["time_expire"] == "2025-03-03T18:15:00+08:00"


@pytest.mark.parametrize(
    ("one", "understood"),
    [
        (request(), {"verb": "submit", "order_id": "订单-1", "payment_no": "PAY-000001", "amount": 1099, "currency": "CNY"}),
        (request("QUERY"), {"verb": "query", "payment_no": "PAY-000001"}),
        (request("CLOSE"), {"verb": "close", "payment_no": "PAY-000001"}),
        (refund(), {"verb": "refund", "payment_no": "PAY-000001", "operation_no": "REF/1", "amount": 300, "currency": "CNY"}),
        (refund("QUERY"), {"verb": "query", "about": "refund", "operation_no": "REF/1"}),
    ],
)  # fmt: skip
def test_each_request_is_what_the_channel_understands_and_signed(one: ChannelRequest, understood: dict[str, Any]):
    found = read(build(one))
    assert found.signed
    assert {name: getattr(found, name) for name in understood} == understood


@pytest.mark.parametrize(
    ("one", "field"),
    [
        (request(currency="USD"), "amount: 1099 USD"),
        (request(amount=0), "amount: 0 CNY"),
        (request(payment_no="P1"), "payment_no: WeChat Pay takes 6 to 32"),
        (request(payment_no="付款-000001"), "payment_no: WeChat Pay takes 6 to 32"),
        (request(order_id="x" * 120), "order_id: with its name it is longer"),
        (request("VOID", operation="VOID", operation_no="V1"), "verb: WeChat Pay has no holds, so no VOID"),
        (request("QUERY", operation="CAPTURE", operation_no="C1"), "verb: WeChat Pay has no holds, so no CAPTURE"),
        (refund(payment_amount=None), "amount: None CNY"),
        (refund(operation_no=None), "operation_no: a refund has none"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_anything_is_sent(one: ChannelRequest, field: str):
    with pytest.raises(ValueError, match=field):
        build(one)


@pytest.mark.parametrize("address", ["", "http://a.example/", "https://a.example/?x=1"])
def test_an_order_needs_an_address_for_its_notices(address: str):
    keys = read_keys(wechatpay.ADAPTER, json.dumps({**CREDENTIALS, "notify_url": address}))
    with pytest.raises(ValueError, match="notify_url: it is no https address"):
        REQUESTS.build(request(), keys, ACCOUNT, ENDPOINT, NOW, CONTRACT)


def test_without_the_merchants_key_nothing_is_asked():
    alone = {name: CREDENTIALS[name] for name in ("api_v3_keys", "platform_public_keys")}
    keys = read_keys(wechatpay.ADAPTER, json.dumps(alone))
    with pytest.raises(ValueError, match="merchant_private_key: it is absent"):
        REQUESTS.build(request(), keys, ACCOUNT, ENDPOINT, NOW, CONTRACT)


@pytest.mark.parametrize("change", ["url", "body", "signature", "scheme"])
def test_the_channel_sees_what_was_not_signed(change: str):
    call = build(refund())
    value = call.headers["Authorization"]
    changed = {
        "url": {"url": call.url + "?x=1"},
        "body": {"body": call.body.replace(b"300", b"301")},
        "signature": {"headers": {"Authorization": re.sub('signature="..', 'signature="AA', value)}},
        "scheme": {"headers": {"Authorization": "Basic x"}},
    }[change]
    assert not read(msgspec.structs.replace(call, **changed)).signed  # type: ignore[arg-type]


def test_the_official_library_signs_a_thousand_requests_as_we_do():
    key = load_pem_private_key(SECRETS.merchant.encode(), None)
    assert KEYS.merchant is not None
    for number in range(1000):
        path, body = f"/v3/pay/{number}", '{"n": "é\u2028"}' * (number % 3)
        method = "POST" if body else "GET"
        theirs = official.build_authorization(path, method, ACCOUNT, "0A1B2C3D", key, body, f"n{number}")
        at = int(re.findall(r'timestamp="(\d+)"', theirs)[0])
        ours = authorization(KEYS.merchant, ACCOUNT, path=path, body=body.encode(), at=at, nonce=f"n{number}")
        assert ours == theirs
        call = Call(method="POST" if body else "GET", url=path, headers={"Authorization": theirs}, body=body.encode())
        assert simulated._signed(SECRETS, call)


def test_two_sendings_of_one_request_have_nonces_of_their_own():
    nonces = {
        re.findall('nonce_str="([^"]*)"', build(request(), at).headers["Authorization"])[0]
        for at in (NOW, datetime(2025, 3, 3, 10, 0, 1, tzinfo=UTC))
    }
    assert len(nonces) == 2


# -- back


def test_a_placed_order_gives_the_payer_a_code_and_proves_no_payment():
    assert classify(request(), reply(200, {"code_url": "weixin://x"})) == Said(
        status="PENDING", payer_action="weixin://x"
    )
    assert classify(request(), reply(200, {"prepay_id": "wx1"})).payer_action == "wx1"


@pytest.mark.parametrize(
    ("state", "word"),
    [
        ("SUCCESS", "SUCCESS"),
        ("REFUND", "SUCCESS"),
        ("CLOSED", "CLOSED"),
        ("REVOKED", "CLOSED"),
        ("PAYERROR", "FAILED"),
        ("NOTPAY", "PENDING"),
        ("USERPAYING", "PROCESSING"),
        ("LATER", "LATER"),
    ],
)
def test_each_trade_state_has_its_word(state: str, word: str):
    found = classify(request("QUERY"), reply(200, order(state)))
    assert (found.status, found.transaction, found.amount, found.currency) == (word, "42", 1099, "CNY")


def test_an_unpaid_order_has_neither_transaction_nor_amount():
    found = classify(request("QUERY"), reply(200, order("NOTPAY", transaction_id=None, amount=None)))
    assert (found.status, found.transaction, found.amount) == ("PENDING", None, None)


def test_an_answer_about_another_number_proves_nothing():
    assert classify(request("QUERY"), reply(200, order("SUCCESS", out_trade_no="PAY-000002"))).status == "TIMEOUT"
    other = {"status": "SUCCESS", "out_refund_no": "R2", "amount": {"refund": 300}}
    assert classify(refund("QUERY"), reply(200, other)).status == "TIMEOUT"


@pytest.mark.parametrize(
    ("status", "word"),
    [
        ("SUCCESS", "SUCCESS"),
        ("CLOSED", "CLOSED"),
        ("PROCESSING", "PROCESSING"),
        ("ABNORMAL", "PROCESSING"),
        ("L", "L"),
    ],
)
def test_each_refund_status_has_its_word_and_an_abnormal_one_has_not_failed(status: str, word: str):
    body = {"status": status, "out_refund_no": "REF/1", "refund_id": "50", "amount": {"refund": 300, "total": 1099}}
    found = classify(refund("QUERY"), reply(200, body))
    assert (found.status, found.transaction, found.amount, found.currency) == (word, "50", 300, "CNY")


def test_a_close_is_confirmed_by_a_signed_empty_answer():
    assert classify(request("CLOSE"), reply(204, b"")).status == "CLOSED"


@pytest.mark.parametrize("nothing", ["not_sent", "timeout", "reset", "too_large"])
def test_no_reply_proves_nothing(nothing: Any):
    assert classify(request(), nothing) == Said(status="TIMEOUT", error_class=nothing)


GOOD = reply(200, order("SUCCESS"))
REFUSED = reply(400, {"code": "PARAM_ERROR"})


@pytest.mark.parametrize("good", [GOOD, REFUSED, reply(204, b"")])
@pytest.mark.parametrize("name", ["wechatpay-signature", "wechatpay-timestamp", "wechatpay-nonce", "wechatpay-serial"])
def test_a_reply_that_the_platform_did_not_sign_proves_nothing_whatever_it_says(good: Reply, name: str):
    for value in (None, "x", good.headers[name][:-2] + "zz"):
        headers = {key: text for key, text in good.headers.items() if key != name} | (
            {} if value is None else {name: value}
        )
        for one in (request(), request("QUERY"), request("CLOSE")):
            found = classify(one, msgspec.structs.replace(good, headers=headers))
            assert (found.status, str(found.error_class).split(":")[0]) == ("TIMEOUT", "signature")
    assert classify(request("QUERY"), msgspec.structs.replace(good, body=good.body + b" ")).status == "TIMEOUT"


@pytest.mark.parametrize("code", CONTRACT.failures.not_accepted)
def test_a_refused_request_was_not_accepted(code: str):
    for one in (request(), refund()):
        found = classify(one, reply(400, {"code": code, "message": "x"}))
        assert (found.status, found.error_class) == ("FAILED", code)


@pytest.mark.parametrize(
    ("verb", "code", "word"),
    [
        ("SUBMIT", "SYSTEM_ERROR", "TIMEOUT"),
        ("SUBMIT", "BANK_ERROR", "TIMEOUT"),
        ("SUBMIT", "USERPAYING", "TIMEOUT"),
        ("SUBMIT", "OUT_TRADE_NO_USED", "PROCESSING"),
        ("SUBMIT", "ORDERPAID", "ALREADY_PAID"),
        ("SUBMIT", "ORDER_CLOSED", "CLOSED"),
        ("SUBMIT", "A_CODE_OF_NEXT_YEAR", "TIMEOUT"),
        ("CLOSE", "ORDERPAID", "ALREADY_PAID"),
        ("CLOSE", "ORDER_CLOSED", "CLOSED"),
        ("CLOSE", "PARAM_ERROR", "PENDING"),
        ("CLOSE", "USERPAYING", "TIMEOUT"),
        ("QUERY", "ORDER_NOT_EXIST", "NOT_FOUND"),
        ("QUERY", "PARAM_ERROR", "TIMEOUT"),
        ("QUERY", "SIGN_ERROR", "TIMEOUT"),
        ("QUERY", "ORDERPAID", "TIMEOUT"),
    ],
)
def test_each_error_proves_as_much_as_it_says(verb: str, code: str, word: str):
    assert classify(request(verb), reply(400, {"code": code})).status == word


def test_a_refund_that_is_not_there_is_not_found():
    assert classify(refund("QUERY"), reply(404, {"code": "RESOURCE_NOT_EXISTS"})).status == "NOT_FOUND"


@pytest.mark.parametrize("status", [302, 500, 502, 503])
def test_a_server_error_proves_nothing_whatever_it_says(status: int):
    found = classify(request(), reply(status, {"code": "PARAM_ERROR"}))
    assert (found.status, found.error_class) == ("TIMEOUT", str(status))


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b"null", b'{"code": 7}'])
@pytest.mark.parametrize("status", [200, 400])
def test_an_empty_or_unreadable_reply_proves_nothing(status: int, body: bytes):
    assert classify(request("QUERY"), reply(status, body)).status == "TIMEOUT"


# -- the simulated channel answers


@pytest.mark.parametrize(
    ("one", "word", "about", "duplicate", "status"),
    [
        (request(), "SUCCESS", "payment", False, "PENDING"),
        (request(), "PROCESSING", "payment", True, "PENDING"),
        (request(), "REFUSED", None, False, "FAILED"),
        (request(), "REFUSED", None, True, "PROCESSING"),
        (request("QUERY"), "SUCCESS", "payment", False, "SUCCESS"),
        (request("QUERY"), "FAILED", "payment", False, "FAILED"),
        (request("QUERY"), "NOT_FOUND", None, False, "NOT_FOUND"),
        (request("CLOSE"), "CLOSED", "payment", False, "CLOSED"),
        (request("CLOSE"), "SUCCESS", "payment", True, "ALREADY_PAID"),
        (request("CLOSE"), "CLOSED", "payment", True, "CLOSED"),
        (request("CLOSE"), "NOT_FOUND", None, False, "PENDING"),
        (refund(), "SUCCESS", "refund", False, "SUCCESS"),
        (refund(), "REFUSED", None, False, "FAILED"),
        (refund("QUERY"), "FAILED", "refund", False, "CLOSED"),
        (refund("QUERY"), "NOT_FOUND", None, False, "NOT_FOUND"),
    ],
)
def test_what_the_simulated_channel_answers_is_understood(
    *, one: ChannelRequest, word: Any, about: Any, duplicate: bool, status: str
):
    known = None
    if about is not None:
        known = Fact(
            about=about, word=word, event_id="e", order_id="O1", payment_no="PAY-000001", transaction="42", amount=1099,
            currency="CNY", at=NOW, operation_no=one.operation_no, operation_transaction="50",
        )  # fmt: skip
    assert DIALECT.answer is not None
    back = DIALECT.answer(SECRETS, read(build(one)), word, known, duplicate, NOW, CONTRACT)
    found = classify(one, back)
    assert found.status == status
    if status == "SUCCESS":
        assert (found.amount, found.currency) == (1099, "CNY")


def test_a_simulated_account_carries_out_what_is_asked_and_finds_it_again():
    world = World("wechatpay", CONTRACT, Chance(1, Rates()))
    later = NOW + timedelta(seconds=60)

    def ask(one: ChannelRequest, at: datetime) -> Said:
        question = read(build(one))
        taken = world.take(question, at)
        assert DIALECT.answer is not None
        return classify(one, DIALECT.answer(SECRETS, question, taken.word, taken.fact, taken.duplicate, at, CONTRACT))

    assert ask(request("QUERY"), NOW).status == "NOT_FOUND"
    assert ask(request(), NOW).status == "PENDING"
    assert ask(request(), NOW).payer_action is not None
    paid = ask(request("QUERY"), later)
    assert (paid.status, paid.amount) == ("SUCCESS", 1099)
    assert ask(request("CLOSE"), later).status == "ALREADY_PAID"
    back = ask(refund(), NOW)
    assert (back.status, back.amount) == ("SUCCESS", 300)
    assert ask(refund("QUERY"), later) == back
    assert len(list(world.ledger())) == 1


ODD: list[Any] = [None, True, -1, 2**70, 1.5, "", "\ud800", "x" * 5000, [], {}, {"total": -1}]
ASKED = [request(), request("QUERY"), request("CLOSE"), refund(), refund("QUERY")]
NAMES = ["out_trade_no", "trade_state", "transaction_id", "amount", "code", "code_url", "status", "out_refund_no"]


@settings(max_examples=500, deadline=None)
@given(
    one=st.sampled_from(ASKED),
    status=st.sampled_from([200, 204, 400, 404, 500]),
    name=st.sampled_from(NAMES),
    value=st.sampled_from(ODD),
    raw=st.none() | st.binary(max_size=60),
)
def test_whatever_comes_back_is_classified(
    *, one: ChannelRequest, status: int, name: str, value: Any, raw: bytes | None
):
    body = order("SUCCESS", status="SUCCESS", out_refund_no="REF/1", code="X") | {name: value}
    found = classify(one, reply(status, body if raw is None else raw))
    assert 0 < len(found.status) <= 64
    assert msgspec.json.encode(found)
