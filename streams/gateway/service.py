"""The gateway as a whole: accounts, store, links, holding and the server, started together and stopped in order.

A stop takes no new connection, finishes what is in flight, flushes the producer, and takes no longer than its bound.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Final

import structlog
from aiokafka.errors import KafkaError

from streams.gateway import app, callbacks, review_http, server
from streams.gateway.books import NoBooks
from streams.gateway.cashier_http import OPENAPI, utc_now
from streams.gateway.cashier_service import CashierPart
from streams.gateway.holding import Holding, window_s
from streams.gateway.intake import Intake
from streams.gateway.journal import Journal
from streams.gateway.limits import Bounds, Pool
from streams.gateway.linking import Reader, Writer
from streams.gateway.links import Links
from streams.gateway.meters import Meters
from streams.gateway.review import Desk
from streams.gateway.routes import reading
from streams.gateway.store import Store
from streams.topics import TopicsError, require

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from litestar import Litestar

    from stores.merchants import Register
    from stores.schema import Connection
    from streams.channels.accounts import Accounts
    from streams.domain.contract import Contracts
    from streams.gateway.books import Books
    from streams.gateway.holding import Recording, Waiting
    from streams.settings import Settings
    from streams.topics import Topics

log: Final = structlog.get_logger(__name__)

REFRESH_S: Final = 2.0
"""How often the accounts and their credentials are read again."""
TOPICS_AGAIN_S: Final = 1.0
STOP_S: Final = 15.0
REVIEWS: Final = 32
"""Requests of people in flight: they are few."""


class Gateway:
    """One gateway process. `window` says how long an event without an order is held, in seconds; by default its contract does.

    With `merchants`, which reads who may ask, it serves the cashier too; `books` is what its reads are answered from. With
    `connections` to Postgres beside it, the cashier's review desk is there as well.
    """

    def __init__(
        self,
        settings: Settings,
        topics: Topics,
        accounts: Accounts,
        *,
        contracts: Contracts,
        recording: Recording,
        window: Callable[[Waiting], float] | None = None,
        merchants: Callable[[], Awaitable[Register]] | None = None,
        books: Books | None = None,
        connections: Connection | None = None,
    ) -> None:
        self._settings, self._topics, self._accounts = settings, topics, accounts
        self.meters, self.links = Meters(), Links()
        smallest = min(topics.of(name).max_message_bytes for name in ("channel-callbacks", "card-postings", "unlinked"))
        self.store = Store(settings.kafka, record_bytes=smallest, within_s=settings.gateway_store_s)
        self._reader = Reader(settings.kafka, topics["references"], topics.partitions, self.links)
        self._writer = Writer(settings.kafka, topics.names, settings.group, links=self.links, store=self.store)
        self.holding = Holding(
            settings.kafka,
            topics.names,
            settings.group,
            links=self.links,
            store=self.store,
            recording=recording,
            window=window or (lambda event: window_s(contracts, event)),
            ready=self._reader.ready,
        )
        self._journal = Journal()
        intake = Intake(
            topics.names,
            store=self.store,
            links=self.links,
            recording=recording,
            meters=self.meters,
            journal=self._journal,
        )
        self.pool = Pool(settings.gateway_concurrency)
        bounds = Bounds(body_bytes=settings.gateway_body_bytes, body_s=settings.gateway_body_s)
        self._callbacks = callbacks.Callbacks(
            accounts, intake, bounds=bounds, pool=self.pool, meters=self.meters, journal=self._journal
        )
        self.meters.watch(self.pool, self.store, self.links, self.holding.held)
        self._topics_checked = asyncio.Event()
        self.cashier: CashierPart | None = None
        if merchants is not None:
            self.cashier = CashierPart(
                settings,
                topics,
                accounts,
                store=self.store,
                links=self.links,
                load=merchants,
                books=books or NoBooks(),
                routes=reading(connections, utc_now),
            )
        self._review = self._desk(connections)

    def _desk(self, connections: Connection | None) -> Desk | None:
        """The review desk, which waits for the law's verdicts beside the cashier."""
        if self.cashier is None or connections is None:
            return None
        return Desk(
            topic=self._topics["commands"],
            store=self.store,
            verdicts=self.cashier.verdicts,
            connections=connections,
            now=utc_now,
        )

    def application(self) -> Litestar:
        """The app of this gateway."""
        routers = [callbacks.handler(self._callbacks), *app.pages(self.meters.registry, self.trouble)]
        if self.cashier is None:
            return app.application(routers)
        routers.append(self.cashier.router())
        if self._review is not None:
            routers.append(review_http.router(self._review, Pool(REVIEWS), utc_now))
        return app.application(routers, OPENAPI)

    async def trouble(self) -> str:
        """Why a load balancer should send callbacks elsewhere; empty when it should not."""
        if not self._topics_checked.is_set():
            return "the topics are not checked yet"
        if not await self.store.reachable():
            return self.store.trouble or "the broker does not answer"
        return "" if self._reader.ready.is_set() else "the links are still being read"

    async def run(self, listener: socket.socket, stop: asyncio.Event) -> bool:
        """Serve on a listening socket until `stop` is set. False if not everything could be flushed in time.

        Raises `TopicsError` if the broker's topics cannot be used.
        """
        try:
            return await self._run(listener, stop)
        except BaseExceptionGroup as failed:
            for error in failed.exceptions:
                if isinstance(error, TopicsError):
                    raise error from failed
            raise

    async def _run(self, listener: socket.socket, stop: asyncio.Event) -> bool:
        async with self.store, asyncio.TaskGroup() as group:
            loops = [
                group.create_task(self._check_topics(), name="topics"),
                group.create_task(self._reader.run(), name="links"),
                group.create_task(self._learn(), name="updates"),
                group.create_task(self.holding.run(), name="holding"),
                group.create_task(self._refresh(), name="accounts"),
            ]
            if self.cashier is not None:
                loops.append(group.create_task(self.cashier.run(), name="cashier"))
            if self._review is not None:
                loops.append(group.create_task(self._review.run(), name="review"))
            await self._serve(listener, stop)
            for loop in loops:
                loop.cancel()
        self._journal.flush()
        return await self.store.stop(STOP_S)

    async def _serve(self, listener: socket.socket, stop: asyncio.Event) -> None:
        host, port = listener.getsockname()[:2]
        serving = server.server(
            self.application(), host=host, port=port, header_s=self._settings.gateway_body_s, stop_s=STOP_S
        )
        task = asyncio.create_task(serving.serve([listener]), name="http")
        asked = asyncio.create_task(stop.wait(), name="stop")
        log.info("gateway listens", host=host, port=port, accounts=len(self._accounts.all))
        try:
            await asyncio.wait({task, asked}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            serving.should_exit = True
            asked.cancel()
            await asyncio.wait({task})
        task.result()
        log.info("gateway stops", in_flight=self.pool.taken)

    async def _check_topics(self) -> None:
        """The topics must be what the list says. Without a broker nothing can be checked, nor stored."""
        while True:
            try:
                await require(self._settings.kafka, self._topics)
            except (KafkaError, OSError, TimeoutError) as error:
                log.warning("cannot check the topics yet", error=type(error).__name__)
                await asyncio.sleep(TOPICS_AGAIN_S)
            else:
                self._topics_checked.set()
                return

    async def _learn(self) -> None:
        await self._reader.ready.wait()
        await self._writer.run()

    async def _refresh(self) -> None:
        while True:
            await asyncio.sleep(REFRESH_S)
            for news in await asyncio.to_thread(self._accounts.refresh):
                log.warning("accounts", news=news)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes any free one. Raises `OSError`."""
    return socket.create_server((host, port), backlog=2048)
