"""A toy topology for engine tests: an order and its payment arrive on two topics, in any order, any number of times.

Small enough to be replayed by eye, and demanding enough to show every fault: `Order.seen` is the audit trail of what was applied, in
order, due times included (`@due:<milliseconds>`), so a lost, doubled or reordered event shows in the state itself. Output ids derive
from the order and the trail, so a replay mints them again.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from streams.engine.topology import DUE, Due, Outgoing, Poison, Record, Topology

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

ORDER: Final = "order"
PAY: Final = "pay"
SUCCESS: Final = "success"
DISCREPANCY: Final = "discrepancy"
DUE_PREFIX: Final = "@due:"

COMPACTED: Final = {"cleanup.policy": "compact", "min.compaction.lag.ms": "604800000"}
"""The changelog as a user should have it."""
EAGER_COMPACTION: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": str(1 << 20),
    "segment.ms": "1000",
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": "0",
    "delete.retention.ms": "60000",
}
"""The changelog as it must survive: cleaned while a partition opens, down to the last open segment."""
LOG_APPEND_TIME: Final = {"message.timestamp.type": "LogAppendTime"}


class Event(msgspec.Struct, frozen=True):
    """An event as produced: `id` is its dedupe key, `kind` is `order` or `pay`, `amount` is in minor units."""

    id: str
    order: str
    kind: str
    amount: int


class Order(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything about one order. `due` is milliseconds, UTC."""

    id: str
    amount: int | None = None
    paid: int | None = None
    status: str = "new"
    due: int | None = None
    seen: tuple[str, ...] = ()
    said: tuple[tuple[str, str], ...] = ()
    """(kind, id) of every message that was ever sent for it."""


class Output(msgspec.Struct, frozen=True):
    """A message: `kind` is `success` or `discrepancy`."""

    kind: str
    id: str
    order: str
    reason: str


def decide(
    state: Order | None, event: Event | Due, at: int, *, order: str = "", due_ms: int = 4000
) -> tuple[Order | None, list[Output]]:
    """The pure law of the toy. Success once amount and payment agree; a discrepancy for a mismatch, a second payment, another
    amount, and for no payment within `due_ms`. The same object comes back for a duplicate.
    """
    if isinstance(event, Due):
        assert state is not None
        state = msgspec.structs.replace(state, due=None)
        name, kind, amount = f"{DUE_PREFIX}{at}", "@due", 0
    else:
        state = state or Order(order or event.order)
        name, kind, amount = event.id, event.kind, event.amount
    if name in state.seen:
        return state, []
    fields, said = _step(state, kind, amount)
    status = fields.get("status", state.status)
    if kind != "@due" and status == "new" and state.due is None:
        fields["due"] = at + due_ms
    elif status in ("paid", "mismatch"):
        fields["due"] = None
    outputs = [
        Output(what, f"{state.id}/{len(state.seen)}/{number}", state.id, reason)
        for number, (what, reason) in enumerate(said)
    ]
    fields["seen"] = (*state.seen, name)
    fields["said"] = (*state.said, *((output.kind, output.id) for output in outputs))
    return msgspec.structs.replace(state, **fields), outputs


def _step(state: Order, kind: str, amount: int) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """What one event changes, and what is to be said about it as (kind, reason)."""
    fields: dict[str, Any] = {}
    said: list[tuple[str, str]] = []
    if kind == ORDER and state.amount is None:
        fields["amount"] = amount
    elif kind == ORDER and state.amount != amount:
        said.append((DISCREPANCY, "order-conflict"))
    elif kind == PAY and state.paid is None:
        fields["paid"] = amount
    elif kind == PAY:
        said.append((DISCREPANCY, "second-payment"))
    elif kind == "@due" and state.status == "new":
        fields["status"] = "late"
        said.append((DISCREPANCY, "payment-timeout"))
    due, paid = fields.get("amount", state.amount), fields.get("paid", state.paid)
    if fields.get("status", state.status) in ("new", "late") and due is not None and paid is not None:
        fields["status"] = "paid" if due == paid else "mismatch"
        said.append((SUCCESS, "paid") if due == paid else (DISCREPANCY, "amount-mismatch"))
    return fields, said


_decode = msgspec.json.Decoder(Event).decode
encode: Final = msgspec.json.Encoder().encode


def decode(record: Record) -> Event:
    """Read an input record. Raises `Poison` for anything that is no event under its own order's key."""
    try:
        event = _decode(record.value or b"")
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Poison("not_json", f"the value is no toy event: {error}") from error
    if record.key != event.order.encode():
        raise Poison("key_mismatch", f"the key {record.key!r} is not the order {event.order!r}")
    return event


