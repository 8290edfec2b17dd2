"""Requests to WeChat Pay v3: JSON, each signed with the merchant's key, each reply signed with the platform's.

| verb | call |
| --- | --- |
| submit | `POST /v3/pay/transactions/native`: the payer scans `code_url`; with `openid` in the details `…/jsapi`: `prepay_id` |
| query | `GET /v3/pay/transactions/out-trade-no/{our number}` |
| close | `POST /v3/pay/transactions/out-trade-no/{our number}/close`, answered by 204 |
| refund | `POST /v3/refund/domestic/refunds`; its answer only means that it was accepted |
| query of a refund | `GET /v3/refund/domestic/refunds/{our refund number}` |

`out_trade_no` and `out_refund_no` are our numbers and the channel's idempotency keys. A reply whose signature is wrong proves nothing,
whatever it says: neither a success nor a refusal. There are no holds, so there is nothing to capture or void.
"""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, timedelta, timezone
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode, urlsplit

import msgspec
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from msgspec import Struct

from streams.channels import wechatpay
from streams.channels.requests import Call, Reply, Requests, Said, details
from streams.channels.verification import Refused
from streams.channels.wechatpay_events import (
    CURRENCY,
    REFUND_WORDS,
    UNREADABLE,
    WORDS,
    Id,
    Refunded,
    Status,
    Transaction,
    money,
)

if TYPE_CHECKING:
    from datetime import datetime

    from streams.channels.requests import Nothing
    from streams.domain.contract import Contract
    from streams.domain.decisions import ChannelRequest

ENDPOINT: Final = "https://api.mch.weixin.qq.com"
PAYMENTS: Final = "/v3/pay/transactions"
REFUNDS: Final = "/v3/refund/domestic/refunds"
CHINA: Final = timezone(timedelta(hours=8))
UNKNOWN: Final = "TIMEOUT"
"""The law's word for what proves nothing."""
MOST_PAYER_ACTION: Final = 4096
DESCRIPTION: Final = "order"
NOT_THERE: Final = frozenset({"ORDER_NOT_EXIST", "ORDERNOTEXIST", "RESOURCE_NOT_EXISTS"})
AT_WORK: Final = frozenset({"USERPAYING", "BANK_ERROR", "BANKERROR", "SYSTEM_ERROR", "SYSTEMERROR"})
WORDS_OF_ERRORS: Final = {
    "ORDER_CLOSED": "CLOSED",
    "ORDERCLOSED": "CLOSED",
    "ORDERPAID": "ALREADY_PAID",
    "ORDER_PAID": "ALREADY_PAID",
}


class Placed(Struct, frozen=True):
    """What an order that was placed gives the payer to go on."""

    code_url: str | None = None
    prepay_id: str | None = None


class RefundReply(Struct, frozen=True):
    """A refund, as replies state it: `status`, where notices say `refund_status`."""

    status: Status
    out_refund_no: Id
    refund_id: Id | None = None
    amount: Refunded | None = None


class Problem(Struct, frozen=True):
    code: Id


# -- out


def build(
    request: ChannelRequest, keys: wechatpay.Keys, account: str, endpoint: str, now: datetime, _contract: Contract
) -> Call:
    """The signed call. Raises `ValueError` naming field and fix for what WeChat Pay cannot be asked: nothing was sent."""
    merchant = keys.merchant
    if merchant is None:
        raise ValueError(
            "merchant_private_key: it is absent; give it, app_id and merchant_serial in the credentials file"
        )
    path, body = _asked(request, merchant, account)
    content = b"" if body is None else msgspec.json.encode(body)
    nonce = hashlib.sha256(f"{request.id}\n{now.isoformat()}".encode()).hexdigest()[:32]
    signed = authorization(merchant, account, path=path, body=content, at=int(now.timestamp()), nonce=nonce)
    headers = {"Accept": "application/json", "Authorization": signed}
    if body is None:
        return Call(method="GET", url=endpoint + path, headers=headers)
    return Call(
        method="POST", url=endpoint + path, headers=headers | {"Content-Type": "application/json"}, body=content
    )


