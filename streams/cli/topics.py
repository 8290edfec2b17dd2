"""`concord topics create|check|diff`: make the topics of topics.yaml on the broker, and say how a broker's differ.

Exit codes: 0 the topics can be used, 1 they cannot, 2 a setting or topics.yaml is wrong, 4 no broker answers.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click
from aiokafka.errors import KafkaError
from rich.console import Console
from rich.table import Table

from streams.settings import Settings, SettingsError
from streams.topics import Difference, Severity, Topics, TopicsError, check, create

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

UNUSABLE: Final = 1
WRONG_SETTING: Final = 2
NO_BROKER: Final = 4


@click.group()
def topics() -> None:
    """The topics of topics.yaml on the broker (CONCORD_KAFKA, CONCORD_TOPIC_PREFIX, CONCORD_REPLICATION)."""


@topics.command("create")
def create_missing() -> None:
    """Create the topics that are missing. Topics that exist are left as they are."""
    with _failures():
        settings, wanted = _wanted()
        created = asyncio.run(create(settings.kafka, wanted))
        for name in created:
            click.echo(f"created {name}")
        click.echo(f"{len(created)} created, {len(wanted.all) - len(created)} present")


@topics.command("check")
def check_topics() -> None:
    """Exit with 1 if a difference keeps a worker from starting."""
    with _failures():
        settings, wanted = _wanted()
        differences = asyncio.run(check(settings.kafka, wanted))
        for difference in differences:
            click.echo(str(difference))
        breaking = sum(difference.severity is Severity.BREAKS for difference in differences)
        click.echo(f"{len(wanted.all)} topics, {breaking} breaking differences, {len(differences) - breaking} others")
    if breaking:
        sys.exit(UNUSABLE)


@topics.command("diff")
def diff() -> None:
    """Show every difference between the broker and topics.yaml, what breaks first."""
    with _failures():
        settings, wanted = _wanted()
        differences = asyncio.run(check(settings.kafka, wanted))
    if not differences:
        click.echo("no differences")
    elif sys.stdout.isatty():
        Console().print(_table(differences))
    else:
        for difference in differences:
            click.echo(str(difference))


def _wanted() -> tuple[Settings, Topics]:
    settings = Settings.from_env()
    return settings, Topics.load(prefix=settings.topic_prefix, replication=settings.replication)


def _table(differences: Sequence[Difference]) -> Table:
    table = Table("", "topic", "field", "found", "wanted", "why", title="broker and topics.yaml")
    for difference in differences:
        style = "red" if difference.severity is Severity.BREAKS else "yellow"
        table.add_row(*(str(part) for part in difference), style=style)
    return table


@contextmanager
def _failures() -> Iterator[None]:
    try:
        yield
    except (SettingsError, TopicsError) as error:
        raise _exit(str(error), WRONG_SETTING) from error
    except (KafkaError, OSError, TimeoutError) as error:
        problem = f"no broker answers: {error or type(error).__name__}; set CONCORD_KAFKA, or run `concord dev up`"
        raise _exit(problem, NO_BROKER) from error


def _exit(message: str, code: int) -> click.ClickException:
    exception = click.ClickException(message)
    exception.exit_code = code
    return exception
