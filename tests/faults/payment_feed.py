"""The input of a payment fault run: the demonstration's lives, and those with refunds, holds, second charges and expiries among them.

What must come of an order can be read from the inputs alone: words of success and of failure about one payment are only ever said in
the same topic, whose order the broker keeps.
"""

from __future__ import annotations

import heapq
import itertools
import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import msgspec

from streams.demo import traffic
from streams.demo.traffic import Life, Sent, placed
from streams.domain.events import CapturePayment, CreatePayment, RefundNotice, RefundPayment, Unmapped
from streams.topics import partition_of
from tests.faults.feed import Feeder

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator

EXPIRES: Final = timedelta(seconds=6)
POISON: Final = 0.02
"""Poison records per order."""
STRAYS: Final = 30
"""One in so many callbacks is repeated in a partition where its order does not live."""
_encode = msgspec.json.Encoder().encode


def refunded(life: Life) -> None:
    traffic.paid_by_callback(life)
    number, part = f"RF-{life.order}", life.rng.randrange(1, life.amount + 1)
    money = {"amount": part, "currency": life.currency}
    ask = RefundPayment(
        command_id=f"{life.order}-refund", order_id=life.order, payment_no=life.payment, refund_no=number, **money
    )
    life.events.append(("commands", ask))
    life.answer("refund", life.rng.choice(("ACCEPTED", "TIMEOUT")), operation_no=number)
    notice = RefundNotice(
        order_id=life.order, payment_no=life.payment, channel=life.channel, status=life.rng.choice(("SUCCESS", "FAILED")),
        refund_no=number, event_id=f"evt_{number}", refund_transaction=f"rtx_{life.order}", **money,
    )  # fmt: skip
    life.events.append(("channel-callbacks", notice))


def held_and_captured(life: Life) -> None:
    life.begin()
    life.callback("AUTHORIZED")
    number = f"CP-{life.order}"
    money = {"amount": life.amount, "currency": life.currency}
    ask = CapturePayment(
        command_id=f"{life.order}-capture", order_id=life.order, payment_no=life.payment, capture_no=number, **money
    )
    life.events.append(("commands", ask))
    life.answer("capture", "SUCCESS", operation_no=number, transaction=f"ctx_{life.order}", **money)


def charged_twice(life: Life) -> None:
    """The channel took the money twice, under one payment."""
    life.begin()
    life.callback("SUCCESS")
    life.callback("SUCCESS")
    topic, second = life.events[-1]
    life.events[-1] = topic, msgspec.structs.replace(second, transaction=f"txn_{life.order}_again")


def forgotten(life: Life) -> None:
    """Created and never started: its expiry closes it."""
    life.begin()
    del life.events[1:]


LIVES: Final[tuple[tuple[int, Callable[[Life], None]], ...]] = (
    *traffic.LIVES,
    (12, refunded),
    (8, held_and_captured),
    (5, charged_twice),
    (8, forgotten),
)
BROKEN: Final[tuple[Callable[[bytes], Sent], ...]] = (
    *traffic.BROKEN,
    lambda key: Sent("channel-callbacks", key, _encode(Unmapped(channel="stripe:acct_demo", event_type="odd", reason="new"))),
    lambda _key: Sent("commands", b"@position", b"{}"),
)  # fmt: skip


def stream(seed: int, now: Callable[[], datetime]) -> Iterator[Sent]:
    """Without end. `now` tells when a payment that is created shall expire; everything else comes from the seed."""
    chance = random.Random(f"payments {seed}")
    shares, lives = [share for share, _ in LIVES], [live for _, live in LIVES]
    waiting: list[tuple[float, int, Sent]] = []
    ties = itertools.count()
    for number in itertools.count(1):
        life = Life(f"S{seed}-{number:05d}", chance)
        chance.choices(lives, shares)[0](life)
        expire(life, now() + EXPIRES)
        for place, record in placed([life], chance):
            heapq.heappush(waiting, (number * 5 + place, next(ties), record))
        if chance.random() < POISON:
            yield chance.choice(BROKEN)(f"{life.order}-broken".encode())
        while waiting and waiting[0][0] <= number * 5:
            yield heapq.heappop(waiting)[2]


def expire(life: Life, at: datetime) -> None:
    """Half of the payments expire within the run, most of them long decided."""
    topic, create = life.events[0]
    if isinstance(create, CreatePayment) and life.rng.random() < 0.5:
        life.events[0] = topic, msgspec.structs.replace(create, expires_at=at)


@dataclass
class PaymentFeeder(Feeder):
    """Produces the stream at a pace; `stored` are the places of what was acknowledged."""

    def source(self) -> Iterator[Sent]:
        return stream(self.seed, lambda: datetime.now(UTC))

    def name(self, each: Any, place: Any) -> str:
        return f"{place.topic}/{place.partition}/{place.offset}"

    async def send(self, producer: Any, each: Sent) -> asyncio.Future[Any]:
        sent: asyncio.Future[Any] = await producer.send(self.toy.topics[each.topic], each.value, key=each.key)
        if each.topic == "channel-callbacks" and crc32(each.value) % STRAYS == 0:
            # Another producer, with another partitioner, repeats it: a copy, as moving an only one would change what was said first.
            home = partition_of(each.key, self.toy.partitions)
            stray = await producer.send(
                self.toy.topics[each.topic],
                each.value,
                key=each.key,
                partition=(home + 1) % self.toy.partitions,
            )
            stray.add_done_callback(lambda done: done.cancelled() or done.exception())
        return sent
