"""Where the commands that tell about one order find it: in the live state topic, or in a file.

Exit codes of every such command: 0 told, 1 the order is not known, 2 wrong setting or file, 4 no broker answers.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING, Final, NoReturn

import click
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from streams import codec
from streams.app import engine_config
from streams.channels.contracts import shipped
from streams.engine.recovery import reading, scan
from streams.replay import recorded
from streams.replay.shapes import NotUnderstoodError
from streams.settings import Settings, SettingsError
from streams.topics import Topics, TopicsError, partition_of

if TYPE_CHECKING:
    from pathlib import Path

    from streams.domain.order import Order

UNKNOWN: Final = 1
WRONG: Final = 2
NO_BROKER: Final = 4
DEADLINE_S: Final = 120.0


def located(command: str, order_id: str, file: Path | None, scenario: str | None) -> recorded.Found:
    """The order and the moment to tell it at; ends the process with a reason where there is none."""
    if file is not None:
        return _in_file(command, order_id, file, scenario)
    try:
        settings = Settings.from_env()
        topics = Topics.load(prefix=settings.topic_prefix, replication=settings.replication)
        order = asyncio.run(asyncio.wait_for(find(settings, topics, order_id), DEADLINE_S))
    except (SettingsError, TopicsError) as error:
        _end(WRONG, f"{command}: {error}")
    except (KafkaError, TimeoutError) as error:
        _end(NO_BROKER, f"{command}: {error!r}; is Kafka at CONCORD_KAFKA, and are the topics there?")
    if order is None:
        _end(UNKNOWN, f"order {order_id!r} is not in {topics.changelog}: no event about it was handled")
    return recorded.Found(order, int(time.time() * 1000))


def _in_file(command: str, order_id: str, file: Path, scenario: str | None) -> recorded.Found:
    try:
        found = recorded.find(file, order_id, shipped(), scenario=scenario)
    except (OSError, NotUnderstoodError) as error:
        _end(WRONG, f"{command}: {file}: {error}")
    if found is None:
        _end(UNKNOWN, f"order {order_id!r} is not in {file}")
    return found


def _end(code: int, reason: str) -> NoReturn:
    click.echo(reason, err=True)
    sys.exit(code)


async def find(settings: Settings, topics: Topics, order_id: str) -> Order | None:
    """The committed state of an order: the last row under its key in its partition of the state topic."""
    key = order_id.encode()
    log = TopicPartition(topics.changelog, partition_of(key, topics.partitions))
    row: bytes | None = None
    async with reading(engine_config(settings, topics), "read_committed", [log.topic]) as client:
        start = (await client.beginning_offsets([log]))[log]
        end = (await client.end_offsets([log]))[log]
        async for _, records in scan(client, {log: (start, end)}):
            for record in records:
                if record.key == key:
                    row = record.value
    return None if row is None else codec.load(row)
