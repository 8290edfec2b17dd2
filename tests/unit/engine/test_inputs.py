"""Records of several topics are handed out in the order in which they were stored, however apart they are fetched."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest
import structlog
from aiokafka import TopicPartition

from streams.engine.config import Config
from streams.engine.inputs import Inputs
from tests.unit.engine.tally import IN, OTHER, In

if TYPE_CHECKING:
    from collections.abc import Sequence

A, B = TopicPartition(IN, 3), TopicPartition(OTHER, 3)


class Client:
    """A Kafka client that hands over what the test lets arrive, and knows how much more there is at the broker."""

    def __init__(self) -> None:
        self.arrived: defaultdict[TopicPartition, list[In]] = defaultdict(list)
        self.read: defaultdict[TopicPartition, int] = defaultdict(int)
        self.stored: dict[TopicPartition, int | None] = {A: 0, B: 0}
        self.high: dict[TopicPartition, int] = {}
        self.really: dict[TopicPartition, int] = {}
        """What lies at the broker where the last answer to a fetch did not say so."""
        self.asked: list[set[TopicPartition]] = []

    async def getmany(self, *logs: TopicPartition, timeout_ms: int, max_records: int) -> dict[TopicPartition, list[In]]:
        found = {tp: self.arrived.pop(tp)[:max_records] for tp in logs or (A, B) if self.arrived[tp]}
        for tp, records in found.items():
            self.read[tp] += len(records)
        return found

    def last_stable_offset(self, tp: TopicPartition) -> int | None:
        return self.stored[tp]

    def highwater(self, tp: TopicPartition) -> int | None:
        return self.high.get(tp, self.stored[tp])

    async def position(self, tp: TopicPartition) -> int:
        return self.read[tp]

    async def ends(self, logs: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        self.asked.append(set(logs))
        return {tp: self.really.get(tp, self.stored[tp] or 0) for tp in logs}


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.fixture
def inputs(client: Client) -> Inputs:
    made = Inputs(Config(kafka={}), [A, B], structlog.get_logger(), client.ends)
    made.consumer = client
    return made


def at(*times: int, topic: str = IN) -> list[In]:
    return [In(b"%d" % time, timestamp=time, topic=topic) for time in times]


async def handed(inputs: Inputs, due: int | None = None) -> list[int]:
    await inputs.fetch(due)
    taken = [record.timestamp for record in inputs.backlog]
    inputs.backlog.clear()
    return taken


def times(records: Sequence[Any]) -> list[int]:
    return [record.timestamp for record in records]


async def test_nothing_is_handed_out_while_an_older_record_may_still_lie_in_another_topic(inputs, client):
    client.stored = {A: 2, B: 2}
    client.arrived[A] = at(10, 40)
    assert await handed(inputs) == []
    client.arrived[B] = at(20, 30, topic=OTHER)
    assert await handed(inputs) == [10, 20, 30, 40]


async def test_a_topic_that_was_read_to_its_end_holds_nobody_back(inputs, client):
    client.stored = {A: 2, B: 0}
    client.arrived[A] = at(10, 40)
    assert await handed(inputs) == [10, 40]


async def test_what_is_younger_than_the_rest_of_a_topic_waits_for_that_rest(inputs, client):
    client.stored = {A: 3, B: 3}
    client.arrived[A], client.arrived[B] = at(10, 40, 90), at(20, 50, topic=OTHER)
    assert await handed(inputs) == [10, 20, 40, 50]
    client.arrived[B] = at(60, topic=OTHER)
    assert await handed(inputs) == [60, 90]


async def test_a_topic_that_nobody_has_asked_yet_is_waited_for(inputs, client):
    client.stored = {A: 1, B: None}
    client.arrived[A] = at(10)
    assert await handed(inputs) == []
    client.stored[B] = 0
    assert await handed(inputs) == [10]


async def test_times_that_go_back_within_a_topic_cannot_stop_it(inputs, client):
    client.stored = {A: 3, B: 2}
    client.arrived[A], client.arrived[B] = at(100, 50), at(70, topic=OTHER)
    taken = await handed(inputs)
    client.arrived[A], client.arrived[B] = at(120), at(110, topic=OTHER)
    taken += await handed(inputs) + await handed(inputs)
    assert sorted(taken) == [50, 70, 100, 110, 120]
    assert taken.index(100) < taken.index(50)


async def test_an_open_transaction_of_a_producer_is_no_record_to_wait_for(inputs, client):
    client.stored, client.high = {A: 1, B: 0}, {B: 9}
    client.arrived[A] = at(10)
    assert await handed(inputs) == [10]
    assert B in inputs.stalled


async def test_due_times_may_fire_by_the_clock_only_when_all_is_read(inputs, client):
    assert await inputs.fetch(None)
    client.stored = {A: 1, B: 1}
    client.arrived[A] = at(10)
    assert not await inputs.fetch(None)
    assert not await inputs.fetch(None)
    client.arrived[B] = at(20, topic=OTHER)
    assert not await inputs.fetch(None)
    inputs.backlog.clear()
    assert await inputs.fetch(None)


async def test_a_new_beginning_forgets_what_was_fetched(inputs, client):
    client.seek = lambda tp, offset: client.read.update({tp: offset})
    client.stored = {A: 2, B: 2}
    client.arrived[A] = at(10, 40)
    await inputs.fetch(None)
    assert times(inputs.ahead[A]) == [10, 40]
    inputs.seek({IN: 0, OTHER: 0})
    assert not any(inputs.ahead.values())


async def test_a_due_time_waits_for_what_an_unreachable_leader_stored_unseen(inputs, client):
    client.stored, client.really = {A: 1, B: 0}, {B: 1}
    client.arrived[A] = at(40)
    assert await handed(inputs, due=30) == []
    assert not await inputs.fetch(30)
    assert inputs.known < 30
    client.arrived[B] = at(20, topic=OTHER)
    assert await handed(inputs, due=30) == [20, 40]
    assert inputs.known >= 30


async def test_the_clock_fires_no_due_time_before_an_answer_younger_than_it(inputs, client):
    client.really = {B: 1}
    assert not await inputs.fetch(30)
    client.arrived[B] = at(20, topic=OTHER)
    assert await handed(inputs, due=30) == [20]
    assert await inputs.fetch(30)
    assert inputs.known >= 30


async def test_a_topic_whose_own_records_are_younger_than_the_due_time_is_not_asked(inputs, client):
    client.stored = {A: 1, B: 0}
    client.arrived[A] = at(40)
    await inputs.fetch(30)
    assert client.asked == [{B}]


async def test_one_answer_does_for_all_due_times_before_it(inputs, client):
    for due in (30, 20, 40):
        assert await inputs.fetch(due)
    assert len(client.asked) == 1


async def test_nobody_is_asked_while_nothing_is_due(inputs, client):
    client.stored = {A: 1, B: 0}
    client.arrived[A] = at(40)
    await inputs.fetch(50 + int(time.time() * 1000))
    assert not client.asked


async def test_a_producer_whose_clock_is_ahead_stops_nobody(inputs, client):
    later = int(time.time() * 1000) + 3_600_000
    client.stored = {A: 1, B: 0}
    client.arrived[A] = at(later)
    assert await handed(inputs, due=later - 1000) == [later]
    assert inputs.known >= later - 1000


async def test_what_is_held_back_is_handed_out_again_in_its_order(inputs, client):
    client.stored = {A: 3, B: 2}
    client.arrived[A], client.arrived[B] = at(10, 40), at(20, 50, topic=OTHER)
    await inputs.fetch(None)
    inputs.backlog.popleft()
    inputs.hold()
    assert not inputs.backlog
    client.arrived[A] = at(60)
    assert await handed(inputs) == [20, 40, 50, 60]
