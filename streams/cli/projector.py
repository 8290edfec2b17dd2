"""`concord projector`: write the decisions into Postgres until SIGTERM or SIGINT. `rebuild` writes all of them again, beside the old.

Exit codes: 0 stopped, 2 wrong setting, 4 the books cannot be written: the last line says why, and what to do.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

import asyncpg
import click
import structlog
import uvloop
from aiokafka.errors import KafkaError
from msgspec import MsgspecError
from prometheus_client import start_http_server

from stores.pool import pool
from stores.schema import SchemaError
from stores.told import DecisionLostError
from streams import log
from streams.agents import sealing
from streams.agents.feed import BeginningLostError, Feeds
from streams.agents.finding import Finder
from streams.agents.projector import Projector
from streams.agents.projector_meters import Meters
from streams.cli.exits import CANNOT_READ, WRONG_SETTING
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
