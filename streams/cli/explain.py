"""`concord explain ORDER`: an order's story from the live state topic: evidence, rule, verdict, state, and what is awaited from whom.

Exit codes: 0 told, 1 the order is not known, 2 wrong setting, 4 no broker answers.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING, Final

import click
import msgspec
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from rich.console import Console
from rich.markup import escape

from streams import codec
from streams.app import engine_config
from streams.domain.story import story
from streams.engine.recovery import reading, scan
from streams.settings import Settings, SettingsError
from streams.topics import Topics, TopicsError, partition_of

if TYPE_CHECKING:
    from datetime import datetime

    from streams.domain.order import Order
    from streams.domain.story import Awaited, PaymentStory, Piece, Story

UNKNOWN: Final = 1
DEADLINE_S: Final = 120.0


@click.command()
@click.argument("order_id", metavar="ORDER")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")
def explain(order_id: str, as_json: bool) -> None:
    """Tell the story of a merchant ORDER id."""
    try:
        settings = Settings.from_env()
        topics = Topics.load(prefix=settings.topic_prefix, replication=settings.replication)
        order = asyncio.run(asyncio.wait_for(find(settings, topics, order_id), DEADLINE_S))
    except (SettingsError, TopicsError) as error:
        click.echo(f"concord explain: {error}", err=True)
        sys.exit(2)
    except (KafkaError, TimeoutError) as error:
        click.echo(f"concord explain: {error!r}; is Kafka at CONCORD_KAFKA, and are the topics there?", err=True)
        sys.exit(4)
    if order is None:
        click.echo(f"order {order_id!r} is not in {topics.changelog}: no event about it was handled", err=True)
        sys.exit(UNKNOWN)
    told = story(order, int(time.time() * 1000))
    if as_json:
        click.echo(msgspec.json.encode(told).decode())
    else:
        tell(told, Console(highlight=False, soft_wrap=True))


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


def tell(told: Story, console: Console) -> None:
    """Print a story for people."""
    console.print(
        f"[bold]order {escape(told.order_id)}[/]  {told.decisions} decisions, {told.duplicates} duplicates dropped"
    )
    for payment in told.payments:
        console.print(escape(_headline(payment)))
    for piece in told.evidence:
        console.print(_lines(piece))
    for item in told.open:
        console.print(f"[red]open[/] {item.kind} ({item.severity}) about {escape(item.ref)}, owner {item.owner}")
    for awaited in (*(payment.awaited for payment in told.payments if payment.awaited), *told.waiting):
        console.print(f"[yellow]awaited[/] {escape(_awaited(awaited))}")
    if not told.open and not any(payment.awaited for payment in told.payments) and not told.waiting:
        console.print("[green]nothing is awaited[/]")


def _headline(payment: PaymentStory) -> str:
    words = [f"payment {payment.payment} on {payment.channel}: {payment.amount} minor units {payment.currency}"]
    words.append(f"{' → '.join(payment.path)}, witness {payment.witness or 'none yet'}")
    if payment.announced:
        words.append("announced as success")
    return "; ".join(words)


def _lines(piece: Piece) -> str:
    said = f"  {_time(piece.at)}  {piece.source} [bold]{escape(piece.word)}[/]  {escape(piece.ref)}"
    return f"{said}\n      {piece.verdict} by rule {piece.rule}: {piece.because}"


def _awaited(awaited: Awaited) -> str:
    when = f", next at {_time(awaited.when)}" if awaited.when else ""
    return f"{awaited.what}, from {awaited.whom}{when}"


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S") + "Z"
