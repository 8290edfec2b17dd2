"""`concord health`: the numbers that should be near zero, once for cron, or served for Prometheus."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import asyncpg
import click
import msgspec
import structlog
from aiokafka.errors import KafkaError
from prometheus_client import CollectorRegistry, start_http_server

from stores.pool import LOST, connect
from streams import log
from streams.agents.health import HealthCollector, Limits, Measured, judge, measure
from streams.cli.database import dsn, end, using
from streams.cli.exits import CANNOT_READ, WRONG_SETTING
from streams.settings import Settings, SettingsError
from streams.topics import Topics, TopicsError

if TYPE_CHECKING:
    from collections.abc import Callable

NOT_WELL: Final = 1
DEFAULTS: Final = Limits()
CODES: Final = "Exit codes: 0 all is well, 1 a number is beyond its limit, 2 a setting is wrong, 4 Postgres or Kafka does not answer."

logger: Final = structlog.get_logger(__name__)


def limits(command: Callable[..., None]) -> Callable[..., None]:
    """An option for each limit."""
    for name in reversed(Limits.__struct_fields__):
        flag, default = f"--{name.replace('_', '-')}", getattr(DEFAULTS, name)
        command = click.option(flag, type=click.IntRange(0), default=default, show_default=True)(command)
    return command


@click.command(epilog=CODES)
@limits
@click.option("--json", "as_json", is_flag=True, help="The figures as one JSON object.")
@click.option(
    "--serve", type=click.IntRange(1, 65535), help="Serve /metrics on this port, measured every 15 s, until ended."
)
def health(*, as_json: bool, serve: int | None, **given: int) -> None:
    """Print each number beside its limit; for cron, by the exit code. The limits are options."""
    address = dsn("health")
    try:
        settings = Settings.from_env()
        topics = Topics.load(prefix=settings.topic_prefix)
    except (SettingsError, TopicsError) as error:
        end("health", WRONG_SETTING, str(error))
    if serve:
        log.configure(level=settings.log_level)
        _serve(settings, topics, address, serve)
        return
    try:
        measured = using("health", lambda connection: _measure(connection, settings, topics))
    except KafkaError as error:
        end("health", CANNOT_READ, f"Kafka: {type(error).__name__}; is it at CONCORD_KAFKA?")
    found = judge(measured, Limits(**given))
    if as_json:
        click.echo(msgspec.json.encode(measured).decode())
    else:
        for one in found:
            click.echo(f"{'ok  ' if one.well else 'HIGH'}  {one.found:>9}  at most {one.most:>7}  {one.name}")
    sys.exit(0 if all(one.well for one in found) else NOT_WELL)


async def _measure(connection: Any, settings: Settings, topics: Topics) -> Measured:
    return await measure(connection, settings.kafka, topics["decisions"], topics.partitions, datetime.now(UTC))


EVERY_S: Final = 15.0


def _serve(settings: Settings, topics: Topics, address: str, port: int) -> None:
    collector, registry = HealthCollector(), CollectorRegistry()
    registry.register(collector)
    start_http_server(port, settings.web_host, registry)
    asyncio.run(_keep(collector, settings, topics, address))


async def _keep(collector: HealthCollector, settings: Settings, topics: Topics, address: str) -> None:
    """Measure again and again; what cannot be measured is not served."""
    while True:
        try:
            connection = await connect(address)
            try:
                collector.measured = await _measure(connection, settings, topics)
            finally:
                connection.terminate()
        except (asyncpg.PostgresError, KafkaError, *LOST) as error:
            collector.measured = None
            logger.warning("the figures could not be measured", error=f"{type(error).__name__}: {error}")
        await asyncio.sleep(EVERY_S)
