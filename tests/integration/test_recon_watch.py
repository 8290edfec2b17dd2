"""A watched folder, and the simulator's own bills in it (R-111 to R-114)."""

from __future__ import annotations

import asyncio
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

import asyncpg
import pytest
from click.testing import CliRunner

from streams.agents.reconciler import Reconciler
from streams.channels.contracts import shipped
from streams.cli.recon import recon
from streams.domain.bills import Local
from streams.domain.contract import DEFAULT
from streams.simulator.bill import bill
from streams.simulator.dialect import Asked
from streams.simulator.faults import Chance, rates
from streams.simulator.world import World
from tests.support import recon as support

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.postgres


async def typed(dsn: str, *command: str) -> str:
    done = await asyncio.to_thread(CliRunner().invoke, recon, list(command), env={"CONCORD_POSTGRES": dsn})
    assert done.exit_code == 0, (command, done.output)
    return done.output


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
