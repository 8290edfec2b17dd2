"""From `notifications` to the merchants, at least once, and to `payments.commands` what no merchant would take.

Any number of notifiers deliver side by side. Each takes what is due under a lease that is longer than a try may last, so a SIGKILL
repeats a notice at most, under the same webhook-id. One merchant has a share of the places only, so that its slow server holds up
nobody else's notices. What has failed eight times is dead, and becomes a finding that the law turns into a discrepancy (R-084).
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import httpx
import msgspec
import structlog

from stores import notifications
from streams.agents.notifier_sending import WITHIN_S
from streams.cloudevents import attributes
from streams.domain.events import Undelivered
from streams.domain.schedule import retry_after

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from aiokafka import AIOKafkaProducer

    from stores.notifications import Dead, Taken
    from stores.schema import Connection
    from streams.agents.notifier_meters import Meters
    from streams.agents.notifier_sending import Sender

PLACES: Final = 64
EACH: Final = 8
"""Notices of one merchant that are taken at a time; no more are while as many are in flight."""
LEASE: Final = timedelta(seconds=3 * WITHIN_S)
IDLE_S: Final = 0.2
FINDING_S: Final = 1.0

log: Final = structlog.get_logger(__name__)


class Courier:
    """Delivers what is due. `now` is UTC."""

    def __init__(self, connections: Connection, sender: Sender, now: Callable[[], datetime], meters: Meters) -> None:
        self._connections, self._sender, self._now, self._meters = connections, sender, now, meters
        self._flying: set[asyncio.Task[None]] = set()
        self._merchants: Counter[str] = Counter()

    async def run(self) -> None:
        """Take and deliver until cancelled; raises what Postgres raises."""
        while True:
            await self._settled()
            if not await self._take():
                await self._rest()

    async def drain(self) -> None:
        """Finish what is on its way."""
        if self._flying:
            await asyncio.wait(self._flying, timeout=WITHIN_S + 1)
        for task in self._flying:
            task.cancel()

    async def _take(self) -> int:
        free = PLACES - len(self._flying)
        if free <= 0:
            return 0
        now = self._now()
        busy = [merchant for merchant, number in self._merchants.items() if number >= EACH]
        taken = await notifications.take(self._connections, now, now + LEASE, free, each=EACH, without=busy)
        for one in taken:
            self._merchants[one.merchant] += 1
            task = asyncio.create_task(self._deliver(one))
            self._flying.add(task)
            self._meters.in_flight(len(self._flying))
        return len(taken)

    async def _rest(self) -> None:
        """Until something has landed, or for a moment."""
        if self._flying:
            await asyncio.wait(self._flying, timeout=IDLE_S, return_when=asyncio.FIRST_COMPLETED)
        else:
            await asyncio.sleep(IDLE_S)

    async def _settled(self) -> None:
        """Raise what a delivery has raised: Postgres is away, or a bug."""
        for task in [task for task in self._flying if task.done()]:
            self._flying.discard(task)
            self._meters.in_flight(len(self._flying))
            task.result()

    async def _deliver(self, one: Taken) -> None:
        try:
            began = time.monotonic()
            outcome = await self._sender.send(one, self._now())
            took_s = time.monotonic() - began
            now = self._now()
            if not outcome.error:
                is_ours = await notifications.delivered(self._connections, one, now)
                became = "delivered"
            else:
                after = retry_after(one.failures + 1)
                again_at = None if after is None else now + timedelta(seconds=after)
                is_ours = await notifications.failed(self._connections, one, outcome.error, now, again_at)
                became = "dead" if again_at is None else "failed"
        finally:
            self._merchants[one.merchant] -= 1
        self._meters.tried(became if is_ours else "late", took_s)
        log.log(
            LEVELS[became], "notice", webhook_id=one.id, kind=one.type, merchant=one.merchant, host=_host(one), outcome=became,
            status=outcome.status, error=outcome.error, tries=one.failures + 1, took_ms=int(took_s * 1000),
        )  # fmt: skip


LEVELS: Final[Mapping[str, int]] = {"delivered": 20, "failed": 30, "dead": 40}


def _host(one: Taken) -> str:
    """All that a log may show of an address."""
    try:
        return httpx.URL(one.url or "").host
    except httpx.InvalidURL:
        return "?"


class Finder:
    """Sends the discrepancy over each dead notice to the worker, until Kafka has it; the law takes a repetition for one."""

    def __init__(
        self, connections: Connection, producer: AIOKafkaProducer, topic: str, now: Callable[[], datetime]
    ) -> None:
        self._connections, self._producer, self._topic, self._now = connections, producer, topic, now

    async def run(self) -> None:
        """Look and send until cancelled; raises what Postgres and Kafka raise."""
        while True:
            dead = await notifications.unfound(self._connections)
            for one in dead:
                await self._producer.send_and_wait(self._topic, **record(finding(one), self._now()))
            if dead:
                await notifications.found(self._connections, [one.seq for one in dead])
            await asyncio.sleep(FINDING_S)


def finding(dead: Dead) -> Undelivered:
    """Its id derives from the notice and the moment of its death: sent twice it is one; delivered again and dead again it is another."""
    death = f"{dead.id}/{int(dead.handled_at.timestamp() * 1000)}"
    return Undelivered(
        command_id=hashlib.blake2b(death.encode(), digest_size=16).hexdigest(),
        order_id=dead.order_id,
        payment_no=dead.payment_no,
        ref=dead.id,
        detail=f"{dead.type}: given up after {dead.retry_count} tries; the last: {dead.last_error}",
        merchant=dead.merchant,
    )


def record(found: Undelivered, at: datetime) -> dict[str, Any]:
    """A finding as a record of `payments.commands`."""
    return {
        "key": found.order_id.encode(),
        "value": msgspec.json.encode(found),
        "headers": attributes(found.command_id, "undelivered", "notifier", at.isoformat()),
    }
