"""How a notice hears of its records, and when the broker counts as behind (R-070, R-071)."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka.errors import KafkaError, MessageSizeTooLargeError

from streams.gateway.store import Store, Ticket, Unavailable

WITHIN_S = 0.05


@pytest.fixture
def store():
    return Store({}, record_bytes=1000, within_s=WITHIN_S)


def on_the_way(count: int) -> list[asyncio.Future[None]]:
    return [asyncio.get_running_loop().create_future() for _ in range(count)]


def watched(store: Store, sent: list[asyncio.Future[None]]) -> Ticket:
    return store._watched(Ticket(sent, asyncio.get_running_loop().time() + WITHIN_S))


async def test_a_notice_is_durable_only_when_its_last_record_is():
    sent = on_the_way(2)
    ticket = Ticket(sent, 0.0)
    sent[1].set_result(None)
    await asyncio.sleep(0)
    assert not ticket.answer.done()
    sent[0].set_result(None)
    await ticket.answer


async def test_one_record_that_fails_fails_its_notice_and_no_other():
    sent = on_the_way(3)
    broken, whole = Ticket(sent[:2], 0.0), Ticket(sent[2:], 0.0)
    sent[1].set_exception(MessageSizeTooLargeError())
    sent[2].set_result(None)
    with pytest.raises(MessageSizeTooLargeError):
        await broken.answer
    await whole.answer
    sent[0].set_exception(KafkaError())
    await asyncio.sleep(0)
    assert not broken.left


async def test_a_record_that_the_client_drops_is_not_durable():
    sent = on_the_way(1)
    ticket = Ticket(sent, 0.0)
    sent[0].cancel()
    with pytest.raises(KafkaError):
        await ticket.answer


async def test_a_late_notice_is_given_up_alone_and_the_broker_is_behind_until_it_answers(store):
    late, quick = on_the_way(1), on_the_way(1)
    first, second = watched(store, late), watched(store, quick)
    quick[0].set_result(None)
    with pytest.raises(Unavailable):
        await first.answer
    await second.answer
    assert store._behind is first
    assert first.left
    late[0].set_result(None)
    await asyncio.sleep(0)
    assert not first.left


async def test_the_clock_goes_on_for_notices_that_came_while_it_ran(store):
    for _round in range(2):
        for _notice in range(2):
            ticket = watched(store, on_the_way(1))
        with pytest.raises(Unavailable):
            await ticket.answer
    assert store._clock is None
