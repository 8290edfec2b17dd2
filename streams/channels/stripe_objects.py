"""Stripe's objects as far as we read them, in webhooks and in replies, and what their statuses mean to the law.

Amounts are integers in Stripe's minor units, currencies in lower case; what is bounded here fits every field of ours.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec import Meta, Struct

from streams.domain.fields import Amount, Whole  # noqa: TC001  msgspec reads the annotations

ID_LENGTH: Final = 256
UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

Id: TypeAlias = Annotated[str, Meta(min_length=1, max_length=ID_LENGTH)]
Status: TypeAlias = Annotated[str, Meta(min_length=1, max_length=64)]
Code: TypeAlias = Annotated[str, Meta(pattern="^[A-Za-z]{3}$", min_length=3, max_length=3)]
Seconds: TypeAlias = Annotated[int, Meta(ge=0, le=2**33)]

INTENT_WORDS: Final = {
    "succeeded": "SUCCESS",
    "canceled": "CLOSED",
    "processing": "PROCESSING",
    "requires_action": "PENDING",
    "requires_confirmation": "PENDING",
    "requires_payment_method": "PENDING",
    "requires_capture": "AUTHORIZED",
}
REFUND_WORDS: Final = {
    "succeeded": "SUCCESS",
    "failed": "FAILED",
    "canceled": "CLOSED",
    "pending": "PENDING",
    "requires_action": "PENDING",
}


class Intent(Struct, frozen=True):
    """The fields of a PaymentIntent that say something about a payment. Amounts in Stripe's minor units."""

    id: Id
    status: Status
    amount: Whole
    currency: Code
    amount_received: Whole = 0
    amount_capturable: Whole = 0
    metadata: dict[str, str] | None = None
    client_secret: str | None = None
    next_action: dict[str, Any] | None = None
    last_payment_error: dict[str, Any] | None = None
    latest_charge: str | dict[str, Any] | None = None


class Charge(Struct, frozen=True):
    """The fields of a Charge that say something about a payment."""

    id: Id
    status: Status
    amount: Whole
    currency: Code
    captured: bool = True
    amount_captured: Whole | None = None
    amount_refunded: Whole = 0
    payment_intent: str | dict[str, Any] | None = None
    metadata: dict[str, str] | None = None
    refunds: dict[str, Any] | None = None


class Refund(Struct, frozen=True):
    """The fields of a Refund that say something about a refund."""

    id: Id
    status: Status
    amount: Whole
    currency: Code
    payment_intent: str | dict[str, Any] | None = None
    charge: str | dict[str, Any] | None = None
    metadata: dict[str, str] | None = None


class Disputed(Struct, frozen=True):
    """The fields of a Dispute."""

    id: Id
    status: Status
    amount: Whole
    currency: Code
    payment_intent: str | dict[str, Any] | None = None
    charge: str | dict[str, Any] | None = None
    metadata: dict[str, str] | None = None


class Network(Struct, frozen=True):
    """What the card network calls the transaction."""

    transaction_id: Annotated[str, Meta(max_length=ID_LENGTH)] | None = None


class CardTransaction(Struct, frozen=True):
    """The fields of an Issuing Transaction: negative takes from the card, positive gives back."""

    id: Id
    type: Status
    amount: Amount
    currency: Code
    created: Seconds | None = None
    authorization: str | dict[str, Any] | None = None
    network_data: Network | None = None
    metadata: dict[str, str] | None = None


class Data(Struct, frozen=True):
    object: msgspec.Raw


class Notice(Struct, frozen=True):
    """The envelope of every webhook."""

    id: Id
    type: Annotated[str, Meta(min_length=1, max_length=ID_LENGTH)]
    created: Seconds
    data: Data
    livemode: bool | None = None
    account: str | None = None


def id_of(value: str | dict[str, Any] | None) -> str:
    """The id of an object that may be expanded; empty text where there is none."""
    found = value.get("id") if isinstance(value, dict) else value
    return found if isinstance(found, str) and len(found) <= ID_LENGTH else ""
