"""The set-based matching in Postgres gives what the pure one gives, for any bill, however its lines are ordered (R-188, R-198)."""

from __future__ import annotations

import io
import os
from typing import Any

import asyncpg
import pytest

from stores import batches, matching
from streams.domain import bills
from streams.domain.bills import Locals
from tests.support import recon

pytestmark = pytest.mark.postgres
CASES = int(os.environ.get("RECON_CASES", "4000"))
"""Small worlds in one; 40,000 of them have some 10^5 rows."""


async def load(connection: Any, rows: list[Any], batch: str = "B1", **fields: Any) -> Any:
    content = f"{batch}{fields}{len(rows)}".encode()
    file = recon.file(batch, content=content, **fields)
    return await batches.load(connection, file, io.BytesIO(content), lambda: iter(rows), recon.AT)


async def judged(connection: Any) -> dict[int, tuple[str, str | None, tuple[str, ...]]]:
    async with connection.transaction():
        await matching.judge(connection, recon.CHANNEL, 1)
    found = await connection.fetch(
        "SELECT * FROM recon_results r JOIN recon_batches b ON b.id = r.batch_id WHERE b.state = 'active'"
    )
    return {
        row["line"]: (
            row["verdict"],
            None if row["number"] is None else matching.key(row["merchant"], row["number"]) + row["order_id"],
            tuple(row["candidates"] or ()),
        )
        for row in found
    }


def purely(ours: list[Any], rows: list[Any]) -> dict[int, tuple[str, str | None, tuple[str, ...]]]:
    found: dict[int, list[bills.Outcome]] = {}
    for one in bills.compare(rows, Locals(ours)):
        found.setdefault(rows[one.row].line, []).append(one)
    return {
        line: (
            "+".join(one.verdict for one in several),
            None if several[0].local is None else several[0].local.key + several[0].local.order_id,
            several[0].candidates,
        )
        for line, several in found.items()
    }


async def test_both_twins_agree_on_every_generated_line(database: str):
    ours, rows = recon.worlds(20250303, CASES)
    connection = await asyncpg.connect(database, server_settings={"search_path": "books, public"})
    try:
        await recon.put_ours(connection, ours)
        await load(connection, rows)
        found, wanted = await judged(connection), purely(ours, rows)
        assert len(found) == len(rows)
        differing = [(line, found.get(line), one) for line, one in wanted.items() if found.get(line) != one]
        assert differing[:5] == []
        again = await judged(connection)
        assert again == found, "comparing again what is not matched changes nothing"
    finally:
        await connection.close()
