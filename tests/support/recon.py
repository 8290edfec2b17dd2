"""Payments in the books and bill lines beside them, as a reconciliation test wants them: written in bulk, without a broker."""

from __future__ import annotations

import hashlib
import random
from datetime import UTC, date, datetime
from typing import Any

from streams.domain.bills import Local
from streams.domain.lines import BillRow, FileIdentity

AT = datetime(2025, 3, 3, 10, tzinfo=UTC)
DAY = date(2025, 3, 3)
CHANNEL = "chA:main"

PAYMENT = (
    "merchant", "payment_no", "order_id", "biz_code", "channel", "amount", "currency", "state", "transaction", "success_at", "announced",
    "captured", "held", "returned", "disputed", "duplicate", "fulfilled", "finished", "attempts", "queries", "closes", "seq", "created_at",
    "updated_at",
)  # fmt: skip
OPERATION = (
    "merchant", "number", "order_id", "kind", "payment_no", "channel", "amount", "currency", "state", "transaction", "success_at", "late",
    "attempts", "queries", "seq", "created_at", "updated_at",
)  # fmt: skip


def payment_record(one: Local, channel: str = CHANNEL, at: datetime = AT) -> tuple[Any, ...]:
    success = at if one.state in {"SUCCESS", "RETURNED"} else None
    return (
        one.merchant or "", one.number, one.order_id, "trade", channel, one.amount, one.currency, one.state, one.transaction, success,
        False, one.amount, 0, 0, 0, False, False, False, 1, 0, 0, 1, at, at,
    )  # fmt: skip


def operation_record(one: Local, channel: str = CHANNEL, at: datetime = AT) -> tuple[Any, ...]:
    success = at if one.state in {"SUCCESS", "RETURNED"} else None
    return (
        one.merchant or "", one.number, one.order_id, "REFUND", one.payment_no, channel, one.amount, one.currency, one.state,
        one.transaction, success, False, 1, 0, 1, at, at,
    )  # fmt: skip


async def put_ours(connection: Any, ours: list[Local], channel: str = CHANNEL, at: datetime = AT) -> None:
    await connection.copy_records_to_table(
        "payments", schema_name="books", columns=PAYMENT, records=[payment_record(one, channel, at) for one in ours if one.kind == "PAY"]
    )  # fmt: skip
    await connection.copy_records_to_table(
        "operations", schema_name="books", columns=OPERATION,
        records=[operation_record(one, channel, at) for one in ours if one.kind == "REFUND"],
    )  # fmt: skip


def file(
    batch: str = "B1",
    *,
    kind: str = "CHANNEL_BILL",
    day: date = DAY,
    channel: str = CHANNEL,
    content: bytes = b"",
    **fields: Any,
) -> Any:
    """A file to be loaded; its hash is of `content`."""
    from stores.batches import File  # noqa: PLC0415  nothing of the stores is imported by whoever only reads bills

    identity = FileIdentity(source="chA", account="main", business_date=day, batch=batch)
    return File(
        identity=identity, channel=channel, kind=kind, name=f"{batch}.csv", sha256=hashlib.sha256(content or batch.encode()).digest(),
        size=len(content), parser="test/1", **fields,
    )  # fmt: skip


def worlds(seed: int, count: int) -> tuple[list[Local], list[BillRow]]:
    """Many small worlds whose names do not meet, in one: operations, and rows that may or may not be theirs."""
    chance = random.Random(seed)
    ours: list[Local] = []
    rows: list[BillRow] = []
    for world in range(count):
        ours += [_ours(chance, world, place) for place in range(chance.randint(0, 3))]
        for _ in range(chance.randint(0, 4)):
            rows.append(_row(chance, world, len(rows) + 1))
    return ours, rows


def _ours(chance: random.Random, world: int, place: int) -> Local:
    kind = chance.choice(["PAY", "PAY", "REFUND"])
    merchant = chance.choice([None, None, "m"])
    number = f"{world}-N{chance.randint(1, 2)}"
    states = ["SUCCESS", "SUCCESS", "FAIL", "CLOSED", "UNKNOWN", "INIT"] + (
        ["RETURNED"] if kind == "REFUND" else ["AUTHORIZED"]
    )
    return Local(
        key=number if merchant is None else f"{merchant}/{number}",
        number=number,
        order_id=f"{world}-O{place}",
        kind=kind,  # type: ignore[arg-type]
        amount=chance.randint(1, 2),
        currency=chance.choice(["USD", "USD", "EUR"]),
        state=chance.choice(states),
        payment_no=number,
        merchant=merchant,
        transaction=chance.choice([None, f"{world}-X{chance.randint(1, 3)}"]),
    )


def _row(chance: random.Random, world: int, line: int) -> BillRow:
    number = chance.choice([None, f"{world}-N{chance.randint(1, 2)}", f"{world}-N{chance.randint(1, 2)}"])
    if number is not None and chance.random() < 0.002:
        number = f"m/{number}"
    return BillRow(
        line=line,
        kind=chance.choice(["PAY", "PAY", "REFUND"]),
        amount=chance.choice([1, 2, -1]),
        currency=chance.choice(["USD", "USD", "EUR"]),
        status=chance.choice(["SUCCESS", "SUCCESS", "CLOSED", "FAILED", "PENDING"]),
        funds=chance.choice([None, None, "PAID", "NONE"]),
        transaction=chance.choice([None, f"{world}-X{chance.randint(1, 3)}"]),
        operation_no=number,
    )
