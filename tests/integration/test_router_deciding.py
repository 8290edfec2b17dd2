"""What a router makes of a refusal, on a real Postgres: one decision whoever asks, and none for a pinned payment."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from msgspec import structs

from stores import channel_health, route_books, route_decisions, route_downgrades
from stores.channel_health import Seen
from stores.pool import connect
from stores.route_decisions import Routed
from streams.agents.router import Router
from streams.agents.router_meters import Meters
from streams.channels.contracts import shipped
from streams.domain.fallback import Refusal
from streams.domain.moment import milliseconds
from streams.domain.number import payment_number
from streams.domain.routing import route
from streams.domain.score import Book, Limit, Offer
from streams.routes.asks import ask

pytestmark = pytest.mark.postgres
AT = datetime(2026, 1, 2, 12, tzinfo=UTC)
NAMES = ("simulator:a", "simulator:b", "simulator:c", "simulator:d")
BOOK = Book(
    version=1,
    offers=tuple(
        Offer(channel=name, limits={"CNY": Limit()}, fee_ppm=1000 * place) for place, name in enumerate(NAMES, 1)
    ),
)
NUMBER = payment_number("SALE", AT.date(), bytes(10))
FIRST = Refusal(
    at=milliseconds(AT),
    merchant="shop",
    order_id="o-1",
    payment_no=NUMBER,
    attempt=1,
    channel=NAMES[0],
    error="over_limit",
)


def router(at: datetime = AT) -> Router:
    return Router(
        {},
        "",
        group="g",
        session_s=6,
        decisions="d",
        commands="c",
        contracts=shipped(),
        meters=Meters(),
        now=lambda: at,
    )


@pytest.fixture
async def connections(database: str):
    """Two connections; a payment of o-1 was routed to the first channel, among all but the last."""
    both = [await connect(database) for _ in range(2)]
    await route_books.load(both[0], BOOK, at=AT, by="test", why="")
    asked = structs.replace(ask(BOOK, AT, amount=500, currency="CNY", method=None), among=NAMES[:3])
    created = Routed(
        id="create-1", decided_at=AT, purpose="create", merchant="shop", order_id="o-1", payment_no=NUMBER,
        ask=asked, health={}, downgrades=(), routing=route(asked, BOOK, {}),
    )  # fmt: skip
    await route_decisions.keep(both[0], created)
    yield both
    for one in both:
        await one.close()


async def test_two_routers_that_know_different_things_decide_one_thing(connections):
    """R-157, R-162: the second one finds what the first has written down, and so does a router after a crash."""
    one, other = await asyncio.gather(*(router().decide(each, FIRST) for each in connections))
    assert one is not None
    assert one == other
    assert (one.routing.channel, one.purpose, one.ask.tried) == (NAMES[1], "fallback", (NAMES[0],))
    sick = Seen(channel=NAMES[1], band="CNY:3", part=0, as_of=AT, failed=99)
    await channel_health.write(connections[0], [sick])
    assert await router().decide(connections[1], FIRST) == one
    (passed,) = await route_downgrades.live(connections[0], AT)
    assert (passed.channel, passed.currency, passed.amount_from) == (NAMES[0], "CNY", 500)


async def test_the_third_channel_is_the_last_and_another_merchants_is_none(connections):
    """R-156: at most three, of the accounts the payment was created among."""
    chosen = []
    refused = FIRST
    for attempt in (2, 3, 4):
        routed = await router().decide(connections[0], refused)
        assert routed is not None
        chosen.append(routed.routing.channel)
        refused = structs.replace(FIRST, attempt=attempt, channel=routed.routing.channel or "")
    assert chosen == [NAMES[1], NAMES[2], None]
    assert routed.routing.failure == "all_channel_failed"


async def test_a_payment_that_routing_did_not_choose_for_is_left_to_its_caller(connections):
    """R-138."""
    pinned = structs.replace(FIRST, payment_no=payment_number("SALE", AT.date(), bytes([1] * 10)))
    for one in (pinned, structs.replace(FIRST, merchant="other"), structs.replace(FIRST, payment_no="P\0")):
        assert await router().decide(connections[0], one) is None


async def test_a_refusal_that_was_found_late_gives_up(connections):
    routed = await router(AT + timedelta(minutes=3)).decide(connections[0], FIRST)
    assert routed is not None
    assert (routed.routing.channel, routed.routing.failure) == (None, "all_channel_failed")
