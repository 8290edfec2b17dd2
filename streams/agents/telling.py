"""From records to rows: a decision with what caused it, a raw message sealed, a dead letter. Nothing is decided here.

Postgres holds no NUL in a text: U+FFFD stands for it in the books, and the topics keep what was sent.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from stores.deliveries import DeadLetter, RawMessage
from stores.told import Told
from streams.agents.sealing import redact
from streams.domain.decisions import Decision
from streams.domain.events import Raw  # noqa: TC001  msgspec reads the annotation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streams.agents.sealing import Sealer

NUL: Final = b"\\u0000"
NO_NUL: Final = b"\\ufffd"
ESCAPE: Final = b"\\"
LONGEST: Final = 1024
"""Characters of a text that comes from records which nobody has checked."""


class _Carried(msgspec.Struct, gc=False):
    """As much of an input record as says what it carries."""

    raw: Raw | None = None
    order_id: str = ""
    channel: str = ""


_decision: Final = msgspec.json.Decoder(Decision).decode
_carried: Final = msgspec.json.Decoder(_Carried).decode


def told(record: Any) -> Told:
    """A record of the decisions. Raises `msgspec.MsgspecError` for one that no worker has written."""
    headers: dict[str, bytes] = dict(record.headers)
    cause, trace = headers.get("cause"), headers.get("traceparent")
    return Told(
        _decision(_storable(record.value)),
        None if cause is None else cause.decode(),
        None if trace is None else trace.decode(),
    )


def raw_message(record: Any, sealer: Sealer | None) -> RawMessage | None:
    """The delivery that an input record carries; None where it carries none, or is no event at all (then it is a dead letter)."""
    if not record.value or b'"raw"' not in record.value:
        return None
    try:
        carried = _carried(_storable(record.value))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if carried.raw is None:
        return None
    body, redactions = _body(carried.raw)
    place = f"{record.topic}/{record.partition}/{record.offset}"
    sealed = sealer.seal(body, place) if sealer is not None and body else None
    return RawMessage(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        order_id=_short(carried.order_id),
        channel=_short(carried.channel),
        content_type=_short(carried.raw.content_type),
        sha256=_short(carried.raw.sha256),
        redactions=redactions,
        key_id=sealer.key_id if sealer is not None and sealed is not None else None,
        sealed=sealed,
        received_at=moment(record.timestamp),
    )


def _body(raw: Raw) -> tuple[bytes, int]:
    try:
        return redact(base64.b64decode(raw.body, validate=True))
    except (binascii.Error, ValueError):  # not from a gateway of ours: keep the text as it is
        return redact(raw.body.encode())


def dead_letter(record: Any) -> DeadLetter:
    """A dead letter. Its value stays in its topic; the books say where it came from, and why it died."""
    headers: dict[str, bytes] = dict(record.headers)
    cause = "/".join(_text(headers.get(f"dead-{name}", b"?")) for name in ("topic", "partition", "offset"))
    return DeadLetter(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        cause=cause,
        order_id=_text(record.key or b""),
        kind=_text(headers.get("dead-kind", b"")),
        reason=_text(headers.get("dead-reason", b"")),
        sha256=_text(headers.get("dead-sha256", b"")) or hashlib.sha256(record.value or b"").hexdigest(),
        died_at=moment(record.timestamp),
    )


def raw_messages(records: Sequence[Any], sealer: Sealer | None) -> list[RawMessage]:
    return [one for record in records if (one := raw_message(record, sealer)) is not None]


def moment(milliseconds: int) -> datetime:
    """A record's timestamp, exactly, in UTC."""
    seconds, rest = divmod(milliseconds, 1000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest * 1000)


def _storable(value: bytes) -> bytes:
    if ESCAPE in value and NUL in value:  # to look for one byte costs a tenth of what the rest costs
        return value.replace(NUL, NO_NUL)
    return value


def _text(value: bytes) -> str:
    return _short(value.decode("utf-8", "replace"))


def _short(text: str) -> str:
    return text[:LONGEST].replace("\0", "\ufffd")
