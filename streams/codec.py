"""Bytes in, bytes out: records to events, orders to rows, messages to JSON.

Decoding is strict about what the law relies on and blind to what it does not know. Whatever cannot become an event raises `Poison`
with a kind that is stable and a reason that names the field and the fix. A stored order begins with the version of its layout, and
a layout this release does not know is refused rather than guessed.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias, get_args

import msgspec

from streams.domain.decisions import (
    ChannelRequest,
    Decision,
    Discrepancy,
    Message,
    Movement,
    OperationUpdate,
    PayerAction,
    PaymentSuccess,
    PaymentUpdate,
)
from streams.domain.events import (
    ID_FIELDS,
    Answer,
    Callback,
    CardPosting,
    Command,
    Dispute,
    Event,
    Finding,
    RefundLayer,
    RefundNotice,
    Release,
    Report,
    Unmapped,
)
from streams.domain.order import Order
from streams.domain.reports import PayoutNotice
from streams.engine.topology import Poison

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from streams.engine.topology import Record

MAX_VALUE: Final = 1 << 20
"""The largest record value read, in bytes; the broker's own default."""

MOMENTS: Final = ("expires_at", "received_at", "answered_at")
EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
LATEST: Final = datetime(2200, 1, 1, tzinfo=UTC)

VERSION: Final = b"\x01"
"""The layout of a stored order. It changes when a reader of the former layout would misread the new one."""
STUB: Final = b"\x02"
"""The layout of a stub: the same fields, but a release that does not look into `kept` would take repetitions for news."""

TOPICS: Final[Mapping[str, Any]] = {
    "commands": Command,
    "channel-callbacks": Callback | RefundNotice | RefundLayer | Release | Dispute | PayoutNotice | Unmapped,
    "query-results": Answer | Finding | Report,
    "card-postings": CardPosting | RefundLayer,
}
"""What each input topic admits, by logical name."""

OUTPUTS: Final = (
    PaymentSuccess,
    Discrepancy,
    PaymentUpdate,
    OperationUpdate,
    PayerAction,
    Movement,
    ChannelRequest,
    Decision,
)

_Decoded: TypeAlias = Event | Unmapped
_Decoder: TypeAlias = "msgspec.json.Decoder[_Decoded]"


class StateVersionError(ValueError):
    """A stored order has a layout that this release does not know."""


# -- input


def decoder(topics: Mapping[str, str], *, max_value: int = MAX_VALUE) -> Callable[[Record], Event]:
    """How to read a record of each input topic; `topics` gives the physical name of each logical one in `TOPICS`.

    The key must be the order id of the body (UTF-8), because it decides who holds the order.
    """
    decoders: dict[str, _Decoder] = {topics[name]: msgspec.json.Decoder(union) for name, union in TOPICS.items()}

    def decode(record: Record) -> Event:
        key, value = record.key, record.value
        if value is None:
            raise Poison("tombstone", "the record has no value; inputs are never deleted, send an event")
        if len(value) > max_value:
            raise Poison(
                "too_large",
                f"the value has {len(value)} bytes, at most {max_value} are read; send raw bodies by reference",
            )
        event = _parse(decoders[record.topic], value)
        if b'""' in value:
            event = _without_empty(event)
        if isinstance(event, Unmapped):
            raise Poison(
                "unmapped",
                f"channel {event.channel}: event_type {event.event_type!r} is not mapped ({event.reason}); map it in the adapter",
            )
        _check(event, key)
        return event

    return decode


def _parse(reader: _Decoder, value: bytes) -> _Decoded:
    try:
        if not value.isascii():
            value.decode()  # also in fields that the reader skips
        return reader.decode(value)
    except UnicodeDecodeError as wrong:
        raise _unreadable(value, str(wrong)) from wrong
    except msgspec.ValidationError as refused:
        return _parse_again(reader, value, refused)
    except msgspec.DecodeError as broken:
        raise _unreadable(value, str(broken)) from broken


def _parse_again(reader: _Decoder, value: bytes, refused: msgspec.ValidationError) -> _Decoded:
    """A second look at a refused value: ids that came as JSON numbers are read as their digits."""
    try:
        fields = json.loads(value.decode(), parse_int=_Digits, parse_constant=_no_constant)
    except (ValueError, RecursionError) as broken:
        raise _unreadable(value, str(broken)) from broken
    if not isinstance(fields, dict):
        raise Poison("not_object", "the value is not a JSON object; send one event as an object") from refused
    numbers = [name for name, field in fields.items() if name in ID_FIELDS and isinstance(field, _Digits)]
    if not numbers:
        raise _refusal(refused) from refused
    try:
        again = json.dumps({name: _plain(field, as_id=name in ID_FIELDS) for name, field in fields.items()})
        return reader.decode(again)
    except msgspec.ValidationError as still:
        raise _refusal(still) from still
    except (ValueError, RecursionError, msgspec.DecodeError) as broken:
        raise _unreadable(value, str(broken)) from broken


