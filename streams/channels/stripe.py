"""Stripe's webhooks: verify one, and map it to what it says about one of our payments.

The signature covers `t.body` with the whole `whsec_…` text as key. The payment is named by metadata that our side sets
when it creates the PaymentIntent (or the Charge): `metadata["order_id"]` is the merchant order id,
`metadata["payment_no"]` our number. The channel transaction is the PaymentIntent's id, on its charges too, so that both
say the same about one payment.

A failed charge or `payment_intent.payment_failed` ends an attempt of the buyer, not the payment: the intent can still
succeed.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, Any, Final

import msgspec

from streams.channels.verification import BadSignature, Malformed, check_fresh, evidence, header, rfc3339, unix_seconds
from streams.domain.events import Amount, Callback, Currency, Unmapped

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

CHANNEL: Final = "stripe"
SIGNATURE: Final = "Stripe-Signature"
MOST_SIGNATURES: Final = 16

INTENT_WORDS: Final = {
    "succeeded": "SUCCESS",
    "canceled": "CLOSED",
    "processing": "PROCESSING",
    "requires_action": "PENDING",
    "requires_confirmation": "PENDING",
    "requires_payment_method": "PENDING",
    "requires_capture": "AUTHORIZED",
}
CHARGE_WORDS: Final = {"succeeded": "SUCCESS", "failed": "FAILED", "pending": "PENDING"}
SAYS_SUCCESS: Final = frozenset({"payment_intent.succeeded", "charge.succeeded", "charge.captured"})
SAYS_NO_SUCCESS: Final = frozenset({"payment_intent.canceled", "payment_intent.payment_failed", "charge.failed"})
NOT_HANDLED: Final = (
    ("charge.refund", "refund notices are not handled by this version"),
    ("refund.", "refund notices are not handled by this version"),
    ("charge.dispute.", "dispute notices are not handled by this version"),
    ("charge.expired", "releases of an authorisation are not handled by this version"),
)
# Stripe counts these in other units than ISO 4217 does: (their minor units) times this.
UNITS: Final = {"MGA": 100}


class Intent(msgspec.Struct, frozen=True):
    """The fields of a PaymentIntent that say something about a payment. Amounts in minor units."""

    id: str
    status: str
    amount: Amount
    currency: Currency
    amount_received: Amount = 0
    amount_capturable: Amount = 0
    metadata: dict[str, str] | None = None


class Charge(msgspec.Struct, frozen=True):
    """The fields of a Charge that say something about a payment. Amounts in minor units."""

    id: str
    status: str
    amount: Amount
    currency: Currency
    captured: bool = True
    amount_captured: Amount | None = None
    payment_intent: str | dict[str, Any] | None = None
    metadata: dict[str, str] | None = None


class Data(msgspec.Struct, frozen=True):
    object: msgspec.Raw


class Notice(msgspec.Struct, frozen=True):
    """The envelope of every webhook."""

    id: str
    type: str
    created: int
    data: Data
    livemode: bool | None = None
    account: str | None = None


def verify(headers: Mapping[str, str], body: bytes, keys: Sequence[str], now_s: int) -> None:
    """Accept a webhook that any live signing secret signed within 300 s of `now_s`, or raise a `Refused`.

    `body` is the raw bytes: a stripped newline breaks the signature. `v0` is ignored (it signs test traffic).
    """
    signed_s, text, signatures = _signature(header(headers, SIGNATURE))
    payload = text.encode("ascii") + b"." + body
    matches = 0
    for key in keys:
        expected = hmac.new(key.encode(), payload, hashlib.sha256).hexdigest().encode("ascii")
        for signature in signatures:
            matches += hmac.compare_digest(expected, signature)
    if not matches:
        raise BadSignature(
            SIGNATURE, "no live signing secret made it", "check the endpoint's whsec_ secret and the raw body"
        )
    check_fresh(signed_s, now_s, f"{SIGNATURE} t")


def _signature(value: str) -> tuple[int, str, list[bytes]]:
    times: list[str] = []
    signatures: list[bytes] = []
    for item in value.split(","):
        scheme, equals, text = item.strip().partition("=")
        if not equals or not text:
            raise Malformed(SIGNATURE, "an item is not name=value", "it must read t=…,v1=…")
        if scheme == "t":
            times.append(text)
        elif scheme == "v1":
            signatures.append(text.encode())
    if len(times) != 1 or not 1 <= len(signatures) <= MOST_SIGNATURES:
        raise Malformed(
            SIGNATURE, f"it has {len(times)} t and {len(signatures)} v1 items", "it must read t=…,v1=…[,v1=…]"
        )
    return unix_seconds(times[0], f"{SIGNATURE} t"), times[0], signatures


def to_events(
    headers: Mapping[str, str], body: bytes, account: str, *, received_at: datetime | None = None
) -> list[Callback | Unmapped]:
    """Map a verified webhook. What cannot be mapped is `Unmapped` with the reason: it is kept all the same."""
    channel = f"{CHANNEL}:{account}"
    try:
        notice = msgspec.json.decode(body, type=Notice)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        reason = f"the body is not a Stripe event: {error}"
        return [Unmapped(channel=channel, event_type="", reason=reason, raw=evidence(headers, body))]
    event = _payment(notice, account)
    common: dict[str, Any] = {
        "channel": channel,
        "event_type": notice.type,
        "event_id": notice.id,
        "raw": evidence(headers, body),
    }
    if isinstance(event, str):
        return [Unmapped(reason=event, **common)]
    return [
        Callback(
            event_time=rfc3339(notice.created), livemode=notice.livemode, received_at=received_at, **event, **common
        )
    ]


def _payment(notice: Notice, account: str) -> dict[str, Any] | str:
    """The payment's fields, or the reason why there are none."""
    if notice.account not in (None, account):
        return f"account: the event is about {notice.account}, not {account}; give each account its own endpoint"
    for start, reason in NOT_HANDLED:
        if notice.type.startswith(start):
            return reason
    kind = notice.type.partition(".")[0]
    try:
        if kind == "payment_intent":
            return _of_intent(notice.type, msgspec.json.decode(notice.data.object, type=Intent))
        if kind == "charge":
            return _of_charge(notice.type, msgspec.json.decode(notice.data.object, type=Charge))
    except msgspec.ValidationError as error:
        return f"data.object: {error}"
    return f"type: {notice.type} says nothing about a payment; leave it out of the endpoint's events"