def authorization(merchant: wechatpay.Merchant, account: str, *, path: str, body: bytes, at: int, nonce: str) -> str:
    """The `Authorization` header: who asks, and the merchant's signature over method, path and query, Unix time, nonce and body.

    A nonce here need not be secret, only new, so it is derived from the request and the time, as everything that we mint is.
    """
    method = "POST" if body else "GET"
    message = f"{method}\n{path}\n{at}\n{nonce}\n".encode() + body + b"\n"
    signature = base64.b64encode(merchant.key.sign(message, PKCS1v15(), SHA256())).decode()
    said = {
        "mchid": account,
        "nonce_str": nonce,
        "signature": signature,
        "timestamp": str(at),
        "serial_no": merchant.serial,
    }
    return f"{wechatpay.RSA_SHA256} " + ",".join(f'{name}="{value}"' for name, value in said.items())


def _asked(request: ChannelRequest, merchant: wechatpay.Merchant, account: str) -> tuple[str, dict[str, Any] | None]:
    """Path and query, and the body if it is a POST."""
    number = f"{PAYMENTS}/out-trade-no/{quote(request.payment_no, safe='')}"
    if request.verb == "SUBMIT":
        return _submit(request, merchant, account)
    if request.verb == "REFUND":
        return REFUNDS, _refund(request)
    if request.verb == "CLOSE":
        return f"{number}/close", {"mchid": account}
    if request.verb == "QUERY" and request.operation_no is None:
        return f"{number}?{urlencode({'mchid': account})}", None
    if request.verb == "QUERY" and request.operation in (None, "REFUND"):
        return f"{REFUNDS}/{quote(request.operation_no or '', safe='')}", None
    raise ValueError(f"verb: WeChat Pay has no holds, so no {request.operation or request.verb}; refund what was paid")


def _submit(request: ChannelRequest, merchant: wechatpay.Merchant, account: str) -> tuple[str, dict[str, Any]]:
    given, notify = details(request), merchant.notify_url
    if not notify.startswith("https://") or urlsplit(notify).query:
        raise ValueError(
            "notify_url: it is no https address without a query; give the gateway's in the credentials file"
        )
    body: dict[str, Any] = {
        "appid": merchant.app_id,
        "mchid": account,
        "description": given.get("description") or DESCRIPTION,
        "out_trade_no": _number(request.payment_no, "payment_no"),
        "notify_url": notify,
        "attach": _attach(request.order_id),
        "amount": {"total": _fen(request.amount, request.currency), "currency": CURRENCY},
    }
    if request.not_after is not None:
        body["time_expire"] = _expiry(request.not_after)
    if not given.get("openid"):
        return f"{PAYMENTS}/native", body
    return f"{PAYMENTS}/jsapi", body | {"payer": {"openid": given["openid"]}}


def _expiry(not_after: datetime) -> str:
    """A payer needs a while: the order ends fifteen minutes after the last moment at which it may be placed."""
    return (not_after.astimezone(UTC) + timedelta(minutes=15)).astimezone(CHINA).isoformat(timespec="seconds")


def _attach(order_id: str) -> str:
    attach = msgspec.json.encode({"order_id": order_id}).decode()
    if len(attach.encode()) > 128:
        raise ValueError(
            "order_id: with its name it is longer than the 128 bytes of attach; use a shorter order number"
        )
    return attach


def _number(number: str, field: str) -> str:
    if (
        not 6 <= len(number) <= 32
        or not number.isascii()
        or not all(char.isalnum() or char in "_-|*" for char in number)
    ):
        raise ValueError(f"{field}: WeChat Pay takes 6 to 32 letters, digits and _-|*; number payments so")
    return number


def _fen(amount: int | None, currency: str) -> int:
    if currency != CURRENCY or amount is None or amount <= 0:
        raise ValueError(f"amount: {amount} {currency} is no amount of WeChat Pay's; it takes whole fen of {CURRENCY}")
    return amount


def _refund(request: ChannelRequest) -> dict[str, Any]:
    if not request.operation_no:
        raise ValueError("operation_no: a refund has none; ask for it by its own number")
    return {
        "out_trade_no": request.payment_no,
        "out_refund_no": request.operation_no,
        "amount": {
            "refund": _fen(request.amount, request.currency),
            "total": _fen(request.payment_amount, request.currency),
            "currency": CURRENCY,
        },
    }


