"""A connection to Postgres for a command; whatever keeps it from one is a message with the fix, and an exit code."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import asyncpg
import click

from stores.pool import LOST, Unreachable, connect
from stores.schema import SchemaError
from streams.cli.exits import CANNOT_READ, WRONG_SETTING
from streams.cli.printable import printable
from streams.settings import Settings, SettingsError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")


def using(command: str, work: Callable[[Any], Awaitable[T]]) -> T:
    """What `work` makes of a connection. A failure ends the process: 2 for a wrong setting or value, 4 for Postgres."""
    try:
        return asyncio.run(_work(dsn(command), work))
    except asyncpg.CheckViolationError as error:
        end(command, WRONG_SETTING, f"{error.constraint_name}: {error}; use the form that docs/cashier.md gives")
    except asyncpg.UndefinedTableError as error:
        end(command, CANNOT_READ, f"{error}; run `concord db migrate`")
    except SchemaError as error:
        end(command, CANNOT_READ, str(error))
    except (Unreachable, asyncpg.PostgresError, *LOST) as error:
        why = printable(str(error) or type(error).__name__)
        end(command, CANNOT_READ, f"Postgres: {why}; set CONCORD_POSTGRES, or run `concord dev up`")


def dsn(command: str) -> str:
    """Where Postgres is, by the settings; without one the process ends."""
    try:
        return Settings.from_env().require_postgres()
    except SettingsError as error:
        end(command, WRONG_SETTING, str(error))


def end(command: str, code: int, why: str) -> NoReturn:
    """Say why, and end the process."""
    click.echo(f"concord {command}: {why}", err=True)
    sys.exit(code)


async def _work(address: str, work: Callable[[Any], Awaitable[T]]) -> T:
    connection = await connect(address)
    try:
        return await work(connection)
    finally:
        await connection.close()
