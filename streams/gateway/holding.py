"""Notices whose order nobody knows yet: held in `payments.unlinked` until a reference leads to it, or until their window ends.

The topic is a table: a notice stays in it until it has been passed on, durably, and is removed only then. So whichever gateway owns
the partition, and however often it starts again, each is passed on at least once, and the law finds the second time a duplicate.
At the end of the window a notice is passed on under its source and reference, so that the law tells a person about it.
"""

from __future__ import annotations

import heapq
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import msgspec
import structlog
from aiokafka import ConsumerRebalanceListener
from msgspec import Struct

from streams.channels.adapter import Reference  # noqa: TC001  msgspec reads the annotation
from streams.domain.contract import DEFAULT
from streams.domain.events import Callback, CardPosting, Dispute, RefundLayer, RefundNotice, Release
from streams.gateway.linking import POLL_MS, consumer, forever
from streams.gateway.store import Stored

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Mapping

    from streams.channels.adapter import Said
    from streams.domain.contract import Contracts
    from streams.gateway.links import Link, Links
    from streams.gateway.store import Store

log: Final = structlog.get_logger(__name__)

Waiting: TypeAlias = Callback | RefundNotice | RefundLayer | Release | Dispute | CardPosting
MOST: Final = 500


class Record(Protocol):
    """What `Recording.record` makes; `topic` is the logical name."""

    @property
    def topic(self) -> str: ...
    @property
    def key(self) -> bytes: ...
    @property
    def value(self) -> bytes: ...
    @property
    def headers(self) -> tuple[tuple[str, bytes], ...]: ...


class Recording(Protocol):
    """How an event becomes a record of its input topic. `streams.agents.intake` is one."""

    def record(self, event: Said, *, at: datetime, traceparent: str = "", number: int = 0) -> Record: ...
    def reference(self, event: Said, number: int = 0) -> str: ...
    def linked(self, event: Said, order_id: str, payment_no: str = "", refund_no: str = "") -> Said: ...


class Unlinked(Struct, frozen=True, kw_only=True):
    """A record of the holding topic. `number` is the event's place in its notice, `received_at` its receipt in UTC."""

    event: Waiting
    references: tuple[Reference, ...]
    received_at: datetime
    trace: str = ""
    number: int = 0


encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(Unlinked)


def led(recording: Recording, event: Said, link: Link) -> Said:
    """The event with all that a link tells: its order, and the numbers and the merchant that it does not say itself."""
    found = recording.linked(event, link.order_id, link.payment_no, link.refund_no)
    return belonging(found, link.merchant)


def belonging(event: Said, merchant: str | None) -> Said:
    """The event with its merchant, unless it names one."""
    if merchant is None or getattr(event, "merchant", merchant) is not None:
        return event
    return msgspec.structs.replace(event, merchant=merchant)


def orphaned(event: Waiting, name: str, references: tuple[Reference, ...]) -> Waiting:
    """The event under its source and reference, as the law takes what belongs to no order.

    A card refund without a payment becomes UNLINKED_REFUND; everything else waits there for the payment it names, or for one
    under the reference that led nowhere, and becomes UNKNOWN_ORDER.
    """
    if isinstance(event, CardPosting) and event.status == "REFUND":
        return msgspec.structs.replace(event, order_id=name, payment_no=None)
    number = event.payment_no or (references[0].value if references else name)
    return msgspec.structs.replace(event, order_id=name, payment_no=number[:256])


def window_s(contracts: Contracts, event: Waiting) -> int:
    """How long an event is held: a card's entries by their own window where the contract has one, else as long as evidence is parked."""
    contract = contracts.get(event.channel) or DEFAULT
    if isinstance(event, CardPosting | RefundLayer) and contract.card_posting_window_s is not None:
        return contract.card_posting_window_s
    return contract.park_window_s


