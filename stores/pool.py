"""The one door to Postgres: a bounded pool whose unqualified names are the books, then what people keep.

Every wait has an end: for a free connection, to connect, for a statement, for a lock. `lost` tells an outage, which passes, from a
mistake, which does not.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, TypeVar

import asyncpg

from stores.schema import BOOKS, Connection

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

CONNECT_S: Final = 5.0
COMMAND_S: Final = 60.0
LOCK_S: Final = 30.0

LOST: Final = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.OperatorInterventionError,
    asyncpg.TransactionRollbackError,
    asyncpg.InsufficientResourcesError,
    asyncpg.LockNotAvailableError,
    OSError,
    TimeoutError,
)
"""What passes: the server is away or busy, or a transaction lost a race. A retry in a new transaction is right."""


class Unreachable(Exception):  # noqa: N818  a state of the database
    """Postgres does not answer, or has not the tables; the text says which."""


def pool(dsn: str, *, largest: int = 4, schema: str = BOOKS, command_s: float = COMMAND_S) -> Connection:
    """A pool that connects when it is used; to be entered by `async with`. Times are seconds."""
    return asyncpg.create_pool(dsn, min_size=0, max_size=largest, **options(schema, command_s))


async def connect(dsn: str, *, schema: str = BOOKS, command_s: float = COMMAND_S) -> Connection:
    """One connection with the bounds of the pool."""
    return await asyncpg.connect(dsn, **options(schema, command_s))


async def reached(connections: Connection, work: Callable[[Connection], Awaitable[T]], within_s: float = 10.0) -> T:
    """What `work` makes of a connection of the pool. Raises `Unreachable`, in so many seconds, where Postgres cannot do it."""
    try:
        async with asyncio.timeout(within_s), connections.acquire() as connection:
            return await work(connection)
    except asyncpg.UndefinedTableError as error:
        raise Unreachable(f"{error}; run `concord db migrate`") from error
    except (asyncpg.PostgresError, *LOST) as error:
        raise Unreachable(f"Postgres: {type(error).__name__}") from error


def options(schema: str = BOOKS, command_s: float = COMMAND_S) -> dict[str, Any]:
    """Keyword arguments of asyncpg: bounds, UTC, and where names are looked up."""
    return {
        "timeout": CONNECT_S,
        "command_timeout": command_s,
        "server_settings": {
            "application_name": "concord",
            "search_path": f"{schema}, public",
            "timezone": "UTC",
            "lock_timeout": str(int(LOCK_S * 1000)),
            "idle_in_transaction_session_timeout": str(int(2 * command_s * 1000)),
        },
    }
