"""Who is who: keys of events, hashes of payloads, and the ids we mint.

A key never contains a time or an amount (R-074), nor the order number alone (R-073). Everything minted is a function of the
order, the operation, the rule and a counter kept in the state, so a replay mints it again. Ids are built so that no two
different sets of parts give the same text.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from msgspec import msgpack, structs

from streams.domain.events import Callback, CardPosting, Command, Event

if TYPE_CHECKING:
    from streams.domain.order import Order, Payment

_pack: Final = msgpack.Encoder().encode

KEY_BYTES: Final = 8
"""Enough within one order."""


def digest(*parts: Any) -> bytes:
    """A short name of these facts, in this order."""
    return blake2b(_pack(parts), digest_size=KEY_BYTES).digest()


def event_key(event: Callback | CardPosting) -> bytes | None:
    """Merchant, channel and event id; without an id, the transaction, event type, status and version (R-072, R-108)."""
    if event.event_id:
        return digest("event", event.merchant or None, event.channel, event.event_id)
    if type(event) is Callback and event.transaction:
        return digest(
            "transaction",
            event.merchant or None,
            event.channel,
            event.transaction,
            event.event_type,
            event.status,
            event.version,
        )
    return None


def command_key(command: Command) -> bytes:
    return digest("command", command.command_id)


def said(event: Event) -> bytes:
    """The packed event without how it travelled: the bytes that are compared, and kept while it waits.

    Absent fields are not packed, so an optional field added by a later release does not change what was said before.
    """
    if type(event) is Callback:
        if event.raw is not None or event.received_at is not None or event.subscription is not None:
            event = structs.replace(event, raw=None, received_at=None, subscription=None)
    elif getattr(event, "raw", None) is not None:
        event = structs.replace(event, raw=None)
    return _pack(event)


def payload_hash(packed: bytes) -> bytes:
    return blake2b(packed, digest_size=KEY_BYTES).digest()


def part(text: str) -> str:
    """One segment of an id: `/` separates segments, so it is written %2F inside one."""
    if "/" in text or "%" in text:
        return text.replace("%", "%25").replace("/", "%2F")
    return text


def scope(order: Order, payment: Payment) -> str:
    """The segments that name a payment."""
    if payment.merchant is None:
        return f"{part(order.order_id)}/{part(payment.payment_no)}"
    return f"{part(order.order_id)}/{part(payment.merchant)}/{part(payment.payment_no)}"


def decision_id(order: Order, seq: int) -> str:
    return f"decision/{part(order.order_id)}/{seq}"


def success_id(order: Order, payment: Payment) -> str:
    return f"success/{scope(order, payment)}"


def update_id(order: Order, payment: Payment, state: str) -> str:
    """A payment enters each state at most once, so the state is enough."""
    return f"update/{scope(order, payment)}/{state}"


def request_id(order: Order, payment: Payment, verb: str, number: int) -> str:
    return f"request/{scope(order, payment)}/{verb}/{number}"


def discrepancy_id(order: Order, conflict: bytes) -> str:
    return f"discrepancy/{part(order.order_id)}/{conflict.hex()}"


def overflow_id(order: Order, number: int) -> str:
    return f"discrepancy/{part(order.order_id)}/more-{number}"


def idempotency_key(order: Order, payment: Payment) -> str:
    """32 hexadecimal digits, the same for every retry of one attempt, another for every other attempt (R-031, R-036)."""
    facts = (order.order_id, payment.merchant, payment.payment_no, "PAY", payment.attempts)
    return blake2b(_pack(facts), digest_size=16).hexdigest()
