"""Requests to Alipay's gateway, signed with RSA2, and what its replies prove.

A payment is started as a QR code (`alipay.trade.precreate`), or with the code that the buyer shows (`details["auth_code"]`,
`alipay.trade.pay`). Every reply is HTTP 200, and its signature covers the raw text of its `<method>_response`: the very bytes, with
their escapes and blanks. A reply without a right signature proves nothing, a gateway's own unsigned refusal included.

A code that the contract calls not accepted ends a submit's attempt. For a refund only those codes are a failure that an earlier
sending of the same request cannot have caused; the others are asked about. `fund_change` Y with a total that is just this refund's
amount is a success; with any other total the refund's own amount is asked for. A refund's reference is its `out_request_no`: the trade
has one number, however often money goes back, and the channel's bill shows the refund by this one.
"""

from __future__ import annotations

import base64
import json
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, TypeAlias
from urllib.parse import quote, urlencode

import msgspec
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from msgspec import Meta

from streams.channels import local_time
from streams.channels.alipay import CURRENCY, WORDS, Credentials, Keys
from streams.channels.amounts import from_text, to_text
from streams.channels.requests import Call, Nothing, Reply, Requests, Said, details
from streams.channels.rsa_keys import made_by
from streams.domain.fields import Text  # noqa: TC001  msgspec reads the annotation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from streams.domain.contract import Contract
    from streams.domain.decisions import ChannelRequest

CHANNEL: Final = "alipay"
ENDPOINT: Final = "https://openapi.alipay.com"
PATH: Final = "/gateway.do"
FORM: Final = "%Y-%m-%d %H:%M:%S"
ANSWERED: Final = 200
OK: Final = "10000"
WAITS_FOR_PAYER: Final = "10003"
BUSINESS_REFUSAL: Final = "40004"
NOT_FOUND: Final = "ACQ.TRADE_NOT_EXIST"
ASK_FIRST: Final = frozenset({
    "ACQ.TRADE_HAS_CLOSE", "ACQ.TOTAL_FEE_EXCEED", "ACQ.REFUND_AMT_NOT_EQUAL_TOTAL", "ACQ.TRADE_NOT_ALLOW_REFUND", "ACQ.TRADE_STATUS_ERROR",
})  # fmt: skip
"""What a refund may be told because the same refund has already been made."""
CLOSED_OR_PAID: Final = frozenset(
    {"ACQ.TRADE_HAS_SUCCESS", "ACQ.TRADE_STATUS_ERROR", "ACQ.TRADE_HAS_CLOSE", "ACQ.TRADE_HAS_FINISHED"}
)
"""Why a trade cannot be closed: it has ended, and a query tells how."""
LONGEST_SUBJECT: Final = 128


class _Method(NamedTuple):
    name: str
    biz: dict[str, str]
    common: Mapping[str, str] = MappingProxyType({})


# -- requests


def build(  # noqa: PLR0917  as every channel has it
    request: ChannelRequest, held: Keys, account: str, endpoint: str, now: datetime, contract: Contract
) -> Call:
    """The signed call. Raises `ValueError` for another currency than yuan, for captures and voids, and without a signing key."""
    del account  # the application's number stands for it
    if held.signing is None:
        raise ValueError("app_private_key: it is absent; requests are signed with it")
    maker = METHODS.get(request.verb)
    if maker is None:
        raise ValueError(
            f"verb: Alipay's trades have no holds, so there is no {request.verb}; refund the payment instead"
        )
    method = maker(request, held)
    fields = {
        "app_id": held.app_id,
        "method": method.name,
        "format": "JSON",
        "charset": "utf-8",
        "sign_type": "RSA2",
        "timestamp": local_time.local(now, FORM, contract.tz),
        "version": "1.0",
        "biz_content": json.dumps(method.biz, ensure_ascii=False, separators=(",", ":")),
    } | dict(method.common)
    fields["sign"] = sign(held, fields)
    return Call(
        method="POST",
        url=f"{endpoint.rstrip('/')}{PATH}?charset=utf-8",
        headers={"content-type": "application/x-www-form-urlencoded;charset=utf-8"},
        body=urlencode(fields).encode(),
    )


def sign(held: Keys, fields: Mapping[str, str]) -> str:
    """The RSA2 signature over the sorted fields that are not empty."""
    assert held.signing is not None
    text = "&".join(f"{name}={value}" for name, value in sorted(fields.items()) if value)
    return base64.b64encode(held.signing.sign(text.encode(), PKCS1v15(), SHA256())).decode()


def yuan(request: ChannelRequest) -> str:
    """The request's amount as Alipay counts: `12.34`. Raises `ValueError` for another currency."""
    if request.currency != CURRENCY:
        raise ValueError(f"currency: {request.currency} cannot be asked for here; Alipay's gateway takes {CURRENCY}")
    return str(to_text(CURRENCY, request.amount))


