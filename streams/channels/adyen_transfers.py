"""Adyen's platform webhooks about issued cards: a transfer, told again with its whole history whenever its status changes.

A card's own entry is what was captured of a purchase, or refunded. Holds, declines and releases move no money of ours and are kept as
they are. The transfer's id is the authorisation; a relayed authorisation carries the reference and metadata that our side gave it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from streams.channels.adapter import AUTHORIZATION, NETWORK, PAYMENT, Mapped, Received, Reference
from streams.channels.adyen_items import UNREADABLE, WHOLE, Amount
from streams.channels.amounts import from_channel_minor
from streams.channels.fitting import TEXT, fitting, unmapped
from streams.channels.verification import in_utc
from streams.domain.events import CardPosting

if TYPE_CHECKING:
    from streams.domain.contract import Contract
    from streams.domain.events import Raw

TRANSFER: Final = "balancePlatform.transfer."
CARD: Final = "issuedCard"
CAPTURED: Final = "captured"
BOOKED: Final = "booked"
REFUNDED: Final = "refunded"
INCOMING: Final = "incoming"


class Relayed(Struct, frozen=True):
    """What our side said when it let an authorisation pass."""

    metadata: dict[str, Any] | None = None
    reference: str | None = None


class Category(Struct, frozen=True, rename="camel"):
    network_transaction_reference: str | None = None
    relayed_authorisation_data: Relayed | None = None


class Step(Struct, frozen=True):
    status: str | None = None


class Transfer(Struct, frozen=True, rename="camel"):
    """The fields of a transfer that say something about a card's entry."""

    id: str
    status: str
    amount: Amount
    category: str | None = None
    direction: str | None = None
    sequence_number: int | None = None
    reference: str | None = None
    category_data: Category | None = None
    events: list[Step] | None = None


class Webhook(Struct, frozen=True):
    """The envelope of every platform webhook."""

    type: str
    data: msgspec.Raw
    environment: str | None = None
    timestamp: str | None = None


def said(received: Received, channel: str, raw: Raw, contract: Contract) -> Mapped:
    """The card's entry that a transfer tells of, or an `Unmapped` with the reason."""
    try:
        webhook = msgspec.json.decode(received.body, type=Webhook)
    except UNREADABLE as error:
        return Mapped(unmapped(channel, f"the body is no platform webhook: {error}", raw=raw))
    if not webhook.type.startswith(TRANSFER):
        reason = "type: it says nothing about a card's entry"
        return Mapped(unmapped(channel, reason, raw=raw, event_type=webhook.type))
    try:
        transfer = msgspec.json.decode(webhook.data, type=Transfer)
    except UNREADABLE as error:
        return Mapped(unmapped(channel, f"data: {error}", raw=raw, event_type=webhook.type))
    number = f"{transfer.id}/{transfer.sequence_number or transfer.status}"
    reason = _moves_nothing(transfer, webhook)
    amount = None if reason else _amount(transfer, contract)
    if amount is None:
        reason = reason or "data.amount: it is no amount of its currency"
        return Mapped(unmapped(channel, reason, raw=raw, event_type=webhook.type, event_id=number))
    return _posting(transfer, webhook, channel, number, amount, raw)


def _moves_nothing(transfer: Transfer, webhook: Webhook) -> str:
    """Why no entry of a card is to be made of it; empty text if one is. What is booked after a capture was posted with that."""
    if webhook.environment == "test":
        return "environment: it is test; point the test environment elsewhere"
    if transfer.category != CARD:
        return "data.category: it is no issued card's"
    was_posted = any(step.status in (CAPTURED, REFUNDED) for step in transfer.events or ())
    if transfer.status in (CAPTURED, REFUNDED) or (transfer.status == BOOKED and not was_posted):
        return ""
    return "data.status: nothing is posted on the card by it"


def _amount(transfer: Transfer, contract: Contract) -> int | None:
    stated = transfer.amount
    text = str(stated.value)
    if not stated.currency or not WHOLE.fullmatch(text):
        return None
    return from_channel_minor(contract, stated.currency, abs(int(text)))


def _posting(  # noqa: PLR0917  what is known of one entry
    transfer: Transfer, webhook: Webhook, channel: str, number: str, amount: int, raw: Raw
) -> Mapped:
    data = transfer.category_data or Category()
    relayed = data.relayed_authorisation_data or Relayed()
    returns = transfer.status == REFUNDED or transfer.direction == INCOMING
    named = {name: _text(relayed.metadata, name) for name in ("order_id", "payment_no")}
    entry = CardPosting(
        channel=channel,
        event_id=number,
        amount=amount,
        currency=transfer.amount.currency or "",
        status="REFUND" if returns else "PURCHASE",
        order_id=named["order_id"],
        payment_no=named["payment_no"] or None,
        authorization=transfer.id,
        transaction=data.network_transaction_reference,
        event_time=in_utc(webhook.timestamp) if webhook.timestamp else None,
        raw=raw,
    )
    references = (
        Reference(PAYMENT, relayed.reference or ""),
        Reference(AUTHORIZATION, transfer.id, channel),
        Reference(NETWORK, data.network_transaction_reference or ""),
    )
    return fitting(entry, references)


def _text(metadata: dict[str, Any] | None, name: str) -> str:
    value = (metadata or {}).get(name)
    return value if isinstance(value, str) and len(value) <= TEXT else ""
