"""Lithic's webhooks: verify one by Standard Webhooks, and map each event of a card's transaction to the entry that it is.

Every delivery repeats the transaction's whole history, so each event of it is told under its own token, again and again: the token, not
the delivery, is what is counted once. `standardwebhooks` makes the signature; the headers are read here, because the library takes its own
clock, reads a fraction of a second into another signed time, and raises `ValueError` on a signature without a comma.
"""

from __future__ import annotations

import binascii
import hmac
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from msgspec import Struct
from standardwebhooks.webhooks import Webhook

from streams.channels.adapter import Adapter, Mapped, Received
from streams.channels.amounts import from_channel_minor
from streams.channels.card_entries import Entry, Posted, Told, posted
from streams.channels.fitting import unmapped
from streams.channels.verification import BadSignature, Malformed, check_fresh, evidence, header, unix_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streams.domain.contract import Contract

CHANNEL: Final = "lithic"
ID: Final = "webhook-id"
TIMESTAMP: Final = "webhook-timestamp"
SIGNATURE: Final = "webhook-signature"
MOST_SIGNATURES: Final = 16
PREFIX: Final = "whsec_"
UNREADABLE: Final = (msgspec.MsgspecError, UnicodeError, RecursionError)
APPROVED: Final = "APPROVED"
KINDS: Final[Mapping[str, Posted]] = {
    "CLEARING": "PURCHASE",
    "FINANCIAL_AUTHORIZATION": "PURCHASE",
    "RETURN": "REFUND",
    "FINANCIAL_CREDIT_AUTHORIZATION": "REFUND",
}
"""Event type -> the entry that it posts. Holds, their ends, corrections and reversed returns post none that the law could read."""


class Credentials(Struct, frozen=True, kw_only=True):
    """The credentials file."""

    webhook_secrets: list[str]
    """The live signing secrets (`whsec_…`); several while one replaces another."""


class Keys(NamedTuple):
    """The credentials made ready."""

    live: tuple[Webhook, ...]


class Money(Struct, frozen=True):
    amount: int | None = None
    currency: str | None = None


class Amounts(Struct, frozen=True):
    cardholder: Money | None = None
    settlement: Money | None = None
    merchant: Money | None = None


class Event(Struct, frozen=True):
    """One event of a transaction's history. Amounts in minor units."""

    token: str
    type: str
    amount: int | None = None
    amounts: Amounts | None = None
    result: str | None = None
    created: str | None = None
    network_info: dict[str, Any] | None = None


class Transaction(Struct, frozen=True):
    """The whole transaction, as each delivery has it; `token` is its authorisation."""

    token: str
    events: list[Event]
    event_type: str | None = None
    tags: dict[str, Any] | None = None


def keys(credentials: Credentials) -> Keys:
    """Raises `ValueError` naming the field and the fix."""
    if not credentials.webhook_secrets:
        raise ValueError("webhook_secrets: there is none; copy the endpoint's signing secret")
    return Keys(tuple(_secret(text, f"webhook_secrets[{n}]") for n, text in enumerate(credentials.webhook_secrets)))


def _secret(text: str, field: str) -> Webhook:
    encoded = text.removeprefix(PREFIX)
    try:
        secret = binascii.a2b_base64(encoded + "=" * (-len(encoded) % 4), strict_mode=True)
    except ValueError:
        raise ValueError(f"{field}: it is not whsec_ and base64; copy the whole secret") from None
    if len(secret) < 16:
        raise ValueError(f"{field}: it is shorter than 16 bytes; copy the whole secret")
    return Webhook(secret)


