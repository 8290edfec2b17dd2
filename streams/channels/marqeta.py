"""Marqeta's webhooks: verify one, and map each transaction of its batch to the card's entry that it is.

HTTP Basic authentication is mandatory, so it is always checked. Where the webhook has a secret, an HMAC over the raw body is checked too:
SHA-256, and SHA-1 only where the credentials still allow it, because deliveries signed before a change are retried for two weeks. No time
is signed, so a repetition is found by its token only. A ping is acknowledged and says nothing.

Amounts are JSON numbers in major units: they are read as the text they are, never as floating point.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from msgspec import Struct

from streams.channels.adapter import Adapter, Mapped, Received
from streams.channels.amounts import from_text
from streams.channels.card_entries import Entry, Posted, Told, posted
from streams.channels.fitting import unmapped
from streams.channels.verification import BadSignature, Malformed, evidence, header

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streams.domain.contract import Contract

CHANNEL: Final = "marqeta"
SIGNATURE: Final = "X-Marqeta-Signature"
BASIC: Final = "Basic "
UNREADABLE: Final = (msgspec.MsgspecError, UnicodeError, RecursionError)
NUMBER: Final = re.compile(rb"-?[0-9]{1,24}(?:\.[0-9]{1,24})?(?:[eE][+-]?[0-9]{1,2})?")
POSTED_STATES: Final = frozenset({"CLEARED", "COMPLETION"})
KINDS: Final[Mapping[str, Posted]] = {
    "authorization.clearing": "PURCHASE",
    "authorization.clearing.quasi.cash": "PURCHASE",
    "pindebit": "PURCHASE",
    "pindebit.authorization.clearing": "PURCHASE",
    "pindebit.cashback": "PURCHASE",
    "pindebit.quasi.cash": "PURCHASE",
    "authorization.clearing.auth_plus_capture": "PURCHASE",
    "refund": "REFUND",
    "refund.authorization.clearing": "REFUND",
    "pindebit.refund": "REFUND",
}
"""Transaction type -> the entry that it posts. What is not here posts none: holds, releases, disputes, credits of other kinds."""


class Basic(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One name and password that the webhook may be sent with."""

    username: str
    password: str


class Credentials(Struct, frozen=True, kw_only=True):
    """The credentials file."""

    basic: list[Basic]
    """The live names and passwords of the webhook; several while one replaces another."""
    secrets: list[str] = []
    """The live secrets of the webhook; empty: it is sent without a signature, which Basic authentication alone then vouches for."""
    sha1: bool = False
    """Whether HMAC-SHA1 is still accepted, for the two weeks after a change of the algorithm."""


class Keys(NamedTuple):
    """The credentials made ready."""

    basic: tuple[bytes, ...]
    secrets: tuple[bytes, ...]
    sha1: bool


class Transaction(Struct, frozen=True):
    """The fields of a transaction that say something about a card's entry."""

    token: str
    type: str
    state: str | None = None
    amount: msgspec.Raw = msgspec.Raw(b"")
    currency_code: str | None = None
    created_time: str | None = None
    preceding_related_transaction_token: str | None = None
    original_transaction_token: str | None = None
    network_reference_id: str | None = None
    acquirer_reference_data: str | None = None
    metadata: dict[str, Any] | None = None


class Webhook(Struct, frozen=True):
    """The envelope: one list, named by its kind."""

    transactions: list[msgspec.Raw] | None = None
    pings: list[msgspec.Raw] | None = None


def keys(credentials: Credentials) -> Keys:
    """Raises `ValueError` naming the field and the fix."""
    if not credentials.basic:
        raise ValueError("basic: there is none; Marqeta sends no webhook without Basic authentication")
    for number, one in enumerate(credentials.basic):
        if not one.username or not one.password or ":" in one.username:
            raise ValueError(
                f"basic[{number}]: a name without `:` and a password are needed; take them from the webhook"
            )
    for number, secret in enumerate(credentials.secrets):
        if len(secret) < 20:
            raise ValueError(f"secrets[{number}]: it is shorter than 20 characters; copy the whole secret")
    return Keys(
        tuple(f"{one.username}:{one.password}".encode() for one in credentials.basic),
        tuple(secret.encode() for secret in credentials.secrets),
        credentials.sha1,
    )


