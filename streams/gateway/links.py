"""By which numbers the order of a notice is found: the table `payments.references`, written and read by every gateway.

A link comes from an update of the worker (our payment and refund numbers, the channel's transactions) or from a notice that names
its order beside a number that issuers share. A number that leads to two orders leads to none: nothing is matched by guess (R-217).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec
from msgspec import Struct

from streams.channels.adapter import AUTHORIZATION, NETWORK, PAYMENT, REFUND, REFUND_TRANSACTION, TRANSACTION, Reference
from streams.domain.decisions import Movement, OperationUpdate, PaymentUpdate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from collections.abc import Set as AbstractSet

    from streams.channels.adapter import Mapped

Update: TypeAlias = PaymentUpdate | OperationUpdate | Movement
SHARED: Final = frozenset({AUTHORIZATION, NETWORK})
"""References that a notice with an order teaches. The others come from the worker."""


class Link(Struct, frozen=True, omit_defaults=True, gc=False):
    """What a reference leads to. An empty `order_id`: to more than one order, so to none."""

    order_id: str
    payment_no: str = ""
    merchant: str | None = None
    refund_no: str = ""

    @property
    def leads(self) -> bool:
        """Whether it leads to one order."""
        return bool(self.order_id)


NOWHERE: Final = Link("")

_encode: Final = msgspec.json.Encoder().encode
_link: Final = msgspec.json.Decoder(Link)
_update: Final = msgspec.json.Decoder(Update)


class Links:
    """All links, in memory: some 300 bytes each. `news` holds the keys that came since it was last emptied."""

    def __init__(self) -> None:
        self._links: dict[str, Link] = {}
        self.news: deque[str] = deque()
        self.watched: AbstractSet[str] = frozenset()
        """Keys that somebody waits for; only these become news."""

    def __len__(self) -> int:
        return len(self._links)

    def take(self, key: str, value: bytes | None) -> None:
        """A record of the table. What cannot be read is of another release, and no link here."""
        if value is None:
            self._links.pop(key, None)
            return
        try:
            self._links[key] = _link.decode(value)
        except msgspec.MsgspecError:
            return
        if key in self.watched:
            self.news.append(key)

    def find(self, references: Iterable[Reference]) -> Link | None:
        """Where the first known reference leads, in the order of trust in which they are given."""
        for reference in references:
            link = self._links.get(reference.key)
            if link is not None and link.leads:
                return link
        return None

    def new(self, key: str, link: Link) -> bytes | None:
        """The record to write for a link that was learned, or None if the table says the same."""
        known = self._links.get(key)
        if known is None:
            return _encode(link)
        if not known.leads or known == link:
            return None
        if known.order_id != link.order_id:
            return _encode(NOWHERE)
        more = Link(
            link.order_id,
            link.payment_no or known.payment_no,
            link.merchant or known.merchant,
            link.refund_no or known.refund_no,
        )
        return None if more == known else _encode(more)


def of_update(value: bytes) -> Iterator[tuple[str, Link]]:
    """(key, link) of every number in a record of `payments.updates`; none of a record that another release wrote."""
    try:
        update = _update.decode(value)
    except msgspec.MsgspecError:
        return
    payment = Link(update.order_id, update.payment_no, update.merchant)
    if isinstance(update, PaymentUpdate):
        yield Reference(PAYMENT, update.payment_no).key, payment
        if update.transaction:
            yield Reference(TRANSACTION, update.transaction, update.channel).key, payment
    elif isinstance(update, OperationUpdate) and update.kind == "REFUND":
        refund = Link(update.order_id, update.payment_no, update.merchant, update.operation_no)
        yield Reference(REFUND, update.operation_no).key, refund
        if update.transaction:
            yield Reference(REFUND_TRANSACTION, update.transaction, update.channel).key, refund
    elif isinstance(update, OperationUpdate) and update.transaction:
        yield Reference(TRANSACTION, update.transaction, update.channel).key, payment


def of_notice(mapped: Mapped) -> Iterator[tuple[str, Link]]:
    """(key, link) of the shared numbers that a notice names beside its order."""
    event = mapped.event
    if not event.order_id:
        return
    link = Link(event.order_id, getattr(event, "payment_no", None) or "", getattr(event, "merchant", None))
    for reference in mapped.references:
        if reference.kind in SHARED:
            yield reference.key, link