def verify(held: Keys, received: Received) -> None:
    """Accept a webhook that a live secret signed within 300 s of the receipt, or raise a `Refused`."""
    number, time = header(received.headers, ID), header(received.headers, TIMESTAMP)
    signed_s = unix_seconds(time, TIMESTAMP)
    given = _signatures(header(received.headers, SIGNATURE))
    try:
        at, body = datetime.fromtimestamp(signed_s, UTC), received.body.decode()
        made = [live.sign(number, at, body).encode() for live in held.live]
    except (ValueError, OverflowError, OSError) as error:  # what is no text was signed by nobody
        raise BadSignature(
            SIGNATURE, "the body, id or time is no text that can be signed", "pass the raw body"
        ) from error
    if not sum(hmac.compare_digest(one, other) for one in made for other in given) or time != str(signed_s):
        raise BadSignature(SIGNATURE, "no live secret made it", "check webhook_secrets and pass the raw body")
    check_fresh(signed_s, int(received.at.timestamp()), TIMESTAMP)


def _signatures(value: str) -> list[bytes]:
    """Those of the version that is known here, as `v1,…`; others (`v1a`) are skipped."""
    found = [part.encode("utf-8", "replace") for part in value.split(" ") if part.startswith("v1,")]
    if not 1 <= len(found) <= MOST_SIGNATURES:
        raise Malformed(SIGNATURE, f"it has {len(found)} signatures of version v1", "pass the request's own header")
    return found


def events(_held: Keys, received: Received, contract: Contract) -> list[Mapped]:
    """One event for each of the history, under its own token."""
    channel, raw = f"{CHANNEL}:{received.account}", evidence(received.headers, received.body)
    number = next((value for name, value in received.headers.items() if name.lower() == ID), None)
    try:
        transaction = msgspec.json.decode(received.body, type=Transaction)
    except UNREADABLE as error:
        reason = f"the body is no card transaction: {error}"
        return [Mapped(unmapped(channel, reason, raw=raw, event_id=number))]
    if not transaction.events:
        return [Mapped(unmapped(channel, "events: there is none", raw=raw, event_id=number))]
    return [_said(transaction, one, Told(channel, one.token, one.type, raw), contract) for one in transaction.events]


def _said(transaction: Transaction, one: Event, told: Told, contract: Contract) -> Mapped:
    status = KINDS.get(one.type)
    if status is None or not one.token:
        return told.kept("events.type: nothing is posted on the card by it that a payment could be compared with")
    if one.result not in (None, APPROVED):
        return told.kept("events.result: it was declined, so nothing is posted on the card")
    money = _money(one)
    amount = None if money is None else _minor(money, contract)
    if money is None or amount is None:
        return told.kept("events.amounts: there is none, or no amount of its currency")
    entry = Entry(
        status=status,
        amount=amount,
        currency=money.currency or "",
        authorization=transaction.token,
        at=one.created,
        numbers=_numbers(one.network_info or {}),
        program=transaction.tags or {},
    )
    return posted(told, entry)


def _money(one: Event) -> Money | None:
    """What the merchant took, in the merchant's currency, as our payment is counted; else what the card was charged."""
    amounts = one.amounts or Amounts()
    stated = (amounts.merchant, amounts.cardholder, amounts.settlement)
    return next((money for money in stated if money and money.amount is not None and money.currency), None)


def _minor(money: Money, contract: Contract) -> int | None:
    amount = abs(money.amount or 0)
    return from_channel_minor(contract, money.currency or "", amount) if amount < 10**18 else None


def _numbers(info: Mapping[str, Any]) -> tuple[str | None, ...]:
    """The numbers that the networks share: the acquirer's first, then the network's own."""
    places = (
        ("acquirer", "acquirer_reference_number"),
        ("mastercard", "original_banknet_reference_number"),
        ("mastercard", "banknet_reference_number"),
        ("visa", "original_transaction_id"),
        ("visa", "transaction_id"),
        ("amex", "original_transaction_id"),
        ("amex", "transaction_id"),
    )
    found = (_inside(info.get(network), name) for network, name in places)
    return tuple(found)


def _inside(part: Any, name: str) -> str | None:
    value = part.get(name) if isinstance(part, dict) else None
    return value if isinstance(value, str) else None


ADAPTER: Final = Adapter(channel=CHANNEL, credentials=Credentials, keys=keys, verify=verify, events=events)
