"""A history without workers: traffic decided in memory, and produced as the topics would hold it.

Orders of one partition are decided one event after the other; every record carries the headers that a worker would give it.
"""

from __future__ import annotations

import base64
import hashlib
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from streams import codec
from streams.agents import payments
from streams.demo.traffic import Life, Sent, placed
from streams.domain.converge import converge
from streams.domain.decisions import Decision
from streams.domain.events import Callback, Raw
from streams.domain.order import Order, due
from streams.engine.topology import Poison
from streams.topics import Topics, partition_of
from tests.faults.payment_feed import LIVES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aiokafka import AIOKafkaProducer

START = 1_767_225_600_000
ODD = b"\0odd"
"""A text that Postgres cannot hold is a text all the same."""


@dataclass(frozen=True)
class Written:
    """A record as the broker holds it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass
class History:
    """Everything that was produced, in order, and the orders as they ended."""

    topics: Topics
    records: list[Written] = field(default_factory=list)
    orders: dict[str, Order] = field(default_factory=dict)
    _ends: dict[tuple[str, int], int] = field(default_factory=dict)
    _at: int = START

    def __post_init__(self) -> None:
        self._decode = codec.decoder(self.topics.names)
        self._route = payments.router({Decision: self.topics["decisions"]})

    def hear(self, sent: Sent) -> None:
        """One input: kept, decided or buried."""
        self._at += 700
        number = partition_of(sent.key or b"", self.topics.partitions)
        record = self._keep(self.topics[sent.topic], number, sent.key, sent.value, ())
        try:
            event = self._decode(record)  # type: ignore[arg-type]
        except Poison as poison:
            self._bury(record, poison)
            return
        self._fire(event.order_id, self._at)
        order, said = converge(self.orders.get(event.order_id), event, self._at, {})
        self._say(event.order_id, order, said, record)

    def wind(self, seconds: int) -> None:
        """Time passes; what is due fires."""
        self._at += seconds * 1000
        for name in list(self.orders):
            self._fire(name, self._at)

    def _fire(self, name: str, at: int) -> None:
        while (order := self.orders.get(name)) is not None and (moment := due(order)) is not None and moment <= at:
            after, said = converge(order, None, at, {})
            self._say(name, after, said, None)

    def _say(self, name: str, order: Order | None, said: Any, cause: Written | None) -> None:
        assert order is not None
        self.orders[name] = order
        for message in said:
            if type(message) is Decision:
                sent = self._route(message, cause)  # type: ignore[arg-type]
                number = partition_of(name.encode(), self.topics.partitions)
                self._keep(sent.topic, number, name.encode(), sent.value, tuple(sent.headers))

    def _bury(self, record: Written, poison: Poison) -> None:
        about = (
            ("dead-topic", record.topic.encode()),
            ("dead-partition", b"%d" % record.partition),
            ("dead-offset", b"%d" % record.offset),
            ("dead-kind", poison.kind.encode()),
            ("dead-reason", poison.reason.encode()),
        )
        self._keep(self.topics.dead_letters, record.partition, record.key, record.value, about)

    def _keep(self, topic: str, partition: int, key: Any, value: Any, headers: Any) -> Written:
        offset = self._ends.get((topic, partition), 0)
        self._ends[topic, partition] = offset + 1
        record = Written(topic, partition, offset, self._at, key, value, headers)
        self.records.append(record)
        return record


def history(topics: Topics, orders: int, seed: int, prefix: str = "H") -> History:
    """`orders` lives of every kind, interleaved, with raw messages, strange texts and transactions that two orders claim."""
    made = History(topics)
    for sent in inputs(orders, seed, prefix):
        made.hear(sent)
    made.wind(3600)
    return made


def inputs(orders: int, seed: int, prefix: str = "H") -> Iterator[Sent]:
    """The same seed makes the same inputs."""
    chance = random.Random(f"history {seed}")
    lives = []
    for number in range(orders):
        life = Life(f"{prefix}{seed}-{number:05d}" + ("\0" if chance.random() < 0.02 else ""), chance)
        chance.choices([live for _, live in LIVES], [share for share, _ in LIVES])[0](life)
        lives.append(life)
    for life in lives:
        if chance.random() < 0.05:
            other = chance.choice(lives)
            share(life, f"txn_{other.order}", other.channel, other.currency)
        life.events = [(topic, _carrying(event, chance)) for topic, event in life.events]
    yield from (sent for _, sent in sorted(placed(lives, chance), key=lambda each: each[0]))
    yield Sent("channel-callbacks", b"broken", b'{"type":')
    yield Sent("commands", b"odd", ODD)


def share(life: Life, transaction: str, channel: str, currency: str) -> None:
    """This life's channel names another order's transaction."""
    renamed: list[tuple[str, Any]] = []
    for topic, event in life.events:
        fields = {
            name: value for name, value in (("channel", channel), ("currency", currency)) if getattr(event, name, None)
        }
        if getattr(event, "transaction", None) and topic != "card-postings":
            fields["transaction"] = transaction
        renamed.append((topic, msgspec.structs.replace(event, **fields)))
    life.events = renamed


def _carrying(event: Any, chance: random.Random) -> Any:
    """Some callbacks carry the message they were."""
    if type(event) is not Callback or chance.random() < 0.5:
        return event
    body = msgspec.json.encode({"event": event.event_id, "card_number": "4000000000000002", "amount": event.amount})
    raw = Raw(
        body=base64.b64encode(body).decode(), sha256=hashlib.sha256(body).hexdigest(), content_type="application/json"
    )
    return msgspec.structs.replace(event, raw=raw)


async def produce(producer: AIOKafkaProducer, records: list[Written]) -> None:
    """Into the topics, in their order, as of now: retention would take what is as old as these stories."""
    sent = [
        await producer.send(
            record.topic, record.value, key=record.key, partition=record.partition, headers=list(record.headers),
        )
        for record in records
    ]  # fmt: skip
    for one in sent:
        await one
