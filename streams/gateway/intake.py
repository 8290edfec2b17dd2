"""One notice: verified, mapped, stored, and only then acknowledged. ACK means durable; whatever else happens is no ACK (R-070, R-071).

Nothing is decided here. A duplicate is stored again, an unknown order is stored, what cannot be mapped is stored as such: the law
and the dead letters take it from there. Verification runs in the event loop: an RSA verification takes less than handing it to a thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from streams.channels.verification import Refused
from streams.domain.events import Unmapped
from streams.gateway import holding
from streams.gateway.journal import ERROR, INFO, WARNING, Line
from streams.gateway.links import of_notice
from streams.gateway.store import Stored, Unavailable, Unstorable
from streams.gateway.trace import loggable, trace_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from streams.channels.accounts import Live
    from streams.channels.adapter import Mapped, Received, Said
    from streams.gateway.holding import Recording
    from streams.gateway.journal import Journal
    from streams.gateway.links import Links
    from streams.gateway.meters import Meters
    from streams.gateway.store import Store

MOST_COPIES: Final = 1_048_576
"""Bytes of body that the events of one notice carry together; beyond, only the first carries it and the others its hash."""


class Answer(NamedTuple):
    """What the channel is told."""

    status: int
    outcome: str
    body: bytes = b""
    headers: tuple[tuple[bytes, bytes], ...] = ()


def unavailable(outcome: str) -> Answer:
    """Not stored: the channel shall send it again."""
    return Answer(503, outcome, b"try again later", ((b"retry-after", b"2"),))


class Intake:
    """Takes notices in for all accounts."""

    def __init__(
        self,
        names: Mapping[str, str],
        *,
        store: Store,
        links: Links,
        recording: Recording,
        meters: Meters,
        journal: Journal,
    ) -> None:
        self._names, self._journal = names, journal
        self._store, self._links, self._recording, self._meters = store, links, recording, meters

    async def take(self, live: Live, received: Received, traceparent: str) -> Answer:
        """Verify a notice and make it durable; the answer is what the contract asks for. `received.at` is now, in UTC."""
        ack = live.contract.notice.ack
        try:
            live.adapter.verify(live.keys, received)
            mapped = live.adapter.events(live.keys, received, live.contract)
        except Refused as refusal:
            outcome = type(refusal).__name__.lower()
            self._tell(WARNING, live, traceparent, Line(outcome, field=loggable_field(refusal)))
            return Answer(ack.refuse_status, outcome, ack.refuse_body.encode(), _content(ack.refuse_body))
        mapped = _lighter(mapped, len(received.body))
        records = [
            record
            for number, one in enumerate(mapped)
            for record in self._records(live, one, received, traceparent, number)
        ]
        try:
            await self._store.put(records)
        except Unavailable as trouble:
            self._tell(ERROR, live, traceparent, Line("not stored", why=str(trouble)))
            return unavailable("unavailable")
        except Unstorable:
            self._tell(ERROR, live, traceparent, Line("too large", fix="its record does not fit the topic"))
            return Answer(413, "too_large")
        outcome = (
            "unmapped" if any(isinstance(one.event, Unmapped) for one in mapped) else "stored" if mapped else "empty"
        )
        orders = [loggable(one.event.order_id) for one in mapped[:8]]
        self._tell(INFO, live, traceparent, Line(outcome, orders=orders, events=len(mapped)))
        return self._acknowledged(live, received, outcome)

    def _tell(self, level: int, live: Live, traceparent: str, line: Line) -> None:
        line.channel, line.account = live.account.channel, live.account.account
        line.trace = trace_id(traceparent)
        self._journal.tell(level, line)

    @staticmethod
    def _acknowledged(live: Live, received: Received, outcome: str) -> Answer:
        ack = live.contract.notice.ack
        own = live.adapter.acknowledgement
        body = ack.body.encode() if own is None else own(received)
        headers = tuple((name.lower().encode(), value.encode()) for name, value in ack.headers.items())
        named = any(name == b"content-type" for name, _ in headers)
        return Answer(ack.status, outcome, body, headers if named else headers + _content(body.decode("latin-1")))

    def _records(self, live: Live, one: Mapped, received: Received, traceparent: str, number: int) -> Iterator[Stored]:
        """The records of one event: its own, and those of the links it teaches; or the one that holds it."""
        event: Said = holding.belonging(one.event, live.account.merchant)
        channel = live.account.channel
        if not event.order_id and not isinstance(event, Unmapped):
            link = self._links.find(one.references)
            if link is None:
                self._meters.stored(channel, "held", 1)
                yield self._held(event, one, received, traceparent, number)
                return
            event = holding.led(self._recording, event, link)
            self._meters.stored(channel, "linked", 1)
        else:
            self._meters.stored(channel, "unmapped" if isinstance(event, Unmapped) else "mapped", 1)
        made = self._recording.record(event, at=received.at, traceparent=traceparent, number=number)
        yield Stored(self._names[made.topic], made.key, made.value, made.headers)
        for key, learned in of_notice(one):
            if (value := self._links.new(key, learned)) is not None:
                yield Stored(self._names["references"], key.encode(), value)

    def _held(self, event: holding.Waiting, one: Mapped, received: Received, traceparent: str, number: int) -> Stored:
        item = holding.Unlinked(
            event=event, references=one.references, received_at=received.at, trace=traceparent, number=number
        )
        key = self._recording.reference(event, number).encode()
        return Stored(self._names["unlinked"], key, holding.encode(item), (("traceparent", traceparent.encode()),))


def loggable_field(refusal: Refused) -> str:
    """Which part of the notice was refused, as far as it is a name of ours."""
    return "".join(
        letter for letter in refusal.field[:64] if letter.isascii() and (letter.isalpha() or letter in "-_. ")
    )


def _content(body: str) -> tuple[tuple[bytes, bytes], ...]:
    if not body:
        return ()
    kind = b"application/json" if body.startswith("{") else b"text/plain; charset=utf-8"
    return ((b"content-type", kind),)


def _lighter(mapped: list[Mapped], size: int) -> list[Mapped]:
    """A batch's events without a body each, where that would multiply a large one."""
    if size * len(mapped) <= MOST_COPIES:
        return mapped
    return [mapped[0], *(msgspec.structs.replace(one, event=_hash_only(one.event)) for one in mapped[1:])]


def _hash_only(event: Said) -> Said:
    if event.raw is None:
        return event
    return msgspec.structs.replace(event, raw=msgspec.structs.replace(event.raw, body=""))
