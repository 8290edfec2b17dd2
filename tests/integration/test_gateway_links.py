"""An entry of a card finds its order by a link, at once or later, through a restart; what nobody knows reaches a person by the law."""

from __future__ import annotations

import asyncio
import secrets
import socket
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from streams.agents import intake
from streams.channels import registry
from streams.channels.accounts import Accounts
from streams.channels.adapter import AUTHORIZATION, PAYMENT, Mapped, Reference
from streams.channels.contracts import shipped
from streams.domain.events import CardPosting, CreatePayment, RefundLayer
from streams.gateway import holding
from streams.gateway.links import Link, of_notice
from streams.gateway.service import Gateway
from streams.gateway.store import Stored
from tests.support.job import Job

pytestmark = pytest.mark.kafka

AUTH = Reference(AUTHORIZATION, "auth1", "lithic:a")


@pytest.fixture
async def job(kafka, topic_prefix, tmp_path):
    made = Job(kafka.bootstrap, topic_prefix, tmp_path)
    await made.create()
    yield made
    made.end()


@asynccontextmanager
async def gateway(job: Job, window_s: float):
    """A gateway in this loop, with a window of the test's own."""
    path = job.folder / "channels.yaml"
    path.write_text("accounts: []")
    accounts = Accounts(path, registry.adapter)
    accounts.load()
    settings = replace(job.settings, gateway_store_s=10.0)
    made = Gateway(
        settings, job.topics, accounts, contracts=shipped(), recording=intake, window=lambda _event: window_s
    )
    stop = asyncio.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        running = asyncio.create_task(made.run(listener, stop))
        async with asyncio.timeout(30):
            while await made.trouble():
                assert not running.done()
                await asyncio.sleep(0.05)
        yield made
        stop.set()
        assert await asyncio.wait_for(running, 30)


def posting(number: str, status: str = "REFUND") -> CardPosting:
    return CardPosting(
        channel="lithic:a", order_id="", event_id=f"e-{number}", amount=100, currency="USD", status=status
    )


async def hold(made: Gateway, job: Job, event, *references: Reference) -> None:
    """What the intake does with an event whose order is not known."""
    item = holding.Unlinked(event=event, references=references, received_at=datetime.now(UTC))
    await made.store.put([Stored(job.topics["unlinked"], intake.reference(event).encode(), holding.encode(item))])


async def keys(job: Job, count: int) -> list[str]:
    return sorted(r.key.decode() for r in await job.wait("card-postings", lambda found: len(found) >= count))


async def test_a_held_posting_goes_to_its_order_when_the_workers_update_links_it(job):
    """The whole way: an entry comes first, the payment is opened, the worker's update becomes a link, the entry follows it."""
    number = secrets.token_hex(4)
    await job.start()
    async with gateway(job, 3600.0) as made:
        await hold(made, job, posting(number, "PURCHASE"), AUTH, Reference(PAYMENT, f"p-{number}"))
        create = CreatePayment(
            command_id="c1", order_id=f"o-{number}", payment_no=f"p-{number}", biz_code="b", channel="stripe:acct_1",
            amount=100, currency="USD", merchant="m1",
        )  # fmt: skip
        await job.send("commands", [create])
        [record] = await job.wait("card-postings", bool)
        assert record.key == f"o-{number}".encode()
        assert b'"merchant":"m1"' in record.value
        assert f'"payment_no":"p-{number}"'.encode() in record.value
        async with asyncio.timeout(20):
            while made.holding.held.items:
                await asyncio.sleep(0.05)


async def test_what_was_held_survives_a_restart_and_is_passed_on_by_whoever_comes(job):
    async with gateway(job, 3600.0) as made:
        await hold(made, job, posting("a"), AUTH)
        async with asyncio.timeout(30):
            while not made.holding.held.items:
                await asyncio.sleep(0.05)
    async with gateway(job, 3600.0) as made:
        link = made.links.new(AUTH.key, Link("order-1", "pay-1"))
        assert link is not None
        await made.store.put([Stored(job.topics["references"], AUTH.key.encode(), link)])
        assert await keys(job, 1) == ["order-1"]


async def test_after_its_window_the_law_calls_it_unlinked_or_of_an_unknown_order(job):
    """R-081, R-217: by the real worker. A refund of a card is told at once; what names a number waits for it as all evidence does."""
    await job.start()
    layer = RefundLayer(
        order_id="", payment_no="", refund_no="r1", channel="lithic:a", layer="card", status="POSTED", event_id="e-l"
    )
    async with gateway(job, 0.0) as made:
        await hold(made, job, posting("u"), AUTH)
        await hold(made, job, posting("p", "PURCHASE"), AUTH)
        await hold(made, job, layer, AUTH)
        [told] = await job.wait("discrepancies", bool)
        assert (told.key.decode(), b'"UNLINKED_REFUND"' in told.value) == ("lithic:a/e-u", True)
        decided = await job.wait("decisions", lambda found: len(found) >= 3)
        waits = {record.key.decode() for record in decided if b'"waits-for-payment"' in record.value}
        assert waits == {"lithic:a/e-p", "lithic:a/e-l"}


async def test_a_notice_with_its_order_teaches_the_number_that_the_next_one_lacks(job):
    async with gateway(job, 3600.0) as made:
        known = Mapped(replace_order(posting("k", "PURCHASE"), "order-9"), (AUTH,))
        learned = [(key, made.links.new(key, link)) for key, link in of_notice(known)]
        await made.store.put([Stored(job.topics["references"], key.encode(), value) for key, value in learned])
        await hold(made, job, posting("n"), AUTH)
        assert await keys(job, 1) == ["order-9"]


def replace_order(event: CardPosting, order_id: str) -> CardPosting:
    return CardPosting(
        channel=event.channel,
        order_id=order_id,
        event_id=event.event_id,
        amount=100,
        currency="USD",
        status=event.status,
    )
