"""A connection to the review desk's tables for a command; whatever keeps it from one is a message with the fix, and an exit code."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import asyncpg
import click

from streams.settings import Settings, SettingsError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")
WRONG_SETTING: Final = 2
NO_POSTGRES: Final = 3
CONNECT_S: Final = 5.0
NAMES: Final = {"search_path": "books, concord, public", "TimeZone": "UTC"}


def at_desk(command: str, work: Callable[[Any], Awaitable[T]]) -> T:
    """What `work` makes of a connection. A failure ends the process: 2 for a wrong setting or value, 3 for Postgres."""
    try:
        dsn = Settings.from_env().postgres
    except SettingsError as error:
        _end(command, WRONG_SETTING, str(error))
    if not dsn:
        _end(command, WRONG_SETTING, "CONCORD_POSTGRES is empty; use postgresql://user@host:port/database")
    try:
        return asyncio.run(_work(dsn, work))
    except asyncpg.CheckViolationError as error:
        _end(command, WRONG_SETTING, f"{error.constraint_name}: use the form that the documentation gives")
    except asyncpg.UndefinedTableError as error:
        _end(command, NO_POSTGRES, f"{error}; run the migrations")
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError, ValueError) as error:
        _end(command, NO_POSTGRES, f"Postgres cannot be used: {type(error).__name__}; is it at CONCORD_POSTGRES?")


async def _work(dsn: str, work: Callable[[Any], Awaitable[T]]) -> T:
    connection = await asyncpg.connect(dsn, timeout=CONNECT_S, server_settings=NAMES)
    try:
        return await work(connection)
    finally:
        await connection.close()


def _end(command: str, code: int, why: str) -> NoReturn:
    click.echo(f"concord {command}: {why}", err=True)
    sys.exit(code)
