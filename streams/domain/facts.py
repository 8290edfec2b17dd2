"""A fact: one event, read: its key, what it says, about which payment, and when that happened.

The time a channel states orders its own words and nothing else. One that cannot be read, or lies more than five minutes ahead of
its arrival, is marked and not used (R-075).
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from streams.domain import identity
from streams.domain.decisions import Source  # noqa: TC001  msgspec reads the annotation
from streams.domain.events import Answer, Callback, CardPosting, Command, CreatePayment, Evidence
from streams.domain.moment import parsed

AHEAD_MS: Final = 300_000


class Fact(Struct, frozen=True, gc=False):
    """`at` is the arrival and `time` when it happened, as far as it can be trusted; both in milliseconds."""

    source: Source
    word: str
    ref: str
    key: bytes
    payload: bytes
    packed: bytes
    payment_no: str
    merchant: str | None
    at: int
    time: int
    clock_suspect: bool = False
    parked: bool = False
    """It had waited for its payment."""


def read_command(command: Command, at: int) -> Fact:
    packed = identity.said(command)
    word = "create" if type(command) is CreatePayment else "start"
    return Fact(
        "command",
        word,
        command.command_id,
        identity.command_key(command),
        identity.payload_hash(packed),
        packed,
        command.payment_no,
        command.merchant or None,
        at,
        at,
    )


def read(event: Evidence, at: int, *, parked: bool = False) -> Fact:
    packed = identity.said(event)
    payload = identity.payload_hash(packed)
    if type(event) is Callback:
        return _callback(event, at, packed, payload, parked=parked)
    if type(event) is CardPosting:
        return _posting(event, at, packed, payload, parked=parked)
    assert type(event) is Answer
    merchant = event.merchant or None
    ref = event.transaction or _operation(event.payment_no, merchant)
    return Fact(
        event.request, event.status, ref, b"", payload, packed, event.payment_no, merchant, at, at, parked=parked
    )


def _callback(event: Callback, at: int, packed: bytes, payload: bytes, *, parked: bool) -> Fact:
    merchant = event.merchant or None
    ref = event.event_id or event.transaction or _operation(event.payment_no, merchant)
    time = at if event.event_time is None else parsed(event.event_time)
    suspect = time is None or time > at + AHEAD_MS
    return Fact(
        "callback",
        event.status,
        ref,
        identity.event_key(event) or b"",
        payload,
        packed,
        event.payment_no,
        merchant,
        at,
        at if time is None or suspect else time,
        suspect,
        parked,
    )


def _posting(event: CardPosting, at: int, packed: bytes, payload: bytes, *, parked: bool) -> Fact:
    time = at if event.event_time is None else parsed(event.event_time)
    suspect = time is None or time > at + AHEAD_MS
    return Fact(
        "card",
        event.status,
        event.event_id,
        identity.event_key(event) or b"",
        payload,
        packed,
        event.payment_no or event.authorization or "",
        event.merchant or None,
        at,
        at if time is None or suspect else time,
        suspect,
        parked,
    )


def _operation(payment_no: str, merchant: str | None) -> str:
    return payment_no if merchant is None else f"{merchant}/{payment_no}"
