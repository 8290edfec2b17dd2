"""Merchants in a real Postgres: what the tables refuse, what `concord merchant` does and prints, and what it never shows."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime

import asyncpg
import pytest

from stores import merchants
from stores.pool import Unreachable, pool

pytestmark = pytest.mark.postgres

NOW = datetime(2026, 5, 1, tzinfo=UTC)


def concord(dsn: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "streams", "merchant", *arguments],
        env={**os.environ, "CONCORD_POSTGRES": dsn},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


async def test_a_merchant_is_made_by_the_command_line_and_its_key_is_shown_once(database: str):
    assert concord(database, "add", "shop", "--rate", "7").returncode == 0
    key = concord(database, "key", "shop", "--scope", "payments:read").stdout.strip()
    assert concord(database, "limit", "shop", "SALE", "USD", "5000").returncode == 0
    assert concord(database, "limit", "shop", "SALE", "USD", "6000").returncode == 0
    listed = concord(database, "list").stdout
    _ck, key_id, secret = key.split("_", 2)
    assert listed.splitlines() == [
        "shop  7 requests/s", "  limit SALE USD 6000", f"  key   {key_id} payments:read",
    ]  # fmt: skip
    assert secret not in listed
    connection = await asyncpg.connect(database)
    rows = await connection.fetch("SELECT * FROM api_keys")
    await connection.close()
    assert secret not in str(rows)


async def test_a_key_that_is_revoked_is_in_no_register(database: str):
    concord(database, "add", "shop")
    concord(database, "add", "other")
    key_id = concord(database, "key", "shop").stdout.split("_")[1]
    assert concord(database, "key", "other", "--revoke", key_id).returncode == 1
    async with pool(database) as connections:
        assert set((await merchants.register(connections)).keys) == {key_id}
        assert concord(database, "key", "shop", "--revoke", key_id).returncode == 0
        assert (await merchants.register(connections)).keys == {}


async def test_a_disabled_merchant_has_no_keys(database: str):
    concord(database, "add", "shop")
    concord(database, "key", "shop")
    async with pool(database) as connections:
        await connections.execute("UPDATE merchants SET disabled = true")
        found = await merchants.register(connections)
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
async def test_what_cannot_be_done_says_why(database: str, arguments, code: int, said: str):
    concord(database, "add", "shop")
    found = concord(database, *arguments)
    assert (found.returncode, said in found.stderr) == (code, True), found.stderr


async def test_without_postgres_or_tables_a_fix_is_named(empty_database: str):
    assert "CONCORD_POSTGRES" in concord("", "list").stderr
    nobody = concord("postgresql://postgres@127.0.0.1:1/none", "list")
    assert (nobody.returncode, "set CONCORD_POSTGRES" in nobody.stderr) == (4, True)
    bare = concord(empty_database, "list")
    assert (bare.returncode, "run `concord db migrate`" in bare.stderr) == (4, True)
    async with pool(empty_database) as connections:
        with pytest.raises(Unreachable, match="run `concord db migrate`"):
            await merchants.register(connections)


async def test_a_register_that_cannot_be_had_is_said_to_be_unreachable():
    async with pool("postgresql://postgres@127.0.0.1:1/none") as connections:
        with pytest.raises(Unreachable):
            await merchants.register(connections)


async def test_hostile_text_is_a_value_and_never_a_statement(database: str):
    connection = await asyncpg.connect(database)
    hostile = "x'; DROP TABLE merchants; --"
    with pytest.raises(asyncpg.CheckViolationError):
        await merchants.add(connection, hostile, bytes(32), 1, NOW)
    assert not await merchants.revoke(connection, hostile, hostile, NOW)
    assert not await merchants.set_limit(connection, hostile, "SALE", "USD", 1)
    assert await merchants.register_of(connection) == merchants.Register({}, {})
    await connection.close()
