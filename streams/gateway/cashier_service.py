"""The cashier as a part of the gateway: who is known, what is decided, and the routes, put together."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from streams.gateway import cashier_http
from streams.gateway.cashier import Cashier
from streams.gateway.keys import Directory, Door
from streams.gateway.limits import Pool
from streams.gateway.verdicts import Verdicts

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from stores.merchants import Register
    from streams.channels.accounts import Accounts
    from streams.gateway.books import Books
    from streams.gateway.links import Links
    from streams.gateway.routes import Routes
    from streams.gateway.store import Store
    from streams.settings import Settings
    from streams.topics import Topics


class CashierPart:
    """Everything of the cashier in one gateway. `load` reads the register, `books` the projection."""

    def __init__(
        self,
        settings: Settings,
        topics: Topics,
        accounts: Accounts,
        *,
        store: Store,
        links: Links,
        load: Callable[[], Awaitable[Register]],
        books: Books,
        routes: Routes,
    ) -> None:
        self.verdicts = Verdicts(settings.kafka, topics.names, topics.partitions)
        self.directory = Directory(load, time.monotonic)
        self.pool = Pool(settings.gateway_concurrency)
        self._books, self._routes = books, routes
        self._cashier = Cashier(
            topic=topics["commands"],
            store=store,
            verdicts=self.verdicts,
            links=links,
            may_use=lambda channel, merchant: _owns(accounts, channel, merchant),
            routes=routes,
            now=cashier_http.utc_now,
        )

    def router(self) -> Any:
        """Its routes; the pool is its own, so that a flood of callbacks cannot take its places, nor it theirs."""
        return cashier_http.router(self._cashier, self._books, Door(self.directory, time.monotonic), self.pool)

    async def run(self) -> None:
        """Follow what is decided and who is known, for as long as the gateway runs."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.directory.run(), name="merchants")
            group.create_task(self.verdicts.run(), name="verdicts")
            group.create_task(self._routes.run(), name="routes")


def _owns(accounts: Accounts, channel: str, merchant: str) -> bool:
    """Only an account of this very merchant: what a channel tells of another one's would not find the payment."""
    name, _, account = channel.partition(":")
    live = accounts.get(name, account)
    return live is not None and live.account.merchant == merchant
