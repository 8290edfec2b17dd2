"""`concord recon refunds` over the books: what lags, why, and what on a card might be it (R-220, R-221)."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta

import asyncpg
import pytest
from click.testing import CliRunner

from streams.cli.recon import recon
from streams.domain.bills import Local
from tests.support import recon as support

pytestmark = pytest.mark.postgres


async def fill(dsn: str) -> None:
    connection = await asyncpg.connect(dsn, server_settings={"search_path": "books, public"})
    pay = Local(
        key="P1", number="P1", order_id="O1", kind="PAY", amount=1000, currency="USD", state="SUCCESS", payment_no="P1"
    )
    back = [
        Local(
            key=n, number=n, order_id="O1", kind="REFUND", amount=500, currency="USD", state="SUCCESS", payment_no="P1"
        )
        for n in ("R1", "R2")
    ]
    await support.put_ours(connection, [pay, *back])
    for number, *layers in (("R1", "COMPLETED", "SETTLED", None), ("R2", "COMPLETED", "SETTLED", "POSTED")):
        await connection.execute(
            "INSERT INTO refunds VALUES ('', $1, 'O1', 'P1', 500, 'USD', 'SUCCESS', $2, $3, $4, 1, $5)", number, *layers, support.AT
        )  # fmt: skip
    await connection.execute(
        "INSERT INTO card_entries VALUES ('visa', 'E7', 'visa:E7', 'REFUND', 500, 'USD', NULL, NULL, NULL, NULL, $1, 1)",
        support.AT + timedelta(days=1),
    )
    await connection.close()


async def test_the_job_says_why_and_names_candidates(database: str):
    await fill(database)
    done = await asyncio.to_thread(
        CliRunner().invoke, recon, ["refunds", "--format", "json"], env={"CONCORD_POSTGRES": database}
    )
    assert done.exit_code == 0, done.output
    found = {one["key"]: one for one in json.loads(done.stdout)}
    assert (found["R1"]["case"], found["R1"]["owner"], found["R1"]["candidates"]) == ("issued", "ISSUER", ["visa/E7"])
    assert (found["R2"]["case"], found["R2"]["owner"], found["R2"]["candidates"]) == (
        "posted-balance-open",
        "WALLET",
        [],
    )
    plain = await asyncio.to_thread(CliRunner().invoke, recon, ["refunds"], env={"CONCORD_POSTGRES": database})
    assert "candidates on cards: visa/E7" in plain.stdout
