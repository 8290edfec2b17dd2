"""What the worker decides, as far as somebody here waits for it: the answer to a command, and what the payer needs next.

Every gateway reads all decisions and updates from the moment it starts, committed ones only and in no group, because a command's
answer may lie in any partition and only the gateway that sent it waits for it. What was decided lately is remembered, within a
bound: it answers repetitions as they were answered first, and says to which order a number belongs before the links do.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

import msgspec
import structlog
from aiokafka import TopicPartition

from streams.domain.decisions import Decision, PayerAction
from streams.gateway.linking import MOST, POLL_MS, consumer, forever

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

log: Final = structlog.get_logger(__name__)

V = TypeVar("V")
REMEMBERED: Final = 16_384


class Place(NamedTuple):
    """Where an operation belongs: its order, its payment and its merchant; and its channel, where that was heard."""

    order_id: str
    payment_no: str
    merchant: str | None
    channel: str = ""


class Recent(Generic[V]):
    """Values by key; the oldest keys are forgotten. `first`: the first value of a key stands, else the last."""

    def __init__(self, *, first: bool, most: int = REMEMBERED) -> None:
        self._first, self._most = first, most
        self._values: OrderedDict[str, V] = OrderedDict()

    def keep(self, key: str, value: V) -> None:
        if not (self._first and key in self._values):
            self._values[key] = value
        if len(self._values) > self._most:
            self._values.popitem(last=False)

    def get(self, key: str) -> V | None:
        return self._values.get(key)


class Waiter(Generic[V]):
    """Waits for one thing that may be heard."""

    def __init__(self) -> None:
        self._future: asyncio.Future[V] = asyncio.get_running_loop().create_future()

    def heard(self, value: V) -> None:
        if not self._future.done():
            self._future.set_result(value)

    async def within(self, seconds: float) -> V | None:
        """What was heard, or None after so long."""
        done, _ = await asyncio.wait({self._future}, timeout=max(0.0, seconds))
        return self._future.result() if done else None


class Heard(Generic[V]):
    """What was heard by key, lately, and who waits to hear it."""

    def __init__(self, *, first: bool = False) -> None:
        self.recent: Recent[V] = Recent(first=first)
        self._waiting: dict[str, list[Waiter[V]]] = {}

    @contextmanager
    def expect(self, key: str) -> Iterator[Waiter[V]]:
        """Begin to wait, before that is done which makes it heard."""
        waiter: Waiter[V] = Waiter()
        waiting = self._waiting.setdefault(key, [])
        waiting.append(waiter)
        try:
            yield waiter
        finally:
            waiting.remove(waiter)
            if not waiting:
                self._waiting.pop(key, None)

    def tell(self, key: str, value: V) -> None:
        self.recent.keep(key, value)
        self.wake(key, value)

    def wake(self, key: str, value: V) -> None:
        """Tell only who waits now."""
        for waiter in self._waiting.get(key, ()):
            waiter.heard(value)


class Verdicts:
    """Follows the decisions and the updates. `decided` is by command id, `places` by number, `actions` by payment number."""

    def __init__(self, kafka: Mapping[str, Any], names: Mapping[str, str], partitions: int) -> None:
        self._kafka = {**kafka, "isolation_level": "read_committed"}
        self._decisions = names["decisions"]
        self._places = [
            TopicPartition(names[name], number) for name in ("decisions", "updates") for number in range(partitions)
        ]
        self._next: dict[TopicPartition, int] = {}
        self.ready = asyncio.Event()
        self.decided: Heard[Decision] = Heard(first=True)
        self.places: Heard[Place] = Heard()
        self.actions: Heard[str] = Heard()

    async def run(self) -> None:
        await forever("verdicts", self._follow)

    async def _follow(self) -> None:
        """From the ends at first; after a failure from where it was, so that nobody waits for what was passed over."""
        async with consumer(**self._kafka) as reader:
            reader.assign(self._places)
            if not self._next:
                self._next = dict(await reader.end_offsets(self._places))
            for place in self._places:
                reader.seek(place, self._next[place])
            self.ready.set()
            while True:
                for place, records in (await reader.getmany(timeout_ms=POLL_MS, max_records=MOST)).items():
                    for record in records:
                        self.take(place.topic, record.value)
                    self._next[place] = records[-1].offset + 1

    def take(self, topic: str, value: bytes | None) -> None:
        """One record. What cannot be read was written by another release and answers nobody here."""
        if value is None:
            return
        try:
            if topic == self._decisions:
                self._decided(_decision.decode(value))
            elif _ACTION in value:
                action = _action.decode(value)
                self.actions.tell(scoped(action.merchant, action.payment_no), action.action)
        except msgspec.MsgspecError as error:
            log.warning("a record cannot be read", topic=topic, error=type(error).__name__)

    def _decided(self, decision: Decision) -> None:
        for one in decision.operations:
            place = Place(decision.order_id, one.payment_no, one.merchant, one.channel)
            self.places.tell(scoped(one.merchant, one.number), place)
        if decision.source in {"command", "person"}:
            self.decided.tell(decision.evidence, decision)
        elif decision.source == "submit" and not any(name.startswith("action/") for name in decision.messages):
            # The channel has answered and asks nothing of the payer: there is nothing to wait for.
            self.actions.wake(scoped(decision.merchant, decision.payment_no or ""), "")


def scoped(merchant: str | None, number: str) -> str:
    """A number as it is looked up: never apart from its merchant."""
    return f"{merchant or ''}/{number}"


_decision: Final = msgspec.json.Decoder(Decision)
_action: Final = msgspec.json.Decoder(PayerAction)
_ACTION: Final = f'"{PayerAction.__struct_config__.tag}"'.encode()
