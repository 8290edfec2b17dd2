"""Keys land where Java's own producer puts them: Kafka's console producer writes, we read and compare."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from streams.dev import jars
from streams.dev.kafka import java
from streams.topics import partition_of

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.kafka

PARTITIONS = 7
KEYS = [
    "",
    *("123456789"[:length] for length in range(1, 10)),
    "ORD-2025-000001",
    "订单-\uff11\uff12\uff13",
    "订单-123",
    "café-7",
    "заказ-42",
    "🧾",
    "x" * 300,
    *(f"order-{number}" for number in range(200)),
]


def console_producer() -> str:
    """The class path of Kafka's own command-line tools; fetched once, like the broker's jars."""
    version = jars.version()
    return os.pathsep.join(map(str, [*jars.class_path(version), jars.tools(version)]))


def produce_with_java(bootstrap: str, topic: str, keys: Sequence[str]) -> None:
    arguments = ["--bootstrap-server", bootstrap, "--topic", topic]
    arguments += ["--property", "parse.key=true", "--property", "key.separator=|"]
    lines = "".join(f"{key}|{number}\n" for number, key in enumerate(keys))
    command = [java(), "-Dfile.encoding=UTF-8", "-cp", console_producer(), "org.apache.kafka.tools.ConsoleProducer"]
    result = subprocess.run([*command, *arguments], input=lines.encode(), capture_output=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr.decode()[-2000:]


async def read_all(bootstrap: str, topic: str) -> list[tuple[bytes, int]]:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    await consumer.start()
    try:
        partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        ends = await consumer.end_offsets(partitions)
        found: list[tuple[bytes, int]] = []
        while len(found) < sum(ends.values()):
            for records in (await consumer.getmany(timeout_ms=1000)).values():
                found += [(record.key, record.partition) for record in records]
        return found
    finally:
        await consumer.stop()


async def make(bootstrap: str, topic: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
    finally:
        await admin.close()


async def test_javas_producer_puts_each_key_where_we_say_it_lives(kafka, topic_prefix):
    topic = f"{topic_prefix}java"
    await make(kafka.bootstrap, topic)
    produce_with_java(kafka.bootstrap, topic, KEYS)
    landed = await read_all(kafka.bootstrap, topic)
    assert sorted(key.decode() for key, _ in landed) == sorted(KEYS)
    assert landed == [(key, partition_of(key, PARTITIONS)) for key, _ in landed]


async def test_our_producer_puts_each_key_where_javas_does(kafka, topic_prefix):
    topic = f"{topic_prefix}python"
    await make(kafka.bootstrap, topic)
    producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap)
    await producer.start()
    try:
        stored = [(key, await producer.send_and_wait(topic, b"", key=key.encode())) for key in KEYS[:40]]
    finally:
        await producer.stop()
    assert [at.partition for _, at in stored] == [partition_of(key.encode(), PARTITIONS) for key, _ in stored]
