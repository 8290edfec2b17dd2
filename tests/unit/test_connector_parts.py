"""The parts of a connector: shares, the gate, one partition's order, one bounded call, and what an answer may hold."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import msgspec
import pytest
from aiokafka import TopicPartition
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from streams.agents import asking, calling
from streams.agents.lane import WINDOW, Lane
from streams.agents.pacing import FAILURES, TROUBLE_S, Gate
from streams.agents.sharing import Sharing
from streams.channels.contracts import shipped
from streams.channels.requests import Call, Reply, Said
from streams.dev import ports
from tests.support.edge import request, until

CONTRACT = shipped()["simulator"]


# -- shares


def assigned(limits, partitions=8):
    members = {
        f"m{number:02}": SimpleNamespace(subscription=["t"], user_data=str(limit).encode())
        for number, limit in enumerate(limits)
    }
    cluster = SimpleNamespace(partitions_for_topic=lambda _: set(range(partitions)))
    told = Sharing(1).assign(cluster, members)
    found = []
    for assignment in told.values():
        one = Sharing(1)
        one.on_assignment(assignment)
        found.append((one, [number for _, numbers in assignment.assignment for number in numbers]))
    return found


@given(st.lists(st.integers(1, 40), min_size=1, max_size=20), st.integers(1, 16), st.integers(0, 200))
def test_the_shares_of_an_account_add_up_to_its_concurrency_and_none_is_empty(limits, partitions, above):
    found = assigned(limits, partitions)
    concurrency = min(limits) + above
    shares = [one.share(concurrency) for one, _ in found]
    assert sum(shares) == concurrency
    assert all(bool(share) == bool(numbers) for share, (_, numbers) in zip(shares, found, strict=True))
    assert sorted(number for _, numbers in found for number in numbers) == list(range(partitions))


def test_members_beyond_the_smallest_concurrency_stand_by():
    found = assigned([1, 64, 64])
    assert [one.share(1) for one, _ in found] == [1, 0, 0]


def test_a_member_that_says_nothing_of_its_limit_is_no_limit():
    cluster = SimpleNamespace(partitions_for_topic=lambda _: {0, 1})
    members = {
        "a": SimpleNamespace(subscription=["t"], user_data=b""),
        "b": SimpleNamespace(subscription=["t"], user_data=None),
    }
    assert sorted(one.assignment[0][1] for one in Sharing(9).assign(cluster, members).values()) == [[0], [1]]


# -- the gate


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


async def enters(gate, until=1e9, patience_s=60.0):
    """Whether it may enter at once."""
    task = asyncio.create_task(gate.enter(until, patience_s))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    if task.done():
        return task.result()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return None


async def test_no_more_enter_than_there_are_slots():
    gate = Gate()
    gate.resize(2, 0.0)
    assert [await enters(gate) for _ in range(3)] == [True, True, None]
    gate.leave(unknown=False)
    assert await enters(gate) is True


async def test_requests_keep_the_distance_that_the_rate_asks_for():
    clock = Clock()
    gate = Gate(clock)
    gate.resize(10, 0.5)
    assert [await enters(gate), await enters(gate)] == [True, None]
    clock.now = 0.5
    assert [await enters(gate), await enters(gate)] == [True, None]


async def in_trouble(clock, gate):
    """A gate whose channel has given no proof of anything for a while."""
    for _ in range(FAILURES):
        assert await enters(gate) is True
        gate.leave(unknown=True)
    assert not gate.paused
    clock.now += TROUBLE_S
    await enters(gate)
    gate.leave(unknown=True)
    assert gate.paused


async def test_the_breaker_delays_probes_once_and_closes_on_an_answer():
    clock = Clock()
    gate = Gate(clock)
    gate.resize(10, 0.0)
    await in_trouble(clock, gate)
    began = clock.now
    assert await enters(gate) is None
    clock.now = began + 1.0
    assert [await enters(gate), await enters(gate)] == [True, None]
    gate.leave(unknown=True)
    clock.now = began + 2.0
    assert await enters(gate) is None
    clock.now = began + 3.0
    assert await enters(gate) is True
    gate.leave(unknown=False)
    assert not gate.paused
    assert [await enters(gate) for _ in range(3)] == [True, True, True]


async def test_a_burst_that_fails_together_is_no_trouble_yet_and_later_one_trouble():
    clock = Clock()
    gate = Gate(clock)
    gate.resize(50, 0.0)
    for _ in range(50):
        await enters(gate)
    for _ in range(25):
        gate.leave(unknown=True)
    assert not gate.paused
    clock.now = TROUBLE_S
    for _ in range(25):
        gate.leave(unknown=True)
    assert gate.paused
    clock.now = TROUBLE_S + 1.0
    assert [await enters(gate), await enters(gate)] == [True, None]


async def test_a_request_whose_time_passes_while_it_waits_is_dropped():
    gate = Gate()
    gate.resize(0, 0.0)
    loop = asyncio.get_running_loop()
    assert await gate.enter(loop.time() + 0.05, 60.0) is False


async def test_what_must_not_be_lost_is_held_back_for_a_lease_only():
    clock = Clock()
    gate = Gate(clock)
    gate.resize(10, 0.0)
    await in_trouble(clock, gate)
    task = asyncio.create_task(gate.enter(1e9, 0.05))
    await asyncio.sleep(0)
    assert not task.done()
    clock.now += 0.06
    assert await task is True


# -- one partition


def record(offset, key=b"k"):
    return SimpleNamespace(offset=offset, key=key)


class Hands:
    """Works on jobs when it is told to."""

    def __init__(self):
        self.begun = []
        self.may = {}
        self.errors = []
        self.lane = Lane(TopicPartition("t", 0), 0, self.work, self.errors.append)

    async def work(self, _lane, job):
        self.begun.append(job.record.offset)
        await self.may.setdefault(job.record.offset, asyncio.Event()).wait()

    def finish(self, offset):
        self.may.setdefault(offset, asyncio.Event()).set()


async def test_offsets_are_done_up_to_the_first_that_is_not():
    hands = Hands()
    for offset in range(3):
        hands.lane.add(record(offset, str(offset).encode()))
    await until(lambda: len(hands.begun) == 3, "all begun")
    hands.finish(1)
    hands.finish(2)
    await until(lambda: len(hands.lane._open) == 1, "two are done")
    assert hands.lane.done_to() == 0
    hands.finish(0)
    await until(lambda: hands.lane.done_to() == 3, "all done")


async def test_one_order_waits_for_itself_and_for_nobody_else():
    hands = Hands()
    for offset, key in enumerate((b"a", b"a", b"b")):
        hands.lane.add(record(offset, key))
    await until(lambda: hands.begun == [0, 2], "the second of a waits")
    hands.finish(0)
    await until(lambda: hands.begun == [0, 2, 1], "the second of a goes")


async def test_a_closed_lane_finishes_what_was_sent_and_leaves_the_rest_undone():
    hands = Hands()
    for offset in range(2):
        hands.lane.add(record(offset, str(offset).encode()))
    await until(lambda: len(hands.begun) == 2, "both begun")
    hands.lane._jobs[0].sending = True
    hands.finish(0)
    await hands.lane.close(5.0)
    assert hands.lane.done_to() == 1


async def test_a_bug_in_the_work_is_told_and_its_offset_stays_undone():
    told = []

    async def work(_lane, _job):
        raise RuntimeError("a bug")

    lane = Lane(TopicPartition("t", 0), 5, work, told.append)
    lane.add(record(5))
    await until(lambda: told, "it was told")
    assert isinstance(told[0], RuntimeError)
    assert lane.done_to() == 5


async def test_a_lane_is_full_at_its_window_and_roomy_at_half():
    hands = Hands()
    for offset in range(WINDOW):
        hands.lane.add(record(offset))
    assert hands.lane.full
    assert not hands.lane.roomy
    await hands.lane.close(1.0)


# -- one call


@asynccontextmanager
async def raw_server(answer):
    """The address of a server that says what `answer` writes; all its connections are over when it ends."""
    handlers = []

    async def handle(reader, writer):
        handlers.append(asyncio.current_task())
        try:
            await reader.readuntil(b"\r\n\r\n")
            await answer(writer)
            writer.close()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.transport.abort()
        with suppress(ConnectionError):
            await writer.wait_closed()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", handlers
    finally:
        await asyncio.wait_for(asyncio.gather(*handlers, return_exceptions=True), 10)


async def called(answer, *, may_send=lambda: True, **options):
    async with raw_server(answer) as (url, handlers), calling.client(2, read_s=0.2) as http:
        try:
            return await calling.call(http, Call(method="GET", url=url), may_send, **options)
        finally:
            await until(lambda: handlers, "the connection was taken")


async def silent(_writer):
    await asyncio.sleep(0.5)


def saying(data):
    async def answer(writer):
        writer.write(data)
        await writer.drain()

    return answer


HUGE = b"HTTP/1.1 200 OK\r\ncontent-length: 2000000\r\n\r\n" + b"x" * 2_000_000


@pytest.mark.parametrize(
    ("answer", "reply"),
    [
        (silent, "timeout"),
        (saying(b""), "reset"),
        (saying(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{"), "reset"),
        (saying(b"nonsense\r\n\r\n"), "reset"),
        (saying(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 4\r\n\r\nnope"), "reset"),
        (saying(HUGE), "too_large"),
    ],
)
async def test_the_lack_of_a_reply_is_told_by_its_reason(answer, reply):
    assert await called(answer) == reply


async def test_a_reply_comes_whole_with_lower_case_headers():
    reply = await called(saying(b"HTTP/1.1 404 No\r\nX-Name: A\r\ncontent-length: 2\r\n\r\nno"))
    assert (reply.status, reply.headers["x-name"], reply.body) == (404, "A", b"no")


async def test_nobody_at_the_address_means_that_nothing_was_sent():
    url = f"http://127.0.0.1:{ports.free(1)[0]}/"
    async with calling.client(1) as http:
        assert await calling.call(http, Call(method="GET", url=url), lambda: True) == "not_sent"
        assert await calling.call(http, Call(method="GET", url="http://[bad/"), lambda: True) == "not_sent"
        call = Call(method="GET", url=url, headers={"Idempotency-Key": "键"})
        assert await calling.call(http, call, lambda: True) == "not_sent"


async def test_nothing_leaves_once_the_last_moment_has_passed():
    asked = []

    async def note(writer):
        asked.append(writer)

    with pytest.raises(calling.TooLateError):
        await called(note, may_send=lambda: False)
    assert asked == []


async def test_the_total_time_is_bounded_however_slowly_a_reply_drips():
    async def drip(writer):
        for _ in range(100):
            writer.write(b"H")
            await writer.drain()
            await asyncio.sleep(0.05)

    assert await called(drip, total_s=0.3) == "timeout"


# -- what may be sent, and what is answered


def test_only_what_the_contract_knows_again_may_be_repeated():
    plain = replace(CONTRACT, idempotency=None)
    only = replace(CONTRACT, idempotency=replace(CONTRACT.idempotency, operations=("submit",)))
    always = (True, True, True)
    expected = {"SUBMIT": (True, False, True), "REFUND": (True, False, False), "QUERY": always, "CLOSE": always}
    for verb, wanted in expected.items():
        assert tuple(asking.repeatable(request("O", verb), one) for one in (CONTRACT, plain, only)) == wanted


def test_a_request_outlives_neither_its_lease_nor_its_key():
    submit, refund = request("O"), request("O", "REFUND", lease_s=None)
    assert asking.last_moment(submit, CONTRACT) == submit.not_after
    known_s = CONTRACT.idempotency.life_s - CONTRACT.lease_s
    assert asking.last_moment(refund, CONTRACT) == refund.decided_at + timedelta(seconds=known_s)
    assert asking.last_moment(request("O", "QUERY", lease_s=None), CONTRACT) is None
    assert asking.last_moment(refund, replace(CONTRACT, idempotency=None)) is None


def test_an_answer_always_fits_its_schema():
    said = Said(
        status="X" * 100,
        transaction="T" * 300,
        amount=2**60,
        currency="EURO",
        error_class="E" * 300,
        payer_action="p" * 5000,
    )
    reply = Reply(status=200, body=b"x" * 200_000)
    made = asking.answer(request("O"), said, reply, datetime(2026, 3, 1, tzinfo=UTC))
    read = msgspec.json.decode(msgspec.json.encode(made), type=type(made))
    assert (read.transaction, read.amount, read.currency, read.payer_action) == (None, None, None, None)
    assert len(msgspec.json.encode(made)) < 1 << 18


@pytest.mark.parametrize("value", [None, b"", b"{", b"[]", b"\xff", b'{"type":"answer"}'])
def test_a_record_that_is_no_request_says_why(value):
    with pytest.raises(asking.RequestError, match="channel_request"):
        asking.request_of(value)
