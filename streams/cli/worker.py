"""`concord worker`: run the payment job until SIGTERM or SIGINT, then drain and leave the group.

Exit codes: 0 drained, 2 wrong setting, 3 fenced by another worker, 4 the state cannot be known, 5 the topics cannot be used, 6 the
group refused this worker, 8 the shutdown took too long. The last log line of a failure says why, and what to do.
"""

from __future__ import annotations

import socket
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import click
import faust
import uvloop

from streams import log
from streams.app import build
from streams.settings import TABLES, Settings, SettingsError
from streams.topics import TopicsError


@click.command()
@click.option(
    "--port", type=click.IntRange(1, 65535), help="Port of /healthz, /readyz and /metrics (CONCORD_WEB_PORT)."
)
@click.option("--table", type=click.Choice(TABLES), help="Where state lives (CONCORD_TABLE).")
@click.option(
    "--state-dir", type=click.Path(file_okay=False, path_type=Path), help="Folder of RocksDB tables, one per worker."
)
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="CONCORD_LOG_LEVEL.")
def worker(port: int | None, table: str | None, state_dir: Path | None, log_level: str | None) -> None:
    """Run the payment job on this worker's share of the partitions.

    Exit codes: 0 drained on SIGTERM or SIGINT, 1 the host failed, 2 wrong setting, 3 fenced by another worker, 4 the state cannot be
    known, 5 the topics cannot be used, 6 the group refused this worker, 8 the shutdown took too long.
    """
    try:
        settings = Settings.from_env()
        settings = replace(
            settings,
            web_port=settings.web_port if port is None else port,
            table=table or settings.table,
            state_dir=state_dir or settings.state_dir,
            log_level=log_level or settings.log_level,
        )
        require_local(settings)
        log.configure(level=settings.log_level)
        app = build(settings)
    except (SettingsError, TopicsError) as error:
        click.echo(f"concord worker: {error}", err=True)
        sys.exit(2)
    faust.Worker(
        app,
        loop=uvloop.new_event_loop(),
        override_logging=False,
        redirect_stdouts=False,
        quiet=True,
    ).execute_from_commandline()


def require_local(settings: Settings) -> None:
    """Raise `SettingsError` if this machine cannot give what the settings ask for: the port, and the folder of the tables."""
    try:
        with socket.create_server((settings.web_host, settings.web_port)):
            pass
    except OSError as error:
        where = f"{settings.web_host}:{settings.web_port}"
        raise SettingsError(
            f"cannot listen on {where}: {error.strerror}; give this worker another --port (CONCORD_WEB_PORT)"
        ) from error
    if settings.table == "rocksdb":
        try:
            settings.state_dir.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=settings.state_dir):
                pass
        except OSError as error:
            raise SettingsError(
                f"cannot write to {settings.state_dir}: {error.strerror}; choose another --state-dir (CONCORD_STATE_DIR)"
            ) from error
