"""`concord topics create|check|diff`: make the topics of topics.yaml on the broker, and say how a broker's differ.

Exit codes: 0 the topics can be used, 1 they cannot, 2 a setting or topics.yaml is wrong, 4 no broker answers.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from typing import Final

import click

from streams.cli.differences import paragraphs, sentence
from streams.cli.exits import exits
from streams.settings import Settings
from streams.topics import Severity, Topics, check, create

UNUSABLE: Final = 1
CODES: Final = "Exit codes: 0 done, 2 a setting or topics.yaml is wrong, 4 no broker answers."
CHECK_CODES: Final = (
    "Exit codes: 0 the topics can be used, 1 they cannot, 2 a setting or topics.yaml is wrong, 4 no broker answers."
)


@click.group()
def topics() -> None:
    """The topics of topics.yaml on the broker (CONCORD_KAFKA, CONCORD_TOPIC_PREFIX, CONCORD_REPLICATION)."""


@topics.command("create", epilog=CODES)
def create_missing() -> None:
    """Create the topics that are missing. Topics that exist are left as they are."""
    with exits("topics"):
        settings, wanted = _wanted()
        created = asyncio.run(create(settings.kafka, wanted))
    for name in created:
        click.echo(f"created {name}")
    click.echo(f"{len(created)} created, {len(wanted.all) - len(created)} present")


@topics.command("check", epilog=CHECK_CODES)
def check_topics() -> None:
    """Exit with 1 if a difference keeps a worker from starting."""
    with exits("topics"):
        settings, wanted = _wanted()
        differences = asyncio.run(check(settings.kafka, wanted))
    for difference in differences:
        click.echo(sentence(difference))
    breaking = sum(difference.severity is Severity.BREAKS for difference in differences)
    click.echo(f"{len(wanted.all)} topics, {breaking} breaking differences, {len(differences) - breaking} others")
    if breaking:
        sys.exit(UNUSABLE)


@topics.command("diff", epilog=CODES)
def diff() -> None:
    """Show every difference between the broker and topics.yaml, what breaks first."""
    with exits("topics"):
        settings, wanted = _wanted()
        differences = asyncio.run(check(settings.kafka, wanted))
    if not differences:
        click.echo("no differences")
    elif sys.stdout.isatty():
        for line in paragraphs(differences, shutil.get_terminal_size().columns):
            click.echo(line)
    else:
        for difference in differences:
            click.echo(sentence(difference))


def _wanted() -> tuple[Settings, Topics]:
    settings = Settings.from_env()
    return settings, Topics.load(prefix=settings.topic_prefix, replication=settings.replication)
