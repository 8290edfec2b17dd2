"""The cashier on a stage: a real worker, broker and Postgres, and a gateway process whose accounts are the shop's."""

from __future__ import annotations

import asyncio
import json
import secrets
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import asyncpg
import httpx

from stores import merchants, route_books, schema
from streams.dev.postgres import PostgresServer
from tests.support import services
from tests.support.cashier import new, secret_key
from tests.support.gateways import Channel, GatewayProcess
from tests.support.job import Job

if TYPE_CHECKING:
    from pathlib import Path

    from streams.domain.score import Book

CHANNEL = "simulator:acct_1"
WITHIN_S = 30.0


class CashierProcess(GatewayProcess):
    """A gateway whose one account is the shop's."""

    def write_accounts(self) -> Path:
        path = super().write_accounts()
        listed = json.loads(path.read_text())
        for account in listed["accounts"]:
            account["merchant"] = "shop"
        path.write_text(json.dumps(listed))
        return path


@dataclass
class Stage:
    """A worker, a gateway with the cashier, and the Postgres of its merchants."""

    job: Job
    gateway: CashierProcess
    client: httpx.AsyncClient
    postgres: PostgresServer

    async def create(self, order: str, key: str = "", **fields: Any) -> httpx.Response:
        sent = {"Idempotency-Key": key} if key else {}
        return await self.client.post("/v1/payments", json=new(order, channel=CHANNEL, **fields), headers=sent)

    async def requests(self, order: str, verb: str = "SUBMIT") -> list[dict[str, Any]]:
        found = [json.loads(record.value) for record in await self.job.read("channel-requests")]
        return [one for one in found if (one["order_id"], one["verb"]) == (order, verb)]


async def registered(dsn: str) -> str:
    """The tables, a shop, and the header of its key."""
    key, header = secret_key("shop")
    now = datetime.now(UTC)
    connection = await asyncpg.connect(dsn)
    try:
        await schema.migrate(connection, now)
        assert await merchants.add(connection, "shop", secrets.token_bytes(32), 100_000, now)
        assert await merchants.add_key(connection, key, now)
        assert await merchants.set_limit(connection, "shop", "SALE", "USD", 100_000)
    finally:
        await connection.close()
    return header


async def hold(dsn: str, book: Book) -> None:
    """Make a route book hold."""
    connection = await asyncpg.connect(dsn)
    await route_books.load(connection, book, at=datetime.now(UTC), by="test", why="")
    await connection.close()


@asynccontextmanager
async def staged(kafka, prefix: str, folder: Path, accounts: tuple[str, ...] = ("acct_1",), book: Book | None = None):
    job = Job(kafka.bootstrap, prefix, folder)
    postgres = PostgresServer(services.fresh_folder("cashier"))
    await asyncio.to_thread(postgres.start)
    gateway = None
    try:
        header = await registered(postgres.dsn)
        if book is not None:
            await hold(postgres.dsn, book)
        await job.create()
        gateway = CashierProcess(
            folder,
            {**job.env, "CONCORD_POSTGRES": postgres.dsn},
            [Channel("simulator", account=one) for one in accounts],
        )
        await job.start()
        await asyncio.to_thread(gateway.start)
        limits = httpx.Limits(max_connections=200)
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{gateway.port}",
            headers={"Authorization": header},
            timeout=WITHIN_S,
            limits=limits,
        ) as client:
            stage = Stage(job, gateway, client, postgres)
            await known(stage)
            yield stage
    finally:
        if gateway is not None:
            gateway.end()
        job.end()
        await asyncio.to_thread(postgres.wipe)


async def known(stage: Stage) -> None:
    """Wait until the gateway has read its merchants."""
    async with asyncio.timeout(WITHIN_S):
        while (await stage.client.get("/v1/payments/x")).status_code != 404:
            await asyncio.sleep(0.1)
