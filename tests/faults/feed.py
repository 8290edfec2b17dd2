"""The input of a fault run: orders and payments from a seed, shuffled, repeated, late, contradictory, and poison among them."""

from __future__ import annotations

import asyncio
import heapq
import random
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from aiokafka import errors as kafka

from tests.support.toy import ORDER, PAY, Event, writing

if TYPE_CHECKING:
    from collections.abc import Iterator

POISON: Final = (b'{"bad', b"", b"\xff\xfe\x00", b"[]", b'{"id": 7}')
SHARE: Final = 20
"""Events handed over in one go."""


def story(chance: random.Random, name: str, due_steps: int) -> list[tuple[float, Event]]:
    """The events of one order with their delays, in steps: most are paid, some twice, wrongly, late or never."""
    amount, mode, number = chance.randint(1, 999), chance.random(), 0

    def event(kind: str, value: int) -> Event:
        nonlocal number
        number += 1
        return Event(f"{name}:{number}", name, kind, value)

    events = [event(ORDER, amount)]
    if mode < 0.80:
        events.append(event(PAY, amount))
    elif mode < 0.86:
        events.append(event(PAY, amount + 1))
    elif mode < 0.91:
        events += [event(PAY, amount), event(PAY, amount)]
    elif mode < 0.95:
        events += [event(PAY, amount), event(ORDER, amount + 5)]
    chance.shuffle(events)
    told = [(chance.expovariate(1 / 30), each) for each in events]
    if 0.70 < mode < 0.80:  # the last one arrives about when the due time fires
        told[-1] = (due_steps * chance.uniform(0.7, 1.3), told[-1][1])
    repeats = [(delay + chance.expovariate(1 / 200), each) for delay, each in told if chance.random() < 0.3]
    return told + repeats


def stream(seed: int, due_steps: int) -> Iterator[Event | tuple[bytes | None, bytes]]:
    """Without end: events, and (key, value) of poison. One order begins every second step."""
    chance = random.Random(f"input {seed}")
    waiting: list[tuple[float, int, Event]] = []
    tie = step = orders = 0
    while True:
        step += 1
        if step % 2 == 0:
            orders += 1
            for delay, event in story(chance, f"o{orders}", due_steps):
                tie += 1
                heapq.heappush(waiting, (step + delay, tie, event))
        if chance.random() < 0.003:
            yield chance.choice((None, b"x", b"@position", b"o1")), chance.choice(POISON)
        while waiting and waiting[0][0] <= step:
            yield heapq.heappop(waiting)[2]


@dataclass
class Feeder:
    """Produces the stream at a pace, through any broker failure, until `stop` is set.

    `stored` are the ids of what was acknowledged, and when it was (milliseconds).
    """

    toy: Any
    """The `Toy`; a subclass feeds another topology."""
    bootstrap: str
    seed: int
    per_second: int = 160
    stored: dict[str, int] = field(default_factory=dict)
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    def source(self) -> Iterator[Any]:
        return stream(self.seed, self.toy.due_ms * self.per_second // 1000)

    async def run(self) -> None:
        source = self.source()
        held: list[Any] = []
        while not self.stop.is_set():
            with suppress(kafka.KafkaError, OSError):
                async with writing(self.bootstrap, request_timeout_ms=15_000) as producer:
                    while not self.stop.is_set() or held:
                        held = held or [next(source) for _ in range(SHARE)]
                        sent = [await self.send(producer, each) for each in held]
                        for each, future in zip(held, sent, strict=True):
                            future.add_done_callback(partial(self.keep, each))
                        await asyncio.gather(*sent)
                        held = []
                        await asyncio.sleep(SHARE / self.per_second)
            if held:  # sent again: what had been stored of it is a duplicate, as from any channel
                await asyncio.sleep(0.2)

    def keep(self, each: Any, sent: asyncio.Future[Any]) -> None:
        """Note that it was acknowledged, if it was, and when."""
        is_stored = not sent.cancelled() and sent.exception() is None
        if is_stored and (name := self.name(each, sent.result())):
            self.stored.setdefault(name, int(time.time() * 1000))

    def name(self, each: Any, place: Any) -> str:
        """By what the judge finds it again; poison has no name."""
        return each.id if isinstance(each, Event) else ""

    async def send(self, producer: Any, each: Any) -> asyncio.Future[Any]:
        if isinstance(each, Event):
            return await self.toy.send(producer, each)
        key, value = each
        future: asyncio.Future[Any] = await producer.send(self.toy.payments, value, key=key)
        return future
