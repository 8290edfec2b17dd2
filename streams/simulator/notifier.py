"""Notices on their way: signed when they are sent, sent again on the channel's own series until they are acknowledged as it asks.

The series is divided by `speed`, so that hours pass in seconds. What happens to a notice on the way is drawn for its event.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import httpx
import structlog

if TYPE_CHECKING:
    from streams.domain.contract import Ack, Redelivery
    from streams.simulator.dialect import Fact
    from streams.simulator.server import Played

DELAY_S: Final = 2.0
REORDER_S: Final = 0.3
WAIT_S: Final = 10.0
MOST_WAITING: Final = 32
FIRST_S: Final = 60.0
MOST_TRIES: Final = 64

log: Final = structlog.get_logger(__name__)


def acknowledged(ack: Ack, status: int, body: bytes) -> bool:
    """Whether the channel takes this answer for the acknowledgement that its contract describes."""
    if not 200 <= status < 300:
        return False
    return not ack.body or body.strip() == ack.body.encode()


def distances(again: Redelivery) -> list[float]:
    """Seconds between deliveries: the contract's; after the last of them, or where it has none, twice as long each time.

    It ends with the life or the number that the contract states, or, where it states neither, with its own list.
    """
    found: list[float] = [*again.after_s]
    is_bounded = again.life_s is not None or again.most is not None
    while is_bounded and len(found) < (MOST_TRIES if again.most is None else again.most - 1):
        step = 2 * found[-1] if found else FIRST_S
        if again.life_s is not None and sum(found) + step > again.life_s:
            break
        found.append(step)
    return found[: None if again.most is None else again.most - 1]


class Notifier:
    """Sends the facts of every played account to `gateway`/callbacks/{channel}/{account}."""

    def __init__(self, gateway: str, speed: float = 1.0) -> None:
        self.gateway = gateway.rstrip("/")
        self.speed = speed
        self.counts: Counter[str] = Counter()
        self.acknowledged: list[str] = []
        """The SHA-256 of the body of every notice that was acknowledged, each as often as it was."""
        self.told: set[tuple[str, str, str]] = set()
        """(channel, transaction, word) of every notice about a payment that was acknowledged."""
        self._sending: set[asyncio.Task[None]] = set()
        limits = httpx.Limits(max_connections=MOST_WAITING, max_keepalive_connections=MOST_WAITING)
        self._client = httpx.AsyncClient(timeout=WAIT_S, limits=limits, trust_env=False)

    def tell(self, played: Played, fact: Fact) -> None:
        """Start to tell a fact, unless it is lost."""
        chance = played.world.chance
        about = (played.channel, fact.event_id)
        if chance.strikes("drop", *about):
            self.counts["dropped"] += 1
            return
        late = DELAY_S * chance.share("late", *about) if chance.strikes("delay", *about) else 0.0
        if chance.strikes("reorder", *about):
            late += REORDER_S
        for _ in range(2 if chance.strikes("double", *about) else 1):
            task = asyncio.create_task(self._deliver(played, fact, late))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    @property
    def waiting(self) -> int:
        """Notices that are still on their way."""
        return len(self._sending)

    async def _deliver(self, played: Played, fact: Fact, late_s: float) -> None:
        again = distances(played.contract.notice.redelivery)
        for wait_s in [late_s, *(after / self.speed for after in again)]:
            await asyncio.sleep(wait_s)
            if await self._send(played, fact):
                return
            self.counts["repeated"] += 1
        self.counts["given_up"] += 1
        log.warning("a notice was never acknowledged", channel=played.channel, notice=fact.event_id)

    async def _send(self, played: Played, fact: Fact) -> bool:
        """Whether it was acknowledged."""
        url = f"{self.gateway}/callbacks/{played.channel}/{played.account}"
        delivery = played.dialect.notice(played.secrets, fact, played.account, datetime.now(UTC), played.contract)
        self.counts["sent"] += 1
        try:
            reply = await self._client.post(url, content=delivery.body, headers=delivery.headers)
        except httpx.HTTPError:
            return False
        if not acknowledged(played.contract.notice.ack, reply.status_code, reply.content):
            return False
        self.counts["acknowledged"] += 1
        if fact.about == "payment":
            self.told.add((played.channel, fact.transaction, fact.word))
        self.acknowledged.append(hashlib.sha256(delivery.body).hexdigest())
        return True

    async def stop(self) -> None:
        """Give up what is on its way."""
        for task in self._sending:
            task.cancel()
        await asyncio.gather(*self._sending, return_exceptions=True)
        await self._client.aclose()
