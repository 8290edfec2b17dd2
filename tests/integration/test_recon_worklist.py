"""The worklist: three classes, and of each line whether the channel was heard, and what our records tell of its cause (R-191 to R-195)."""

from __future__ import annotations

import io
from typing import Any

import asyncpg
import pytest

from stores import batches, worklist
from streams.agents.reconciler import Reconciler
from streams.domain.bills import Local
from streams.domain.contract import DEFAULT
from streams.domain.lines import BillRow
from tests.support import recon

pytestmark = pytest.mark.postgres
HEARD = """
    INSERT INTO inbox (order_id, event_key, payload_hash, source, channel, channel_transaction_id, event_type, word, signature_valid,
                       process_status, process_rule, received_at, processed_at, seq)
    VALUES ($1, $2, '', $3, 'chA:main', $2, 'callback', 'SUCCESS', true, 'done', '', $4, $4, 1)
"""


def paid(number: str, state: str = "SUCCESS") -> Local:
    return Local(
        key=number, number=number, order_id=f"O-{number}", kind="PAY", amount=500, currency="USD", state=state, payment_no=number,
        transaction=f"X-{number}",
    )  # fmt: skip


def row(line: int, number: str, amount: int = 500) -> BillRow:
    return BillRow(line=line, kind="PAY", amount=amount, currency="USD", transaction=f"X-{number}", operation_no=number)


async def test_each_line_has_its_class_its_first_look_and_its_cause(database: str):
    ours = [paid("P1"), paid("P2", "INIT"), paid("P3", "CLOSED"), paid("P4"), paid("P5"), paid("P6")]
    rows = [
        row(1, "P1", 499),
        row(2, "P2"),
        row(3, "P3"),
        row(4, "P4"),
        row(5, "P4"),
        row(6, "Z1"),
        row(7, "Z2"),
        row(8, "Z3"),
    ]
    connection = await asyncpg.connect(database, server_settings={"search_path": "books, public"})
    try:
        await recon.put_ours(connection, ours)
        for order, name, source in (("O-P5", "X-P5", "callback"), ("-", "X-Z1", "callback"), ("-", "X-Z2", "query")):
            await connection.execute(HEARD, order, name, source, recon.AT)
        await batches.load(connection, recon.file(), io.BytesIO(b"B1"), lambda: iter(rows), recon.AT)
        await Reconciler(connection, {}, DEFAULT).run(recon.CHANNEL, recon.AT)
        found = {
            (one.class_, one.operation_no, one.line): one for one in await worklist.worklist(connection, recon.DAY)
        }
    finally:
        await connection.close()

    def seen(*name: Any) -> tuple[bool, bool, str]:
        one = found[name]
        return one.notified, one.queried, one.cause

    assert len(found) == 9
    assert found["STATE_OR_AMOUNT", "P1", 1].verdict == "AMOUNT_MISMATCH"
    assert seen("STATE_OR_AMOUNT", "P2", 2) == (False, False, worklist.NOT_ASKED)
    assert seen("STATE_OR_AMOUNT", "P3", 3) == (False, False, worklist.ENDED_APART)
    assert seen("CHANNEL_SINGLE", "P4", 5) == (False, False, worklist.SINGLE["DUPLICATE_TRANSACTION"])
    assert seen("CHANNEL_SINGLE", "Z1", 6) == (True, False, worklist.TOLD)
    assert seen("CHANNEL_SINGLE", "Z2", 7) == (False, True, worklist.TOLD)
    assert seen("CHANNEL_SINGLE", "Z3", 8) == (False, False, worklist.SILENT)
    assert seen("LOCAL_ONLY", "P5", None) == (True, False, worklist.UNLISTED)
    assert seen("LOCAL_ONLY", "P6", None) == (False, False, worklist.NEVER)
