"""`concord gateway`: take in what channels tell, until SIGTERM or SIGINT, then finish what is in flight and end."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
import uvloop

from stores import merchants
from stores.books import Reader
from stores.pool import pool
from streams import log
from streams.agents import intake
from streams.channels import registry
from streams.channels.accounts import Accounts, AccountsError
from streams.channels.contracts import ContractsError, shipped
from streams.gateway.service import Gateway, listen
from streams.settings import Settings, SettingsError
from streams.topics import Topics, TopicsError

if TYPE_CHECKING:
    import socket

    from streams.channels.contracts import Catalogue

UNUSABLE_TOPICS = 5
NOT_FLUSHED = 8
CODES = (
    "Exit codes: 0 stopped, 2 a setting, an account or its credentials cannot be used, 5 the topics cannot be used, "
    "8 not everything in flight could be stored in time."
)


@click.command(epilog=CODES)
@click.option("--host", help="Address to listen on (CONCORD_GATEWAY_HOST).")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on (CONCORD_GATEWAY_PORT).")
@click.option(
    "--channels", type=click.Path(dir_okay=False, path_type=Path), help="The accounts file (CONCORD_CHANNELS)."
)
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="CONCORD_LOG_LEVEL.")
def gateway(host: str | None, port: int | None, channels: Path | None, log_level: str | None) -> None:
    """Verify callbacks, store them, and only then acknowledge them: POST /callbacks/{channel}/{account}.

    With CONCORD_POSTGRES it is the cashier, too: /v1, described by /v1/openapi.json.
    """
    try:
        settings = Settings.from_env()
        settings = replace(
            settings,
            gateway_host=host or settings.gateway_host,
            gateway_port=settings.gateway_port if port is None else port,
            channels=channels or settings.channels,
            log_level=log_level or settings.log_level,
        )
        log.configure(level=settings.log_level)
        accounts = Accounts(settings.channels, registry.adapter)
        accounts.load()
        topics = Topics.load(prefix=settings.topic_prefix, replication=settings.replication)
        contracts = shipped()
    except (SettingsError, TopicsError, AccountsError, ContractsError) as error:
        click.echo(f"concord gateway: {error}", err=True)
        sys.exit(2)
    try:
        listener = listen(settings.gateway_host, settings.gateway_port)
    except OSError as error:
        where = f"{settings.gateway_host}:{settings.gateway_port}"
        click.echo(f"concord gateway: cannot listen on {where}: {error.strerror}; give another --port", err=True)
        sys.exit(2)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        code = runner.run(_run(settings, topics, accounts, contracts, listener))
        if code:
            sys.stderr.flush()
            os._exit(code)  # what could not be stopped in time shall not hold up the end
    sys.exit(code)


async def _run(
    settings: Settings, topics: Topics, accounts: Accounts, contracts: Catalogue, listener: socket.socket
) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stop.set)
    gc.freeze()  # modules and contracts live to the end: the collector need not look at them again
    # A notice's objects live until Kafka has it, and by default each collection meets them all.
    gc.set_threshold(100_000, 20, 50)
    async with AsyncExitStack() as stack:
        load = books = connections = None
        if settings.postgres:
            connections = await stack.enter_async_context(pool(settings.postgres, command_s=merchants.WITHIN_S))
            load, books = partial(merchants.register, connections), Reader(connections)
        running = Gateway(
            settings,
            topics,
            accounts,
            contracts=contracts,
            recording=intake,
            merchants=load,
            books=books,
            connections=connections,
        )
        try:
            flushed = await running.run(listener, stop)
        except TopicsError as error:
            click.echo(f"concord gateway: {error}", err=True)
            return UNUSABLE_TOPICS
    return 0 if flushed else NOT_FLUSHED
