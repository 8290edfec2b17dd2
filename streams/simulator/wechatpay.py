"""The simulator as WeChat Pay v3: notices sealed and signed with keys of its own, orders and refunds as its API answers them.

A payer of the simulator pays at once, so an order that was placed is soon a success; what its API answers to the placing is only a code.
"""

from __future__ import annotations

import base64
import hashlib
import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from msgspec import Struct

from streams.channels.requests import Call, Reply
from streams.simulator import seeded_rsa
from streams.simulator.dialect import Asked, Delivery, Dialect, Fact, Word

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from streams.domain.contract import Contract

CHANNEL: Final = "wechatpay"
APP_ID: Final = "wx0123456789abcdef"
SERIAL: Final = "PUB_KEY_ID_0001"
ASSOCIATED: Final = "transaction"
SCHEME: Final = re.compile(r'WECHATPAY2-SHA256-RSA2048 (?:[a-z_]+="[^"]*",?)+', re.ASCII)
PAIR: Final = re.compile(r'([a-z_]+)="([^"]*)"', re.ASCII)

STATES: Final[Mapping[str, str]] = {
    "SUCCESS": "SUCCESS",
    "FAILED": "PAYERROR",
    "CLOSED": "CLOSED",
    "PROCESSING": "USERPAYING",
}
REFUND_STATES: Final[Mapping[str, str]] = {
    "SUCCESS": "SUCCESS",
    "FAILED": "CLOSED",
    "CLOSED": "CLOSED",
    "PROCESSING": "PROCESSING",
}


class Secrets(Struct, frozen=True):
    """The platform's signing key and the merchant's keys, private keys as PEM."""

    platform: str
    merchant: str
    api_key: str


def secrets(seed: int) -> tuple[Secrets, Mapping[str, Any]]:
    """(the channel's side, our credentials file)"""
    platform, merchant = (seeded_rsa.key(seed, f"{CHANNEL}/{name}") for name in ("platform", "merchant"))
    api_key = hashlib.sha256(f"{CHANNEL}/{seed}".encode()).hexdigest()[:32]
    found = Secrets(seeded_rsa.private_pem(platform), seeded_rsa.private_pem(merchant), api_key)
    return found, {
        "api_v3_keys": [api_key],
        "platform_public_keys": {SERIAL: seeded_rsa.public_pem(platform)},
        "app_id": APP_ID,
        "merchant_serial": "0A1B2C3D",
        "merchant_private_key": found.merchant,
        "notify_url": "https://gateway.example/callbacks/wechatpay/1900000001",
    }


# -- notices


def notice(secrets: Secrets, fact: Fact, account: str, now: datetime, _contract: Contract) -> Delivery:
    """The signed notice of a fact: of a payment, or of a refund."""
    if fact.about == "refund":
        state = REFUND_STATES.get(fact.word, "PROCESSING")
        kind = f"REFUND.{'ABNORMAL' if state == 'PROCESSING' else state}"
        plain = {"mchid": account, **_refund(fact), "refund_status": "ABNORMAL" if state == "PROCESSING" else state}
    else:
        state = STATES.get(fact.word, "NOTPAY")
        kind, plain = f"TRANSACTION.{state}", {"mchid": account, **_transaction(fact, state)}
    body = sealed(secrets, fact.event_id, kind, msgspec.json.encode(plain), fact.at)
    return Delivery(headers=signed(secrets, body, int(now.timestamp())), body=body)


def sealed(secrets: Secrets, event_id: str, kind: str, plain: bytes, at: datetime) -> bytes:
    """A notice's body, with its content sealed."""
    nonce = hashlib.sha256(f"{event_id}/{kind}".encode()).hexdigest()[:12]
    ciphertext = AESGCM(secrets.api_key.encode()).encrypt(nonce.encode(), plain, ASSOCIATED.encode())
    resource = {
        "original_type": ASSOCIATED,
        "algorithm": "AEAD_AES_256_GCM",
        "ciphertext": base64.b64encode(ciphertext).decode(),
        "associated_data": ASSOCIATED,
        "nonce": nonce,
    }
    return msgspec.json.encode({
        "id": event_id,
        "create_time": at.isoformat(timespec="seconds"),
        "resource_type": "encrypt-resource",
        "event_type": kind,
        "summary": "",
        "resource": resource,
    })  # fmt: skip


def signed(secrets: Secrets, body: bytes, at: int) -> dict[str, str]:
    """The headers of a notice or a reply that was signed at `at`, Unix seconds."""
    nonce = hashlib.sha256(body).hexdigest()[:32]
    message = f"{at}\n{nonce}\n".encode() + body + b"\n"
    signature = seeded_rsa.loaded(secrets.platform).sign(message, PKCS1v15(), SHA256())
    return {
        "Content-Type": "application/json",
        "Wechatpay-Timestamp": str(at),
        "Wechatpay-Nonce": nonce,
        "Wechatpay-Serial": SERIAL,
        "Wechatpay-Signature": base64.b64encode(signature).decode(),
        "Wechatpay-Signature-Type": "WECHATPAY2-SHA256-RSA2048",
    }


def _transaction(fact: Fact, state: str) -> dict[str, Any]:
    return {
        "appid": APP_ID,
        "out_trade_no": fact.payment_no,
        "transaction_id": fact.transaction,
        "trade_state": state,
        "attach": msgspec.json.encode({"order_id": fact.order_id}).decode(),
        "success_time": fact.at.isoformat(timespec="seconds"),
        "amount": {
            "total": fact.amount,
            "payer_total": fact.amount,
            "currency": fact.currency,
            "payer_currency": fact.currency,
        },
    }


