"""The review desk without a broker: real Postgres and routes, the law itself in place of the worker, and books of what it decides."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx

from stores import reviewers
from stores.pool import pool as connections
from streams.gateway import app, review, review_http
from streams.gateway.cashier_http import OPENAPI
from streams.gateway.limits import Pool
from streams.gateway.review import Desk, new_reviewer
from streams.gateway.review_shapes import handle_of
from tests.support.cashier import Shop
from tests.support.databases import books

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest

    from streams.domain.decisions import Decision

PEOPLE = {
    "vera": "viewer",
    "otto": "operator",
    "olga": "operator",
    "anna": "approver",
    "axel": "approver",
    "adam": "admin",
}


@asynccontextmanager
async def tables(dsn: str) -> AsyncIterator[Any]:
    """A pool on a database of the test's own, with all tables."""
    async with books(dsn) as where, connections(where, largest=8) as pool:
        yield pool


class Office:
    """A shop whose discrepancies people review. `headers` are those of each person, by name."""

    def __init__(self, shop: Shop, pool: Any) -> None:
        self.shop, self.pool, self.dsn = shop, pool, ""
        self.headers: dict[str, dict[str, str]] = {}
        self.desk = Desk(topic="commands", store=shop, verdicts=shop.verdicts, connections=pool, now=lambda: shop.now)
        self.app = app.application([review_http.router(self.desk, Pool(32), lambda: shop.now)], OPENAPI)
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        self.client = httpx.AsyncClient(transport=transport, base_url="http://desk")

    async def staff(self) -> None:
        for name, role in PEOPLE.items():
            person, key = new_reviewer(name, role)  # type: ignore[arg-type]
            async with self.pool.acquire() as connection:
                assert await reviewers.add(connection, person, self.shop.now, "adam")
            self.headers[name] = {"Authorization": f"Bearer {key}"}

    async def ask(self, who: str, method: str, path: str, body: Any = None) -> httpx.Response:
        return await self.client.request(method, f"/v1{path}", json=body, headers=self.headers[who])

    async def post(self, who: str, path: str, body: Any = None) -> httpx.Response:
        return await self.ask(who, "POST", path, body)

    async def book(self) -> None:
        """What the law has decided so far, into the books, as a projector would."""
        for decision in self.shop.decisions:
            await book(self.pool, decision)

    async def late(self, order: str = "order-1") -> str:
        """Money that came after its payment was closed: the id of the discrepancy, in the books."""
        payment = (await self.shop.create(order)).json()
        number = payment["payment_no"]
        assert (await self.shop.post(f"/payments/{number}/start", {}, f"start-{order}")).status_code == 200
        self.shop.answer(payment, "close", "CLOSED")
        self.shop.answer(payment, "query", "SUCCESS", transaction=f"t-{order}", amount=1000, currency="USD")
        await self.book()
        found = [one.id for each in self.shop.decisions for one in each.discrepancies if one.kind == "LATE_SUCCESS"]
        return found[-1]

    async def proposed(self, discrepancy: str, action: str = "refund", who: str = "otto") -> int:
        """A proposal by one who claimed it."""
        assert (await self.post(who, f"/reviews/{handle_of(discrepancy)}/claim")).status_code == 204
        revision = (await self.ask(who, "GET", f"/reviews/{handle_of(discrepancy)}")).json()["item"]["revision"]
        body = {"action": action, "evidence": "ticket 7: the bank shows it", "revision": revision}
        answer = await self.post(who, f"/reviews/{handle_of(discrepancy)}/proposals", body)
        assert answer.status_code == 201, answer.text
        return int(answer.json()["number"])

    async def log(self) -> list[tuple[str, str]]:
        rows = await self.pool.fetch("SELECT actor, act FROM audit_log WHERE act <> 'add-reviewer' ORDER BY seq")
        return [tuple(row) for row in rows]


async def book(connection: Any, decision: Decision) -> None:
    """A decision and its discrepancies, into the books: the columns that the desk reads."""
    names = "order_id seq verdict rule source evidence detail decided_at"
    await _insert(connection, "decisions", {name: getattr(decision, name) for name in names.split()})
    names = "id revision status kind severity ref order_id payment_no evidence owner detail deadline"
    for one in decision.discrepancies:
        told = {name: getattr(one, name) for name in names.split()}
        opened = await connection.fetchval("DELETE FROM books.discrepancies WHERE id = $1 RETURNING opened_at", one.id)
        times = {"opened_at": opened or one.decided_at, "updated_at": one.decided_at}
        await _insert(connection, "discrepancies", {**told, **times})


async def _insert(connection: Any, table: str, told: dict[str, Any]) -> None:
    """A row with a plain value for whatever else must have one."""
    needed = await connection.fetch(
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = 'books' AND table_name = $1 "
        "AND is_nullable = 'NO' AND column_default IS NULL",
        table,
    )
    row = {one["column_name"]: [] if one["data_type"] == "ARRAY" else "" for one in needed} | told
    places = ", ".join(f"${number}" for number in range(1, len(row) + 1))
    await connection.execute(
        f"INSERT INTO books.{table} ({', '.join(row)}) VALUES ({places}) ON CONFLICT DO NOTHING", *row.values()
    )


@asynccontextmanager
async def office(dsn: str) -> AsyncIterator[Office]:
    """An office with everybody at work."""
    async with tables(dsn) as pool, Shop() as shop:
        found = Office(shop, pool)
        database = await pool.fetchval("SELECT current_database()")
        found.dsn = urlsplit(dsn)._replace(path=f"/{database}").geturl()
        async with found.client:
            await found.staff()
            yield found


def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits long for a verdict that cannot come."""
    monkeypatch.setattr(review, "DECIDED_S", 0.05)
