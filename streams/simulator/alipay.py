"""How the simulator speaks as Alipay: its notices as signed forms, and its gateway's JSON with the signature beside it.

A notice tells a refund as the channel does, inside the trade's own status: `refund_fee` is the total, here the fact's amount. The
payment's amount stands in `total_amount`, which a fact about a refund does not know, so it is left out there.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import msgspec
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256

from streams.channels import forms
from streams.channels.alipay import CHANNEL, CURRENCY, FORM, order_id
from streams.channels.alipay_requests import PATH
from streams.channels.amounts import from_text, to_text
from streams.channels.local_time import local
from streams.channels.requests import Reply
from streams.channels.rsa_keys import made_by, public_key
from streams.channels.verification import Refused
from streams.simulator import seeded_rsa
from streams.simulator.dialect import Asked, Delivery, Dialect

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from streams.channels.requests import Call
    from streams.domain.contract import Contract
    from streams.simulator.dialect import Fact, Verb, Word

APP: Final = "2026000100000001"
SELLER: Final = "2088000100000001"
STATES: Final = {
    "SUCCESS": "TRADE_SUCCESS",
    "CLOSED": "TRADE_CLOSED",
    "FAILED": "TRADE_CLOSED",
    "PROCESSING": "WAIT_BUYER_PAY",
    "AUTHORIZED": "WAIT_BUYER_PAY",
}
VERBS: Final[dict[str, Verb]] = {
    "alipay.trade.precreate": "submit",
    "alipay.trade.pay": "submit",
    "alipay.trade.query": "query",
    "alipay.trade.fastpay.refund.query": "query",
    "alipay.trade.close": "close",
    "alipay.trade.refund": "refund",
}
REFUSALS: Final = {
    "submit": "ACQ.ACCESS_FORBIDDEN",
    "refund": "ACQ.SELLER_BALANCE_NOT_ENOUGH",
    "close": "ACQ.TRADE_STATUS_ERROR",
}


class Secrets(msgspec.Struct, frozen=True):
    """The signing side: Alipay's key, and the application's public key that requests are checked with."""

    app_id: str
    alipay_private_key: str
    app_public_key: str


class Biz(msgspec.Struct, frozen=True):
    """The `biz_content` of a request."""

    out_trade_no: str
    out_request_no: str | None = None
    total_amount: str | None = None
    refund_amount: str | None = None
    passback_params: str = ""


class _Request(NamedTuple):
    method: str
    biz: Biz


def secrets(seed: int) -> tuple[Secrets, Mapping[str, Any]]:
    """Test keys of both sides."""
    alipay, own = seeded_rsa.key(seed, "alipay"), seeded_rsa.key(seed, "alipay application")
    ours = {
        "app_id": APP,
        "alipay_public_keys": [seeded_rsa.public_pem(alipay)],
        "seller_ids": [SELLER],
        "app_private_key": seeded_rsa.private_pem(own),
    }
    return Secrets(APP, seeded_rsa.private_pem(alipay), seeded_rsa.public_pem(own)), ours


def yuan(amount: int) -> str:
    """Minor units as the channel writes them."""
    return str(to_text(CURRENCY, amount))


# -- notices


def notice(held: Secrets, fact: Fact, account: str, now: datetime, contract: Contract) -> Delivery:
    """A trade's notice, in UTF-8 and without `sign_type` in the signed text, as most are."""
    del account  # the application's number stands for it
    fields = {
        "notify_type": "trade_status_sync",
        "notify_id": fact.event_id,
        "notify_time": local(now, FORM, contract.tz),
        "app_id": held.app_id,
        "auth_app_id": held.app_id,
        "charset": "utf-8",
        "version": "1.0",
        "sign_type": "RSA2",
        "trade_no": fact.transaction,
        "out_trade_no": fact.payment_no,
        "seller_id": SELLER,
        "subject": "测试商品",
        "passback_params": quote(json.dumps({"order_id": fact.order_id}), safe=""),
        "gmt_create": local(fact.at, FORM, contract.tz),
        "trade_status": STATES.get(fact.word, "WAIT_BUYER_PAY"),
    }
    return signed(held, fields | _facts(fact, local(fact.at, FORM, contract.tz)))


