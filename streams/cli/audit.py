"""`concord audit stream`: recompute from the state topic what the outputs must be, and report every difference.

Exit codes: 0 no difference, 1 differences, 2 wrong setting, 4 no broker answers. With `--follow` it runs until it is stopped, and logs
each difference once.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from typing import TYPE_CHECKING, Final

import click
import structlog
from aiokafka.errors import KafkaError

from streams import log
from streams.agents import payments
from streams.app import engine_config
from streams.engine.audit import Audit, Difference, Report
from streams.settings import Settings, SettingsError
from streams.topics import Topics, TopicsError

if TYPE_CHECKING:
    from collections.abc import Sequence

logger: Final = structlog.get_logger(__name__)
SHOWN: Final = 20


@click.group()
def audit() -> None:
    """Independent checks of what Concord did."""


@audit.command("stream")
@click.option("--follow", is_flag=True, help="Go on reading, and log each difference once.")
@click.option(
    "--settle",
    type=click.FloatRange(0),
    default=5.0,
    show_default=True,
    help="Seconds in which what is in flight must be explained.",
)
def stream(follow: bool, settle: float) -> None:
    """Compare the outputs with what the state topic implies."""
    try:
        settings = Settings.from_env()
        log.configure(level="warning" if not follow else settings.log_level)
        topics = Topics.load(prefix=settings.topic_prefix, replication=settings.replication)
        auditor = Audit(payments.topology(topics, settings.group), engine_config(settings, topics))
        with contextlib.suppress(KeyboardInterrupt):
            report = asyncio.run(_follow(auditor, settle) if follow else _once(auditor, settle))
            sys.exit(_print(report))
    except (SettingsError, TopicsError) as error:
        click.echo(f"concord audit: {error}", err=True)
        sys.exit(2)
    except (KafkaError, TimeoutError) as error:
        click.echo(f"concord audit: {error!r}; is Kafka at CONCORD_KAFKA, and are the topics there?", err=True)
        sys.exit(4)


async def _once(auditor: Audit, settle: float) -> Report:
    async with auditor.reading():
        return await auditor.once(settle)


async def _follow(auditor: Audit, settle: float) -> Report:
    told: set[Difference] = set()
    async with auditor.reading():
        while True:
            await auditor.read()
            for difference in auditor.report(settle).differences:
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
        click.echo(f"{difference.kind}: {difference.topic}/{difference.partition} {difference.id}")
    if len(differences) > SHOWN:
        click.echo(f"… and {len(differences) - SHOWN} more")
    click.echo("no difference" if not differences else f"{len(differences)} differences")
