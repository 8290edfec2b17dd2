"""`concord db`: the tables in Postgres. `migrate` makes them what this release needs, `check` says whether they are.

Exit codes: 0 they are, 1 something has not run yet (`check`), 2 a wrong setting, 4 Postgres cannot be reached, or holds what this
release cannot use.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import asyncpg
import click

from stores import schema
from stores.pool import LOST, connect
from streams.cli.exits import CANNOT_READ, WRONG_SETTING
from streams.cli.printable import printable
from streams.settings import Settings, SettingsError

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

NOT_YET: Final = 1


@click.group()
def db() -> None:
    """The tables in Postgres."""


@db.command()
def migrate() -> None:
    """Run the migrations that have not run yet, each once and whole. Safe to run from several places at once."""
    done = _run(_migrate(_dsn()))
    for one in done:
        click.echo(f"ran {one.file}")
    click.echo(f"{len(done)} migrations ran" if done else "nothing to do")


@db.command()
def check() -> None:
    """Say what has not run yet; change nothing."""
    waiting = _run(_check(_dsn()))
    for one in waiting:
        click.echo(f"has not run: {one.file}")
    if waiting:
        sys.exit(NOT_YET)
    click.echo(f"all {len(schema.shipped())} migrations ran")


async def _migrate(dsn: str) -> list[schema.Migration]:
    connection = await connect(dsn)
    try:
        return await schema.migrate(connection, datetime.now(UTC))
    finally:
        await connection.close()


async def _check(dsn: str) -> list[schema.Migration]:
    connection = await connect(dsn)
    try:
        return await schema.check(connection)
    finally:
        await connection.close()


def _dsn() -> str:
    try:
        return Settings.from_env().require_postgres()
    except SettingsError as error:
        click.echo(f"concord db: {error}", err=True)
        sys.exit(WRONG_SETTING)


def _run(work: Coroutine[Any, Any, list[schema.Migration]]) -> list[schema.Migration]:
    try:
        return asyncio.run(work)
    except schema.SchemaError as error:
        click.echo(f"concord db: {error}", err=True)
    except (asyncpg.PostgresError, *LOST) as error:
        why = printable(str(error) or type(error).__name__)
        click.echo(f"concord db: Postgres: {why}; set CONCORD_POSTGRES, or run `concord dev up`", err=True)
    sys.exit(CANNOT_READ)
