"""Routing in the cashier: the book that holds is read again and again, and every decision by it is remembered.

The last good book serves while Postgres is down, for `GOOD_S`: its limits are no older than that (R-161), and after it nothing is routed
until it can be read. Decisions are written down beside the requests, in order; while Postgres is down they wait, within a bound.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog
from msgspec import structs

from stores import route_decisions
from stores.pool import Unreachable, reached
from stores.route_decisions import Routed
from stores.route_knowledge import known
from streams.domain.consult import consult
from streams.domain.remarks import remarks
from streams.domain.routing import route
from streams.gateway.problems import Refused
from streams.routes.asks import ask

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from stores.route_knowledge import Knowledge
    from stores.schema import Connection
    from streams.domain.consult import Method
    from streams.domain.routing import Ask

log: Final = structlog.get_logger(__name__)

GOOD_S: Final = 300.0
"""How long the last good book serves while Postgres is down (R-161)."""
AGAIN_S: Final = 15.0
"""How often it is read: a new book holds within a minute (R-160)."""
RETRY_S: Final = 1.0
MOST_WAITING: Final = 10_000
"""Decisions that wait to be written down; beyond that the oldest is given up, and counted in the log."""


class Wanted(NamedTuple):
    """What is to be routed, of one merchant; `owns` says which channel accounts are its own."""

    merchant: str
    amount: int
    currency: str
    method: str | None
    buyer_tag: str | None
    owns: Callable[[str], bool]


class Routes:
    """Chooses channels. `load` reads what is known, `keep` writes a decision down; both raise `Unreachable`. `clock` only grows."""

    def __init__(
        self,
        load: Callable[[], Awaitable[Knowledge | None]],
        keep: Callable[[Routed], Awaitable[bool]],
        *,
        clock: Callable[[], float],
        now: Callable[[], datetime],
    ) -> None:
        self._load, self._keep, self._clock, self._now = load, keep, clock, now
        self._known: Knowledge | None = None
        self._read_at: float | None = None
        self._waiting: OrderedDict[str, Routed] = OrderedDict()
        self._more = asyncio.Event()

    async def run(self) -> None:
        """Read what is known and write decisions down, for as long as the gateway runs."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow(), name="route book")
            group.create_task(self._write(), name="route decisions")

    async def _follow(self) -> None:
        while True:
            await self.refresh()
            await asyncio.sleep(AGAIN_S)

    async def refresh(self) -> None:
        """Read once; what cannot be read leaves the last good one. A book that is new here is told in the log, with what it cannot do."""
        try:
            known = await self._load()
        except Unreachable as error:
            log.warning("the route book cannot be read", why=str(error), kept=self._known is not None)
            return
        self._read_at = self._clock()
        before = None if self._known is None else self._known.book
        self._known = known
        if known is None or known.book == before:
            return
        log.info("a route book holds", version=known.book.version, channels=len(known.book.offers))
        for one in remarks(known.book):
            (log.warning if one.warning else log.info)("route book", version=known.book.version, remark=one.text)

    def knowledge(self) -> Knowledge:
        """What is known. Raises `Refused` where no book was loaded, or the last one that was read is too old."""
        if self._read_at is None or self._clock() - self._read_at > GOOD_S:
            raise Refused("ROUTES_UNAVAILABLE", "channel: or send one", retry_after=5)
        if self._known is None:
            raise Refused("CHANNEL_NEEDED", "channel: send `channel:account`; no route book is loaded")
        return self._known

    def choose(self, wanted: Wanted, *, order_id: str, payment_no: str) -> Routed:
        """A decision for a payment to be created, without an id yet; it may be that there is no channel."""
        known = self.knowledge()
        asked = self._ask(wanted, known)
        return Routed(
            id="",
            decided_at=self._now(),
            purpose="create",
            merchant=wanted.merchant,
            order_id=order_id,
            payment_no=payment_no,
            ask=asked,
            health=known.health,
            downgrades=known.downgrades,
            routing=route(asked, known.book, known.health, known.downgrades),
        )

    def consult(self, wanted: Wanted) -> tuple[int, tuple[Method, ...]]:
        """The version of the book, and every method of the merchant's accounts: what can be used first, in order, then the others.

        Of another merchant's accounts nothing is said.
        """
        known = self.knowledge()
        book = structs.replace(known.book, offers=tuple(one for one in known.book.offers if wanted.owns(one.channel)))
        return book.version, consult(self._ask(wanted, known), book, known.health, known.downgrades)

    def _ask(self, wanted: Wanted, known: Knowledge) -> Ask:
        asked = ask(
            known.book,
            self._now(),
            amount=wanted.amount,
            currency=wanted.currency,
            method=wanted.method,
            buyer_tag=wanted.buyer_tag,
        )
        ours = tuple(sorted(one.channel for one in known.book.offers if wanted.owns(one.channel)))
        return structs.replace(asked, among=ours)

    # -- what was decided

    def remember(self, one: Routed) -> None:
        """Have a decision written down."""
        self._waiting[one.id] = one
        if len(self._waiting) > MOST_WAITING:
            lost, _ = self._waiting.popitem(last=False)
            log.warning("a route decision could not be kept", id=lost)
        self._more.set()

    async def _write(self) -> None:
        while True:
            await self._more.wait()
            if not await self.flush():
                await asyncio.sleep(RETRY_S)

    async def flush(self) -> bool:
        """Write down what waits, the oldest first; False if Postgres went away meanwhile."""
        self._more.clear()
        while self._waiting:
            one = next(iter(self._waiting.values()))
            try:
                await self._keep(one)
            except Unreachable as error:
                log.warning("route decisions wait", why=str(error), waiting=len(self._waiting))
                self._more.set()
                return False
            self._waiting.pop(one.id, None)
        return True


def reading(connections: Connection | None, now: Callable[[], datetime]) -> Routes:
    """Routes by what Postgres knows. Without a connection nothing is known, and payments are created with a channel only."""

    async def load() -> Knowledge | None:
        return None if connections is None else await reached(connections, lambda one: known(one, now()))

    async def keep(one: Routed) -> bool:
        return connections is not None and await reached(connections, lambda each: route_decisions.keep(each, one))

    return Routes(load, keep, clock=time.monotonic, now=now)
