"""What merchants are told, in a real Postgres: recorded once, taken by one, in order, eight times at most."""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import secrets
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from stores import merchants, notifications, pool
from streams.agents import notifier_delivery as delivery
from streams.agents.notifier_meters import Meters
from streams.agents.notifier_sending import Guard, Sender
from streams.domain.schedule import MOST_RETRIES, RETRIES_S
from tests.support.edge import until
from tests.support.merchant_site import LOST, OK, site

pytestmark = pytest.mark.postgres

AT = datetime(2026, 5, 1, tzinfo=UTC)
NEXT = "SELECT next_retry_time, claim > retry_count AS leased FROM notifications WHERE handle_status = 'waiting' ORDER BY seq LIMIT 1"
LEASE = AT + timedelta(seconds=30)
GUARD = Guard([ipaddress.ip_network("127.0.0.0/8")])


@pytest.fixture
async def held(database, monkeypatch):
    monkeypatch.setenv("SHOP_HOOK", f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}")
    async with pool.pool(database) as found:
        for name in ("shop", "other"):
            await merchants.add(found, name, secrets.token_bytes(32), 50, AT)
            await notifications.set_address(found, name, "https://shop.example/", ["env:SHOP_HOOK"])
        yield found


def notice(name: str, payment: str = "P1", merchant: str = "shop") -> notifications.Notice:
    return notifications.Notice(
        id=name, merchant=merchant, order_id="O1", payment_no=payment, type="payment.failed", body="{}", decided_at=AT
    )


async def record(held, *notices, moves=None) -> int | None:
    async with held.acquire() as connection:
        return await notifications.record(connection, notices, moves or {}, AT)


async def take(held, at=AT, until_=LEASE, most=10, *, each=10, without=()):
    return await notifications.take(held, at, until_, most, each=each, without=without)


class Clock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.now = AT

    def __call__(self) -> datetime:
        return self.now


async def test_offsets_and_notices_are_recorded_together_or_not_at_all(held):
    place = ("payments.success", 0)
    assert await record(held, notice("a"), moves={place: (0, 5)}) == 1
    assert await record(held, notice("b"), moves={place: (0, 7)}) is None
    assert await record(held, notice("a"), notice("c"), moves={place: (5, 9)}) == 1
    assert await notifications.positions(held, ["payments.success"]) == {place: 9}
    assert await held.fetchval("SELECT array_agg(id ORDER BY seq) FROM notifications") == ["a", "c"]


async def test_recorders_that_race_record_one_time(held):
    place = ("payments.updates", 3)
    done = await asyncio.gather(*(record(held, notice(f"n{n}"), moves={place: (4, 5)}) for n in range(4)))
    assert sorted(done, key=str) == [1, None, None, None]


async def test_a_merchant_without_an_address_is_recorded_nothing(held):
    await notifications.set_address(held, "other", None, [])
    assert await record(held, notice("a", merchant="other"), notice("b", merchant="stranger")) == 0


async def test_a_later_notice_of_a_payment_waits_for_the_earlier_one(held):
    await record(held, notice("a"), notice("b"), notice("c", "P2"))
    first = await take(held)
    assert [one.id for one in first] == ["a", "c"]
    assert await take(held) == []
    assert await notifications.failed(held, first[0], "500", AT, AT + timedelta(seconds=1))
    assert await take(held) == []
    [again] = await take(held, at=AT + timedelta(seconds=1))
    assert (again.id, again.failures) == ("a", 1)
    assert await notifications.delivered(held, again, AT)
    assert [one.id for one in await take(held)] == ["b"]
    counted = await held.fetchrow(
        "SELECT notify_count, notify_time, waiting FROM payment_notices WHERE payment_no = 'P1'"
    )
    assert tuple(counted) == (1, AT, 1)


async def test_who_lost_its_lease_settles_nothing(held):
    await record(held, notice("a"))
    [mine] = await take(held)
    [theirs] = await take(held, at=LEASE, until_=LEASE + timedelta(seconds=30))
    assert not await notifications.delivered(held, mine, LEASE)
    assert not await notifications.failed(held, mine, "late", LEASE, None)
    assert await notifications.delivered(held, theirs, LEASE)


