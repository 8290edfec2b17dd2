"""Where the commands that tell about one order find it: in the live state topic, or in a file.

Exit codes of every such command: 0 told, 1 the order is not known, 2 a wrong setting, file or topic, 4 no broker answers, or the state
is another release's.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar

import click
from aiokafka import TopicPartition

from streams import codec
from streams.app import engine_config
from streams.channels.contracts import shipped
from streams.cli.differences import require_readable
from streams.cli.exits import exits
from streams.engine.recovery import reading, scan
from streams.replay import recorded
from streams.replay.shapes import NotUnderstoodError
from streams.settings import Settings
from streams.topics import Topics, partition_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from streams.domain.order import Order

F = TypeVar("F", bound="Callable[..., None]")

UNKNOWN: Final = 1
WRONG: Final = 2
DEADLINE_S: Final = 120.0
EPILOG: Final = (
    "Exit codes: 0 told, 1 the order is not known, 2 a wrong setting, file or topic, 4 no broker answers, "
    "or the state is another release's."
)


def about_an_order(command: F) -> F:
    """The argument and the options of a command that tells about one order."""
    for decorate in (
        click.option("--scenario", metavar="ID", help="Of this scenario of the file."),
        click.option(
            "--file", type=click.Path(path_type=Path), help="Scenarios or recorded events instead of the live topics."
        ),
        click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text."),
        click.argument("order_id", metavar="ORDER"),
    ):
        command = decorate(command)
    return command


def located(command: str, order_id: str, file: Path | None, scenario: str | None) -> recorded.Found:
    """The order and the moment to tell it at; ends the process with a reason where there is none."""
    try:
        order_id.encode()
    except UnicodeEncodeError as error:
        raise click.BadParameter(f"{order_id!r} is not UTF-8, so no order can have it", param_hint="ORDER") from error
    if file is not None:
        return _in_file(command, order_id, file, scenario)
    with exits(command):
        settings = Settings.from_env()
        topics = Topics.load(prefix=settings.topic_prefix, replication=settings.replication)
        order = asyncio.run(asyncio.wait_for(find(settings, topics, order_id), DEADLINE_S))
    if order is None:
        _end(UNKNOWN, f"order {order_id!r} is not in {topics.changelog}: no event about it was handled")
    return recorded.Found(order, int(time.time() * 1000))


def _in_file(command: str, order_id: str, file: Path, scenario: str | None) -> recorded.Found:
    try:
        found = recorded.find(file, order_id, shipped(), scenario=scenario)
    except (OSError, NotUnderstoodError) as error:
        _end(WRONG, f"concord {command}: {file}: {error}")
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
    await require_readable(settings, topics, [topics.changelog])
    async with reading(engine_config(settings, topics), "read_committed", [log.topic]) as client:
        start = (await client.beginning_offsets([log]))[log]
        end = (await client.end_offsets([log]))[log]
        async for _, records in scan(client, {log: (start, end)}):
            for record in records:
                if record.key == key:
                    row = record.value
    return None if row is None else codec.load(row)
