"""Merchants in a real Postgres: what the tables refuse, what `concord merchant` does and prints, and what it never shows."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest

from stores import merchants

pytestmark = pytest.mark.postgres

MIGRATION = Path(__file__).parents[2] / "stores" / "migrations" / "0010_merchants.sql"
NOW = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.fixture
async def empty(postgres):
    """The address of a database of the test's own."""
    name = f"t{secrets.token_hex(6)}"
    admin = await asyncpg.connect(postgres.dsn)
    await admin.execute(f"CREATE DATABASE {name}")
    yield urlsplit(postgres.dsn)._replace(path=f"/{name}").geturl()
    await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
    await admin.close()


@pytest.fixture
async def dsn(empty: str):
    connection = await asyncpg.connect(empty)
    await connection.execute(MIGRATION.read_text())
    await connection.close()
    return empty


def concord(dsn: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "streams", "merchant", *arguments],
        env={**os.environ, "CONCORD_POSTGRES": dsn},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


async def test_a_merchant_is_made_by_the_command_line_and_its_key_is_shown_once(dsn: str):
    assert concord(dsn, "add", "shop", "--rate", "7").returncode == 0
    key = concord(dsn, "key", "shop", "--scope", "payments:read").stdout.strip()
    assert concord(dsn, "limit", "shop", "SALE", "USD", "5000").returncode == 0
    assert concord(dsn, "limit", "shop", "SALE", "USD", "6000").returncode == 0
    listed = concord(dsn, "list").stdout
    _ck, key_id, secret = key.split("_", 2)
    assert listed.splitlines() == [
        "shop  7 requests/s", "  limit SALE USD 6000", f"  key   {key_id} payments:read",
    ]  # fmt: skip
    assert secret not in listed
    connection = await asyncpg.connect(dsn)
    rows = await connection.fetch("SELECT * FROM api_keys")
    await connection.close()
    assert secret not in str(rows)


async def test_a_key_that_is_revoked_is_in_no_register(dsn: str):
    concord(dsn, "add", "shop")
    concord(dsn, "add", "other")
    key_id = concord(dsn, "key", "shop").stdout.split("_")[1]
    assert concord(dsn, "key", "other", "--revoke", key_id).returncode == 1
    async with merchants.pool(dsn) as pool:
        assert set((await merchants.register(pool)).keys) == {key_id}
        assert concord(dsn, "key", "shop", "--revoke", key_id).returncode == 0
        assert (await merchants.register(pool)).keys == {}


async def test_a_disabled_merchant_has_no_keys(dsn: str):
    concord(dsn, "add", "shop")
    concord(dsn, "key", "shop")
    async with merchants.pool(dsn) as pool:
        await pool.execute("UPDATE merchants SET disabled = true")
        found = await merchants.register(pool)
    assert (found.merchants, found.keys) == ({}, {})


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["add", "shop"], 1, "there is a merchant shop already"),
        (["add", "a/b"], 2, "merchants_merchant_check"),
        (["key", "nobody"], 1, "add it first"),
        (["key", "shop", "--revoke", "0" * 16], 1, "no live key"),
        (["limit", "nobody", "SALE", "USD", "1"], 1, "add it first"),
        (["limit", "shop", "sale", "USD", "1"], 2, "biz_code"),
        (["limit", "shop", "SALE", "USD", "0"], 2, "0"),
    ],
)
async def test_what_cannot_be_done_says_why(dsn: str, arguments, code: int, said: str):
    concord(dsn, "add", "shop")
    found = concord(dsn, *arguments)
    assert (found.returncode, said in found.stderr) == (code, True), found.stderr


async def test_without_postgres_or_tables_a_fix_is_named(empty: str):
    assert "CONCORD_POSTGRES" in concord("", "list").stderr
    nobody = concord("postgresql://postgres@127.0.0.1:1/none", "list")
    assert (nobody.returncode, "is it at CONCORD_POSTGRES?" in nobody.stderr) == (3, True)
    bare = concord(empty, "list")
    assert (bare.returncode, "run the migrations" in bare.stderr) == (3, True)
    async with merchants.pool(empty) as pool:
        with pytest.raises(merchants.Unreachable, match="run the migrations"):
            await merchants.register(pool)


async def test_a_register_that_cannot_be_had_is_said_to_be_unreachable():
    async with merchants.pool("postgresql://postgres@127.0.0.1:1/none") as pool:
        with pytest.raises(merchants.Unreachable):
            await merchants.register(pool)


async def test_hostile_text_is_a_value_and_never_a_statement(dsn: str):
    connection = await asyncpg.connect(dsn)
    hostile = "x'; DROP TABLE merchants; --"
    with pytest.raises(asyncpg.CheckViolationError):
        await merchants.add(connection, hostile, bytes(32), 1, NOW)
    assert not await merchants.revoke(connection, hostile, hostile, NOW)
    assert not await merchants.set_limit(connection, hostile, "SALE", "USD", 1)
    assert await merchants.register_of(connection) == merchants.Register({}, {})
    await connection.close()
