"""`concord connector`: send requests to the channels and bring their answers back, until SIGTERM or SIGINT, then drain and leave.

Exit codes: 0 drained, 2 wrong setting or accounts, 4 the broker refused, or a bug: the last log line says which.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import structlog
import uvloop
from aiokafka.errors import KafkaError

from streams import log
from streams.agents.connector import Connector, Outlet
from streams.agents.connector_meters import Meters
from streams.channels import registry
from streams.channels.accounts import Accounts, AccountsError, Live
from streams.gateway.app import application, pages
from streams.gateway.server import server
from streams.gateway.service import listen
from streams.settings import Settings, SettingsError
from streams.topics import Topics, TopicsError

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator

    from streams.channels.requests import AnyRequests

REFRESH_S: Final = 10.0
FAILED: Final = 4
PAGE_S: Final = 5.0
"""How long the headers of a request for a page may take, and what is being answered at the end."""

logger: Final = structlog.get_logger(__name__)


@click.command()
@click.option(
    "--channels", type=click.Path(dir_okay=False, path_type=Path), help="The accounts file (CONCORD_CHANNELS)."
)
@click.option(
    "--group", help="Consumer group; connectors of other accounts need another one. Default: <CONCORD_GROUP>-connector."
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    help="Port of /healthz, /readyz and /metrics (CONCORD_WEB_PORT, as a worker's: give each process its own).",
)
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="CONCORD_LOG_LEVEL.")
def connector(channels: Path | None, group: str | None, port: int | None, log_level: str | None) -> None:
    """Send the requests of the configured accounts to their channels, and bring the answers back.

    Exit codes: 0 drained, 2 wrong setting or accounts, 4 the broker refused, or a bug.
    """
    try:
        settings = Settings.from_env()
        log.configure(level=log_level or settings.log_level)
        logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs addresses, and what they carry
        found = Accounts(channels or settings.channels, registry.adapter)
        found.load()
        topics = Topics.load(prefix=settings.topic_prefix)
    except (SettingsError, TopicsError, AccountsError) as error:
        click.echo(f"concord connector: {error}", err=True)
        sys.exit(2)
    wanted = {live.account.name for live in found.all if live.account.channel in registry.ASKED}
    if not wanted:
        click.echo(f"concord connector: {found.path} has no account at {', '.join(registry.ASKED)}", err=True)
        sys.exit(2)
    port = port or settings.web_port
    try:
        listener = listen(settings.web_host, port)
    except OSError as error:
        where = f"{settings.web_host}:{port}"
        click.echo(f"concord connector: cannot listen on {where}: {error.strerror}; give another --port", err=True)
        sys.exit(2)
    sys.exit(uvloop.run(_run(found, settings, topics, group or f"{settings.group}-connector", listener)))


def outlet(accounts: Accounts, name: str) -> Outlet | None:
    """Where the requests of `channel:account` go, if it is configured and its channel can be asked."""
    channel, _, account = name.partition(":")
    live = accounts.get(channel, account)
    return None if live is None or channel not in registry.ASKED else _open(live, registry.requests(channel))


def _open(live: Live, requests: AnyRequests) -> Outlet:
    endpoint = (live.account.endpoint or requests.endpoint).rstrip("/")
    return Outlet(live.account.account, requests, live.contract, live.keys, endpoint)


async def _run(accounts: Accounts, settings: Settings, topics: Topics, group: str, listener: socket.socket) -> int:
    meters = Meters()
    asked = [live for live in accounts.all if live.account.channel in registry.ASKED]
    running = Connector(
        settings.kafka,
        group,
        (topics["channel-requests"], topics["query-results"]),
        lambda name: outlet(accounts, name),
        meters,
        limit=min(live.contract.concurrency for live in asked),
        longest_lease_s=max(live.contract.lease_s for live in asked),
        session_s=settings.session_s,
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, running.stop)
    refreshing = asyncio.create_task(_refresh(accounts))
    logger.info("connector starts", group=group, accounts=sorted(live.account.name for live in asked))
    try:
        async with _served(listener, meters, running):
            await running.run()
    except KafkaError as error:
        logger.critical("the broker refused", error=repr(error), fix="check CONCORD_KAFKA, the topics and the group")
        return FAILED
    finally:
        refreshing.cancel()
    logger.info("connector stopped")
    return 0


@asynccontextmanager
async def _served(listener: socket.socket, meters: Meters, running: Connector) -> AsyncIterator[None]:
    """The pages, from the loop that does the work: while it hangs, /healthz does not answer."""
    host, port = listener.getsockname()[:2]
    app = application(pages(meters.registry, running.trouble))
    serving = server(app, host=host, port=port, header_s=PAGE_S, stop_s=PAGE_S)
    task = asyncio.create_task(serving.serve([listener]), name="pages")
    try:
        yield
    finally:
        serving.should_exit = True
        await task


async def _refresh(accounts: Accounts) -> None:
    """Keys that were rotated are read without a restart; what cannot be read leaves the former ones."""
    while True:
        await asyncio.sleep(REFRESH_S)
        for news in await asyncio.to_thread(accounts.refresh):
            logger.info("accounts", news=news)
