"""`concord topics` against a real broker: what it makes is what the list says, and what it cannot use it names."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from click.testing import CliRunner

from streams.cli.topics import topics as command
from streams.topics import Severity, Topics, TopicsError, check, create, require

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

pytestmark = pytest.mark.kafka


@pytest.fixture
def client(kafka):
    return {"bootstrap_servers": kafka.bootstrap}


@pytest.fixture
def wanted(topic_prefix) -> Topics:
    return Topics.load(prefix=topic_prefix, replication=1)


@pytest.fixture
def run(kafka, topic_prefix):
    def invoke(*arguments: str, **environment: str) -> tuple[int, str]:
        settings = {
            "CONCORD_KAFKA": kafka.bootstrap,
            "CONCORD_TOPIC_PREFIX": topic_prefix,
            "CONCORD_REPLICATION": "1",
        }
        result = CliRunner().invoke(command, arguments, env=settings | environment)
        return result.exit_code, result.output

    return invoke


async def alter(client: dict[str, str], topic: str, config: dict[str, str]) -> None:
    admin = AIOKafkaAdminClient(**client)
    await admin.start()
    try:
        [response] = await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, config)])
        assert [resource[0] for resource in response.resources] == [0]
        [(name, value)] = config.items()
        await until(lambda: has(admin, topic, name, value))
    finally:
        await admin.close()


async def has(admin: AIOKafkaAdminClient, topic: str, name: str, value: str) -> bool:
    [response] = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    return any(entry[:2] == (name, value) for entry in response.resources[0][4])


async def until(condition: Callable[[], Awaitable[bool]], seconds: float = 15.0) -> None:
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.02)


async def make(client: dict[str, str], topic: NewTopic) -> None:
    admin = AIOKafkaAdminClient(**client)
    await admin.start()
    try:
        response = await admin.create_topics([topic])
        assert [error[1] for error in response.topic_errors] == [0]
    finally:
        await admin.close()


async def test_created_topics_are_exactly_what_the_list_says(client, wanted):
    assert await create(client, wanted) == [topic.topic for topic in wanted.all]
    assert await check(client, wanted) == []
    assert await require(client, wanted) == []


async def test_creating_again_changes_nothing(client, wanted):
    await create(client, wanted)
    assert await create(client, wanted) == []


async def test_asking_about_missing_topics_does_not_make_them(client, wanted):
    for _ in range(2):
        differences = await check(client, wanted)
        assert [difference.found for difference in differences] == ["missing"] * len(wanted.all)


async def test_a_worker_refuses_missing_topics_and_says_what_to_run(client, wanted):
    with pytest.raises(TopicsError, match=r"(?s)concord topics create.*payments\.commands: topic is missing"):
        await require(client, wanted)


async def test_a_worker_refuses_topics_that_are_not_co_partitioned(client, wanted):
    odd = wanted.of("query-results")
    await make(client, NewTopic(odd.topic, 3, 1, topic_configs=odd.config()))
    await create(client, wanted)
    with pytest.raises(TopicsError, match=r"payments\.query-results: partitions is 3, not 8"):
        await require(client, wanted)


async def test_a_count_of_its_own_is_refused_even_if_all_topics_agree_on_it(client, wanted, topic_prefix):
    await create(client, Topics.load(prefix=topic_prefix, replication=1, partitions=2))
    differences = await check(client, wanted)
    assert {(difference.field, difference.severity) for difference in differences} == {("partitions", Severity.BREAKS)}


@pytest.mark.parametrize(
    ("topic", "config", "field"),
    [
        ("state", {"cleanup.policy": "delete"}, "cleanup.policy"),
        ("commands", {"message.timestamp.type": "CreateTime"}, "message.timestamp.type"),
    ],
)
async def test_a_worker_refuses_a_topic_that_was_altered_into_another_promise(client, wanted, topic, config, field):
    await create(client, wanted)
    await alter(client, wanted[topic], config)
    with pytest.raises(TopicsError, match=f"{wanted[topic]}: {field} is "):
        await require(client, wanted)


async def test_more_replicas_than_brokers_are_refused_with_the_fix(client, topic_prefix):
    with pytest.raises(TopicsError, match="CONCORD_REPLICATION"):
        await create(client, Topics.load(prefix=topic_prefix, replication=7))


def test_the_commands_make_check_and_show(run):
    code, output = run("check")
    assert (code, output.count("breaks: ")) == (1, 14)
    assert output.count("payments.state is missing on the broker: run `concord topics create`") == 1
    assert "14 topics, 14 breaking differences, 0 others" in output
    code, output = run("create")
    assert (code, output.splitlines()[-1]) == (0, "14 created, 0 present")
    assert run("create") == (0, "0 created, 14 present\n")
    assert run("check") == (0, "14 topics, 0 breaking differences, 0 others\n")
    assert run("diff") == (0, "no differences\n")


def test_a_difference_that_breaks_nothing_is_shown_and_passes(run):
    run("create")
    code, output = run("diff", CONCORD_REPLICATION="2")
    assert code == 0
    assert output.count("differs: ") == 14
    assert run("check", CONCORD_REPLICATION="2")[0] == 0


def test_a_setting_that_cannot_be_used_has_its_own_exit_code(run):
    assert run("check", CONCORD_REPLICATION="none")[0] == 2


def test_a_broker_that_does_not_answer_has_its_own_exit_code(run):
    code, output = run("check", CONCORD_KAFKA="127.0.0.1:1")
    assert code == 4
    assert "set CONCORD_KAFKA" in output
