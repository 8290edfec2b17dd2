"""Who is who: keys of events, hashes of payloads, and the ids we mint.

A key never contains a time or an amount (R-074), nor the order number alone (R-073). Everything minted is a function of the
order, the operation, the rule and a counter kept in the state, so a replay mints it again. Ids are built so that no two
different sets of parts give the same text.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from msgspec import msgpack, structs

from streams.domain.events import Answer, Callback, Command, CreatePayment, Event, RefundNotice

if TYPE_CHECKING:
    from streams.domain.events import CardPosting, Dispute, Finding, RefundLayer, Release, Report
    from streams.domain.order import Order, Target

_pack: Final = msgpack.Encoder().encode

SETTLED: Final = "SETTLED"
"""What an update is called that tells of no state, but that the money of a payment is at the bank."""

KEY_BYTES: Final = 8
"""Enough within one order."""


def digest(*parts: Any) -> bytes:
    """A short name of these facts, in this order."""
    return blake2b(_pack(parts), digest_size=KEY_BYTES).digest()


def event_key(
    event: Callback | CardPosting | RefundNotice | RefundLayer | Release | Dispute | Finding | Report,
) -> bytes | None:
    """Merchant, channel and event id; without an id, the transaction, event type, status and version (R-072, R-108)."""
    if event.event_id:
        return digest("event", event.merchant or None, event.channel, event.event_id)
    if type(event) is Callback:
        if not event.transaction:
            return None
        parts = (event.transaction, event.event_type, event.status, event.version)
    elif type(event) is RefundNotice:
        transaction = event.refund_transaction or event.transaction
        if not transaction:
            return None
        parts = (transaction, f"refund {event.event_type}", event.status, event.version)
    else:
        transaction = getattr(event, "transaction", None)
        if not transaction:
            return None
        parts = (transaction, str(event.__struct_config__.tag), event.status, None)
    return digest("transaction", event.merchant or None, event.channel, *parts)


def command_key(command: Command) -> bytes:
    return digest("command", command.command_id)


def said(event: Event) -> bytes:
    """The packed event without how it travelled: the bytes that are compared, and kept while it waits.

    Of a routed create the channel is no part: nobody asked for it, and the same request may be routed elsewhere when it is repeated.
    Absent fields are not packed, so an optional field added by a later release does not change what was said before.
    """
    if type(event) is Callback:
        if event.raw is not None or event.received_at is not None or event.subscription is not None:
            event = structs.replace(event, raw=None, received_at=None, subscription=None)
    elif type(event) is CreatePayment:
        if event.routed:
            event = structs.replace(event, channel="")
    elif type(event) is Answer:
        if event.raw is not None:
            event = structs.replace(event, raw=None)
    elif getattr(event, "raw", None) is not None or getattr(event, "received_at", None) is not None:
        event = structs.replace(event, **{name: None for name in ("raw", "received_at") if hasattr(event, name)})
    return _pack(event)


def payload_hash(packed: bytes) -> bytes:
    return blake2b(packed, digest_size=KEY_BYTES).digest()


def part(text: str) -> str:
    """One segment of an id: `/` separates segments, so it is written %2F inside one."""
    if "/" in text or "%" in text:
        return text.replace("%", "%25").replace("/", "%2F")
    return text


def scope(order: Order, target: Target) -> str:
    """The segments that name an operation: payments, captures, voids and refunds share their numbers, so no two are alike."""
    if target.merchant is None:
        return f"{part(order.order_id)}/{part(target.number)}"
    return f"{part(order.order_id)}/{part(target.merchant)}/{part(target.number)}"


def decision_id(order: Order, seq: int) -> str:
    return f"decision/{part(order.order_id)}/{seq}"


def success_id(order: Order, target: Target) -> str:
    return f"success/{scope(order, target)}"


def update_id(order: Order, target: Target, state: str) -> str:
    """An operation enters each state at most once, so the state is enough."""
    return f"update/{scope(order, target)}/{state}"


def action_id(order: Order, target: Target, number: int) -> str:
    """What a payer needs is told at most once for each submit."""
    return f"action/{scope(order, target)}/{number}"


def movement_id(order: Order, target: Target, kind: str) -> str:
    """Money moves in each way at most once for an operation."""
    return f"movement/{scope(order, target)}/{kind}"


def request_id(order: Order, target: Target, verb: str, number: int) -> str:
    return f"request/{scope(order, target)}/{verb}/{number}"


def discrepancy_id(order: Order, conflict: bytes) -> str:
    return f"discrepancy/{part(order.order_id)}/{conflict.hex()}"


def overflow_id(order: Order, number: int) -> str:
    return f"discrepancy/{part(order.order_id)}/more-{number}"


def idempotency_key(order: Order, target: Target) -> str:
    """32 hexadecimal digits, the same for every retry of one attempt, another for every other attempt (R-031, R-036)."""
    facts = (order.order_id, target.merchant, target.number, target.kind, target.attempts)
    return blake2b(_pack(facts), digest_size=16).hexdigest()
