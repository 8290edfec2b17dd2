"""Adyen's webhooks, in two forms: standard notifications, signed item by item, and platform webhooks, signed as a whole.

A standard notification is a list, and every item of it carries its own signature over eight of its fields; one item that no live key
signed refuses the whole, because there is one acknowledgement for all. A platform webhook (transfers of issued cards) is signed over its
raw bytes, in a header. Neither signs a time, so a repetition is found by its id only.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from streams.channels import adyen_items, adyen_transfers
from streams.channels.adapter import Adapter, Mapped, Received
from streams.channels.adyen_items import SIGNATURE, UNREADABLE, Notice, Standard
from streams.channels.fitting import unmapped
from streams.channels.verification import BadSignature, Malformed, evidence, header, optional_header

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streams.domain.contract import Contract

CHANNEL: Final = "adyen"
PLATFORM_SIGNATURE: Final = "HmacSignature"
LEAST_KEY_BYTES: Final = 16


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """The credentials file."""

    hmac_keys: list[str] = []
    """The live HMAC keys of the standard webhook, hexadecimal; several while one replaces another."""
    platform_hmac_keys: list[str] = []
    """The live HMAC keys of platform webhooks, hexadecimal; empty: those are refused."""
    merchant_account: str = ""
    """The merchant account whose notifications these are; empty: it is named as the account in the address."""
    manual_capture: bool = False
    """Whether the account captures on request: an authorisation is then a hold, and no success."""
    api_key: str = ""
    """The key of the Checkout API; only requests need it."""


class Keys(NamedTuple):
    """The credentials made ready."""

    standard: tuple[bytes, ...]
    platform: tuple[bytes, ...]
    merchant_account: str
    manual_capture: bool
    api_key: str

    def account(self, name: str) -> str:
        """The merchant account at Adyen."""
        return self.merchant_account or name


def keys(credentials: Credentials) -> Keys:
    """Raises `ValueError` naming the field and the fix."""
    if not credentials.hmac_keys and not credentials.platform_hmac_keys:
        raise ValueError("hmac_keys: there is none; copy the key that was made for the webhook")
    if not credentials.api_key.isascii() or not credentials.api_key.isprintable():
        raise ValueError("api_key: it holds characters that no header can carry; copy it again")
    return Keys(
        tuple(_key(text, f"hmac_keys[{n}]") for n, text in enumerate(credentials.hmac_keys)),
        tuple(_key(text, f"platform_hmac_keys[{n}]") for n, text in enumerate(credentials.platform_hmac_keys)),
        credentials.merchant_account,
        credentials.manual_capture,
        credentials.api_key,
    )


def _key(text: str, field: str) -> bytes:
    try:
        key = bytes.fromhex(text)
    except ValueError:
        raise ValueError(f"{field}: it is not hexadecimal; copy the key as Adyen shows it") from None
    if len(key) < LEAST_KEY_BYTES:
        raise ValueError(f"{field}: it is shorter than {LEAST_KEY_BYTES} bytes; copy the whole key")
    return key


def verify(held: Keys, received: Received) -> None:
    """Accept a message of which every part is signed by a live key, or raise a `Refused`. No time is signed."""
    found = _form(received)
    if found is None:
        _check(held.platform, received.body, header(received.headers, PLATFORM_SIGNATURE), PLATFORM_SIGNATURE)
        return
    if not found.items:
        raise Malformed("notificationItems", "there is none", "pass the raw body")
    for number, item in enumerate(found.items):
        place = f"notificationItems[{number}].additionalData.{SIGNATURE}"
        signature = item.noted(SIGNATURE)
        if not signature:
            raise Malformed(place, "it is absent", "switch the HMAC signature of the webhook on")
        _check(held.standard, item.signed_text().encode(), signature, place)


def _form(received: Received) -> Standard | None:
    """The items of a standard notification; None for a platform webhook, which anything with its header may be."""
    try:
        found = adyen_items.standard(received.body)
    except UNREADABLE as error:
        if not optional_header(received.headers, PLATFORM_SIGNATURE):
            raise Malformed("body", "it is no notification of Adyen's", "pass the raw body") from error
        return None
    return found


def _check(live: Iterable[bytes], signed: bytes, signature: str, field: str) -> None:
    """Raise `BadSignature` unless a live key made it: the very text, not only what it decodes to."""
    given, matches = signature.encode("utf-8", "replace"), 0
    for key in live:
        matches += hmac.compare_digest(binascii.b2a_base64(digest(key, signed), newline=False), given)
    if not matches:
        raise BadSignature(field, "no live HMAC key made it", "check the webhook's HMAC keys and pass the raw body")


def digest(key: bytes, signed: bytes) -> bytes:
    """HMAC-SHA256, as both forms have it."""
    return hmac.new(key, signed, hashlib.sha256).digest()


def signature(key: bytes, signed: bytes) -> str:
    """The signature as it is sent."""
    return base64.b64encode(digest(key, signed)).decode("ascii")


def events(held: Keys, received: Received, contract: Contract) -> list[Mapped]:
    """What a verified message says: one event for each item of a standard notification, one for a platform webhook."""
    channel, raw = f"{CHANNEL}:{received.account}", evidence(received.headers, received.body)
    try:
        found = adyen_items.standard(received.body)
    except UNREADABLE:
        return [Mapped(unmapped(channel, "the body is no message of Adyen's", raw=raw))]
    if found is None:
        return [adyen_transfers.said(received, channel, raw, contract)]
    account = held.account(received.account)
    return [
        adyen_items.said(Notice(item, found.live, channel, account, held.manual_capture, raw, received.at, contract))
        for item in found.items
    ]


ADAPTER: Final = Adapter(channel=CHANNEL, credentials=Credentials, keys=keys, verify=verify, events=events)