def _of_intent(event_type: str, intent: Intent) -> dict[str, Any] | str:
    word = INTENT_WORDS.get(intent.status, intent.status)
    if event_type == "payment_intent.payment_failed" and word not in ("SUCCESS", "AUTHORIZED"):
        word = "DECLINED_RETRYABLE"
    amount = {"SUCCESS": intent.amount_received, "AUTHORIZED": intent.amount_capturable}.get(word, intent.amount)
    word = _checked(event_type, word)
    return _facts(intent.metadata, status=word, transaction=intent.id, amount=amount, currency=intent.currency)


def _of_charge(event_type: str, charge: Charge) -> dict[str, Any] | str:
    intent = charge.payment_intent.get("id") if isinstance(charge.payment_intent, dict) else charge.payment_intent
    word, amount = CHARGE_WORDS.get(charge.status, charge.status), charge.amount
    if word == "SUCCESS" and not charge.captured:
        word = "AUTHORIZED"
    elif word == "SUCCESS" and charge.amount_captured is not None:
        amount = charge.amount_captured
    elif word == "FAILED" and intent:
        word = "DECLINED_RETRYABLE"
    word, transaction = _checked(event_type, word), intent or charge.id
    return _facts(charge.metadata, status=word, transaction=transaction, amount=amount, currency=charge.currency)


def _checked(event_type: str, word: str) -> str:
    """The event's name and its object must tell the same story; if they do not, neither is believed."""
    if event_type in SAYS_SUCCESS and word not in ("SUCCESS", "AUTHORIZED"):
        return "CONTRADICTORY"
    if event_type in SAYS_NO_SUCCESS and word in ("SUCCESS", "AUTHORIZED"):
        return "CONTRADICTORY"
    return word


def _facts(
    metadata: Mapping[str, str] | None, *, status: str, transaction: str, amount: int, currency: str
) -> dict[str, Any] | str:
    names = {name: (metadata or {}).get(name, "") for name in ("order_id", "payment_no")}
    for name, value in names.items():
        if not value:
            return f"data.object.metadata.{name} is absent; set it when the payment is created"
    currency = currency.upper()
    amount *= UNITS.get(currency, 1)
    return {**names, "status": status, "transaction": transaction, "amount": amount, "currency": currency}