def _facts(fact: Fact, at: str) -> dict[str, str]:
    if fact.about == "refund":
        return {
            "trade_status": "TRADE_SUCCESS",
            "gmt_payment": at,
            "gmt_refund": f"{at}.000",
            "refund_fee": yuan(fact.amount),
            "out_biz_no": fact.operation_no or "",
        }
    times = {"TRADE_SUCCESS": "gmt_payment", "TRADE_CLOSED": "gmt_close"}
    moment = times.get(STATES.get(fact.word, ""))
    return {"total_amount": yuan(fact.amount)} | ({moment: at} if moment else {})


def signed(
    held: Secrets, fields: Mapping[str, str], *, charset: str = "utf-8", keep_sign_type: bool = False
) -> Delivery:
    """The delivery of a notice with these fields. `keep_sign_type` is the rule of some other kinds of notices."""
    form = {name: value.encode(charset) for name, value in fields.items() if value}
    left_out = {"sign"} if keep_sign_type else {"sign", "sign_type"}
    text = b"&".join(name.encode() + b"=" + value for name, value in sorted(form.items()) if name not in left_out)
    form["sign"] = _signature(held, text).encode()
    headers = {"content-type": f"application/x-www-form-urlencoded; charset={charset}"}
    return Delivery(headers=headers, body=urlencode(form).encode())


def _signature(held: Secrets, text: bytes) -> str:
    return base64.b64encode(seeded_rsa.loaded(held.alipay_private_key).sign(text, PKCS1v15(), SHA256())).decode()


# -- the gateway


def read(held: Secrets, call: Call) -> Asked | None:
    """A request to the gateway, understood; None for another address, method or form."""
    request = _request(call)
    if request is None:
        return None
    biz, verb = request.biz, VERBS[request.method]
    amount = biz.total_amount if verb == "submit" else biz.refund_amount
    is_refund = verb == "refund" or request.method == "alipay.trade.fastpay.refund.query"
    return Asked(
        verb=verb,
        order_id=order_id(biz.passback_params),
        payment_no=biz.out_trade_no,
        operation_no=biz.out_request_no if is_refund else None,
        amount=None if amount is None else from_text(CURRENCY, amount),
        currency=CURRENCY,
        key=biz.out_request_no if verb == "refund" else biz.out_trade_no,
        about="refund" if is_refund else "payment",
        signed=_is_signed(held, call.body),
    )


def _request(call: Call) -> _Request | None:
    if call.method != "POST" or urlsplit(call.url).path.rstrip("/") != PATH:
        return None
    fields = dict(parse_qsl(call.body.decode("utf-8", "replace"), keep_blank_values=True))
    method = fields.get("method", "")
    try:
        biz = msgspec.json.decode(fields.get("biz_content", ""), type=Biz)
    except msgspec.MsgspecError:
        return None
    return _Request(method, biz) if method in VERBS else None


def _is_signed(held: Secrets, body: bytes) -> bool:
    try:
        form = forms.fields_of(body)
        signature = forms.signature_of(form, "sign")
    except Refused:
        return False
    own = public_key(held.app_public_key, "app_public_key")
    return made_by([own], signature, forms.signed_texts(form, {"sign"}))


