"""The simulator as Stripe: webhooks signed with a secret of its own, PaymentIntents and Refunds as its API answers them.

Only what Stripe calls final is final here: a payment that failed is a canceled intent, because an intent whose attempt was declined
could still succeed. A dispute and a card's entry carry no metadata, as the real ones do not: they are found by reference.
"""

from __future__ import annotations

import hashlib
import hmac
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec
from msgspec import Struct

from streams.channels.amounts import from_channel_minor, to_channel_minor
from streams.channels.contracts import shipped
from streams.channels.requests import Call, Reply
from streams.domain.contract import DEFAULT, Contract
from streams.simulator.dialect import Asked, Delivery, Dialect, Fact, Verb, Word

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

CHANNEL: Final = "stripe"
INTENTS: Final = "/v1/payment_intents"
REFUNDS: Final = "/v1/refunds"
SEARCHED: Final = "metadata['payment_no']:'"

INTENT: Final[Mapping[str, tuple[str, str]]] = {
    "SUCCESS": ("succeeded", "payment_intent.succeeded"),
    "FAILED": ("canceled", "payment_intent.canceled"),
    "CLOSED": ("canceled", "payment_intent.canceled"),
    "PROCESSING": ("processing", "payment_intent.processing"),
    "AUTHORIZED": ("requires_capture", "payment_intent.amount_capturable_updated"),
    "REFUSED": ("requires_payment_method", "payment_intent.payment_failed"),
    "NOT_FOUND": ("requires_payment_method", "payment_intent.created"),
}
"""Word -> the intent's status, and the event that tells it."""
REFUND: Final[Mapping[str, tuple[str, str]]] = {
    "SUCCESS": ("succeeded", "refund.updated"),
    "FAILED": ("failed", "refund.failed"),
    "CLOSED": ("canceled", "refund.updated"),
}
DISPUTE: Final[Mapping[str, tuple[str, str]]] = {
    "SUCCESS": ("won", "charge.dispute.closed"),
    "FAILED": ("lost", "charge.dispute.closed"),
}


class Secrets(Struct, frozen=True):
    """The signing side, and the key that our requests carry."""

    webhook_secret: str
    api_key: str


def secrets(seed: int) -> tuple[Secrets, Mapping[str, Any]]:
    """(the channel's side, our credentials file)"""
    made = [hashlib.sha256(f"{CHANNEL}/{seed}/{name}".encode()).hexdigest()[:32] for name in ("hook", "api")]
    found = Secrets(f"whsec_{made[0]}", f"sk_test_{made[1]}")
    return found, {"webhook_secrets": [found.webhook_secret], "api_key": found.api_key}


# -- notices


def notice(secrets: Secrets, fact: Fact, account: str, now: datetime, contract: Contract) -> Delivery:
    """The signed webhook of a fact."""
    obj, kind = _object(fact, contract)
    envelope = {
        "id": fact.event_id,
        "object": "event",
        "api_version": "2024-06-20",
        "created": int(fact.at.timestamp()),
        "data": {"object": obj},
        "livemode": True,
        "pending_webhooks": 1,
        "request": {"id": None, "idempotency_key": None},
        "type": kind,
        "account": account,
    }
    body = msgspec.json.encode(envelope)
    return Delivery(headers=signed(secrets.webhook_secret, body, int(now.timestamp())), body=body)


def signed(secret: str, body: bytes, at: int) -> dict[str, str]:
    """The headers of a webhook that was signed at `at`, Unix seconds."""
    signature = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return {"Content-Type": "application/json; charset=utf-8", "Stripe-Signature": f"t={at},v1={signature}"}


def _object(fact: Fact, contract: Contract) -> tuple[dict[str, Any], str]:
    if fact.about == "refund":
        status, kind = REFUND.get(fact.word, ("pending", "refund.created"))
        return _refund(fact, status, contract), kind
    if fact.about == "dispute":
        status, kind = DISPUTE.get(fact.word, ("needs_response", "charge.dispute.created"))
        return {**_money(fact, contract), "id": _own(fact, "dp"), "object": "dispute", "status": status,
                "payment_intent": fact.transaction, "metadata": {}}, kind  # fmt: skip
    if fact.about == "card":
        return _card(fact, contract), "issuing_transaction.created"
    status, kind = INTENT[_payment_word(fact)]
    return intent(fact, status, contract), kind


