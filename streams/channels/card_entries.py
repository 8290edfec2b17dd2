"""An issuer's entry as an event: what moved on the card's own account, and by which shared numbers its order is found.

Only what is posted is an entry. Holds, declines and releases are kept as they came: the law knows no issuer's side of a hold, and
nothing of ours may move by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from streams.channels.adapter import AUTHORIZATION, NETWORK, Mapped, Reference
from streams.channels.fitting import TEXT, fitting, unmapped
from streams.channels.verification import in_utc
from streams.domain.events import CardPosting

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from streams.domain.events import Raw

Posted: TypeAlias = Literal["PURCHASE", "REFUND"]


class Told(NamedTuple):
    """One thing that an issuer tells: its own id, its kind, and the notice that it came in."""

    channel: str
    event_id: str
    kind: str
    raw: Raw

    def kept(self, reason: str) -> Mapped:
        """Kept as evidence; it moves nothing."""
        return Mapped(
            unmapped(self.channel, reason, raw=self.raw, event_type=self.kind, event_id=self.event_id or None)
        )


class Entry(NamedTuple):
    """What an entry says. `amount` in minor units; `numbers` are those that issuers and networks share, the most trusted first."""

    status: Posted
    amount: int
    currency: str
    authorization: str
    at: str | None
    numbers: tuple[str | None, ...]
    program: Mapping[str, Any]
    """The program's own data about the transaction, which may name our order."""


def posted(told: Told, entry: Entry) -> Mapped:
    """The entry as an event, with the references that find its order."""
    numbers = tuple(dict.fromkeys(number for number in entry.numbers if number))
    payment_no = own(entry.program, "payment_no")
    said = CardPosting(
        channel=told.channel,
        order_id=own(entry.program, "order_id"),
        event_id=told.event_id,
        amount=entry.amount,
        currency=entry.currency,
        status=entry.status,
        payment_no=payment_no or None,
        authorization=entry.authorization or None,
        transaction=numbers[0] if numbers else None,
        event_time=in_utc(entry.at) if entry.at else None,
        raw=told.raw,
    )
    return fitting(said, _references(told.channel, entry.authorization, numbers))


def _references(channel: str, authorization: str, numbers: Iterable[str]) -> tuple[Reference, ...]:
    shared = (Reference(NETWORK, number) for number in numbers)
    return (Reference(AUTHORIZATION, authorization, channel), *shared)


def own(program: Mapping[str, Any], name: str) -> str:
    """A text that the program put there; empty where there is none of a usable length."""
    value = program.get(name)
    return value if isinstance(value, str) and len(value) <= TEXT else ""
