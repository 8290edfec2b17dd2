"""`concord projector`: write the decisions into Postgres until SIGTERM or SIGINT. `rebuild` writes all of them again, beside the old.

Exit codes: 0 stopped, 2 wrong setting, 4 the books cannot be written: the last line says why, and what to do.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import asyncpg
import click
import structlog
import uvloop
from aiokafka.errors import KafkaError
from msgspec import MsgspecError
from prometheus_client import start_http_server

from stores.pool import LOST, connect, pool
from stores.rebuilding import SHADOW
from stores.schema import BOOKS, SchemaError
from stores.told import DecisionLostError
from streams import log
from streams.agents import sealing
from streams.agents.feed import BeginningLostError, Feeds, feeding
from streams.agents.finding import Finder
from streams.agents.projector import Projector
from streams.agents.projector_meters import Meters
from streams.agents.rebuilding import Rebuild, Rebuilt
from streams.cli.exits import CANNOT_READ, WRONG_SETTING
from streams.cli.printable import printable
from streams.settings import Settings, SettingsError
from streams.topics import Topics, TopicsError

if TYPE_CHECKING:
    from streams.agents.sealing import Sealer

REFUSED: Final = (
    SchemaError,
    DecisionLostError,
    BeginningLostError,
    asyncpg.PostgresError,
    KafkaError,
    MsgspecError,
)
"""What a retry does not cure: it ends the projector, which says why."""

REBUILD_S: Final = 3600.0
"""The longest statement of a rebuild: comparing a large table."""

logger: Final = structlog.get_logger(__name__)


@click.group(invoke_without_command=True)
@click.option(
    "--port", type=click.IntRange(1, 65535), help="Port of /metrics (CONCORD_WEB_PORT): give each process its own."
)
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="CONCORD_LOG_LEVEL.")
@click.pass_context
def projector(context: click.Context, port: int | None, log_level: str | None) -> None:
    """Write the decisions into Postgres, each once. Several share the partitions.

    Exit codes: 0 stopped, 2 wrong setting, 4 the books cannot be written.
    """
    if context.invoked_subcommand is not None:
        return
    try:
        settings = Settings.from_env()
        log.configure(level=log_level or settings.log_level)
        dsn, sealer = settings.require_postgres(), sealer_of(settings)
        topics = Topics.load(prefix=settings.topic_prefix)
        meters = Meters()
        start_http_server(port or settings.web_port, settings.web_host, meters.registry)
    except (SettingsError, TopicsError, sealing.SealingError, OSError) as error:
        click.echo(f"concord projector: {error}", err=True)
        sys.exit(WRONG_SETTING)
    if sealer is None:
        logger.warning("raw messages are kept without their bodies", fix="set CONCORD_RAW_KEY to a file of keys")
    sys.exit(uvloop.run(_run(settings, topics, dsn, sealer, meters)))


@projector.command()
@click.option("--check", is_flag=True, help="Compare only; the books stay as they are.")
def rebuild(check: bool) -> None:
    """Write all books again from the decisions, compare, and swap, while a projector goes on.

    Exit codes: 0 they were equal, 1 they differed, 2 wrong setting, 4 they cannot be written again.
    """
    try:
        settings = Settings.from_env()
        log.configure(level="warning")
        dsn, topics = settings.require_postgres(), Topics.load(prefix=settings.topic_prefix)
    except (SettingsError, TopicsError) as error:
        click.echo(f"concord projector rebuild: {error}", err=True)
        sys.exit(WRONG_SETTING)
    try:
        done = uvloop.run(_rebuild(settings, topics, dsn, swap=not check))
    except (*REFUSED, *LOST) as error:
        click.echo(
            f"concord projector rebuild: {type(error).__name__}: {printable(str(error))}; the books are as they were",
            err=True,
        )
        sys.exit(CANNOT_READ)
    for difference in done.differences:
        click.echo(printable(difference))
    click.echo(f"{done.records} decisions read; the books {'differed' if done.differences else 'were equal'}")
    click.echo("the new books took their place" if done.swapped else "nothing was changed")
    sys.exit(1 if done.differences else 0)


async def _rebuild(settings: Settings, topics: Topics, dsn: str, *, swap: bool) -> Rebuilt:
    decisions = topics["decisions"]
    async with AsyncExitStack() as stack:
        feed = await stack.enter_async_context(feeding(settings.kafka, Feeds(decisions, topics.dead_letters, ()), None))
        opened = []
        for schema in (BOOKS, BOOKS, SHADOW):
            opened.append(await connect(dsn, schema=schema, command_s=REBUILD_S))
            stack.push_async_callback(opened[-1].close)
        books, look, shadow = opened
        tell = partial(click.echo, err=True)
        return await Rebuild(feed, decisions, books=books, look=look, shadow=shadow, tell=tell).run(swap=swap)


def sealer_of(settings: Settings) -> Sealer | None:
    """The keys that the settings refer to, if they do."""
    return None if settings.raw_key is None else sealing.read(settings.raw_key)


def feeds(topics: Topics) -> Feeds:
    """What the books are made from."""
    return Feeds(
        topics["decisions"],
        topics.dead_letters,
        tuple(topics[name] for name in ("channel-callbacks", "query-results", "card-postings")),
    )


async def _run(settings: Settings, topics: Topics, dsn: str, sealer: Sealer | None, meters: Meters) -> int:
    code = 0
    # A batch's rows live until it is written, and by default each collection meets them all; nothing here makes cycles.
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)
    try:
        await _project(settings, topics, dsn, sealer, meters)
    except* REFUSED as trouble:
        code = _refused(trouble)
    logger.info("projector stopped")
    return code


async def _project(settings: Settings, topics: Topics, dsn: str, sealer: Sealer | None, meters: Meters) -> None:
    async with AsyncExitStack() as stack:
        connections = await stack.enter_async_context(pool(dsn))
        finder = await stack.enter_async_context(Finder(settings.kafka, topics["query-results"]))
        running = Projector(
            settings.kafka,
            f"{settings.group}-projector",
            feeds(topics),
            connections,
            sealer=sealer,
            finder=finder,
            meters=meters,
            session_s=settings.session_s,
        )
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, running.stop)
        await running.run()


def _refused(trouble: BaseExceptionGroup[Any]) -> int:
    error: BaseException = trouble
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    logger.critical("the books cannot be written", error=f"{type(error).__name__}: {error}", fix=_fix(error))
    return CANNOT_READ


def _fix(error: BaseException) -> str:
    if isinstance(error, asyncpg.IntegrityConstraintViolationError):
        return "the books contradict a decision: run `concord audit books`, then `concord projector rebuild`"
    return (
        "the message says it" if not isinstance(error, KafkaError) else "check CONCORD_KAFKA, the topics and the group"
    )