def _submit(request: ChannelRequest, held: Keys) -> _Method:
    said = details(request)
    biz = {
        "out_trade_no": request.payment_no,
        "total_amount": yuan(request),
        "subject": said.get("subject", request.order_id).replace("&", " ")[:LONGEST_SUBJECT],
        "passback_params": quote(json.dumps({"order_id": request.order_id}), safe=""),
    }
    biz |= {name: said[name] for name in ("timeout_express", "store_id", "terminal_id", "buyer_id") if name in said}
    common = {"notify_url": held.notify_url} if held.notify_url else {}
    if "auth_code" not in said:
        return _Method("alipay.trade.precreate", biz, common)
    biz |= {"scene": said.get("scene", "bar_code"), "auth_code": said["auth_code"]}
    return _Method("alipay.trade.pay", biz, common)


def _query(request: ChannelRequest, _: Keys) -> _Method:
    if request.operation_no is None:
        return _Method("alipay.trade.query", {"out_trade_no": request.payment_no})
    return _Method(
        "alipay.trade.fastpay.refund.query",
        {"out_trade_no": request.payment_no, "out_request_no": request.operation_no},
    )


def _close(request: ChannelRequest, _: Keys) -> _Method:
    return _Method("alipay.trade.close", {"out_trade_no": request.payment_no})


def _refund(request: ChannelRequest, _: Keys) -> _Method:
    if request.operation_no is None:
        raise ValueError("operation_no: a refund has a number of its own; give the refund's number")
    return _Method(
        "alipay.trade.refund",
        {"out_trade_no": request.payment_no, "out_request_no": request.operation_no, "refund_amount": yuan(request)},
    )


METHODS: Final[dict[str, Callable[[ChannelRequest, Keys], _Method]]] = {
    "SUBMIT": _submit,
    "QUERY": _query,
    "CLOSE": _close,
    "REFUND": _refund,
}


# -- replies

Code: TypeAlias = Annotated[str, Meta(max_length=4096)]


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a reply that say something. Amounts are decimal yuan."""

    code: Text = ""
    sub_code: Text = ""
    out_trade_no: Text = ""
    out_request_no: Text = ""
    trade_no: Text = ""
    trade_status: Text = ""
    total_amount: Text = ""
    receipt_amount: Text = ""
    buyer_pay_amount: Text = ""
    trans_currency: Text = ""
    gmt_payment: Text = ""
    send_pay_date: Text = ""
    qr_code: Code = ""
    fund_change: Text = ""
    refund_fee: Text = ""
    refund_amount: Text = ""
    refund_status: Text = ""

    @property
    def currency(self) -> str:
        return self.trans_currency or CURRENCY

    @property
    def paid_once(self) -> bool:
        """Whether it knows of money that the buyer paid, be it gone back since."""
        amounts = (self.receipt_amount, self.buyer_pay_amount)
        return bool(self.gmt_payment or self.send_pay_date or any(one.strip("0.") for one in amounts))


def classify(request: ChannelRequest, reply: Reply | Nothing, held: Keys, contract: Contract) -> Said:
    """What a reply proves. No reply, any status but 200, and whatever is not signed by Alipay are no proof of anything."""
    if not isinstance(reply, Reply):
        return Said(status="TIMEOUT", error_class=reply)
    if reply.status != ANSWERED:
        return Said(status="PROCESSING", error_class=f"http-{reply.status}")
    read = _read(reply.body, held)
    return read if isinstance(read, Said) else _meant(request, read, contract)


def _read(body: bytes, held: Keys) -> Answered | Said:
    """The signed content of a reply, or that it has none."""
    opened = response_of(body)
    if opened is None:
        return Said(status="PROCESSING", error_class="unreadable")
    text, signature = opened
    try:
        answered = msgspec.json.decode(text, type=Answered)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return Said(status="PROCESSING", error_class="unreadable")
    if not signature:
        return Said(status="PROCESSING", error_class=f"unsigned {answered.code} {answered.sub_code}"[:128].rstrip())
    return answered if _signed(held, signature, text) else Said(status="PROCESSING", error_class="bad-signature")


def _signed(held: Keys, signature: str, text: bytes) -> bool:
    try:
        made = base64.b64decode(signature, validate=True)
    except ValueError:
        return False
    return made_by(held.public, made, [text])


def response_of(body: bytes) -> tuple[bytes, str] | None:
    """(the raw text of the one `…_response`, the signature or empty text) of a reply; None for what is no reply."""
    try:
        parts = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        names = [name for name in parts if name.endswith("_response")]
        signature = msgspec.json.decode(parts["sign"], type=str | None) if "sign" in parts else ""
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if len(names) != 1:
        return None
    return bytes(parts[names[0]]), signature or ""


def _meant(request: ChannelRequest, answered: Answered, contract: Contract) -> Said:
    about_refund = request.verb == "REFUND" or (request.verb == "QUERY" and request.operation_no is not None)
    number = answered.out_request_no if about_refund else ""
    if answered.out_trade_no not in {"", request.payment_no} or number not in {"", request.operation_no}:
        return Said(status="PROCESSING", error_class="another-operation")
    if answered.code != OK:
        return _refused(request, answered, contract)
    if request.verb == "QUERY":
        return _refund_found(request, answered) if about_refund else _found(answered)
    return {"SUBMIT": _started, "CLOSE": _closed, "REFUND": _refunded}[request.verb](request, answered)


def _refused(request: ChannelRequest, answered: Answered, contract: Contract) -> Said:
    """A reply with a code: unknown beats everything, and only the contract's own list is a refusal."""
    codes = {answered.code, answered.sub_code} - {""}
    named = answered.sub_code or answered.code or "no-code"
    if NOT_FOUND in codes and request.verb != "SUBMIT":
        return Said(status="NOT_FOUND", error_class=named)
    if answered.code == WAITS_FOR_PAYER:
        return Said(status="PENDING", transaction=answered.trade_no or None, error_class=answered.code)
    status = "PROCESSING"
    if not codes & set(contract.failures.unknown):
        status = REFUSED_AS.get(request.verb, _no_word)(codes, contract) or status
    if request.verb == "SUBMIT" and status in {"PROCESSING", "ALREADY_PAID"}:
        named = _no_refusal(named, contract)
    return Said(status=status, error_class=named)


