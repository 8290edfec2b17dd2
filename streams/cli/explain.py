"""`concord explain ORDER`: an order's story from the live state topic: evidence, rule, verdict, state, and what is awaited from whom.

Exit codes: 0 told, 1 the order is not known, 2 a wrong setting or a missing topic, 4 no broker answers, or the state is another release's.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING, Final

import click
from aiokafka import TopicPartition
from rich.console import Console

from streams import codec
from streams.app import engine_config
from streams.cli.differences import require_readable
from streams.cli.exits import exits
from streams.cli.printable import json_text, styled
from streams.domain.story import story
from streams.engine.recovery import reading, scan
from streams.settings import Settings
from streams.topics import Topics, partition_of

if TYPE_CHECKING:
    from datetime import datetime

    from streams.domain.order import Order
    from streams.domain.story import Awaited, PaymentStory, Story

UNKNOWN: Final = 1
DEADLINE_S: Final = 120.0


@click.command(
    epilog="Exit codes: 0 told, 1 the order is not known, 2 a wrong setting or a missing topic, 4 no broker answers, "
    "or the state is another release's."
)
@click.argument("order_id", metavar="ORDER")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")
def explain(order_id: str, as_json: bool) -> None:
    """Tell the story of a merchant ORDER id."""
    try:
        order_id.encode()
    except UnicodeEncodeError as error:
        raise click.BadParameter(f"{order_id!r} is not UTF-8, so no order can have it", param_hint="ORDER") from error
    with exits("explain"):
        settings = Settings.from_env()
        topics = Topics.load(prefix=settings.topic_prefix, replication=settings.replication)
        order = asyncio.run(asyncio.wait_for(find(settings, topics, order_id), DEADLINE_S))
    if order is None:
        click.echo(f"order {order_id!r} is not in {topics.changelog}: no event about it was handled", err=True)
        sys.exit(UNKNOWN)
    told = story(order, int(time.time() * 1000))
    if as_json:
        click.echo(json_text(told))
    else:
        tell(told, Console(highlight=False, soft_wrap=True, emoji=False))


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


def tell(told: Story, console: Console) -> None:
    """Print a story for people. Every word that came from outside is made printable first."""
    console.print(
        styled(
            (f"order {told.order_id}", "bold"), f"  {told.decisions} decisions, {told.duplicates} duplicates dropped"
        )
    )
    for payment in told.payments:
        console.print(styled(_headline(payment)))
    for piece in told.evidence:
        console.print(styled(f"  {_time(piece.at)}  {piece.source} ", (piece.word, "bold"), f"  {piece.ref}"))
        console.print(styled(f"      {piece.verdict} by rule {piece.rule}: {piece.because}"))
    for item in told.open:
        console.print(styled(("open", "red"), f" {item.kind} ({item.severity}) about {item.ref}, owner {item.owner}"))
    for awaited in (*(payment.awaited for payment in told.payments if payment.awaited), *told.waiting):
        console.print(styled(("awaited", "yellow"), f" {_awaited(awaited)}"))
    if not told.open and not any(payment.awaited for payment in told.payments) and not told.waiting:
        console.print("[green]nothing is awaited[/]")


def _headline(payment: PaymentStory) -> str:
    words = [f"payment {payment.payment} on {payment.channel}: {payment.amount} minor units {payment.currency}"]
    words.append(f"{' → '.join(payment.path)}, witness {payment.witness or 'none yet'}")
    if payment.announced:
        words.append("announced as success")
    return "; ".join(words)


def _awaited(awaited: Awaited) -> str:
    when = f", next at {_time(awaited.when)}" if awaited.when else ""
    return f"{awaited.what}, from {awaited.whom}{when}"


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S") + "Z"
