"""What Postgres remembers of routing, on a real one: books with versions, decisions that stay, health and costs."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import asyncpg
import pytest

from stores import channel_costs, channel_health, route_books, route_decisions, route_downgrades
from stores.channel_health import Seen
from stores.pool import Unreachable, connect
from stores.route_decisions import Routed
from streams.domain.moment import milliseconds
from streams.domain.routing import Ask, Downgrade, route
from streams.domain.score import Book, Health, Limit, Offer, Rule

pytestmark = pytest.mark.postgres
AT = datetime(2026, 1, 2, 12, tzinfo=UTC)
OFFERS = tuple(Offer(channel=name, limits={"CNY": Limit()}, fee_ppm=2000) for name in ("sim:A", "sim:B"))
BOOK = Book(offers=OFFERS, rules=(Rule(name="all", channel="sim:A"),))


@pytest.fixture
async def connection(database: str):
    one = await connect(database)
    yield one
    await one.close()


async def loaded(connection, book: Book = BOOK, at: datetime = AT) -> int:
    version, new = await route_books.load(connection, book, at=at, by="ann", why="first")
    assert new
    return version


async def test_each_load_is_a_version_and_the_last_activation_holds(connection):
    """R-120, R-160."""
    assert await route_books.active(connection) is None
    assert await loaded(connection) == 1
    assert await loaded(connection, Book(offers=OFFERS), AT + timedelta(1)) == 2
    held = await route_books.active(connection)
    assert held is not None
    assert (held.version, held.book.rules, held.loaded_by) == (2, (), "ann")
    assert await route_books.activate(connection, 1, at=AT + timedelta(2), by="bob", why="back")
    held = await route_books.active(connection)
    assert held is not None
    assert (held.version, held.active_since, held.book.rules) == (1, AT + timedelta(2), BOOK.rules)
    assert not await route_books.activate(connection, 9, at=AT, by="bob", why="no such version")
    assert [one.version for one in await route_books.listed(connection)] == [2, 1]


async def test_the_book_that_holds_is_not_kept_twice(connection):
    await loaded(connection)
    assert await route_books.load(connection, BOOK, at=AT, by="ann", why="again") == (1, False)


async def test_what_was_decided_is_read_as_it_was_written_and_only_once(connection):
    """R-150: a recorded decision can be made again."""
    version = await loaded(connection)
    held = await route_books.version(connection, version)
    assert held is not None
    ask = Ask(amount=500, currency="CNY", at=milliseconds(AT), minute=720)
    health = {"sim:A": Health(succeeded=9, failed=1, unknown=2)}
    passed = (Downgrade(channel="sim:B", until=milliseconds(AT) + 1, why="over_limit", currency="CNY", amount_from=9),)
    one = Routed(
        id="c-1",
        decided_at=AT,
        purpose="create",
        merchant="shop",
        order_id="o-1",
        payment_no="P1",
        ask=ask,
        health=health,
        downgrades=passed,
        routing=route(ask, held.book, health, passed),
    )
    assert await route_decisions.keep(connection, one)
    assert not await route_decisions.keep(connection, one)
    assert [each async for each in route_decisions.between(connection, AT, AT + timedelta(1))] == [one]
    assert [each async for each in route_decisions.between(connection, AT - timedelta(1), AT)] == []
    (hit,) = await route_decisions.hits(connection, AT, AT + timedelta(1))
    assert (hit.purpose, hit.channel, hit.rule, hit.failure, hit.times) == ("create", "sim:A", "all", None, 1)
    (read,) = await route_decisions.of_payment(connection, "shop", "P1")
    assert route(read.ask, held.book, read.health, read.downgrades) == read.routing


async def test_downgrades_are_kept_once_for_an_attempt_and_end(connection):
    """R-162, R-164."""
    one = Downgrade(channel="sim:A", until=milliseconds(AT) + 300_000, why="over_limit", currency="CNY", amount_from=7)
    assert await route_downgrades.keep(connection, one, attempt="a-1", at=AT)
    assert not await route_downgrades.keep(connection, one, attempt="a-1", at=AT)
    assert await route_downgrades.live(connection, AT + timedelta(minutes=4)) == (one,)
    assert await route_downgrades.live(connection, AT + timedelta(minutes=5)) == ()
    assert await route_downgrades.triggers(connection, AT) == {("sim:A", "over_limit"): 1}


async def test_health_is_the_last_word_of_each_part_while_it_is_fresh(connection):
    """R-155: the parts are added; unknown stands apart."""
    early = AT - timedelta(minutes=1)
    await channel_health.write(
        connection,
        [
            Seen(channel="sim:A", band="small", part=0, as_of=early, succeeded=99),
            Seen(channel="sim:A", band="small", part=0, as_of=AT, succeeded=3, failed=1, failures={"declined": 1}),
            Seen(channel="sim:A", band="large", part=1, as_of=AT, succeeded=2, unknown=5),
            Seen(channel="sim:B", band="large", part=1, as_of=AT - channel_health.FRESH, succeeded=2),
        ],
    )
    seen = await channel_health.now(connection, AT)
    assert channel_health.by_channel(seen) == {"sim:A": Health(succeeded=5, failed=1, unknown=5)}
    assert [one.failures for one in seen if one.failures] == [{"declined": 1}]
    await channel_health.forget(connection, AT + timedelta(1))
    assert await channel_health.now(connection, AT) == []


_PAID = """
INSERT INTO payments (order_id, payment_no, channel, created_at, updated_at, merchant, biz_code, amount, currency, state, fee, seq,
    announced, captured, held, returned, disputed, duplicate, fulfilled, finished, attempts, queries, closes)
