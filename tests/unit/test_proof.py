"""The proof by replay accepts what the engine did, and names everything that was tampered with."""

from __future__ import annotations

import copy

import msgspec
import pytest

from streams.agents import payments
from streams.demo.traffic import LIVES, traffic
from streams.engine.audit import Books, identity
from streams.proof import compare, lines
from streams.topics import Topics
from tests.support.driver import Driver

TOPICS = Topics.load()
TOPOLOGY = payments.topology(TOPICS, "proof")
START = 1_700_000_000_000
HOUR = 3_600_000


@pytest.fixture(scope="module")
def world():
    """Some hundred orders of the demonstration's traffic, and an hour after them."""
    made = traffic(150, seed=11)
    driver = Driver(TOPOLOGY)
    driver.feed([driver.append(TOPICS[r.topic], r.key, r.value, START + 10 * n) for n, r in enumerate(made.records)])
    driver.wind(START + HOUR)
    return made, dict(driver.logs)


@pytest.fixture
def found(world):
    return copy.deepcopy({**{topic: [] for topic in TOPICS.names.values()}, **world[1]})


def judge(found):
    return compare(TOPOLOGY, found, TOPICS["decisions"])


def test_what_the_engine_did_is_proven(found, world):
    proof = judge(found)
    assert proof.wrong == []
    assert proof.inputs == len(world[0].records)
    assert proof.handled + proof.dead == proof.inputs
    assert proof.dead == world[0].broken
    assert proof.timers > 0
    assert "no difference" not in "".join(lines(proof))


def test_every_paid_order_has_one_success(found, world):
    keys = [record.key.decode() for record in found[TOPICS["success"]]]
    assert sorted(keys) == sorted(world[0].paid)


@pytest.mark.parametrize("topic", ["success", "discrepancies", "updates", "channel-requests"])
def test_a_lost_output_is_named(found, topic):
    lost = found[TOPICS[topic]].pop(3)
    assert judge(found).wrong == [f"{TOPICS[topic]}: {identity(lost.headers)} is missing"]


@pytest.mark.parametrize("topic", ["success", "discrepancies", "updates", "channel-requests"])
def test_a_doubled_output_is_named(found, topic):
    found[TOPICS[topic]].append(found[TOPICS[topic]][2])
    [wrong] = judge(found).wrong
    assert "is there, and no event makes it so often" in wrong


def test_an_output_with_another_amount_is_named(found):
    records = found[TOPICS["success"]]
    records[0] = records[0]._replace(value=records[0].value.replace(b'"amount":', b'"amount":1'))
    assert len(judge(found).wrong) == 2


def test_an_input_that_was_never_handled_is_named(found):
    topic = TOPICS["channel-callbacks"]
    extra = found[topic][-1]._replace(offset=len(found[topic]))
    found[topic].append(extra)
    assert judge(found).wrong == [f"input {topic}/0/{extra.offset} was never handled"]


def test_a_state_that_no_replay_reaches_is_named(found):
    topic = TOPICS["state"]
    row = next(record for record in found[topic] if record.key != b"@position")
    found[topic].append(row._replace(value=row.value[:-1] + b"\x00"))
    assert any("is not what its" in wrong for wrong in judge(found).wrong)


def test_a_dead_letter_that_is_doubled_is_named(found):
    topic = TOPICS["dead-letters"]
    found[topic].append(found[topic][0])
    [wrong] = judge(found).wrong
    assert wrong.endswith("was handled 2 times")


class TestTheContinuousAudit:
    """The same world, told to the books of the audit: the state topic alone must explain the outputs."""

    @staticmethod
    def books(found, skip=()):
        books = Books(TOPOLOGY, 0)
        for record in found[TOPICS["state"]]:
            if record.key != b"@position":
                books.row(record.key, record.value, 0.0)
        for topic in TOPOLOGY.outputs:
            for record in found[topic]:
                if (topic, identity(record.headers)) not in skip:
                    books.output(topic, identity(record.headers), 0.0)
        return books

    def test_the_state_implies_exactly_the_outputs(self, found):
        assert self.books(found).differences(0.0, 0.0) == []

    def test_a_compacted_state_topic_implies_the_same(self, found):
        last = {record.key: record for record in found[TOPICS["state"]]}
        assert self.books({**found, TOPICS["state"]: list(last.values())}).differences(0.0, 0.0) == []

    @pytest.mark.parametrize("topic", ["success", "discrepancies", "updates", "channel-requests", "decisions"])
    def test_a_missing_output_is_missing(self, found, topic):
        lost = (TOPICS[topic], identity(found[TOPICS[topic]][1].headers))
        [difference] = self.books(found, {lost}).differences(0.0, 0.0)
        assert (difference.kind, difference.topic, difference.id) == ("missing", *lost)

    def test_a_doubled_output_is_extra(self, found):
        books = self.books(found)
        books.output(TOPICS["success"], identity(found[TOPICS["success"]][0].headers), 1.0)
        [difference] = books.differences(2.0, 0.5)
        assert difference.kind == "extra"

    def test_a_difference_is_given_time_to_be_explained(self, found):
        books = self.books(found)
        books.output(TOPICS["success"], "nobody/success", 1.0)
        assert books.differences(2.0, 5.0) == []
        assert len(books.differences(7.0, 5.0)) == 1

    def test_what_retention_deleted_is_not_judged(self, found):
        lost = (TOPICS["updates"], identity(found[TOPICS["updates"]][0].headers))
        books = self.books(found, {lost})
        books.trimmed = frozenset({TOPICS["updates"]})
        assert books.differences(9.0, 0.0) == []

    def test_transactions_out_of_order_are_a_difference(self, found):
        books = self.books(found)
        for tag, offset in (((1, 1), 0), ((1, 2), 1), ((1, 1), 2)):
            books.tag(TOPICS["success"], tag, offset, 0.0)
        [difference] = books.differences(0.0, 0.0)
        assert difference.kind == "disorder"

    def test_a_key_in_a_partition_where_no_producer_would_put_it_is_misplaced(self, found):
        books = self.books(found)
        books.partitions, row = 8, found[TOPICS["state"]][0].value
        books.partition = 3
        for number in range(40):
            books.row(b"fresh-%d" % number, row, 0.0)
        kinds = [difference.kind for difference in books.differences(0.0, 0.0)]
        assert 20 < kinds.count("misplaced") < 40  # one in eight is at home


class TestTraffic:
    def test_a_seed_makes_the_same_traffic(self):
        assert traffic(50, 3) == traffic(50, 3)
        assert traffic(50, 3).records != traffic(50, 4).records

    def test_every_kind_of_life_occurs(self):
        assert sum(share for share, _ in LIVES) == 100
        made = traffic(400, 5)
        words = {
            msgspec.json.decode(r.value).get("status")
            for r in made.records
            if r.key and r.value[:1] == b"{" and r.value[-1:] == b"}"
        }
        assert {"SUCCESS", "FAILED", "PENDING", "TIMEOUT", "NOT_FOUND", "SUPER_OK", "PURCHASE"} <= words