class Held:
    """The notices of this gateway's partitions, found by key, by reference and by the end of their window."""

    def __init__(self, window: Callable[[Waiting], float]) -> None:
        self._window = window
        self.items: dict[bytes, tuple[int, Unlinked]] = {}
        self.waiting: dict[str, set[bytes]] = {}
        self._ends: list[tuple[datetime, bytes]] = []

    def add(self, partition: int, key: bytes, item: Unlinked) -> None:
        """A notice that comes again keeps the end of its first window."""
        if key in self.items:
            self.items[key] = (partition, item)
            return
        self.items[key] = (partition, item)
        for reference in item.references:
            self.waiting.setdefault(reference.key, set()).add(key)
        heapq.heappush(self._ends, (item.received_at + timedelta(seconds=self._window(item.event)), key))

    def drop(self, key: bytes) -> None:
        """It was passed on, or belongs to another gateway now."""
        _partition, item = self.items.pop(key, (0, None))
        for reference in item.references if item is not None else ():
            waiting = self.waiting.get(reference.key, set())
            waiting.discard(key)
            if not waiting:
                self.waiting.pop(reference.key, None)

    def clear(self) -> None:
        self.items.clear()
        self.waiting.clear()
        self._ends.clear()

    def drop_partitions(self, partitions: set[int]) -> None:
        for key in [key for key, (partition, _) in self.items.items() if partition in partitions]:
            self.drop(key)

    def ended(self, now: datetime) -> list[bytes]:
        """Whose window is over, and forget that it was asked."""
        over: list[bytes] = []
        while self._ends and self._ends[0][0] <= now:
            key = heapq.heappop(self._ends)[1]
            if key in self.items:
                over.append(key)
        return over


class Holding:
    """Owns a share of the holding topic and passes on what it can."""

    def __init__(
        self,
        kafka: Mapping[str, Any],
        names: Mapping[str, str],
        group: str,
        *,
        links: Links,
        store: Store,
        recording: Recording,
        window: Callable[[Waiting], float],
        ready: asyncio.Event,
    ) -> None:
        self._options = {**kafka, "group_id": f"{group}.holding"}
        self._names = names
        self._links, self._store, self._recording = links, store, recording
        self._ready = ready
        self.held = Held(window)
        links.watched = self.held.waiting.keys()

    async def run(self) -> None:
        await self._ready.wait()
        await forever("holding", self._watch)

    async def _watch(self) -> None:
        self.held.clear()  # after a failure as at the start: what is there is read again
        listener = _Share(self.held)
        async with consumer(**self._options) as reader:
            # Offsets are never committed: whoever gets a partition reads it from its beginning, as a table.
            reader.subscribe([self._names["unlinked"]], listener=listener)
            while True:
                for place, records in (await reader.getmany(timeout_ms=POLL_MS, max_records=MOST)).items():
                    for record in records:
                        self._take(place.partition, record.key, record.value)
                await self._pass(self._found(), datetime.now(UTC))

    def _take(self, partition: int, key: bytes | None, value: bytes | None) -> None:
        if not key:
            return
        if value is None:
            self.held.drop(key)
            return
        try:
            item = _decode.decode(value)
        except msgspec.MsgspecError:
            log.warning(
                "a held notice cannot be read",
                partition=partition,
                fix="it was written by another release; run that one",
            )
            return
        self.held.add(partition, key, item)
        if self._links.find(item.references) is not None:
            self._links.news.append(next(each.key for each in item.references))

    def _found(self) -> set[bytes]:
        found: set[bytes] = set()
        while self._links.news:
            found |= self.held.waiting.get(self._links.news.popleft(), set())
        return found

    async def _pass(self, found: Iterable[bytes], now: datetime) -> None:
        """Pass on what was found and what is over; remove it once that is durable."""
        keys = list(dict.fromkeys([*found, *self.held.ended(now)]))
        for start in range(0, len(keys), MOST):
            some = [key for key in keys[start : start + MOST] if key in self.held.items]
            await self._store.put([self._record(key) for key in some])
            await self._store.put([Stored(self._names["unlinked"], key, None) for key in some])
            for key in some:
                self.held.drop(key)

    def _record(self, key: bytes) -> Stored:
        item = self.held.items[key][1]
        link = self._links.find(item.references)
        event: Said = item.event
        if link is not None:
            event = led(self._recording, event, link)
        else:
            event = orphaned(item.event, self._recording.reference(event, item.number), item.references)
        made = self._recording.record(event, at=item.received_at, traceparent=item.trace, number=item.number)
        log.info("held notice passed on", channel=item.event.channel, linked=link is not None, trace=item.trace)
        return Stored(self._names[made.topic], made.key, made.value, made.headers)


class _Share(ConsumerRebalanceListener):  # type: ignore[misc]  # the client publishes no types
    """Forgets what another gateway owns now."""

    def __init__(self, held: Held) -> None:
        self._held = held

    async def on_partitions_revoked(self, revoked: Any) -> None:
        self._held.drop_partitions({place.partition for place in revoked})

    async def on_partitions_assigned(self, assigned: Any) -> None:
        """Nothing to do: the positions are the topic's beginning."""
