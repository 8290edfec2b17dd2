"""What an adapter says must fit the event's own bounds; what does not is kept as unmapped, with the field that is at fault.

Ids have at most 256 characters, words 64, amounts 2^53 - 1: a notice beyond that would be refused again when the record is read, far
from the channel that sent it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from streams.channels.adapter import Mapped
from streams.domain.events import Unmapped

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streams.channels.adapter import Reference, Said
    from streams.domain.events import Raw

WORD: Final = 64
TEXT: Final = 256


def fitting(event: Said, references: Iterable[Reference] = ()) -> Mapped:
    """The event with its references (empty and overlong ones left out), or an `Unmapped` that names what does not fit."""
    try:
        msgspec.convert(msgspec.to_builtins(msgspec.structs.replace(event, raw=None)), type(event))
    except msgspec.ValidationError as error:
        return Mapped(
            unmapped(event.channel, str(error), event_type=_type_of(event), event_id=event.event_id, raw=event.raw)
        )
    kept = tuple(one for one in references if one.value and len(one.value) <= TEXT)
    if not event.order_id and not kept and not isinstance(event, Unmapped):
        reason = "neither an order id nor any number of the payment is in the notice"
        return Mapped(
            unmapped(event.channel, reason, event_type=_type_of(event), event_id=event.event_id, raw=event.raw)
        )
    return Mapped(event, kept)


def unmapped(
    channel: str, reason: str, *, raw: Raw | None, event_type: str = "", event_id: str | None = None
) -> Unmapped:
    """A notice that is kept and moves nothing; what is too long is cut, as people read it."""
    known = event_id if event_id is not None and len(event_id) <= TEXT else None
    return Unmapped(channel=channel, event_type=event_type[:TEXT], reason=reason[:TEXT], event_id=known, raw=raw)


def _type_of(event: Any) -> str:
    kind: str = getattr(event, "event_type", "")
    return kind