def answer(  # noqa: PLR0917  as every dialect has it
    held: Secrets,
    asked: Asked,
    word: Word,
    fact: Fact | None,
    duplicate: bool,  # noqa: FBT001
    now: datetime,
    contract: Contract,
) -> Reply:
    """The gateway's reply: always 200, its signature over the response's raw text. A refusal for the signature is not signed."""
    if not asked.signed:
        refusal = {"code": "40002", "msg": "Invalid Arguments", "sub_code": "isv.invalid-signature"}
        return _reply(None, "error_response", refusal)
    at = local(now, FORM, contract.tz)
    said = {"out_trade_no": asked.payment_no} | _answered(asked, word, fact, at, duplicate=duplicate)
    return _reply(held, _response_name(asked), {"code": "10000", "msg": "Success"} | said)


def _response_name(asked: Asked) -> str:
    if asked.verb == "query":
        return f"alipay_trade_{'fastpay_refund_' if asked.about == 'refund' else ''}query_response"
    return {
        "submit": "alipay_trade_precreate_response",
        "close": "alipay_trade_close_response",
        "refund": "alipay_trade_refund_response",
    }[asked.verb]


def _reply(held: Secrets | None, name: str, said: Mapping[str, str]) -> Reply:
    text = json.dumps(said, ensure_ascii=False, separators=(",", ":")).replace("/", "\\/")
    sign = "" if held is None else f',"sign":"{_signature(held, text.encode())}"'
    body = f'{{"{name}":{text}{sign}}}'
    return Reply(status=200, headers={"content-type": "text/html;charset=utf-8"}, body=body.encode())


def _answered(asked: Asked, word: Word, fact: Fact | None, at: str, *, duplicate: bool) -> dict[str, str]:
    if word == "NOT_FOUND" or (asked.verb == "query" and fact is None):
        return _business("ACQ.TRADE_NOT_EXIST")
    if word == "REFUSED":
        return _business(REFUSALS.get(asked.verb, "ACQ.INVALID_PARAMETER"))
    trade = {"trade_no": fact.transaction if fact else ""}
    if asked.verb == "query":
        return trade | (_refund(asked, word, fact) if asked.about == "refund" else _trade(word, fact, at))
    if asked.verb == "refund":
        moved = {"fund_change": "Y" if word == "SUCCESS" else "N"}
        return trade | moved | {"refund_fee": yuan(fact.amount if fact else asked.amount or 0)}
    return _submitted(asked, word, duplicate=duplicate) if asked.verb == "submit" else _closed(word)


def _closed(word: Word) -> dict[str, str]:
    return {} if word in {"SUCCESS", "CLOSED"} else _business("ACQ.TRADE_STATUS_ERROR")


def _business(sub_code: str) -> dict[str, str]:
    return {"code": "40004", "msg": "Business Failed", "sub_code": sub_code}


def _submitted(asked: Asked, word: Word, *, duplicate: bool) -> dict[str, str]:
    """A new trade shows its code, whatever its payer makes of it: nobody has paid or closed a trade before it was there.

    Only the same number again finds that the trade has ended.
    """
    if duplicate and word in {"FAILED", "CLOSED"}:
        return _business("ACQ.TRADE_HAS_CLOSE")
    if duplicate and word == "SUCCESS":
        return _business("ACQ.TRADE_HAS_SUCCESS")
    return {"qr_code": f"https://qr.example/{quote(asked.payment_no, safe='')}"}


def _refund(asked: Asked, word: Word, fact: Fact | None) -> dict[str, str]:
    said = {"out_request_no": asked.operation_no or ""}
    if word != "SUCCESS" or fact is None:
        return said
    return said | {"refund_status": "REFUND_SUCCESS", "refund_amount": yuan(fact.amount)}


def _trade(word: Word, fact: Fact | None, at: str) -> dict[str, str]:
    amount = yuan(fact.amount if fact else 0)
    said = {"trade_status": STATES.get(word, "WAIT_BUYER_PAY"), "total_amount": amount}
    return said | ({"send_pay_date": at, "receipt_amount": amount} if word == "SUCCESS" else {})


DIALECT: Final = Dialect(channel=CHANNEL, secrets=secrets, notice=notice, read=read, answer=answer)
