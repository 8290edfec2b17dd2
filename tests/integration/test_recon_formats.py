"""What is put into a bill is found, and nothing else (R-181 to R-194).

Missing, extra, another amount, currency or state, doubled, a day late, another fee in a corrected file.
"""

from __future__ import annotations

import hashlib
import io
import json
from datetime import UTC, date, datetime, timedelta
from typing import Any

import asyncpg
import pytest
from msgspec import structs

from stores import batches, coverage
from streams.agents.reconciler import Reconciler
from streams.domain.bills import Local
from streams.domain.contract import DEFAULT
from streams.domain.lines import FileIdentity
from streams.statements import parsers
from tests.support import recon
from tests.support.statements import FORMATS, Format, Row

pytestmark = pytest.mark.postgres
FIRST, SECOND = date(2025, 3, 3), date(2025, 3, 4)
NOON = datetime(2025, 3, 3, 4, tzinfo=UTC)
LATE = datetime(2025, 3, 3, 15, 59, 50, tzinfo=UTC)
"""Ten seconds before the first day ends in Shanghai."""
CONTRACT = structs.replace(DEFAULT, tz="Asia/Shanghai", hold_days=1)
MOST = 40


def paid(number: int, state: str = "SUCCESS") -> Local:
    return Local(
        key=f"P{number}", number=f"P{number}", order_id=f"O{number}", kind="PAY", amount=1000 + number, currency="CNY", state=state,
        payment_no=f"P{number}", transaction=f"X{number}",
    )  # fmt: skip


def row(number: int, **other: Any) -> Row:
    return Row(f"X{number}", f"P{number}", 1000 + number)._replace(**other)


class Side:
    """The channel's bills against ours, in one database."""

    def __init__(self, connection: Any, form: Format) -> None:
        self._connection, self._form = connection, form
        self._reconciler = Reconciler(connection, {recon.CHANNEL: CONTRACT}, DEFAULT)

    async def comes(self, day: date, rows: list[Row]) -> batches.Imported:
        content, form = self._form.write(rows), self._form
        file = batches.File(
            identity=FileIdentity(source="bills", account="main", business_date=day, batch=f"{day:%Y%m%d}", zone=CONTRACT.tz),
            channel=recon.CHANNEL, kind="CHANNEL_BILL", name="bill", sha256=hashlib.sha256(content).digest(), size=len(content),
            parser=form.parser, layout=form.layout,
        )  # fmt: skip
        stream = io.BytesIO(content)
        return await batches.load(
            self._connection, file, stream, lambda: parsers.read(form.parser, stream, "CHANNEL_BILL", form.layout), NOON
        )

    async def told(self) -> list[dict[str, Any]]:
        """What the next run tells for the first time."""
        last = await self._connection.fetchval("SELECT coalesce(max(seq), 0) FROM recon_outbox")
        await self._reconciler.run(recon.CHANNEL, NOON)
        bodies = await self._connection.fetch("SELECT body FROM recon_outbox WHERE seq > $1 ORDER BY seq", last)
        return [json.loads(one["body"]) for one in bodies]


def differences(told: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {(one["status"], one["ref"]) for one in told if one["type"] == "difference"}


def fees(told: list[dict[str, Any]]) -> int:
    return sum(one["type"] == "booking" for one in told)


@pytest.mark.parametrize("name", FORMATS)
async def test_a_run_finds_exactly_what_was_put_in(database: str, name: str):
    form = FORMATS[name]
    connection = await asyncpg.connect(database, server_settings={"search_path": "books, public"})
    try:
        side = Side(connection, form)
        ours = [paid(number, "CLOSED" if number == 6 else "SUCCESS") for number in range(MOST)]
        await recon.put_ours(connection, ours, at=NOON)
        await recon.put_ours(connection, [paid(90)], at=LATE)
        await recon.put_ours(connection, [paid(number) for number in range(100, 110)], at=NOON + timedelta(days=1))
        await connection.execute("SET ROLE concord_reconciler")  # whose rights are enough for all of it
        odd = {3: row(3, amount=4), 5: row(5, currency="USD" if form.currencies else "CNY")}
        first = [odd.get(number, row(number)) for number in range(MOST) if number != 2] + [row(4), row(777)]
        seeded = {
            ("AMOUNT_MISMATCH", "P3"),
            ("DUPLICATE_TRANSACTION", "X4"),
            ("STATUS_MISMATCH", "P6"),
            ("CHANNEL_ONLY", "X777"),
        }
        seeded |= {("CURRENCY_MISMATCH", "P5")} if form.currencies else set()
        matched = MOST - 3 - form.currencies

        assert (await side.comes(FIRST, first)).complete
        told = await side.told()
        assert differences(told) == seeded, "what is missing, and what was paid late, is held"
        assert fees(told) == matched
        assert await side.told() == [], "the same again is nothing new"

        await side.comes(SECOND, [row(90), *(row(number) for number in range(100, 110))])
        told = await side.told()
        assert differences(told) == {("LOCAL_ONLY", "P2")}, "the late one is in the next bill"
        assert fees(told) == 11

        corrected = [*(one._replace(fee=2) if one.txn == "X1" else one for one in first), row(2)]
        assert (await side.comes(FIRST, corrected)).version == 2
        told = await side.told()
        assert differences(told) <= seeded
        assert {(one["order_id"], one["type"]) for one in told if one["type"] == "agreement"} == {("O2", "agreement")}
        assert [one["amount"] for one in told if one["type"] == "booking" and one["order_id"] == "O1"] == [2], (
            "its fee drifted"
        )
        (calendar,) = await coverage.calendars(connection)
        assert (calendar.complete_to, calendar.lacking, calendar.superseded) == (SECOND, (), (FIRST,))
    finally:
        await connection.close()
