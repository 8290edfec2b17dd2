"""`concord audit books`: the books against themselves, and against the state topic. It prints what breaks, and where; it repairs nothing.

Exit codes: 0 nothing breaks, 1 something does, 2 a wrong setting or a missing topic, 4 Kafka or Postgres cannot be read.
"""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import asyncpg
import click
from aiokafka import TopicPartition

from stores import auditing, rebuilding
from stores.auditing import Broken
from stores.pool import LOST, connect
from stores.schema import SchemaError, require
from streams import codec
from streams.agents import booked
from streams.app import engine_config
from streams.cli.differences import require_readable
from streams.cli.exits import CANNOT_READ, exits
from streams.cli.printable import printable
from streams.engine import position
from streams.engine.recovery import reading, scan
from streams.settings import Settings
from streams.topics import Topics

if TYPE_CHECKING:
    from stores.schema import Connection
    from streams.domain.order import Order

AT_ONCE: Final = 500
"""Orders that are asked for together."""
PAUSE_S: Final = 0.25
LONG_S: Final = 3600.0
STATE: Final = "the books are what the state topic says"


class Audited(NamedTuple):
    """What was looked at, and what breaks: how many in all, and the first of them."""

    orders: int
    moved_on: int
    number: int
    broken: list[Broken]


@click.command(
    "books",
    epilog="Exit codes: 0 nothing breaks, 1 something does, 2 a wrong setting or a missing topic, 4 Kafka or Postgres cannot be read.",
)
@click.option("--settle", type=click.FloatRange(0), default=10.0, show_default=True,
              help="Seconds in which the projector must have written what the state topic says.")  # fmt: skip
def books(settle: float) -> None:
    """Check the books: success facts, entries, witnesses, and that they are what the state topic says."""
    with exits("audit"):
        settings = Settings.from_env()
        topics = Topics.load(prefix=settings.topic_prefix, replication=settings.replication)
        dsn = settings.require_postgres()
        try:
            found = asyncio.run(_audit(settings, topics, dsn, settle))
        except (SchemaError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            click.echo(
                f"concord audit: the books cannot be read: {type(error).__name__}: {printable(str(error))}", err=True
            )
            sys.exit(CANNOT_READ)
    sys.exit(_print(found))


async def _audit(settings: Settings, topics: Topics, dsn: str, settle: float) -> Audited:
    await require_readable(settings, topics, [topics.changelog])
    try:
        connection = await connect(dsn, command_s=LONG_S)
    except LOST as error:
        raise SchemaError(
            f"Postgres does not answer ({error or type(error).__name__}); set CONCORD_POSTGRES"
        ) from error
    try:
        await require(connection)
        orders = await states(settings, topics)
        number, moved_on, broken = await against(connection, orders, settle)
        async with rebuilding.snapshot(connection):
            more, count = await auditing.themselves(connection)
        return Audited(len(orders), moved_on, number + count, broken + more)
    finally:
        await connection.close()


async def states(settings: Settings, topics: Topics) -> dict[str, Order]:
    """Every order as the state topic has it now, by its id as the books write it."""
    config = engine_config(settings, topics)
    logs = [TopicPartition(topics.changelog, number) for number in range(topics.partitions)]
    rows: dict[bytes, bytes | None] = {}
    async with reading(config, "read_committed", [topics.changelog]) as client:
        starts, ends = await client.beginning_offsets(logs), await client.end_offsets(logs)
        async with aclosing(scan(client, {log: (starts[log], ends[log]) for log in logs})) as found:  # type: ignore[type-var]
            async for _, records in found:
                rows.update((record.key, record.value) for record in records if record.key != position.KEY)
    loaded = (codec.load(value) for value in rows.values() if value is not None)
    return {booked.text(order.order_id): order for order in loaded}


async def against(connection: Connection, orders: dict[str, Order], settle: float) -> tuple[int, int, list[Broken]]:
    """How many things are otherwise in the books, how many orders have moved on since, and the first of what is otherwise."""
    broken: list[Broken] = []
    moved_on = 0
    names = sorted(orders)
    deadline = time.monotonic() + settle
    for start in range(0, len(names), AT_ONCE):
        part = names[start : start + AT_ONCE]
        kept = await _caught_up(connection, {name: orders[name].seq for name in part}, deadline)
        for name in part:
            seq = kept.seq.get(name, 0)
            if seq < orders[name].seq:
                broken.append(
                    Broken(STATE, name, f"the books end at decision {seq}, the state topic at {orders[name].seq}")
                )
            elif seq > orders[name].seq:
                moved_on += 1
            else:
                broken += [Broken(STATE, place, what) for place, what in booked.unlike(orders[name], kept)]
    strangers = sorted(await auditing.all_orders(connection) - orders.keys()) if not moved_on else []
    broken += [Broken(STATE, name, "is in the books, and not in the state topic") for name in strangers]
    return len(broken), moved_on, broken[: auditing.SHOWN]


async def _caught_up(connection: Connection, wanted: dict[str, int], deadline: float) -> auditing.Kept:
    """What the books hold of these orders, once they are as far, or the time is over."""
    while True:
        kept = await auditing.kept(connection, list(wanted))
        if all(kept.seq.get(name, 0) >= seq for name, seq in wanted.items()) or time.monotonic() >= deadline:
            return kept
        await asyncio.sleep(PAUSE_S)


def _print(found: Audited) -> int:
    click.echo(f"{found.orders} orders in the state topic, {found.moved_on} of them moved on meanwhile")
    click.echo(f"{len(auditing.CHECKS) + 1} checks")
    last: Any = None
    for one in found.broken:
        if one.check != last:
            click.echo(f"broken: {one.check}")
            last = one.check
        click.echo(f"  {printable(one.place)}: {printable(one.what)}")
    if found.number > len(found.broken):
        click.echo(f"… and {found.number - len(found.broken)} more")
    click.echo("nothing breaks" if not found.number else f"{found.number} things break")
    return 1 if found.number else 0