class _Digits(str):
    """A JSON integer as it was written."""

    __slots__ = ()


def _plain(field: Any, *, as_id: bool) -> Any:
    if isinstance(field, _Digits):
        return str(field) if as_id else int(field)
    if isinstance(field, dict):
        return {name: _plain(inner, as_id=False) for name, inner in field.items()}
    if isinstance(field, list):
        return [_plain(inner, as_id=False) for inner in field]
    return field


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _unreadable(value: bytes, why: str) -> Poison:
    """Which way the bytes fail to be JSON."""
    if not value.strip():
        return Poison("empty", "the value is empty; send a JSON object")
    try:
        value.decode()
    except UnicodeDecodeError as wrong:
        return Poison("not_utf8", f"byte {wrong.start} of the value is not UTF-8; encode the JSON as UTF-8")
    if value.startswith(b"\xef\xbb\xbf"):
        return Poison("not_json", "the value begins with a byte order mark; send the JSON without it")
    if "truncated" in why:
        return Poison("truncated", f"the JSON ends too early ({why}); send the whole object")
    return Poison("not_json", f"the value is not JSON ({why}); send a JSON object")


def _refusal(refused: msgspec.ValidationError) -> Poison:
    """msgspec's message already names the field; the kind is what a person sorts by."""
    why = str(refused)
    for mark, kind, fix in _REFUSALS:
        if mark in why:
            return Poison(kind, f"{why}; {fix}")
    return Poison("wrong_type", f"{why}; send the type of the published schema")


_REFUSALS: Final = (
    ("required field `type`", "unknown_type", "say the event's type"),
    ("at `$.type`", "unknown_type", "send a type that this topic admits"),
    ("missing required field", "missing_field", "send it"),
    ("`int` >=", "out_of_range", "send whole minor units within the bound"),
    ("`int` <=", "out_of_range", "send whole minor units within the bound"),
    ("of length", "wrong_length", "send text of the published length"),
    ("Invalid enum value", "unknown_value", "send one of the published values"),
)


def _without_empty(event: _Decoded) -> _Decoded:
    """An empty optional text is an absent one: an empty id is no id."""
    absent: dict[str, None] = {}
    for field in msgspec.structs.fields(event):
        if getattr(event, field.name) == "":
            if field.required:
                raise Poison("empty_field", f"field `{field.encode_name}` is empty; send it")
            if field.default is None:
                absent[field.name] = None
    return msgspec.structs.replace(event, **absent) if absent else event


def _check(event: Event, key: bytes | None) -> None:
    if not key:
        raise Poison("missing_key", f"the record has no key; key it by order_id ({event.order_id!r})")
    if key != event.order_id.encode():
        try:
            name = key.decode()
        except UnicodeDecodeError:
            raise Poison("key_not_utf8", f"the key {key[:64].hex()} is not UTF-8; key the record by order_id") from None
        raise Poison("key_mismatch", f"the key is {name!r} and order_id {event.order_id!r}; key the record by order_id")
    for name in MOMENTS:
        if (time := getattr(event, name, None)) is not None and not EARLIEST <= time <= LATEST:
            raise Poison("out_of_range", f"{name} is {time.isoformat()}; send a time between 1970 and 2200")
    currency = getattr(event, "currency", None)
    if currency is not None and not (currency.isascii() and currency.isalpha() and currency.isupper()):
        raise Poison("wrong_currency", f"currency is {currency!r}; send three capital letters of ISO 4217")


# -- state

_pack: Final = msgspec.msgpack.Encoder().encode
_unpack: Final = msgspec.msgpack.Decoder(Order).decode


def dump(order: Order) -> bytes:
    return (STUB if order.kept else VERSION) + _pack(order)


def load(row: bytes) -> Order:
    """Refuses a layout of another release, and bytes that are no order, instead of guessing."""
    if row[:1] not in {VERSION, STUB}:
        raise StateVersionError(
            f"a stored order has layout {row[:1].hex() or 'none'}, this release reads {VERSION.hex()} and {STUB.hex()}; "
            "run the release that wrote it, or a later one"
        )
    return _unpack(memoryview(row)[1:])


# -- output

encode: Final[Callable[[Message], bytes]] = msgspec.json.Encoder().encode
"""A message as JSON; times are RFC 3339 in UTC."""


def schemas() -> dict[str, dict[str, Any]]:
    """The JSON Schema of every type on the wire, by the value of its `type` field."""
    found: dict[str, dict[str, Any]] = {}
    inputs = dict.fromkeys(kind for union in TOPICS.values() for kind in get_args(union) or (union,))
    for kind in (*inputs, *OUTPUTS):
        schema = msgspec.json.schema(kind)
        found[str(kind.__struct_config__.tag)] = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    return found
