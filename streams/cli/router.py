"""`concord router`: send what a channel did not accept to the next one, until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import signal
import sys
from datetime import UTC, datetime

import click
import uvloop
from prometheus_client import start_http_server

from streams import log
from streams.agents.router import Router
from streams.agents.router_meters import Meters
from streams.channels.contracts import ContractsError, shipped
from streams.cli.database import dsn, end
from streams.cli.exits import WRONG_SETTING
from streams.settings import Settings, SettingsError
from streams.topics import Topics, TopicsError


@click.command(epilog="Exit codes: 0 stopped, 2 a setting is wrong. Kafka and Postgres that are away are waited for.")
@click.option("--port", type=click.IntRange(1, 65535), help="Serve /metrics on this port; else there are none.")
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="CONCORD_LOG_LEVEL.")
def router(port: int | None, log_level: str | None) -> None:
    """Answer refused attempts of routed payments: at most three channels, one at a time, each through the law's gate."""
    address = dsn("router")
    try:
        settings = Settings.from_env()
        log.configure(level=log_level or settings.log_level)
        topics = Topics.load(prefix=settings.topic_prefix)
        contracts, meters = shipped(), Meters()
        if port is not None:
            start_http_server(port, settings.web_host, meters.registry)
    except (SettingsError, TopicsError, ContractsError, OSError) as error:
        end("router", WRONG_SETTING, str(error))
    running = Router(
        settings.kafka,
        address,
        group=f"{settings.group}-router",
        session_s=settings.session_s,
        decisions=topics["decisions"],
        commands=topics["commands"],
        contracts=contracts,
        meters=meters,
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
