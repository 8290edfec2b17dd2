"""Stripe's webhooks: who signed one, and when.

The signature covers `t.body` with the whole `whsec_…` text as key, over the raw bytes: one stripped newline breaks it. What a verified
webhook says is read by `streams.channels.stripe_events`.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from streams.channels import stripe_events
from streams.channels.adapter import Adapter, Received
from streams.channels.verification import BadSignature, Malformed, check_fresh, header, unix_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

CHANNEL: Final = "stripe"
SIGNATURE: Final = "Stripe-Signature"
MOST_SIGNATURES: Final = 16


class Credentials(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The credentials file of one Stripe account."""

    webhook_secrets: list[str] = []
    """Every live signing secret of the endpoint, `whsec_…`: two while one is rolled. Needed to receive."""
    api_key: str = ""
    """`sk_…` or `rk_…`. Needed to send; a restricted key is enough."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The credentials, ready."""

    secrets: tuple[bytes, ...]
    api_key: str


def keys(credentials: Credentials) -> Keys:
    """Raises `ValueError` naming the field for what cannot be a secret."""
    if not credentials.webhook_secrets and not credentials.api_key:
        raise ValueError("webhook_secrets: it is empty, and so is api_key; give the one that this side needs")
    for secret in credentials.webhook_secrets:
        if not secret or secret != secret.strip() or not secret.isprintable():
            raise ValueError("webhook_secrets: one is empty or has blanks around it; take it as shown, whsec_…")
    if not credentials.api_key.isascii() or not credentials.api_key.isprintable() or " " in credentials.api_key:
        raise ValueError("api_key: it has characters that no key has; take it as shown, sk_… or rk_…")
    return Keys(tuple(secret.encode() for secret in credentials.webhook_secrets), credentials.api_key)


def verify(live: Keys, received: Received) -> None:
    """Accept a webhook that any live secret signed within 300 s of its receipt, either way, or raise a `Refused`.

    The official library lets a time in the future pass; such a webhook could be replayed for long, so it is refused here. `v0` is
    ignored: it signs test traffic.
    """
    signed_s, text, signatures = _signature(header(received.headers, SIGNATURE))
    _matches(live.secrets, text.encode("ascii") + b"." + received.body, signatures)
    check_fresh(signed_s, int(received.at.timestamp()), f"{SIGNATURE} t")


def _matches(secrets: Sequence[bytes], payload: bytes, signatures: Sequence[bytes]) -> None:
    matches = 0
    for secret in secrets:
        expected = hmac.new(secret, payload, hashlib.sha256).hexdigest().encode("ascii")
        for signature in signatures:
            matches += hmac.compare_digest(expected, signature)
    if not matches:
        raise BadSignature(
            SIGNATURE, "no live signing secret made it", "check the endpoint's whsec_ secret and the raw body"
        )


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
            signatures.append(text.encode(errors="replace"))
    if len(times) != 1 or not 1 <= len(signatures) <= MOST_SIGNATURES:
        raise Malformed(
            SIGNATURE, f"it has {len(times)} t and {len(signatures)} v1 items", "it must read t=…,v1=…[,v1=…]"
        )
    return unix_seconds(times[0], f"{SIGNATURE} t"), times[0], signatures


ADAPTER: Final = Adapter(
    channel=CHANNEL,
    credentials=Credentials,
    keys=keys,
    verify=verify,
    events=lambda _, *said: stripe_events.events(*said),
)
