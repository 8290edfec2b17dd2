"""From a verified notice to the records of the input topics: which topic, which key, which bytes, which headers.

The shell and the gateway store through this, so that a notice means the same whichever way it came. Everything is derived from the
event and its receipt: a notice that is stored again gives the same record, and the law finds it a duplicate.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from streams.cloudevents import attributes
from streams.domain.events import CardPosting, RefundLayer, RefundNotice, Unmapped

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from streams.channels.adapter import Mapped, Said

CALLBACKS: Final = "channel-callbacks"
POSTINGS: Final = "card-postings"
TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_encode: Final = msgspec.json.Encoder().encode


class IntakeRecord(NamedTuple):
    """One record to produce. `topic` is the logical name in `topics.yaml`; `reference` names the event to people."""

    topic: str
    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...]
    reference: str


def records(mapped: Iterable[Mapped], *, at: datetime, traceparent: str = "") -> list[IntakeRecord]:
    """One record for each event of a notice, in its order. `at` is the receipt, in UTC.

    Raises `ValueError` for an event without its order: find it first (`linked`), or hold the event back.
    """
    return [record(one.event, at=at, traceparent=traceparent, number=n) for n, one in enumerate(mapped)]


def record(event: Said, *, at: datetime, traceparent: str = "", number: int = 0) -> IntakeRecord:
    """One event as a record. `number` is its place in its notice, which tells events apart that have no id of their own."""
    name = reference(event, number)
    key = event.order_id or (name if isinstance(event, Unmapped) else "")
    if not key:
        raise ValueError(f"order_id: the event {name} has none; find its order by the references first")
    headers = _headers(event, name, at, traceparent)
    return IntakeRecord(topic_of(event), key.encode(), _encode(event), headers, name)


def topic_of(event: Said) -> str:
    """The logical topic of an event: card entries have their own, everything else that a channel says is a callback."""
    return POSTINGS if isinstance(event, CardPosting) else CALLBACKS


def reference(event: Said, number: int = 0) -> str:
    """`channel:account/event id`; without an id, the hash of the notice and the place in it."""
    if event.event_id:
        return f"{event.channel}/{event.event_id}"
    digest = event.raw.sha256 if event.raw else ""
    return f"{event.channel}/{digest}" + (f"/{number}" if number else "")


def linked(event: Said, order_id: str, payment_no: str = "", refund_no: str = "") -> Said:
    """The event with the order that a reference led to; what it says itself is never replaced, what is empty is filled.

    A refund under its payment's own number is none of ours, as the numbers of an order are one space: somebody made it in the
    channel's own pages, which give it the payment's reference. Its number is taken away, so that the law rules on the channel's own.
    """
    filled: dict[str, Any] = {"order_id": event.order_id or order_id}
    if payment_no and not isinstance(event, Unmapped):
        filled["payment_no"] = event.payment_no or payment_no
    if refund_no and isinstance(event, RefundNotice | RefundLayer):
        filled["refund_no"] = event.refund_no or refund_no
    if isinstance(event, RefundNotice) and event.refund_no == filled.get("payment_no", ""):
        filled["refund_no"] = refund_no or None
    return msgspec.structs.replace(event, **filled)


def _headers(event: Said, name: str, at: datetime, traceparent: str) -> tuple[tuple[str, bytes], ...]:
    """CloudEvents attributes in binary mode, and the caller's trace if it is one."""
    kind = str(type(event).__struct_config__.tag)
    headers = attributes(name, kind, event.channel, at.isoformat().replace("+00:00", "Z"))
    if TRACEPARENT.fullmatch(traceparent):
        headers.append(("traceparent", traceparent.encode()))
    return tuple(headers)