VALUES ($1, $1, $2, $3, $3, 'shop', 'SALE', 1000, 'CNY', 'SUCCESS', 3, 1,
    true, 1000, 0, 0, 0, false, false, false, 1, 0, 0)
"""


async def test_costs_stand_beside_the_contract_of_the_book_that_holds(connection):
    """R-119, R-165."""
    await loaded(connection)
    for number, channel in (("P1", "sim:A"), ("P2", "sim:A"), ("P3", "sim:Z")):
        await connection.execute(_PAID, number, channel, AT)
    for _ in range(2):
        await channel_costs.refresh(connection, AT.date(), AT.date(), AT)
    found = await channel_costs.of_days(connection, date(2026, 1, 1), date(2026, 1, 3))
    assert [(one.channel, one.contract_ppm, one.succeeded, one.success_volume, one.fees) for one in found] == [
        ("sim:A", 2000, 2, 2000, 6),
        ("sim:Z", None, 1, 1000, 3),
    ]


async def test_a_book_of_another_release_is_told_apart_from_none(connection):
    """A gateway keeps the book that it has, and does not fall."""
    await connection.execute("INSERT INTO route_books VALUES (1, '{\"by\": \"magic\"}', $1, 'ann', '')", AT)
    await route_books.activate(connection, 1, at=AT, by="ann", why="")
    with pytest.raises(Unreachable, match="written by another release"):
        await route_books.active(connection)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE route_books SET reason = 'x'",
        "DELETE FROM route_decisions",
        "TRUNCATE route_activations",
        "DELETE FROM channel_downgrades",
    ],
)
async def test_what_was_written_stays_even_for_its_owner(connection, statement: str):
    with pytest.raises(asyncpg.RestrictViolationError, match="what was written there stays"):
        await connection.execute(statement)


async def test_the_router_may_add_decisions_and_write_no_book(connection):
    rights = "SELECT has_table_privilege('concord_router', $1, $2)"
    assert await connection.fetchval(rights, "route_decisions", "INSERT")
    for table, right in (("route_decisions", "UPDATE"), ("route_books", "INSERT"), ("route_activations", "INSERT")):
        assert not await connection.fetchval(rights, table, right)
    assert await connection.fetchval("SELECT has_table_privilege('concord_reader', 'route_decisions', 'SELECT')")
    for table in ("route_books", "channel_downgrades", "books.channel_days"):
        assert await connection.fetchval(rights, table, "SELECT")