def verify(held: Keys, received: Received) -> None:
    """Accept a webhook with live Basic credentials and, where secrets are configured, a right signature, or raise a `Refused`."""
    _check_basic(held, header(received.headers, "Authorization"))
    if held.secrets:
        _check_signature(held, received.body, header(received.headers, SIGNATURE))


def _check_basic(held: Keys, value: str) -> None:
    if not value[: len(BASIC)].lower() == BASIC.lower():
        raise Malformed("Authorization", "it is not Basic authentication", "pass the request's own header")
    try:
        given = base64.b64decode(value[len(BASIC) :].strip(), validate=True)
    except ValueError as error:
        raise Malformed("Authorization", "it is not base64", "pass the request's own header") from error
    if not sum(hmac.compare_digest(given, live) for live in held.basic):
        raise BadSignature("Authorization", "no live name and password are these", "check basic against the webhook's")


def _check_signature(held: Keys, body: bytes, value: str) -> None:
    """In hexadecimal, as the vendor shows it; base64 too, because the form of SHA-256 is not shown."""
    given, matches = value.encode("utf-8", "replace"), 0
    for secret in held.secrets:
        for algorithm in (hashlib.sha256, hashlib.sha1) if held.sha1 else (hashlib.sha256,):
            made = hmac.new(secret, body, algorithm)
            matches += hmac.compare_digest(given, made.hexdigest().encode("ascii"))
            matches += hmac.compare_digest(given, base64.b64encode(made.digest()))
    if not matches:
        raise BadSignature(SIGNATURE, "no live secret made it", "check secrets and sha1, and pass the raw body")


def events(_held: Keys, received: Received, _contract: Contract) -> list[Mapped]:
    """One event for each transaction of a verified batch; none for a ping."""
    channel, raw = f"{CHANNEL}:{received.account}", evidence(received.headers, received.body)
    try:
        webhook = msgspec.json.decode(received.body, type=Webhook)
    except UNREADABLE as error:
        return [Mapped(unmapped(channel, f"the body is no webhook of Marqeta's: {error}", raw=raw))]
    if webhook.transactions:
        return [_said(one, Told(channel, "", "", raw)) for one in webhook.transactions]
    if webhook.pings:
        return []
    return [Mapped(unmapped(channel, "transactions: there is none; leave other events out of the webhook", raw=raw))]


def _said(part: msgspec.Raw, told: Told) -> Mapped:
    try:
        one = msgspec.json.decode(part, type=Transaction)
    except UNREADABLE as error:
        return told.kept(f"transactions: {error}")
    told = told._replace(event_id=one.token, kind=one.type)
    status = KINDS.get(one.type)
    if status is None:
        return told.kept("type: nothing is posted on the card by it")
    if one.state not in POSTED_STATES:
        return told.kept("state: it is not cleared, so nothing is posted on the card yet")
    amount = _amount(one)
    if amount is None or not one.token:
        return told.kept("token, amount, currency_code: absent, or no amount of the currency")
    entry = Entry(
        status=status,
        amount=amount,
        currency=one.currency_code or "",
        authorization=one.original_transaction_token or one.preceding_related_transaction_token or "",
        at=one.created_time,
        numbers=(one.acquirer_reference_data, one.network_reference_id),
        program=one.metadata or {},
    )
    return posted(told, entry)


def _amount(one: Transaction) -> int | None:
    """The number's own text as minor units, without its sign: the type says which way the money went."""
    text = bytes(one.amount)
    if not NUMBER.fullmatch(text):
        return None
    amount = from_text(one.currency_code or "", f"{Decimal(text.decode('ascii')):f}")
    return None if amount is None else abs(amount)


ADAPTER: Final = Adapter(channel=CHANNEL, credentials=Credentials, keys=keys, verify=verify, events=events)
