"""Files with known differences: the run finds exactly those, and nothing else (R-181, R-190, R-198)."""

from __future__ import annotations

import asyncio
import json
import random
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from streams.agents.reconciler import Reconciler
from streams.channels.contracts import shipped
from streams.cli.recon import recon
from streams.domain.bills import Local
from streams.domain.contract import DEFAULT
from streams.simulator.bill import bill
from streams.simulator.dialect import Asked
from streams.simulator.faults import Chance, rates
from streams.simulator.world import World
from tests.support import day
from tests.support import recon as support

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.postgres
COUNT = 60
HELD = replace(DEFAULT, hold_days=1)


def ours(count: int = COUNT) -> list[Local]:
    return [
        Local(
            key=f"P{n}", number=f"P{n}", order_id=f"O{n}", kind="PAY", amount=1000 + n, currency="USD", state="SUCCESS", payment_no=f"P{n}",
            transaction=f"X{n}",
        )
        for n in range(count)
    ]  # fmt: skip


async def typed(dsn: str, *command: str) -> str:
    done = await asyncio.to_thread(CliRunner().invoke, recon, list(command), env={"CONCORD_POSTGRES": dsn})
    assert done.exit_code == 0, (command, done.output)
    return done.output


async def told(connection: Any) -> set[tuple[str, str]]:
    """Kind and reference of every difference that was written for the law, told before or not."""
    rows = await connection.fetch("SELECT body::jsonb AS b FROM recon_outbox")
    found = [json.loads(row["b"]) for row in rows]
    return {(one["status"], one["ref"]) for one in found if one["type"] == "difference"}


@pytest.mark.parametrize("seed", range(3))
async def test_a_bill_with_seeded_differences_gives_exactly_those(database: str, tmp_path: Path, seed: int):
    chance = random.Random(seed)
    numbers = chance.sample(range(COUNT), 4)
    missing, amount, double, late = numbers[:4]
    rows = [(f"X{n}", f"P{n}", 1000 + n + (n == amount), n % 7) for n in range(COUNT) if n not in {missing, late}]
    rows += [(f"X{double}", f"P{double}", 1000 + double, 0), ("X-new", "P-new", 500, 0)]
    chance.shuffle(rows)
    first, second = tmp_path / "first.csv", tmp_path / "second.csv"
    first.write_text(day.bill(*rows))
    second.write_text(day.bill((f"X{late}", f"P{late}", 1000 + late, 0)))
    (tmp_path / "layout.yaml").write_text(day.BILL_LAYOUT)
    connection = await asyncpg.connect(database, server_settings={"search_path": "books, public"})
    try:
        await support.put_ours(connection, ours())
        common = ("--channel", support.CHANNEL, "--layout", str(tmp_path / "layout.yaml"))
        await typed(database, "import", *common, "--date", "2025-03-03", str(first))
        reconciler = Reconciler(connection, {support.CHANNEL: HELD}, DEFAULT)
        found = await reconciler.run(support.CHANNEL, support.AT)
        assert found == {
            "AMOUNT_MISMATCH": 1,
            "CHANNEL_ONLY": 1,
            "DUPLICATE_TRANSACTION": 1,
            "MATCHED": COUNT - 3,
        }
        await typed(database, "import", *common, "--date", "2025-03-04", str(second))
        await reconciler.run(support.CHANNEL, support.AT)
        assert await told(connection) == {
            ("AMOUNT_MISMATCH", f"P{amount}"),
            ("DUPLICATE_TRANSACTION", f"X{double}"),
            ("CHANNEL_ONLY", "X-new"),
            ("LOCAL_ONLY", f"P{missing}"),
        }
        # The corrected file has what was missing, the right amount, and each line once.
        corrected = [(f"X{n}", f"P{n}", 1000 + n, n % 7) for n in range(COUNT) if n != late]
        first.write_text(day.bill(*corrected))
        assert "version 2" in await typed(database, "import", *common, "--date", "2025-03-03", str(first))
        found = await reconciler.run(support.CHANNEL, support.AT)
        assert found == {"MATCHED": COUNT - 1}
        assert ("FILE_VERSION_CHANGED", "20250303#2") in await told(connection)
        agreed = await connection.fetchval("SELECT count(*) FROM recon_outbox WHERE body LIKE '%\"agreement\"%'")
        assert agreed == 1
    finally:
        await connection.close()


async def test_the_simulators_own_bill_is_what_it_charged(database: str, tmp_path: Path):
    """A played account's bill, read by the contract's own layout, ties and matches whatever was charged."""
    contract = shipped().get("simulator")
    world = World("simulator:main", contract, Chance(1, rates("")))
    now = datetime(2025, 3, 3, 12, tzinfo=UTC)
    for n in range(5):
        asked = Asked(verb="submit", order_id=f"O{n}", payment_no=f"P{n}", amount=100 + n, currency="USD", key=f"k{n}")
        world.take(asked, now + timedelta(minutes=n))
    path = tmp_path / "simulator@main_2025-03-03.csv"
    path.write_text(bill(world, date(2025, 3, 3)))
    charged = {one.payment_no: one for one in world.ledger()}
    connection = await asyncpg.connect(database, server_settings={"search_path": "books, public"})
    try:
        local = [
            Local(
                key=n, number=n, order_id=one.order_id, kind="PAY", amount=one.amount, currency="USD", state="SUCCESS", payment_no=n,
                transaction=one.transaction,
            )
            for n, one in charged.items()
        ]  # fmt: skip
        await support.put_ours(connection, local, "simulator:main")
        said = await typed(database, "watch", str(tmp_path), "--once", "--every", "0.05")
        assert "5 lines" in said
        assert (tmp_path / "imported" / path.name).exists()
        found = await Reconciler(connection, {}, DEFAULT).run("simulator:main", now)
        assert found == {"MATCHED": 5}
    finally:
        await connection.close()


async def test_what_a_watched_folder_cannot_take_lies_beside_its_reason(database: str, tmp_path: Path):
    (tmp_path / "nobody.csv").write_text("a,b\n1,2\n")
    (tmp_path / "simulator@main_2025-03-03.csv").write_text("what,ever\n1,2\n")
    (tmp_path / "half.csv.part").write_text("x")
    done = await asyncio.to_thread(
        CliRunner().invoke, recon, ["watch", str(tmp_path), "--once", "--every", "0.05"], env={"CONCORD_POSTGRES": database}
    )  # fmt: skip
    assert done.exit_code == 3
    refused = {path.name for path in (tmp_path / "refused").iterdir()}
    assert refused == {
        "nobody.csv", "nobody.csv.reason", "simulator@main_2025-03-03.csv", "simulator@main_2025-03-03.csv.reason",
    }  # fmt: skip
    assert "header lacks" in (tmp_path / "refused" / "simulator@main_2025-03-03.csv.reason").read_text()
    assert (tmp_path / "half.csv.part").exists()
