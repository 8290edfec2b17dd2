"""The demonstration's last part: a projector writes what was decided into Postgres, and the books are audited against the state topic.

Both are the real commands, on a database of the demonstration's own.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import asyncpg

from stores import schema
from stores.pool import LOST, connect
from streams.dev import ports

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

SETTLE_S: Final = 120
END_S: Final = 20.0


class BooksError(RuntimeError):
    """The books could not be made; the text says why and where to look."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """What the audit of the books said. `rows` are what the tables hold, by their names."""

    code: int
    said: list[str]
    rows: dict[str, int]
    seconds: float


async def remember(env: Mapping[str, str], postgres: str, name: str, folder: Path) -> Remembered:
    """Write the books of the topics that `env` names into a new database at `postgres`, audit them, and drop it again.

    Raises `BooksError`.
    """
    began = time.monotonic()
    try:
        async with _database(postgres, name) as dsn, _projector({**env, "CONCORD_POSTGRES": dsn}, folder):
            code, said = await _audited({**env, "CONCORD_POSTGRES": dsn})
            return Remembered(code, said, await _counted(dsn), time.monotonic() - began)
    except (asyncpg.PostgresError, *LOST) as error:
        raise BooksError(f"Postgres: {error or type(error).__name__}; see {folder / 'projector.log'}") from error


@asynccontextmanager
async def _database(postgres: str, name: str) -> AsyncIterator[str]:
    admin = await connect(postgres)
    try:
        await admin.execute(f'CREATE DATABASE "{name}"')
        dsn = urlsplit(postgres)._replace(path=f"/{name}").geturl()
        connection = await connect(dsn)
        try:
            await schema.migrate(connection, datetime.now(UTC))
        finally:
            await connection.close()
        yield dsn
    finally:
        await admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        await admin.close()


@asynccontextmanager
async def _projector(env: Mapping[str, str], folder: Path) -> AsyncIterator[None]:
    with (folder / "projector.log").open("wb") as log:
        process = subprocess.Popen(  # noqa: ASYNC220, S603  our own command, which does not keep the loop waiting
            [sys.executable, "-m", "streams", "projector", "--port", str(ports.free(1)[0])],
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            await asyncio.to_thread(process.wait, END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


async def _audited(env: Mapping[str, str]) -> tuple[int, list[str]]:
    """`concord audit books`, which waits until the books are as far as the state topic."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "streams", "audit", "books", "--settle", str(SETTLE_S)),
        env={**os.environ, **env},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    return process.returncode or 0, said.decode(errors="replace").splitlines()


async def _counted(dsn: str) -> dict[str, int]:
    connection = await connect(dsn)
    try:
        return {
            table: await connection.fetchval(f"SELECT count(*) FROM {table}")  # noqa: S608  our own names
            for table in ("decisions", "payments", "inbox", "ledger_entries", "discrepancies")
        }
    finally:
        await connection.close()