@dataclass(frozen=True, slots=True, kw_only=True)
class Toy:
    """Names and settings of one instance of the toy; every topic, the group and the transactional ids begin with `prefix`."""

    prefix: str
    due_ms: int = 4000
    partitions: int = 4

    @property
    def orders(self) -> str:
        return f"{self.prefix}-orders"

    @property
    def payments(self) -> str:
        return f"{self.prefix}-payments"

    @property
    def inputs(self) -> tuple[str, str]:
        return self.orders, self.payments

    @property
    def success(self) -> str:
        return f"{self.prefix}-success"

    @property
    def discrepancies(self) -> str:
        return f"{self.prefix}-discrepancies"

    @property
    def changelog(self) -> str:
        return f"{self.prefix}-changelog"

    @property
    def dead_letters(self) -> str:
        return f"{self.prefix}-dead"

    @property
    def own(self) -> tuple[str, ...]:
        """The topics that only the engine writes."""
        return self.changelog, self.success, self.discrepancies, self.dead_letters

    def output(self, kind: str) -> str:
        """The topic of a kind of message."""
        return self.success if kind == SUCCESS else self.discrepancies

    def decide(self, state: Order | None, event: Event | Due, at: int) -> tuple[Order | None, Sequence[Output]]:
        return decide(state, event, at, due_ms=self.due_ms)

    def route(self, message: Output, _cause: Record | None) -> Outgoing:
        headers = [("ce_id", message.id.encode()), ("ce_type", message.reason.encode())]
        return Outgoing(self.output(message.kind), encode(message), headers, message.reason)

    def implied(self, state: Order) -> list[tuple[str, str]]:
        return [(self.output(kind), name) for kind, name in state.said]

    def topology(self, **changes: Any) -> Topology[Order, Event, Output]:
        """The topology; `changes` replace its parts."""
        parts: dict[str, Any] = {
            "name": self.prefix,
            "inputs": self.inputs,
            "outputs": (self.success, self.discrepancies),
            "changelog": self.changelog,
            "dead_letters": self.dead_letters,
            "decode": decode,
            "decide": self.decide,
            "route": self.route,
            "dump": encode,
            "load": msgspec.json.Decoder(Order).decode,
            "due": lambda state: state.due,
            "implied": self.implied,
        }
        return Topology(**parts | changes)

    async def create(
        self,
        bootstrap: str,
        *,
        replication: int = 1,
        compaction: Mapping[str, str] = COMPACTED,
        more: Sequence[str] = (),
    ) -> None:
        """Create its topics, and `more` of them beside (named by their suffix). Raises if one cannot be made."""
        topics = [(name, LOG_APPEND_TIME) for name in self.inputs]
        topics += [(self.changelog, dict(compaction))]
        topics += [(name, {}) for name in (*self.own[1:], *(f"{self.prefix}-{suffix}" for suffix in more))]
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            made = [NewTopic(name, self.partitions, replication, topic_configs=settings) for name, settings in topics]
            answer = await admin.create_topics(made, timeout_ms=20_000)
            refused = [error for error in answer.topic_errors if error[1]]
            if refused:
                raise RuntimeError(f"topics of {self.prefix} could not be created: {refused}")
        finally:
            await admin.close()

    async def produce(self, bootstrap: str, events: Iterable[Event]) -> None:
        """Produce events in this order, each to the topic of its kind under its order's key, and wait until they are stored."""
        async with writing(bootstrap) as producer:
            sent = [await self.send(producer, event) for event in events]
            await asyncio.gather(*sent)

    async def send(self, producer: AIOKafkaProducer, event: Event) -> asyncio.Future[Any]:
        """Hand one event to a producer; the future is done when the broker has stored it."""
        topic = self.orders if event.kind == ORDER else self.payments
        future: asyncio.Future[Any] = await producer.send(topic, encode(event), key=event.order.encode())
        return future


class writing:  # noqa: N801  reads as a word: `async with writing(bootstrap) as producer`
    """An idempotent producer for the length of a block."""

    def __init__(self, bootstrap: str, **settings: Any) -> None:
        self._producer = AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True, **settings)

    async def __aenter__(self) -> AIOKafkaProducer:
        await self._producer.start()
        return self._producer

    async def __aexit__(self, *_failure: object) -> None:
        await self._producer.stop()


def order_with_payment(name: str, amount: int = 100, paid: int | None = None) -> list[Event]:
    """The two events of one order; `paid` is another amount, for a mismatch."""
    return [
        Event(f"{name}:1", name, ORDER, amount),
        Event(f"{name}:2", name, PAY, amount if paid is None else paid),
    ]


def replay(order: str, seen: Iterable[str], events: Mapping[str, Event]) -> tuple[Order | None, list[Output]]:
    """A plain in-memory replay of an audit trail: the state and the messages that it must have led to."""
    state: Order | None = None
    outputs: list[Output] = []
    for name in seen:
        is_due = name.startswith(DUE_PREFIX)
        at = int(name.removeprefix(DUE_PREFIX)) if is_due else 0
        state, sent = decide(state, DUE if is_due else events[name], at, order=order)
        outputs += sent
    return state, outputs
