"""`concord audit stream`: recompute from the state topic what the outputs must be, and report every difference.

Exit codes: 0 no difference, 1 differences, 2 a wrong setting or a missing topic, 4 no broker answers, or not everything could be read.
With `--follow` it runs until it is stopped, logs each difference once, and reports at the end.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from typing import TYPE_CHECKING, Any, Final

import click
import structlog

from streams.agents import payments
from streams.app import engine_config
from streams.cli.audit_books import books
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


@click.group()
def audit() -> None:
    """Independent checks of what Concord did."""


audit.add_command(books)


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
