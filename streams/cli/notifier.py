"""`concord notifier`: tell merchants what was decided, until SIGTERM or SIGINT; and what could not be told."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from datetime import UTC, datetime
from typing import Final

import click
import structlog
import uvloop
from prometheus_client import start_http_server

from stores import notifications
from streams import log
from streams.agents.notifier import Notifier, Places
from streams.agents.notifier_meters import Meters
from streams.agents.notifier_sending import Guard
from streams.cli.database import dsn, end, using
from streams.cli.printable import printable
from streams.settings import Settings, SettingsError
from streams.topics import Topics, TopicsError

NOT_DONE: Final = 1
WRONG: Final = 2
CODES: Final = (
    "Exit codes: 0 stopped or done, 1 there is no such dead notice, 2 a setting is wrong, 3 Postgres does not answer."
)

logger: Final = structlog.get_logger(__name__)


@click.group(invoke_without_command=True, epilog=CODES)
@click.option(
    "--port", type=click.IntRange(1, 65535), help="Port of /metrics (CONCORD_WEB_PORT; one for each process)."
)
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="CONCORD_LOG_LEVEL.")
@click.pass_context
def notifier(context: click.Context, port: int | None, log_level: str | None) -> None:
    """Tell merchants what was decided about their payments, at the address that `concord merchant notify` gave."""
    if context.invoked_subcommand is not None:
        return
    address = dsn("notifier")
    try:
        settings = Settings.from_env()
        log.configure(level=log_level or settings.log_level)
        logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs addresses, and what they carry
        topics = Topics.load(prefix=settings.topic_prefix)
        meters = Meters()
        start_http_server(port or settings.web_port, settings.web_host, meters.registry)
    except (SettingsError, TopicsError, OSError) as error:
        end("notifier", WRONG, str(error))
    places = Places(topics["success"], topics["updates"], topics["commands"], topics.partitions)
    uvloop.run(_run(settings, address, places, meters))
    sys.exit(0)


async def _run(settings: Settings, address: str, places: Places, meters: Meters) -> None:
    running = Notifier(
        settings.kafka, address, places, Guard(settings.notify_allow), meters=meters, now=lambda: datetime.now(UTC)
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, running.stop)
    logger.info("notifier starts", allowed=[str(one) for one in settings.notify_allow])
    await running.run()
    logger.info("notifier stopped")


@notifier.command("dead", epilog=CODES)
@click.option("--most", type=click.IntRange(1, 10_000), default=100, show_default=True)
def listed(most: int) -> None:
    """Print what was given up, the last first."""
    for one in using("notifier dead", lambda connection: notifications.dead(connection, most)):
        line = f"{one.handled_at:%Y-%m-%dT%H:%M:%SZ}  {one.id}  {one.type}  {one.merchant}  {one.payment_no}  {one.last_error}"
        click.echo(printable(line))


@notifier.command("again", epilog=CODES)
@click.argument("webhook_id")
def repeated(webhook_id: str) -> None:
    """Deliver a dead notice after all, under its own id and from the beginning of the series."""
    now = datetime.now(UTC)
    if not using("notifier again", lambda connection: notifications.again(connection, webhook_id, now)):
        end("notifier again", NOT_DONE, f"there is no dead notice {webhook_id}; see `concord notifier dead`")
    click.echo(f"{webhook_id} is on its way again")
