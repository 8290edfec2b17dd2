"""The shape of the database: numbered migrations, each run once, in one transaction, by whoever comes first.

A file `NNNN_name.sql` says in its first line where its tables live: `-- schema: books` for the projection, which can be built again
beside itself (see `rebuilding`); anything else lives in `public`. What ran is remembered with its SHA-256. A file that changed after
it ran, and one that this release does not know, are refused: nobody can say what the tables are then.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import asyncpg
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

Connection: TypeAlias = Any
"""An asyncpg connection or pool; the library publishes no types."""

BOOKS: Final = "books"
"""The schema of the projection."""
LOCK: Final = 0x636F6E636F7264
"""The advisory lock under which the schema changes."""
FILE: Final = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")
HEAD: Final = "-- schema: "


class SchemaError(Exception):
    """The database is not what this release can use; the text says which migration, and the fix."""


class Migration(Struct, frozen=True):
    """One file. `schema` is where its unqualified names live."""

    number: int
    name: str
    sql: str
    schema: str = "public"

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()

    @property
    def file(self) -> str:
        return f"{self.number:04}_{self.name}.sql"


def shipped() -> tuple[Migration, ...]:
    """The migrations of this release, in order. Raises `SchemaError` for a file that cannot be one."""
    folder = resources.files("stores").joinpath("migrations")
    found = [_read(entry.name, entry.read_text(encoding="utf-8")) for entry in folder.iterdir() if _is_sql(entry.name)]
    ordered = tuple(sorted(found, key=lambda one: one.number))
    for one, after in itertools.pairwise(ordered):
        if one.number == after.number:
            raise SchemaError(
                f"migration {one.number:04}: {one.file} and {after.file} have one number; give one another"
            )
    return ordered


def _is_sql(name: str) -> bool:
    return name.endswith(".sql")


def _read(name: str, sql: str) -> Migration:
    match = FILE.fullmatch(name)
    if match is None:
        raise SchemaError(f"migration {name}: name it NNNN_what_it_makes.sql")
    first = sql.partition("\n")[0]
    schema = first.removeprefix(HEAD).strip() if first.startswith(HEAD) else "public"
    if schema not in {"public", BOOKS}:
        raise SchemaError(f"migration {name}: schema is {schema!r}; use {BOOKS!r}, or leave the line out for public")
    return Migration(int(match[1]), match[2], sql, schema)


_REMEMBERED: Final = """
CREATE TABLE IF NOT EXISTS public.schema_migrations (
    number integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL, applied_at timestamptz NOT NULL
)
"""
_APPLIED: Final = "SELECT number, name, checksum FROM public.schema_migrations ORDER BY number"


async def migrate(
    connection: Connection, at: datetime, migrations: Sequence[Migration] | None = None
) -> list[Migration]:
    """Run what has not run yet; what ran now. `at` is now, UTC. Several may call it at once: one does the work, the others wait.

    Raises `SchemaError` before anything runs, where what ran before is not what this release has.
    """
    migrations = shipped() if migrations is None else migrations
    done: list[Migration] = []
    while True:
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
            await connection.execute(_REMEMBERED)
            waiting = _waiting(await connection.fetch(_APPLIED), migrations)
            if not waiting:
                return done
            await _run(connection, waiting[0], at)
            done.append(waiting[0])


async def _run(connection: Connection, migration: Migration, at: datetime) -> None:
    await apply(connection, migration, migration.schema)
    await connection.execute(
        "INSERT INTO public.schema_migrations (number, name, checksum, applied_at) VALUES ($1, $2, $3, $4)",
        migration.number,
        migration.name,
        migration.checksum,
        at,
    )


async def apply(connection: Connection, migration: Migration, schema: str) -> None:
    """Run the file with its names in `schema`, inside the caller's transaction."""
    await connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
    await connection.execute("SELECT set_config('search_path', $1, true)", schema)
    try:
        await connection.execute(migration.sql)
    except asyncpg.PostgresError as error:
        raise SchemaError(f"migration {migration.file}: {error}; nothing of it was kept") from error
    await settle(connection, schema)


async def settle(connection: Connection, schema: str) -> None:
    """Bind the schema's functions to it, so that no caller's search path leads them elsewhere."""
    if schema == "public":
        return
    for row in await connection.fetch(
        "SELECT oid::regprocedure AS name FROM pg_proc WHERE pronamespace = $1::regnamespace", schema
    ):
        await connection.execute(f'ALTER FUNCTION {row["name"]} SET search_path = "{schema}"')


def _waiting(applied: Sequence[Any], migrations: Sequence[Migration]) -> list[Migration]:
    """What has to run, in order. Raises `SchemaError`."""
    known = {one.number: one for one in migrations}
    for row in applied:
        one = known.pop(row["number"], None)
        name = f"{row['number']:04}_{row['name']}.sql"
        if one is None:
            raise SchemaError(
                f"migration {name} ran here, and this release does not know it; run the release that has it"
            )
        if one.checksum != row["checksum"]:
            raise SchemaError(
                f"migration {name} was changed after it ran here (SHA-256 {row['checksum'][:12]} then, {one.checksum[:12]} now); "
                "put the file back, and make the change a migration of its own"
            )
    return list(known.values())


async def check(connection: Connection, migrations: Sequence[Migration] | None = None) -> list[Migration]:
    """What has not run yet; nothing is changed. Raises `SchemaError` as `migrate` does."""
    migrations = shipped() if migrations is None else migrations
    there = await connection.fetchval("SELECT to_regclass('public.schema_migrations') IS NOT NULL")
    return _waiting(await connection.fetch(_APPLIED) if there else [], migrations)


async def require(connection: Connection) -> None:
    """Raise `SchemaError` unless everything has run."""
    if waiting := await check(connection):
        raise SchemaError(f"migration {waiting[0].file} has not run here; run `concord db migrate`")
