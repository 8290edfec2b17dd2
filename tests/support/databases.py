"""Databases of a test's own on the run's Postgres. Nothing of the law is imported here: every test imports this."""

from __future__ import annotations

import secrets
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import asyncpg

from stores import schema
from stores.pool import connect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def database(dsn: str) -> AsyncIterator[str]:
    """The DSN of a new, empty database, dropped at the end."""
    name = f"t{secrets.token_hex(6)}"
    await _execute(dsn, f"CREATE DATABASE {name}")
    try:
        yield urlsplit(dsn)._replace(path=f"/{name}").geturl()
    finally:
        await _execute(dsn, f"DROP DATABASE {name} WITH (FORCE)")


@asynccontextmanager
async def books(dsn: str) -> AsyncIterator[str]:
    """A database with the tables in it."""
    async with database(dsn) as name:
        connection = await connect(name)
        try:
            await schema.migrate(connection, datetime(2026, 1, 1, tzinfo=UTC))
        finally:
            await connection.close()
        yield name


async def _execute(dsn: str, sql: str) -> None:
    connection = await asyncpg.connect(dsn, timeout=10)
    try:
        await connection.execute(sql)
    finally:
        await connection.close()