def _payment_word(fact: Fact) -> Word:
    """What a fact makes of the intent: a void cancels it, and a capture or void that failed leaves the hold."""
    if fact.about == "payment":
        return fact.word
    if fact.word != "SUCCESS":
        return "AUTHORIZED"
    return "CLOSED" if fact.about == "void" else "SUCCESS"


def intent(fact: Fact, status: str, contract: Contract) -> dict[str, Any]:
    """A PaymentIntent, in the API and in webhooks."""
    money = _money(fact, contract)
    metadata = {"order_id": fact.order_id, "payment_no": fact.payment_no}
    if fact.about == "capture" and fact.operation_no:
        metadata["capture_no"] = fact.operation_no
    return {
        **money,
        "id": fact.transaction,
        "object": "payment_intent",
        "status": status,
        "amount_received": money["amount"] if status == "succeeded" else 0,
        "amount_capturable": money["amount"] if status == "requires_capture" else 0,
        "client_secret": f"{fact.transaction}_secret_test",
        "last_payment_error": None,
        "latest_charge": None,
        "metadata": metadata,
    }


def _refund(fact: Fact, status: str, contract: Contract) -> dict[str, Any]:
    metadata = {"order_id": fact.order_id, "payment_no": fact.payment_no, "refund_no": fact.operation_no}
    return {
        **_money(fact, contract),
        "id": _own(fact, "re"),
        "object": "refund",
        "status": status,
        "payment_intent": fact.transaction,
        "charge": None,
        "metadata": {name: value for name, value in metadata.items() if value},
    }


def _card(fact: Fact, contract: Contract) -> dict[str, Any]:
    """A purchase, or a refund where the fact has an operation of its own."""
    money = _money(fact, contract)
    sign, kind = (1, "refund") if fact.operation_no else (-1, "capture")
    return {
        **money,
        "amount": sign * money["amount"],
        "id": _own(fact, "ipi"),
        "object": "issuing.transaction",
        "type": kind,
        "created": int(fact.at.timestamp()),
        "authorization": fact.transaction,
        "network_data": None,
        "metadata": {},
    }


def _own(fact: Fact, prefix: str) -> str:
    return fact.operation_transaction or f"{prefix}_{fact.event_id}"


def _money(fact: Fact, contract: Contract) -> dict[str, Any]:
    amount = to_channel_minor(contract, fact.currency, fact.amount)
    return {"amount": 0 if amount is None else amount, "currency": fact.currency.lower()}


# -- the API


@cache
def _shipped() -> Contract:
    return shipped().get(CHANNEL) or DEFAULT


def read(secrets: Secrets, call: Call) -> Asked | None:
    """A request of ours, understood; None for an address that the API does not have, or a body without what it needs."""
    where = urlsplit(call.url)
    fields = dict(parse_qsl(call.body.decode(errors="replace") if call.method == "POST" else where.query))
    headers = {name.lower(): value for name, value in call.headers.items()}
    signed = hmac.compare_digest(headers.get("authorization", "").encode(), f"Bearer {secrets.api_key}".encode())
    parts = [unquote(part) for part in where.path.removeprefix("/v1/").split("/")]
    asked = _posted(parts, fields) if call.method == "POST" else _queried(parts, fields)
    if asked is None:
        return None
    return msgspec.structs.replace(asked, signed=signed, key=headers.get("idempotency-key"))


