"""The migrations on a real Postgres: once each, by one of many, and never over what somebody changed."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import asyncpg
import pytest

from stores import schema
from stores.pool import connect
from stores.schema import Migration, SchemaError
from tests.support.databases import database

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from streams.dev.services import Postgres

pytestmark = pytest.mark.postgres
AT = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
async def dsn(postgres: Postgres) -> AsyncIterator[str]:
    async with database(postgres.dsn) as name:
        yield name


@pytest.fixture
async def connection(dsn: str):
    one = await connect(dsn)
    yield one
    await one.close()


async def test_every_migration_runs_once_and_a_second_run_does_nothing(connection):
    assert await schema.check(connection) == list(schema.shipped())
    assert await schema.migrate(connection, AT) == list(schema.shipped())
    assert await schema.migrate(connection, AT) == []
    assert await schema.check(connection) == []
    await schema.require(connection)


async def test_of_many_at_once_each_migration_is_run_by_one(dsn: str):
    several = [await connect(dsn) for _ in range(4)]
    done = await asyncio.gather(*(schema.migrate(one, AT) for one in several))
    assert sorted(one.number for part in done for one in part) == [one.number for one in schema.shipped()]
    for one in several:
        await one.close()


async def test_a_migration_that_was_changed_after_it_ran_is_refused(connection):
    await schema.migrate(connection, AT, [Migration(1, "one", "CREATE TABLE a ()")])
    with pytest.raises(SchemaError, match=r"0001_one\.sql was changed after it ran"):
        await schema.migrate(
            connection, AT, [Migration(1, "one", "CREATE TABLE b ()"), Migration(2, "two", "SELECT 1")]
        )


async def test_a_migration_of_a_later_release_is_refused(connection):
    await schema.migrate(connection, AT, [Migration(7, "later", "CREATE TABLE a ()")])
    with pytest.raises(SchemaError, match=r"0007_later\.sql ran here, and this release does not know it"):
        await schema.check(connection, [Migration(1, "one", "SELECT 1")])


async def test_a_migration_that_fails_leaves_nothing_of_itself_and_keeps_those_before(connection):
    with pytest.raises(SchemaError, match=r"0002_two\.sql: .*nothing of it was kept"):
        await schema.migrate(
            connection,
            AT,
            [Migration(1, "one", "CREATE TABLE a ()"), Migration(2, "two", "CREATE TABLE b (); SELECT 1/0")],
        )
    assert await connection.fetchval("SELECT to_regclass('public.a')::text") == "a"
    assert await connection.fetchval("SELECT to_regclass('public.b')") is None


ENTRY = "INSERT INTO ledger_entries VALUES ('O', 1, 0, 'P', 'CNY', 'd', '2026-01-01Z')"


async def test_postings_that_do_not_balance_are_refused_with_their_statement(connection):
    """R-180: debits equal credits, by constraint; of an entry that is there already, too."""
    await schema.migrate(connection, AT)
    for postings in ("('O', 1, 0, 'a', 5), ('O', 1, 0, 'b', -4)", "('O', 1, 0, 'a', 5)"):
        with pytest.raises(asyncpg.CheckViolationError, match="add up to"):
            await connection.execute(f"INSERT INTO postings VALUES {postings}")
    await _posted(connection, "('O', 1, 0, 'a', 5), ('O', 1, 0, 'b', -5)")
    with pytest.raises(asyncpg.CheckViolationError, match="add up to"):
        await connection.execute("INSERT INTO postings VALUES ('O', 1, 0, 'c', 1)")


async def test_an_entry_without_postings_and_postings_without_an_entry_are_refused(connection):
    """R-180: neither half of a double entry is there alone."""
    await schema.migrate(connection, AT)
    with pytest.raises(asyncpg.CheckViolationError, match="O/1/0 has no postings"):
        await connection.execute(ENTRY)
    with pytest.raises(asyncpg.ForeignKeyViolationError, match="is not present in table"):
        await connection.execute("INSERT INTO postings VALUES ('O', 1, 0, 'a', 5), ('O', 1, 0, 'b', -5)")


async def test_entries_of_many_postings_are_judged_one_by_one(connection):
    """R-180: what is missing in one entry is not made good by another."""
    await schema.migrate(connection, AT)
    with pytest.raises(asyncpg.CheckViolationError, match="add up to"):
        await connection.execute(
            "INSERT INTO postings VALUES ('O', 1, 0, 'a', 5), ('O', 1, 0, 'b', -4), ('O', 1, 1, 'a', 4), ('O', 1, 1, 'b', -5)"
        )
    await _posted(connection, "('O', 1, 0, 'a', 5), ('O', 1, 0, 'b', -2), ('O', 1, 0, 'c', -3)")


async def _posted(connection, postings: str) -> None:
    async with connection.transaction():
        await connection.execute(f"INSERT INTO postings VALUES {postings}")
        await connection.execute(ENTRY)


@pytest.mark.parametrize(
    "statement", ["UPDATE postings SET amount = 7", "DELETE FROM ledger_entries", "TRUNCATE postings"]
)
async def test_what_was_posted_cannot_be_changed_even_by_its_owner(connection, statement: str):
    await schema.migrate(connection, AT)
    with pytest.raises(asyncpg.PostgresError, match="is refused: what was written there stays"):
        await connection.execute(statement)


async def test_the_role_of_the_projector_may_add_to_the_ledger_and_not_change_it(connection):
    await schema.migrate(connection, AT)
    rights = "SELECT has_table_privilege('concord_projector', $1, $2)"
    for table in ("books.ledger_entries", "books.postings", "books.decisions", "books.discrepancy_steps"):
        assert [
            await connection.fetchval(rights, table, right) for right in ("SELECT", "INSERT", "UPDATE", "DELETE")
        ] == [
            True,
            True,
            False,
            False,
        ]
    assert await connection.fetchval(rights, "books.payments", "UPDATE")
    assert not await connection.fetchval("SELECT has_table_privilege('concord_reader', 'books.payments', 'INSERT')")


def _db(dsn: str, command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "streams", "db", command],
        env={**os.environ, "CONCORD_POSTGRES": dsn},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


async def test_the_command_says_what_is_missing_and_what_ran(dsn: str):
    before = await asyncio.to_thread(_db, dsn, "check")
    assert (before.returncode, before.stdout.splitlines()[0]) == (1, "has not run: 0001_books.sql")
    ran = await asyncio.to_thread(_db, dsn, "migrate")
    assert (ran.returncode, ran.stdout.splitlines()[0]) == (0, "ran 0001_books.sql"), ran.stderr
    assert (await asyncio.to_thread(_db, dsn, "check")).returncode == 0
    away = await asyncio.to_thread(_db, "postgresql://postgres@127.0.0.1:1/x", "check")
    assert away.returncode == 4
    assert "set CONCORD_POSTGRES" in away.stderr