async def test_takers_that_race_share_the_notices_and_never_one(held):
    await record(held, *(notice(f"n{n}", f"P{n}") for n in range(40)))
    found = await asyncio.gather(*(take(held) for _ in range(4)))
    ids = [one.id for each in found for one in each]
    assert len(ids) == len(set(ids))
    assert len(ids) + len(await take(held, most=40, each=40)) == 40


async def test_one_merchant_takes_no_more_than_its_share(held):
    await record(held, *(notice(f"n{n}", f"P{n}") for n in range(20)), notice("o", "P", "other"))
    assert {one.merchant for one in await take(held, most=20, each=3)} == {"shop", "other"}
    assert await take(held, without=["shop"]) == []
    assert len(await take(held, most=20, each=3)) == 3


async def deliver_all(held, clock: Clock) -> Meters:
    """Deliver until nothing waits; the clock jumps to what is due next."""
    meters, sender = Meters(), Sender(GUARD)
    courier = delivery.Courier(held, sender, clock, meters)
    running = asyncio.create_task(courier.run())
    try:
        async with asyncio.timeout(30):
            while due := await held.fetchrow(NEXT):
                if not due["leased"]:
                    clock.now = max(clock.now, due["next_retry_time"])
                await asyncio.sleep(0.01)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await courier.drain()
        await sender.close()
    return meters


async def test_seven_errors_and_then_an_answer_deliver_one_notice_on_the_series(held):
    """R-084"""
    clock, sent = Clock(), []

    def answer(number: int) -> bytes:
        sent.append(clock.now)
        return LOST if number < 8 else OK

    async with site(answer) as shop:
        await notifications.set_address(held, "shop", shop.url, ["env:SHOP_HOOK"])
        await record(held, notice("a"), notice("b"))
        await deliver_all(held, clock)
    assert [told.id for told in shop.told] == ["a"] * 8 + ["b"]
    gaps = [(after - before).total_seconds() for before, after in pairwise(sent[:8])]
    wanted = [*RETRIES_S, *[RETRIES_S[-1]] * (7 - len(RETRIES_S))]
    assert all(at <= found for at, found in zip(wanted, gaps, strict=True))
    assert await held.fetchval("SELECT count(*) FROM notifications WHERE handle_status = 'delivered'") == 2


async def test_the_eighth_failure_is_a_dead_letter_and_a_finding_and_the_next_notice_goes_on(held):
    """R-084, R-086"""
    clock = Clock()
    async with site(lambda number: LOST if number <= MOST_RETRIES else OK) as shop:
        await notifications.set_address(held, "shop", shop.url, ["env:SHOP_HOOK"])
        await record(held, notice("a"), notice("b"))
        await deliver_all(held, clock)
        assert [told.id for told in shop.told] == ["a"] * MOST_RETRIES + ["b"]
        [dead] = await notifications.unfound(held)
        found = delivery.finding(dead)
        assert (found.ref, found.payment_no, found.order_id) == (
            "a",
            "P1",
            "O1",
        )
        assert "8 tries; the last: answered 500" in found.detail
        assert delivery.finding(dead) == found
        await notifications.found(held, [dead.seq])
        assert await notifications.unfound(held) == []
        assert [one.id for one in await notifications.dead(held)] == ["a"]
        assert await notifications.again(held, "a", clock.now)
        await deliver_all(held, clock)
    assert shop.told[-1].id == "a"
    assert await notifications.dead(held) == []


async def test_a_slow_merchant_holds_up_nobody_else(held):
    async with site(drip_s=5) as slow, site() as quick:
        await notifications.set_address(held, "shop", slow.url, ["env:SHOP_HOOK"])
        await notifications.set_address(held, "other", quick.url, ["env:SHOP_HOOK"])
        await record(
            held,
            *(notice(f"s{n}", f"S{n}") for n in range(100)),
            *(notice(f"q{n}", f"Q{n}", "other") for n in range(30)),
        )
        sender = Sender(GUARD)
        courier = delivery.Courier(held, sender, lambda: datetime.now(UTC), Meters())
        running = asyncio.create_task(courier.run())
        await until(lambda: len(quick.told) == 30, "the quick merchant is told all")
        assert len(slow.told) <= 2 * delivery.EACH
        running.cancel()
        for task in courier._flying:
            task.cancel()
        await asyncio.gather(running, *courier._flying, return_exceptions=True)
        await sender.close()