# -- back


def classify(request: ChannelRequest, reply: Reply | Nothing, keys: wechatpay.Keys, contract: Contract) -> Said:
    """What the reply proves. Never raises. The time is not checked: the reply came on the connection that asked."""
    if not isinstance(reply, Reply):
        return Said(status=UNKNOWN, error_class=reply)
    try:
        wechatpay.check_signature(keys.platform, reply.headers, reply.body)
    except Refused as refusal:
        return Said(status=UNKNOWN, error_class=f"signature: {refusal.field}"[:256])
    try:
        if 200 <= reply.status < 300:
            return _answered(request, reply, contract)
        return _refused(request, reply)
    except UNREADABLE:
        return Said(status=UNKNOWN, error_class="unreadable")


def _answered(request: ChannelRequest, reply: Reply, contract: Contract) -> Said:
    if request.verb == "CLOSE":
        return Said(status="CLOSED")
    if request.verb == "SUBMIT":
        placed = msgspec.json.decode(reply.body, type=Placed)
        action = placed.code_url or placed.prepay_id
        return Said(status="PENDING", payer_action=action if action and len(action) <= MOST_PAYER_ACTION else None)
    if request.verb == "REFUND" or request.operation_no:
        refund = msgspec.json.decode(reply.body, type=RefundReply)
        if refund.out_refund_no != request.operation_no:
            return Said(status=UNKNOWN, error_class="another refund")
        amount = refund.amount or Refunded()
        return Said(
            status=REFUND_WORDS.get(refund.status, refund.status),
            transaction=refund.refund_id or None,
            **_money(contract, amount.refund, amount.currency or CURRENCY),
        )
    paid = msgspec.json.decode(reply.body, type=Transaction)
    if paid.out_trade_no != request.payment_no:
        return Said(status=UNKNOWN, error_class="another payment")
    total = None if paid.amount is None else paid.amount.total
    currency = None if paid.amount is None else paid.amount.currency
    return Said(
        status=WORDS.get(paid.trade_state, paid.trade_state),
        transaction=paid.transaction_id or None,
        **_money(contract, total, currency),
    )


def _money(contract: Contract, amount: int | None, currency: str | None) -> dict[str, Any]:
    found = money(contract, amount, currency)
    return {"amount": found["amount"], "currency": found["currency"]}


def _refused(request: ChannelRequest, reply: Reply) -> Said:  # noqa: PLR0911  one kind of error a line
    """An error by its code. A query that fails proves nothing about what it asks for."""
    if reply.status >= 500 or reply.status < 400:
        return Said(status=UNKNOWN, error_class=str(reply.status))
    code = msgspec.json.decode(reply.body, type=Problem).code
    if request.verb == "QUERY":
        return Said(status="NOT_FOUND" if code in NOT_THERE else UNKNOWN, error_class=code)
    if code in AT_WORK:
        return Said(status=UNKNOWN, error_class=code)
    if code in WORDS_OF_ERRORS and request.verb in ("SUBMIT", "CLOSE"):
        return Said(status=WORDS_OF_ERRORS[code], error_class=code)
    if request.verb == "CLOSE":  # that it could not be closed says nothing about the payment
        return Said(status="PENDING", error_class=code)
    if code == "OUT_TRADE_NO_USED":  # an earlier request stands under this number: ask for it
        return Said(status="PROCESSING", error_class=code)
    return Said(status="FAILED" if code in REFUSALS else UNKNOWN, error_class=code)


REFUSALS: Final = frozenset({
    "USER_ACCOUNT_ABNORMAL", "NOT_ENOUGH", "PARAM_ERROR", "MCH_NOT_EXISTS", "RESOURCE_NOT_EXISTS", "SIGN_ERROR",
    "FREQUENCY_LIMITED", "INVALID_REQUEST", "NO_AUTH",
})  # fmt: skip
"""Codes by which the request was not accepted; any other proves nothing."""

REQUESTS: Final[Requests[wechatpay.Credentials, wechatpay.Keys]] = Requests(
    channel=wechatpay.CHANNEL, endpoint=ENDPOINT, build=build, classify=classify
)
