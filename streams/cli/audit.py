"""`concord audit`: independent checks. `stream` recomputes from the state topic what the outputs must be; `verify` reads people's log.

`stream` exits with 0 no difference, 1 differences, 2 a wrong setting or a missing topic, 4 no broker answers, or not everything could be
read. With `--follow` it runs until it is stopped, logs each difference once, and reports at the end.
"""

from __future__ import annotations

import asyncio
import re
import signal
import sys
import time
from typing import TYPE_CHECKING, Any, Final

import click
import structlog

from stores import audit as log_of_people
from streams.agents import payments
from streams.app import engine_config
from streams.cli.audit_books import books
from streams.cli.database import using
from streams.cli.differences import require_readable
from streams.cli.exits import CANNOT_READ, exits
from streams.cli.printable import printable
from streams.engine.audit import Audit, Difference, Report
from streams.settings import Settings
from streams.topics import Topics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streams.engine.topology import Topology

logger: Final = structlog.get_logger(__name__)
SHOWN: Final = 20
SEAL: Final = re.compile("[0-9a-f]{64}")


@click.group()
def audit() -> None:
    """Independent checks of what Concord did."""


audit.add_command(books)


@audit.command(epilog="Exit codes: 0 it holds, 1 it does not, 2 a setting is wrong, 4 Postgres does not answer.")
@click.option(
    "--kept", metavar="SEQ:HASH", help="A head that an earlier run printed: shows a log that was cut or rewritten."
)
def verify(kept: str | None) -> None:
    """Check the log of what people did (CONCORD_POSTGRES): every entry is sealed over the one before it. Keep the head that it prints."""
    before = None if kept is None else _head(kept)
    found = using("audit", lambda connection: log_of_people.verify(connection, before))
    for each in found.broken:
        click.echo(printable(each))
    click.echo(f"{found.head.seq} entries; head {found.head.seq}:{found.head.hash.hex()}")
    sys.exit(1 if found.broken else 0)


def _head(text: str) -> log_of_people.Head:
    seq, _, seal = text.partition(":")
    if not (seq.isascii() and seq.isdigit() and SEAL.fullmatch(seal)):
        raise click.BadParameter(
            "use SEQ:HASH as it was printed: a number, a colon, 64 hexadecimal digits", param_hint="--kept"
        )
    return log_of_people.Head(int(seq), bytes.fromhex(seal))


@audit.command(
    "stream",
    epilog="Exit codes: 0 no difference, 1 differences, 2 a wrong setting or a missing topic, 4 no broker answers, or not "
    "everything could be read.",
)
@click.option(
    "--follow", is_flag=True, help="Go on reading, and log each difference once; Ctrl-C ends with the report."
)
@click.option(
    "--settle",
    type=click.FloatRange(0),
    default=5.0,
    show_default=True,
    help="Seconds in which what is in flight must be explained.",
)
def stream(follow: bool, settle: float) -> None:
    """Compare the outputs with what the state topic implies."""
    with exits("audit"):
        settings = Settings.from_env()
        topics = Topics.load(prefix=settings.topic_prefix, replication=settings.replication)
        topology = payments.topology(topics, settings.group)
        report = asyncio.run(_audit(settings, topics, topology, follow=follow, settle=settle))
    if report is None:
        click.echo("stopped before everything was read and had time to settle: nothing was judged", err=True)
        sys.exit(CANNOT_READ)
    sys.exit(_print(report))


async def _audit(
    settings: Settings, topics: Topics, topology: Topology[Any, Any, Any], *, follow: bool, settle: float
) -> Report | None:
    await require_readable(settings, topics, [topology.changelog, *topology.outputs])
    auditor = Audit(topology, engine_config(settings, topics))
    if follow:
        return await _follow(auditor, settle)
    async with auditor.reading():
        return await auditor.once(settle)


async def _follow(auditor: Audit, settle: float) -> Report | None:
    """Read until SIGINT or SIGTERM. Nothing is judged, and there is no report, before all that was there at the start could be."""
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    topology = auditor.topology
    click.echo(f"reading {topology.changelog} and {len(topology.outputs)} output topics from their beginning", err=True)
    async with auditor.reading():
        ends = await auditor.ends()
        while not await auditor.has_read(ends) and not stopped.is_set():
            await auditor.read()
        judged_from = time.monotonic() + settle
        click.echo(f"read; what disagrees for {settle:g} s is logged; Ctrl-C ends this with the report", err=True)
        told: set[Difference] = set()
        while not stopped.is_set():
            await auditor.read()
            if time.monotonic() >= judged_from:
                _tell(auditor.report(settle).differences, told)
        return auditor.report(settle) if time.monotonic() >= judged_from else None


def _tell(differences: Sequence[Difference], told: set[Difference]) -> None:
    """Log what was not logged yet."""
    for difference in differences:
        if difference not in told:
            told.add(difference)
            logger.error(
                "difference",
                kind=difference.kind,
                topic=difference.topic,
                partition=difference.partition,
                id=difference.id,
            )


def _print(report: Report) -> int:
    click.echo(f"{report.rows} orders in the state topic")
    for topic, number in sorted(report.outputs.items()):
        click.echo(f"{number:>9} {topic}")
    for topic in sorted(report.unjudged):
        click.echo(f"          {topic}: its beginning was deleted by retention; what is missing there cannot be judged")
    _list(report.differences)
    return 1 if report.differences else 0


def _list(differences: Sequence[Difference]) -> None:
    for difference in differences[:SHOWN]:
        click.echo(f"{difference.kind}: {difference.topic}/{difference.partition} {printable(difference.id)}")
    if len(differences) > SHOWN:
        click.echo(f"… and {len(differences) - SHOWN} more")
    click.echo("no difference" if not differences else f"{len(differences)} differences")
