"""`concord router`: send what a channel did not accept to the next one, until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import signal
import sys
from datetime import UTC, datetime

import click
import uvloop

from streams import log
from streams.agents.router import Router
from streams.channels.contracts import ContractsError, shipped
from streams.cli.database import dsn, end
from streams.cli.exits import WRONG_SETTING
from streams.settings import Settings, SettingsError
from streams.topics import Topics, TopicsError


@click.command(epilog="Exit codes: 0 stopped, 2 a setting is wrong. Kafka and Postgres that are away are waited for.")
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="CONCORD_LOG_LEVEL.")
def router(log_level: str | None) -> None:
    """Answer refused attempts of routed payments: at most three channels, one at a time, each through the law's gate."""
    address = dsn("router")
    try:
        settings = Settings.from_env()
        log.configure(level=log_level or settings.log_level)
        topics = Topics.load(prefix=settings.topic_prefix)
        contracts = shipped()
    except (SettingsError, TopicsError, ContractsError) as error:
        end("router", WRONG_SETTING, str(error))
    running = Router(
        settings.kafka,
        address,
        group=f"{settings.group}-router",
        session_s=settings.session_s,
        decisions=topics["decisions"],
        commands=topics["commands"],
        contracts=contracts,
        now=lambda: datetime.now(UTC),
    )
    uvloop.run(_run(running))
    sys.exit(0)


async def _run(running: Router) -> None:
    task = asyncio.create_task(running.run(), name="router")
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    await asyncio.wait({task})
    if not task.cancelled():
        task.result()
