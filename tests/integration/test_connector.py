"""Connectors on a real broker, against simulated channels."""

from __future__ import annotations

import asyncio
import signal

import pytest
from msgspec.structs import replace

from streams.channels.contracts import shipped
from tests.support.edge import edge, request, until

pytestmark = pytest.mark.kafka

CONTRACT = shipped()["simulator"]
FORGETFUL = replace(CONTRACT, idempotency=None, most_submits=1, submit_retry_window_s=0)
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
async def ours(kafka, topic_prefix):
    async with edge(kafka.bootstrap, topic_prefix) as found:
        yield found


def charges(simulator):
    return [charge for one in simulator.played.values() for charge in one.world.ledger()]


async def test_a_request_becomes_a_call_and_its_reply_an_answer(ours):
    async with ours.simulator() as simulator:
        await ours.connect(simulator)
        await ours.ask([request("订单-1")], traceparent=TRACE)
        [answer] = await ours.answers(1)
        [record] = await ours.records()
    headers = dict(record.headers)
    [charge] = charges(simulator)
    assert (answer.request, answer.status, answer.transaction) == ("submit", "SUCCESS", charge.transaction)
    assert (answer.amount, answer.currency, answer.request_id) == (1099, "USD", "request/订单-1/SUBMIT/1")
    assert record.key.decode() == "订单-1"
    assert headers["ce_type"] == b"concord.answer"
    assert headers["traceparent"].decode() == TRACE
    assert answer.raw is not None


async def test_every_verb_is_carried_out_and_answered_for_its_own_number(ours):
    async with ours.simulator(authorize=1.0) as simulator:
        await ours.connect(simulator)
        order = {"lease_s": None}
        await ours.ask([
            request("O1"),
            request("O1", "QUERY", **order),
            request("O1", "CAPTURE", operation_no="C1", idempotency_key="c", **order),
            request("O1", "REFUND", operation_no="R1", idempotency_key="r", amount=99, **order),
            request("O1", "QUERY", operation_no="R1", id="q2", **order),
            request("O1", "CLOSE", **order),
        ])  # fmt: skip
        answers = await ours.answers(6)
    assert [(one.request, one.operation_no, one.status) for one in answers] == [
        ("submit", None, "AUTHORIZED"),
        ("query", None, "AUTHORIZED"),
        ("capture", "C1", "SUCCESS"),
        ("refund", "R1", "SUCCESS"),
        ("query", "R1", "SUCCESS"),
        ("close", None, "ALREADY_PAID"),
    ]


async def test_a_lost_answer_is_unknown_and_the_same_key_charges_once(ours):
    async with ours.simulator(lose=0.5) as simulator:
        await ours.connect(simulator)
        await ours.ask([request(f"O{number}", id=f"r{again}") for number in range(30) for again in range(4)])
        answers = await ours.answers(120)
        assert len(charges(simulator)) == 30
    words = {one.status for one in answers}
    assert words == {"SUCCESS", "TIMEOUT"}
    assert {one.error_class for one in answers if one.status == "TIMEOUT"} == {"reset"}


async def test_what_is_past_its_lease_or_its_key_is_not_sent(ours):
    async with ours.simulator() as simulator:
        connector = await ours.connect(simulator)
        late = request("late", lease_s=-1)
        old = request("old", lease_s=None, decided_at=late.decided_at.replace(year=2020))
        elsewhere = request("elsewhere", channel="simulator:other")
        await ours.ask([late, old, elsewhere, request("good")])
        [answer] = await ours.answers(1)
        assert [charge.order_id for charge in charges(simulator)] == [answer.order_id] == ["good"]
        await until(
            lambda: passed_over(connector) == {"too_late": 2.0, "not_configured": 1.0}, "what was not sent is counted"
        )


def passed_over(connector):
    """How many requests were not sent, by the reason."""
    return {
        sample.labels["reason"]: sample.value
        for family in connector.meters.registry.collect()
        for sample in family.samples
        if sample.name == "concord_connector_passed_over_total"
    }


@pytest.mark.parametrize("allowed", [5, 1])
async def test_connectors_together_never_exceed_what_the_contract_allows(ours, allowed):
    contracts = {"simulator": replace(CONTRACT, concurrency=allowed)}
    async with ours.simulator(contracts=contracts, latency_s=0.03) as simulator:
        members = [ours.join(simulator, limit=allowed) for _ in range(2)]
        await until(lambda: sum(one.sharing.share(allowed) for one in members) == allowed, "the shares are given out")
        await ours.ask([request(f"O{number}", lease_s=60) for number in range(60)])
        await ours.answers(60)
        assert sum(one.sharing.share(allowed) for one in members) == allowed
        assert simulator.most_concurrent["simulator"] <= allowed
        assert len(charges(simulator)) == 60


async def test_a_standby_takes_over_when_the_only_worker_leaves(ours):
    contracts = {"simulator": replace(CONTRACT, concurrency=1)}
    async with ours.simulator(contracts=contracts) as simulator:
        members = [ours.join(simulator, limit=1) for _ in range(2)]
        await until(lambda: any(one._lanes for one in members), "one of them works")
        await ours.ask([request("O1")])
        await ours.answers(1)
        working = next(one for one in members if one._lanes)
        standby = next(one for one in members if one is not working)
        working.stop()
        await until(lambda: standby.sharing.share(1) == 1 and standby._lanes, "the standby works")
        await ours.ask([request("O2")])
        await ours.answers(2)
        assert len(charges(simulator)) == 2


async def test_a_channel_without_idempotency_is_never_asked_twice_through_sigkill(ours):
    async with ours.simulator(contracts={"simulator": FORGETFUL}, latency_s=0.4) as simulator:
        numbers = [f"O{number}" for number in range(60)]
        process = ours.spawn(replace(FORGETFUL, concurrency=8))
        await ours.ask([request(number, lease_s=120) for number in numbers])
        await until(lambda: len(charges(simulator)) >= 4, "some were charged")
        process.send_signal(signal.SIGKILL)
        process.wait()
        ours.spawn(replace(FORGETFUL, concurrency=8))
        await until(lambda: len(charges(simulator)) >= 60 - 16, "the rest was charged")
        answers = await ours.answers(60 - 16)
    charged = [charge.order_id for charge in charges(simulator)]
    assert len(charged) == len(set(charged))
    assert {one.order_id for one in answers} <= set(numbers)


async def test_a_channel_with_idempotency_answers_everything_through_sigkill(ours):
    async with ours.simulator(latency_s=0.2) as simulator:
        process = ours.spawn(replace(CONTRACT, concurrency=8))
        await ours.ask([request(f"O{number}", lease_s=120) for number in range(60)])
        await until(lambda: len(charges(simulator)) >= 10, "some were charged")
        process.send_signal(signal.SIGKILL)
        process.wait()
        ours.spawn(replace(CONTRACT, concurrency=8))
        deadline_s = 40
        async with asyncio.timeout(deadline_s):
            while len({one.order_id for one in await ours.answers(1)}) < 60:
                await asyncio.sleep(0.2)
    assert len(charges(simulator)) == 60