def _posted(parts: list[str], fields: dict[str, str]) -> Asked | None:
    names: dict[str, Any] = {name: fields.get(f"metadata[{name}]", "") for name in ("order_id", "payment_no")}
    match parts:
        case ["payment_intents"]:
            return Asked(verb="submit", **names, **_asked_money(fields, "amount"))
        case ["payment_intents", transaction, "capture"]:
            number = fields.get("metadata[capture_no]")
            money = _asked_money(fields, "amount_to_capture")
            return Asked(verb="capture", transaction=transaction, operation_no=number, **names, **money)
        case ["payment_intents", transaction, "cancel"]:
            verb: Verb = "void" if fields.get("cancellation_reason") == "requested_by_customer" else "close"
            return Asked(verb=verb, transaction=transaction)
        case ["refunds"]:
            number, transaction = fields.get("metadata[refund_no]"), fields.get("payment_intent", "")
            money = _asked_money(fields, "amount")
            return Asked(verb="refund", transaction=transaction, operation_no=number, **names, **money)
    return None


def _queried(parts: list[str], fields: dict[str, str]) -> Asked | None:
    match parts:
        case ["payment_intents", "search"]:
            quoted = fields.get("query", "")
            if not quoted.startswith(SEARCHED):
                return None
            number = quoted.removeprefix(SEARCHED)[:-1].replace("\\'", "'").replace("\\\\", "\\")
            return Asked(verb="query", payment_no=number)
        case ["payment_intents", transaction]:
            return Asked(verb="query", transaction=transaction)
        case ["refunds", refund]:
            return Asked(verb="query", about="refund", transaction=refund)
        case ["refunds"]:
            return Asked(verb="query", about="refund", transaction=fields.get("payment_intent"))
    return None


def _asked_money(fields: dict[str, str], name: str) -> dict[str, Any]:
    """In our minor units. A capture or refund states no currency: it is the payment's."""
    text, currency = fields.get(name, ""), fields.get("currency", "").upper()
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        return {}
    amount = int(text)
    if not currency:
        return {"amount": amount}
    return {"amount": from_channel_minor(_shipped(), currency, amount), "currency": currency}


def answer(
    _secrets: Secrets,
    asked: Asked,
    word: Word,
    fact: Fact | None,
    duplicate: bool,  # noqa: FBT001  as the dialect has it
    _now: datetime,
    contract: Contract,
) -> Reply:
    """The reply of the API."""
    if not asked.signed:
        return _error(401, "invalid_request_error", None)
    if asked.about == "refund" or asked.verb == "refund":
        return _refund_answer(asked, word, fact, contract, duplicate=duplicate)
    if asked.verb == "query" and asked.transaction is None:
        found = [] if fact is None else [intent(fact, INTENT[word][0], contract)]
        return _json({"object": "search_result", "data": found, "has_more": False})
    if fact is None or word == "NOT_FOUND":
        return _nothing(word, duplicate=duplicate)
    made = intent(fact, INTENT[_payment_word(fact)][0], contract)
    if asked.verb == "close" and duplicate:
        return _error(400, "invalid_request_error", "payment_intent_unexpected_state", payment_intent=made)
    return _json(made)


def _refund_answer(asked: Asked, word: Word, fact: Fact | None, contract: Contract, *, duplicate: bool) -> Reply:
    listed = asked.verb == "query" and (fact is None or fact.operation_transaction != asked.transaction)
    if listed:
        found = [] if fact is None else [_refund(fact, REFUND.get(word, ("pending", ""))[0], contract)]
        return _json({"object": "list", "data": found, "has_more": False})
    if fact is None:
        return _nothing(word, duplicate=duplicate)
    return _json(_refund(fact, REFUND.get(word, ("pending", ""))[0], contract))


def _nothing(word: Word, *, duplicate: bool) -> Reply:
    """Nothing was done: a key that came with other parameters, an id that is not there, or a request that is not accepted."""
    if duplicate:
        return _error(400, "idempotency_error", None)
    if word == "NOT_FOUND":
        return _error(404, "invalid_request_error", "resource_missing")
    return _error(400, "invalid_request_error", "parameter_invalid")


def _error(status: int, kind: str, code: str | None, **extra: Any) -> Reply:
    return _json({"error": {"type": kind, "code": code, "message": "see the code", **extra}}, status)


def _json(value: Any, status: int = 200) -> Reply:
    return Reply(status=status, headers={"content-type": "application/json"}, body=msgspec.json.encode(value))


DIALECT: Final = Dialect(channel=CHANNEL, secrets=secrets, notice=notice, read=read, answer=answer)
