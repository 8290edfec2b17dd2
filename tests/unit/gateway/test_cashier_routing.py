"""Creates without a channel, and consultations: the law behind them, a route book before them, and Postgres that goes away."""

from __future__ import annotations

import pytest
import structlog
from msgspec import structs

from stores.route_knowledge import Knowledge
from streams.domain.routing import Downgrade, route
from streams.domain.score import Book, Health, Limit, Offer
from streams.gateway.routes import GOOD_S
from tests.support.cashier import Shop, new

USD = {"USD": Limit(least=1, most=5000)}
MINE, ALSO = "simulator:sim", "simulator:shop"
BOOK = Book(
    version=4,
    offers=(
        Offer(channel=MINE, limits=USD, fee_ppm=2000, methods=("card",)),
        Offer(channel=ALSO, limits=USD, fee_ppm=3000, methods=("card", "bank")),
        Offer(channel="simulator:nobody", limits=USD, methods=("card", "secret")),
    ),
)
SICK = {MINE: Health(succeeded=1, failed=40)}


@pytest.fixture
async def shop():
    async with Shop(knowledge=Knowledge(book=BOOK)) as found:
        yield found


async def create(shop: Shop, order: str = "order-1", key: str = "", **fields):
    body = new(order, **fields)
    if "channel" not in fields:
        del body["channel"]
    return await shop.post("/payments", body, key)


async def learn(shop: Shop, **news) -> None:
    assert shop.knowledge is not None
    shop.knowledge = structs.replace(shop.knowledge, **news)
    await shop.routes.refresh()


async def test_a_create_without_a_channel_is_routed_and_the_decision_is_remembered(shop: Shop):
    """R-138, R-150; a channel of nobody of ours is never chosen, though it costs nothing."""
    answer = await create(shop, method="card", buyer_tag="v1")
    assert (answer.status_code, answer.json()["channel"]) == (201, MINE)
    assert await shop.routes.flush()
    (one,) = shop.kept
    assert (one.id, one.payment_no) == (shop.commands[0].command_id, answer.json()["payment_no"])
    assert (one.ask.method, one.ask.buyer_tag, one.routing.book) == ("card", "v1", 4)
    assert [(each.channel, each.reason) for each in one.routing.dropped] == [("simulator:nobody", "account")]
    assert route(one.ask, BOOK, one.health, one.downgrades) == one.routing


async def test_a_pinned_channel_asks_no_book(shop: Shop):
    """R-138: the caller may choose, for debugging; nothing is remembered of it."""
    shop.postgres_down, shop.clock = True, GOOD_S + 1
    answer = await create(shop, channel=ALSO)
    assert (answer.status_code, answer.json()["channel"]) == (201, ALSO)
    assert shop.routes._waiting == {}


async def test_a_repetition_that_would_be_routed_elsewhere_is_the_payment_there_is(shop: Shop):
    """R-037: one payment of one order and business code, by key and without one."""
    for order, key in (("o-1", "k-1"), ("o-2", "")):
        await learn(shop, health={})
        first = (await create(shop, order, key)).json()
        again = await create(shop, order, key)
        assert (again.status_code, again.json()["payment_no"]) == (200, first["payment_no"])
        await learn(shop, health=SICK)
        moved = await create(shop, order, key)
        assert (moved.status_code, moved.json()["payment_no"]) == (200, first["payment_no"])
        assert (moved.json()["channel"], shop.commands[-1].channel) == (MINE, ALSO)
        assert len(shop.orders[order].payments) == 1
    assert (await create(shop, "o-1", "k-1", amount=999)).json()["code"] == "IDEMPOTENCY_KEY_REUSED"
    await shop.routes.flush()
    assert [one.order_id for one in shop.kept] == ["o-1", "o-2"]


async def test_no_channel_is_a_problem_by_its_name_and_remembered(shop: Shop):
    """R-159."""
    answer = await create(shop, amount=5001)
    assert (answer.status_code, answer.json()["code"]) == (422, "NO_CHANNEL_AFTER_FILTERS")
    assert answer.json()["detail"] == f"{ALSO}: above_maximum; {MINE}: above_maximum", "nothing of others' accounts"
    assert shop.commands == []
    await shop.routes.flush()
    assert [(one.routing.failure, one.routing.channel) for one in shop.kept] == [("no_channel_after_filters", None)]


async def test_without_a_book_a_channel_is_needed(shop: Shop):
    shop.knowledge = None
    await shop.routes.refresh()
    answer = await create(shop)
    assert (answer.status_code, answer.json()["code"]) == (422, "CHANNEL_NEEDED")


async def test_the_last_book_serves_until_its_limits_are_five_minutes_old(shop: Shop):
    """R-161; what is decided meanwhile is written down once Postgres is back."""
    shop.postgres_down, shop.clock = True, GOOD_S
    await shop.routes.refresh()
    assert (await create(shop)).status_code == 201
    assert not await shop.routes.flush()
    shop.clock = GOOD_S + 1
    late = await create(shop, "order-2")
    assert (late.status_code, late.json()["code"], late.headers["retry-after"]) == (503, "ROUTES_UNAVAILABLE", "5")
    shop.postgres_down = False
    await shop.routes.refresh()
    assert await shop.routes.flush()
    assert [one.order_id for one in shop.kept] == ["order-1"]
    assert (await create(shop, "order-2")).status_code == 201


async def test_a_new_book_holds_and_says_what_it_cannot_do(shop: Shop):
    """R-160, ruling 4."""
    with structlog.testing.capture_logs() as said:
        dear = structs.replace(BOOK.offers[1], fee_ppm=9000)
        await learn(shop, book=structs.replace(BOOK, version=5, offers=(BOOK.offers[0], dear)))
        await shop.routes.refresh()
    assert [one["version"] for one in said if one["event"] == "a route book holds"] == [5]
    assert any(one["log_level"] == "warning" and "0 % success" in one["remark"] for one in said if "remark" in one)


async def test_a_consultation_orders_the_methods_and_says_what_stands_against_the_others(shop: Shop):
    """R-140."""
    wish = {"biz_code": "SALE", "amount": 1000, "currency": "USD"}
    answer = (await shop.post("/consultations", wish)).json()
    assert answer == {
        "route_book": 4,
        "methods": [
            {"method": "card", "usable": True, "channel": MINE},
            {"method": "bank", "usable": True, "channel": ALSO},
        ],
    }
    at = int(shop.now.timestamp() * 1000) + 60_000
    await learn(shop, downgrades=(Downgrade(channel=ALSO, until=at, why="over_limit"),))
    (_, bank) = (await shop.post("/consultations", wish)).json()["methods"]
    assert (bank["usable"], bank["why"][0]["reason"]) == (False, "downgraded")
    assert (await shop.post("/consultations", wish | {"amount": 0})).json()["code"] == "PAY_AMOUNT_INVALID"
    assert (await shop.post("/consultations", wish | {"biz_code": "RENT"})).json()["code"] == "BIZ_CODE_UNKNOWN"
    assert shop.commands == []