def _no_word(_: set[str], __: Contract) -> str:
    return ""


def _submit_refused(codes: set[str], contract: Contract) -> str:
    """The contract's own word for a refusal, the more exact one of two."""
    if codes & set(contract.failures.exists):
        return "ALREADY_PAID"
    return max(codes & set(contract.failures.not_accepted), key=len, default="")


def _close_refused(codes: set[str], _: Contract) -> str:
    return "ALREADY_PAID" if codes & CLOSED_OR_PAID else ""


def _refund_refused(codes: set[str], contract: Contract) -> str:
    refused = BUSINESS_REFUSAL in codes and codes & set(contract.failures.not_accepted) and not codes & ASK_FIRST
    return "FAILED" if refused else ""


REFUSED_AS: Final = {"SUBMIT": _submit_refused, "CLOSE": _close_refused, "REFUND": _refund_refused}


def _no_refusal(named: str, contract: Contract) -> str:
    """A name for people that the law cannot take for a witness of refusal."""
    return f"unknown {named}" if named in contract.failures.not_accepted else named


def _started(_: ChannelRequest, answered: Answered) -> Said:
    if answered.qr_code:
        return Said(status="ACCEPTED", payer_action=answered.qr_code)
    if answered.gmt_payment and answered.trade_no:
        return _paid(answered)
    return Said(status="PROCESSING", transaction=answered.trade_no or None)


def _paid(answered: Answered) -> Said:
    return Said(
        status="SUCCESS",
        transaction=answered.trade_no or None,
        amount=from_text(answered.currency, answered.total_amount),
        currency=answered.currency,
    )


def _closed(_: ChannelRequest, answered: Answered) -> Said:
    return Said(status="CLOSED", transaction=answered.trade_no or None)


def _found(answered: Answered) -> Said:
    word = WORDS.get(answered.trade_status)
    if word == "SUCCESS" or (word == "CLOSED" and answered.paid_once):  # closed after it went back in full: it was paid
        return _paid(answered)
    if word is None:
        return Said(status="PROCESSING", error_class=f"trade_status {answered.trade_status}"[:128])
    return Said(status=word, transaction=answered.trade_no or None)


def _refunded(request: ChannelRequest, answered: Answered) -> Said:
    if answered.fund_change != "Y":
        return Said(status="PROCESSING", error_class=f"fund_change {answered.fund_change}"[:128].rstrip())
    total = from_text(answered.currency, answered.refund_fee)
    return Said(
        status="SUCCESS",
        transaction=request.operation_no,
        amount=total if total == request.amount else None,
        currency=answered.currency,
    )


def _refund_found(request: ChannelRequest, answered: Answered) -> Said:
    if answered.refund_status != "REFUND_SUCCESS":
        return Said(status="PROCESSING", error_class=f"refund_status {answered.refund_status}"[:128].rstrip())
    return Said(
        status="SUCCESS",
        transaction=request.operation_no,
        amount=from_text(answered.currency, answered.refund_amount),
        currency=answered.currency,
    )


REQUESTS: Final[Requests[Credentials, Keys]] = Requests(
    channel=CHANNEL, endpoint=ENDPOINT, build=build, classify=classify
)
