"""`concord recon run`: compare what was imported, and tell the law what was found."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import Any, Final

import asyncpg
import click
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from streams.agents.reconciler import Reconciler, publish
from streams.channels import contracts
from streams.cli.database import end, using
from streams.cli.exits import CANNOT_READ, WRONG_SETTING, quiet, unreachable
from streams.cli.printable import printable
from streams.domain.contract import DEFAULT
from streams.settings import Settings, SettingsError
from streams.topics import Topics, TopicsError

CODES: Final = (
    "Exit codes: 0 done, whatever was found, 2 a setting is wrong, 4 Postgres or Kafka does not answer; "
    "what was found waits to be told."
)


@click.command(epilog=CODES)
@click.option("--channel", help="Only this one; without it every channel with files.")
@click.option(
    "--tell/--no-tell", default=True, show_default=True, help="Send what was found to payments.query-results."
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def run(channel: str | None, tell: bool, form: str) -> None:
    """Compare bills, settlements and bank lines with what we have, and tell what was found.

    Lines that are matched stay so; every other line of an active file is compared again. Nothing is corrected here: money for an open
    payment goes to the law as evidence, and a difference becomes a discrepancy.
    """
    try:
        settings = Settings.from_env()
        topics = Topics.load(prefix=settings.topic_prefix)
    except (SettingsError, TopicsError) as wrong:
        end("recon run", WRONG_SETTING, str(wrong))
    found = using("recon run", lambda connection: _compared(connection, channel))
    if form == "text":
        for name, outcome in found.items():
            click.echo(
                printable(
                    f"{name}: "
                    + (", ".join(f"{count} {what}" for what, count in outcome.items()) or "nothing to compare")
                )
            )
    told = using("recon run", lambda connection: _told(connection, settings, topics["query-results"])) if tell else 0
    if form == "json":
        click.echo(json.dumps({"channels": found, "told": told}))
    else:
        click.echo(f"{told} events told" if tell else "nothing told")
    sys.exit(0)


async def _compared(connection: Any, channel: str | None) -> dict[str, dict[str, int]]:
    reconciler = Reconciler(connection, contracts.shipped(), DEFAULT)
    names = [channel] if channel is not None else await reconciler.channels()
    return {name: await reconciler.run(name, datetime.now(UTC)) for name in names}


async def _told(connection: Any, settings: Settings, topic: str) -> int:
    with quiet() as words:
        producer = AIOKafkaProducer(**settings.kafka, acks="all", enable_idempotence=True)
        try:
            await producer.start()
            return await publish(connection, producer, topic, datetime.now(UTC))
        except asyncpg.PostgresError:
            raise
        except (KafkaError, OSError) as error:
            end(
                "recon run",
                CANNOT_READ,
                f"{unreachable(error, words.last)}; what was found is kept and told by the next run",
            )
        finally:
            await producer.stop()
