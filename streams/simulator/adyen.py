"""How the simulator speaks as Adyen: standard notifications with a signature in each item, and the Checkout API.

A payment's success is an AUTHORISATION, as in an account that captures by itself. A card's entry is a platform webhook, signed as a
whole. Modifications are answered `received`, whatever becomes of them.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import Struct

from streams.channels import adyen
from streams.channels.adyen import CHANNEL, PLATFORM_SIGNATURE
from streams.channels.adyen_items import CAPTURE, SIGNATURE, UNREADABLE, VOID, WHOLE, Amount, Item
from streams.channels.amounts import from_channel_minor, to_channel_minor
from streams.channels.contracts import shipped
from streams.channels.requests import Call, Reply
from streams.simulator.dialect import Asked, Delivery, Dialect, Fact, Verb, Word

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from streams.domain.contract import Contract

PAYMENT: Final[Mapping[str, tuple[str, str]]] = {
    "SUCCESS": ("AUTHORISATION", "true"),
    "AUTHORIZED": ("AUTHORISATION", "true"),
    "FAILED": ("AUTHORISATION", "false"),
    "CLOSED": ("CANCELLATION", "true"),
}
"""Word -> event code and success. What waits is told by PENDING."""
CODES: Final = {"capture": "CAPTURE", "void": "CANCELLATION", "refund": "REFUND"}
DISPUTES: Final = {"SUCCESS": "CHARGEBACK_REVERSED", "FAILED": "SECOND_CHARGEBACK"}
RESULTS: Final = {"SUCCESS": "Authorised", "AUTHORIZED": "Authorised", "FAILED": "Refused", "CLOSED": "Cancelled"}
MARKS: Final = {"capture": CAPTURE, "void": VOID}
MODIFIED: Final = re.compile(r"/payments/(?P<psp>[^/]+)/(?P<what>captures|refunds|cancels)")
VERBS: Final[dict[str, Verb]] = {"captures": "capture", "refunds": "refund"}


class Secrets(Struct, frozen=True):
    """The signing side, and the key that our requests carry."""

    hmac_key: str
    platform_hmac_key: str
    api_key: str


class Body(Struct, frozen=True, rename="camel"):
    """A request of ours as the channel reads it."""

    amount: Amount | None = None
    reference: str | None = None
    payment_reference: str | None = None
    metadata: dict[str, str] = {}


def secrets(seed: int) -> tuple[Secrets, Mapping[str, Any]]:
    """(the channel's side, our credentials file)"""
    made = [hashlib.sha256(f"{CHANNEL}/{seed}/{name}".encode()).hexdigest() for name in ("hook", "platform", "api")]
    found = Secrets(made[0], made[1], f"test_{made[2]}")
    return found, {
        "hmac_keys": [found.hmac_key.upper()],
        "platform_hmac_keys": [found.platform_hmac_key.upper()],
        "api_key": found.api_key,
    }


# -- notices


def notice(held: Secrets, fact: Fact, account: str, now: datetime, contract: Contract) -> Delivery:
    """The signed message of a fact: a standard notification of one item; for a card's entry a platform webhook."""
    if fact.about == "card":
        return platform(held, _transfer(fact, now, contract))
    return batch(held, [item(fact, account, contract)])


def item(fact: Fact, account: str, contract: Contract) -> dict[str, Any]:
    """The notification of a fact, not yet signed."""
    code, success = _event(fact)
    said = {
        "additionalData": {"metadata.order_id": fact.order_id, "metadata.payment_no": fact.payment_no},
        "amount": _money(fact, contract),
        "eventCode": code,
        "eventDate": fact.at.isoformat(timespec="seconds"),
        "merchantAccountCode": account,
        "merchantReference": f"{MARKS.get(fact.about, '')}{fact.operation_no or fact.payment_no}",
        "operations": ["CANCEL", "CAPTURE", "REFUND"],
        "paymentMethod": "visa",
        "pspReference": fact.transaction,
        "reason": "",
        "success": success,
    }
    if fact.about != "payment" or code == "CANCELLATION":
        said |= {"pspReference": _own(fact), "originalReference": fact.transaction}
    return said


def _event(fact: Fact) -> tuple[str, str]:
    if fact.about == "payment":
        return PAYMENT.get(fact.word, ("PENDING", "true"))
    if fact.about == "dispute":
        return DISPUTES.get(fact.word, "CHARGEBACK"), "true"
    if fact.about == "refund" and fact.word not in {"SUCCESS", "FAILED", "CLOSED"}:
        return "POSTPONED_REFUND", "true"
    return CODES.get(fact.about, "PENDING"), "true" if fact.word == "SUCCESS" else "false"


def _own(fact: Fact) -> str:
    """The reference of what is done to a payment."""
    return fact.operation_transaction or f"{fact.transaction}{fact.about[0].upper()}{fact.sequence}"


def _money(fact: Fact, contract: Contract) -> dict[str, Any]:
    return {"currency": fact.currency, "value": to_channel_minor(contract, fact.currency, fact.amount)}


def batch(held: Secrets, items: Sequence[Mapping[str, Any]], *, live: str = "true") -> Delivery:
    """The delivery of a notification with these items, each signed."""
    signed = [{"NotificationRequestItem": sealed(held, one)} for one in items]
    body = msgspec.json.encode({"live": live, "notificationItems": signed})
    return Delivery(headers={"Content-Type": "application/json; charset=utf-8"}, body=body)


def sealed(held: Secrets, said: Mapping[str, Any]) -> dict[str, Any]:
    """The item with its signature in the additional data."""
    text = msgspec.convert(said, Item).signed_text()
    made = adyen.signature(bytes.fromhex(held.hmac_key), text.encode())
    return dict(said) | {"additionalData": {**said.get("additionalData", {}), SIGNATURE: made}}


def platform(held: Secrets, said: Mapping[str, Any]) -> Delivery:
    """The delivery of a platform webhook, signed over its bytes."""
    body = msgspec.json.encode(said)
    made = adyen.signature(bytes.fromhex(held.platform_hmac_key), body)
    return Delivery(headers={"Content-Type": "application/json", PLATFORM_SIGNATURE: made}, body=body)


def _transfer(fact: Fact, now: datetime, contract: Contract) -> dict[str, Any]:
    """A purchase, or a refund where the fact has an operation of its own."""
    status, direction = ("refunded", "incoming") if fact.operation_no else ("captured", "outgoing")
    names = {"order_id": fact.order_id, "payment_no": fact.payment_no}
    return {
        "environment": "live",
        "type": "balancePlatform.transfer.updated",
        "timestamp": now.isoformat(timespec="seconds"),
        "data": {
            "id": fact.transaction,
            "status": status if fact.word == "SUCCESS" else "authorised",
            "category": "issuedCard",
            "type": "payment",
            "direction": direction,
            "sequenceNumber": fact.sequence,
            "amount": _money(fact, contract),
            "categoryData": {"type": "issuedCard", "relayedAuthorisationData": {"metadata": names}},
            "events": [{"status": "authorised"}],
        },
    }


# -- the API


def read(held: Secrets, call: Call) -> Asked | None:
    """A request to the API, understood; None for another address or method, or a body that cannot be read."""
    path = re.sub(r"^/v[0-9]+(?=/)", "", urlsplit(call.url).path)
    found = MODIFIED.fullmatch(path)
    if call.method != "POST" or (found is None and path not in {"/payments", "/cancels"}):
        return None
    try:
        body = msgspec.json.decode(call.body, type=Body)
    except UNREADABLE:
        return None
    headers = {name.lower(): value for name, value in call.headers.items()}
    money = _asked_money(body)
    facts: dict[str, Any] = {"key": headers.get("idempotency-key"), "signed": headers.get("x-api-key") == held.api_key}
    reference = body.reference or ""
    if found is None and path == "/payments":
        return Asked(verb="submit", order_id=body.metadata.get("order_id", ""), payment_no=reference, **money, **facts)
    if found is None:
        return Asked(verb="close", payment_no=body.payment_reference or "", **facts)
    facts |= {"transaction": unquote(found["psp"])}
    return _asked_of(found["what"], reference, money, facts)


def _asked_of(what: str, reference: str, money: Mapping[str, Any], facts: dict[str, Any]) -> Asked:
    if what == "cancels" and not reference.startswith(VOID):
        return Asked(verb="close", payment_no=reference, **facts)
    verb: Verb = VERBS.get(what, "void")
    number = reference.removeprefix(MARKS.get(verb, ""))
    about: Any = verb
    return Asked(verb=verb, operation_no=number, about=about, **(money if what != "cancels" else {}), **facts)


def _asked_money(body: Body) -> dict[str, Any]:
    stated = body.amount
    if stated is None or not stated.currency or not WHOLE.fullmatch(str(stated.value)):
        return {}
    amount = from_channel_minor(shipped()[CHANNEL], stated.currency, int(stated.value))
    return {"amount": amount, "currency": stated.currency}


def answer(
    _held: Secrets,
    asked: Asked,
    word: Word,
    fact: Fact | None,
    _duplicate: bool,  # noqa: FBT001
    _now: datetime,
    contract: Contract,
) -> Reply:
    """The API's reply. The same key again gets the first one, which the simulator sees to."""
    if not asked.signed:
        return _reply(401, {"status": 401, "errorCode": "000", "errorType": "security"})
    if word in {"REFUSED", "NOT_FOUND"} and asked.verb != "close":
        return _reply(422, {"status": 422, "errorCode": "130", "errorType": "validation"})
    if asked.verb != "submit":
        own = _own(fact) if fact is not None else f"cancel{asked.payment_no}"
        return _reply(201, {"status": "received", "pspReference": own, "merchantAccount": ""})
    said: dict[str, Any] = {"resultCode": RESULTS.get(word, "Pending"), "merchantReference": asked.payment_no}
    if fact is not None:
        said |= {"pspReference": fact.transaction, "amount": _money(fact, contract)}
    if word == "PROCESSING":
        said["action"] = {"type": "redirect", "url": "https://payer.example/"}
    return _reply(200, said)


def _reply(status: int, said: Mapping[str, Any]) -> Reply:
    return Reply(status=status, headers={"content-type": "application/json"}, body=msgspec.json.encode(said))


DIALECT: Final = Dialect(channel=CHANNEL, secrets=secrets, notice=notice, read=read, answer=answer)
