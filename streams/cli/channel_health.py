"""`concord channel-health`: watch channels until SIGTERM or SIGINT. Approximate by design; no verdict depends on it."""

from __future__ import annotations

import sys
from dataclasses import replace

import click
import faust
import uvloop

from streams import log
from streams.agents.channel_health import build
from streams.cli.worker import require_local
from streams.settings import Settings, SettingsError
from streams.topics import Topics, TopicsError


@click.command(epilog="Exit codes: 0 stopped, 1 the host failed, 2 a setting is wrong.")
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    help="Port of /healthz and /metrics (CONCORD_WEB_PORT; one for each process).",
)
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="CONCORD_LOG_LEVEL.")
def channel_health(port: int | None, log_level: str | None) -> None:
    """Keep the success rate, latency and failures of every channel account over the last half hour.

    Published to payments.channel-health, and with CONCORD_POSTGRES to the tables that routing reads.
    """
    try:
        settings = Settings.from_env()
        settings = replace(settings, web_port=port or settings.web_port, log_level=log_level or settings.log_level)
        require_local(settings)
        _folder(settings)
        log.configure(level=settings.log_level)
        app = build(settings, Topics.load(prefix=settings.topic_prefix, replication=settings.replication))
    except (SettingsError, TopicsError) as error:
        click.echo(f"concord channel-health: {error}", err=True)
        sys.exit(2)
    faust.Worker(
        app,
        loop=uvloop.new_event_loop(),
        override_logging=False,
        redirect_stdouts=False,
        quiet=True,
    ).execute_from_commandline()


def _folder(settings: Settings) -> None:
    """The host wants a folder, though the tables are in memory and in Kafka."""
    try:
        settings.state_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(
            f"CONCORD_STATE_DIR={settings.state_dir}: cannot be made: {error}; choose another"
        ) from error