def _refund(fact: Fact) -> dict[str, Any]:
    """As in notices and replies, but for its status; the amount has no currency."""
    return {
        "out_trade_no": fact.payment_no,
        "transaction_id": fact.transaction,
        "out_refund_no": fact.operation_no or f"refund-{fact.event_id}",
        "refund_id": fact.operation_transaction or f"50{fact.event_id}",
        "success_time": fact.at.isoformat(timespec="seconds"),
        "amount": {
            "total": fact.amount,
            "refund": fact.amount,
            "payer_total": fact.amount,
            "payer_refund": fact.amount,
        },
    }


# -- the API


class Amounts(Struct, frozen=True):
    total: int | None = None
    refund: int | None = None
    currency: str | None = None


class Order(Struct, frozen=True):
    """The body of a request, whichever it is."""

    out_trade_no: str = ""
    out_refund_no: str | None = None
    attach: str = ""
    amount: Amounts = Amounts()


def read(secrets: Secrets, call: Call) -> Asked | None:
    """A request of ours, understood; None for an address that the API does not have, or a body that cannot be read."""
    where = urlsplit(call.url)
    try:
        order = msgspec.json.decode(call.body, type=Order) if call.body else Order()
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    asked = _asked(call.method, [unquote(part) for part in where.path.removeprefix("/v3/").split("/")], order)
    return None if asked is None else msgspec.structs.replace(asked, signed=_signed(secrets, call))


def _asked(method: str, parts: list[str], order: Order) -> Asked | None:
    match method, parts:
        case "POST", ["pay", "transactions", "native" | "jsapi"]:
            return Asked(
                verb="submit",
                order_id=_order_id(order.attach),
                payment_no=order.out_trade_no,
                key=order.out_trade_no,
                amount=order.amount.total,
                currency=order.amount.currency,
            )
        case "GET", ["pay", "transactions", "out-trade-no", number]:
            return Asked(verb="query", payment_no=number)
        case "POST", ["pay", "transactions", "out-trade-no", number, "close"]:
            return Asked(verb="close", payment_no=number)
        case "POST", ["refund", "domestic", "refunds"]:
            return Asked(
                verb="refund",
                payment_no=order.out_trade_no,
                operation_no=order.out_refund_no,
                key=order.out_refund_no,
                amount=order.amount.refund,
                currency=order.amount.currency,
            )
        case "GET", ["refund", "domestic", "refunds", number]:
            return Asked(verb="query", about="refund", operation_no=number)
    return None


def _order_id(attach: str) -> str:
    try:
        return msgspec.json.decode(attach, type=dict[str, str]).get("order_id", "")
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ""


def _signed(secrets: Secrets, call: Call) -> bool:
    """Whether the merchant signed method, path, time, nonce and body."""
    headers = {name.lower(): value for name, value in call.headers.items()}
    value = headers.get("authorization", "")
    if not SCHEME.fullmatch(value):
        return False
    said = dict(PAIR.findall(value))
    head = "\n".join((call.method, call.url, said.get("timestamp", ""), said.get("nonce_str", ""), ""))
    public = seeded_rsa.loaded(secrets.merchant).public_key()
    try:
        signature = base64.b64decode(said.get("signature", ""), validate=True)
        public.verify(signature, head.encode() + call.body + b"\n", PKCS1v15(), SHA256())
    except (ValueError, InvalidSignature):
        return False
    return True


def answer(  # noqa: PLR0917  as the dialect has it
    secrets: Secrets,
    asked: Asked,
    word: Word,
    fact: Fact | None,
    duplicate: bool,  # noqa: FBT001  as the dialect has it
    now: datetime,
    _contract: Contract,
) -> Reply:
    """The signed reply of the API."""
    status, body = _said(asked, word, fact, duplicate=duplicate)
    content = b"" if body is None else msgspec.json.encode(body)
    headers = {name.lower(): value for name, value in signed(secrets, content, int(now.timestamp())).items()}
    return Reply(status=status, headers=headers, body=content)


def _said(asked: Asked, word: Word, fact: Fact | None, *, duplicate: bool) -> tuple[int, dict[str, Any] | None]:  # noqa: PLR0911  one reply a line
    if not asked.signed:
        return 401, _code("SIGN_ERROR")
    if asked.verb == "close" and fact is not None and not duplicate:
        return 204, None
    if word == "NOT_FOUND" or (fact is None and word != "REFUSED"):
        return 404, _code("RESOURCE_NOT_EXISTS" if asked.about == "refund" else "ORDER_NOT_EXIST")
    if fact is None:
        return 400, _code("OUT_TRADE_NO_USED" if duplicate and asked.verb == "submit" else "PARAM_ERROR")
    if asked.verb == "close":
        return 400, _code(
            {"SUCCESS": "ORDERPAID", "CLOSED": "ORDER_CLOSED", "FAILED": "ORDER_CLOSED"}.get(word, "USERPAYING")
        )
    if asked.verb == "submit":
        return 200, {"code_url": f"weixin://wxpay/bizpayurl?pr={fact.transaction}"}
    if fact.about == "refund":
        return 200, {**_refund(fact), "status": REFUND_STATES.get(word, "PROCESSING")}
    return 200, {"mchid": "", **_transaction(fact, STATES.get(word, "NOTPAY"))}


def _code(code: str) -> dict[str, str]:
    return {"code": code, "message": "see the code"}


DIALECT: Final = Dialect(channel=CHANNEL, secrets=secrets, notice=notice, read=read, answer=answer)
