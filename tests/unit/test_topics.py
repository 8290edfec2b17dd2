"""The list of topics: what it admits, what of a broker breaks it, and where a key lives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from aiokafka.partitioner import DefaultPartitioner

from streams.topics import Found, Severity, Topics, TopicsError, compare, partition_of

VECTORS = json.loads((Path(__file__).parent / "vectors" / "murmur2.json").read_text())

SMALL = """
defaults: {{key: order, partitions: 2, replication: 1, min_insync_replicas: 1, cleanup: delete, timestamp_type: CreateTime,
  max_message_bytes: 1000, messages: [], about: x, retention_days: 1}}
topics:
- {{name: in, topic: t.in, direction: input, timestamp_type: LogAppendTime{inputs}}}
- {{name: out, topic: t.out, direction: output{outputs}}}
- {{name: state, topic: t.state, direction: changelog, cleanup: compact, compaction_lag_days: 7{changelog}}}
- {{name: dead, topic: t.dead, direction: dead-letters{dead}}}
"""


def small(**extra: str) -> bytes:
    parts = {"inputs": "", "outputs": "", "changelog": "", "dead": ""} | extra
    return SMALL.format(**parts).encode()


def on_broker(topics: Topics, **changes: dict[str, object]) -> dict[str, Found]:
    found = {topic.topic: Found(topic.partitions, topic.replication, topic.config()) for topic in topics.all}
    for name, change in changes.items():
        topic = topics[name]
        config = dict(found[topic].config) | {key: value for key, value in change.items() if "." in key}
        rest = {key: value for key, value in change.items() if "." not in key}
        found[topic] = found[topic]._replace(config=config, **rest)
    return found


def test_the_list_names_every_topic_of_the_design():
    topics = Topics.load()
    assert topics.inputs == (
        "payments.commands",
        "payments.channel-callbacks",
        "payments.query-results",
        "payments.card-postings",
    )
    assert topics.outputs == (
        "payments.success",
        "payments.discrepancies",
        "payments.updates",
        "payments.decisions",
        "payments.channel-requests",
    )
    assert (topics.changelog, topics.dead_letters) == ("payments.state", "payments.dead-letters")
    assert topics.partitions == 8
    assert topics["success"] == topics.names["success"] == "payments.success"


def test_a_prefix_stands_before_every_name():
    topics = Topics.load(prefix="blue.")
    assert {topic.topic.partition(".")[0] for topic in topics.all} == {"blue"}
    assert topics["state"] == "blue.payments.state"


def test_replication_can_be_set_down_to_one_and_takes_in_sync_replicas_with_it():
    wanted = {replication: Topics.load(replication=replication).of("state").config() for replication in (1, 2, 3)}
    assert [wanted[replication]["min.insync.replicas"] for replication in (1, 2, 3)] == ["1", "1", "2"]


def test_the_changelog_keeps_a_week_from_compaction_and_inputs_take_the_brokers_time():
    topics = Topics.load()
    assert topics.of("state").config()["cleanup.policy"] == "compact"
    assert topics.of("state").config()["min.compaction.lag.ms"] == str(7 * 86_400_000)
    assert {topic.config()["message.timestamp.type"] for topic in topics.all if topic.direction == "input"} == {
        "LogAppendTime"
    }


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (b"[", ["not a YAML mapping"]),
        (b"\xff\xfe", ["not a YAML mapping"]),
        (b"other: 1", ["unknown key 'other'"]),
        (b"topics: []", ["`topics`", "at least one"]),
        (b"topics: [3]", ["entry 1"]),
        (small(outputs=", colour: red"), ["topic 'out'", "colour"]),
        (small(outputs=", partitions: 3"), ["topic 'out'", "partitions is 3", "'in' has 2"]),
        (small(outputs=", partitions: 0"), ["topic 'out'", "partitions", ">= 1"]),
        (small(outputs=", partitions: many"), ["topic 'out'", "partitions"]),
        (small(outputs=", cleanup: compact"), ["topic 'out'", "cleanup"]),
        (small(outputs=", retention_days: null"), ["topic 'out'", "retention_days"]),
        (small(outputs=", direction: sideways"), ["topic 'out'", "direction"]),
        (small(outputs=", direction: changelog, cleanup: compact, compaction_lag_days: 1"), ["2 topics", "changelog"]),
        (small(inputs=", timestamp_type: CreateTime"), ["topic 'in'", "LogAppendTime"]),
        (small(inputs=", direction: output"), ["no topic is an 'input'"]),
        (small(changelog=", cleanup: delete"), ["topic 'state'"]),
        (small(changelog=", compaction_lag_days: null"), ["topic 'state'", "compaction_lag_days"]),
        (small(dead=", topic: t.in"), ["topic 'dead'", "'t.in' is a duplicate"]),
        (small(dead=", name: in"), ["topic 'in'", "duplicate"]),
    ],
)
def test_a_list_that_cannot_be_used_names_the_topic_and_the_field(text: bytes, names: list[str]):
    with pytest.raises(TopicsError) as refusal:
        Topics.load(text=text)
    for name in names:
        assert name in str(refusal.value)


def test_an_unknown_logical_name_lists_the_known_ones():
    with pytest.raises(TopicsError, match=r"'sucess' is not in topics\.yaml; it has commands, "):
        Topics.load()["sucess"]


def test_a_broker_that_agrees_has_no_differences():
    topics = Topics.load(replication=1)
    assert compare(topics, on_broker(topics)) == []


@pytest.mark.parametrize(
    ("topic", "change", "severity"),
    [
        ("success", {"partitions": 9}, Severity.BREAKS),
        ("success", {"replication": 2}, Severity.DIFFERS),
        ("success", {"retention.ms": "1"}, Severity.DIFFERS),
        ("success", {"cleanup.policy": "compact"}, Severity.BREAKS),
        ("success", {"message.timestamp.type": "LogAppendTime"}, Severity.DIFFERS),
        ("success", {"min.insync.replicas": "1"}, Severity.DIFFERS),
        ("success", {"unclean.leader.election.enable": "true"}, Severity.BREAKS),
        ("commands", {"message.timestamp.type": "CreateTime"}, Severity.BREAKS),
        ("commands", {"max.message.bytes": "10"}, Severity.BREAKS),
        ("commands", {"max.message.bytes": "99999999"}, Severity.DIFFERS),
        ("state", {"cleanup.policy": "delete"}, Severity.BREAKS),
        ("state", {"cleanup.policy": "compact,delete"}, Severity.BREAKS),
        ("state", {"min.compaction.lag.ms": "0"}, Severity.BREAKS),
        ("state", {"min.compaction.lag.ms": "999999999999"}, Severity.DIFFERS),
        ("state", {"delete.retention.ms": "1"}, Severity.DIFFERS),
    ],
)
def test_each_difference_has_its_severity_and_names_its_fix(topic: str, change: dict[str, object], severity: Severity):
    topics = Topics.load()
    [difference] = compare(topics, on_broker(topics, **{topic: change}))
    assert (difference.topic, difference.field) == (topics[topic], next(iter(change)))
    assert difference.severity is severity
    assert difference.why


def test_partition_counts_that_all_agree_but_not_with_the_list_break():
    """Keys would have moved away from their state."""
    topics = Topics.load()
    changes = {topic.name: {"partitions": 12} for topic in topics.all}
    differences = compare(topics, on_broker(topics, **changes))
    assert {difference.severity for difference in differences} == {Severity.BREAKS}
    assert "CONCORD_TOPIC_PREFIX" in differences[0].why


def test_a_missing_topic_breaks_and_comes_before_what_only_differs():
    topics = Topics.load()
    found = on_broker(topics, commands={"retention.ms": "1"})
    del found["payments.state"]
    first, second = compare(topics, found)
    assert (first.severity, first.topic, first.found) == (Severity.BREAKS, "payments.state", "missing")
    assert "concord topics create" in first.why
    assert second.severity is Severity.DIFFERS


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["key"][:24] or "empty")
def test_a_key_hashes_as_kafka_clients_hashes_it(vector: dict[str, object]):
    key = bytes.fromhex(str(vector["key"]))
    for partitions in (1, 2, 7, 8, 64):
        wanted = int(str(vector["positive"])) % partitions
        assert partition_of(key, partitions) == wanted
        assert DefaultPartitioner()(key, list(range(partitions)), []) == wanted
