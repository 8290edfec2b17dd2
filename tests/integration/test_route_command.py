"""`concord route` on a real Postgres: what it prints and refuses, and with which exit code."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from stores import route_books, route_decisions
from stores.pool import connect
from stores.route_decisions import Routed
from streams.cli.route import route
from streams.domain.routing import route as choose
from streams.routes.asks import ask

pytestmark = pytest.mark.postgres
EXAMPLE = str(Path(__file__).parents[2] / "examples" / "routes.yaml")
CALM = "offers: [{channel: sim:a, limits: {CNY: {}}, fee_ppm: 2000}]"
AT = datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.fixture
def concord(database: str, monkeypatch):
    """Runs `concord route …`: its exit code and what it printed. It has a loop of its own, so it is called by `to_thread`."""
    monkeypatch.setenv("CONCORD_POSTGRES", database)

    def run(*arguments: str) -> tuple[int, str]:
        result = CliRunner().invoke(route, list(arguments))
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, result.output

    return run


def test_nothing_loaded_is_said_with_the_fix(concord):
    for arguments in (("show",), ("explain", "--amount", "1", "--currency", "CNY"), ("simulate",)):
        code, said = concord(*arguments)
        assert (code, "concord route load FILE" in said) == (1, True)


def test_a_book_with_warnings_needs_a_yes_and_a_calm_one_does_not(concord, tmp_path):
    """Ruling 4: what the plain score cannot see is said before it routes anything."""
    code, said = concord("load", EXAMPLE)
    assert (code, "wins even at 0 % success" in said, "give --yes" in said) == (1, True, True)
    assert concord("show")[0] == 1
    code, said = concord("load", EXAMPLE, "--yes", "--by", "ann", "--why", "first")
    assert (code, said.splitlines()[-1]) == (0, "book 1 holds")
    assert concord("load", EXAMPLE, "--yes")[1].endswith("book 1 holds already; nothing was changed\n")
    (tmp_path / "calm.yaml").write_text(CALM)
    assert concord("load", str(tmp_path / "calm.yaml")) == (0, "book 2 holds\n")
    assert concord("activate", "1") == (0, "book 1 holds\n")
    assert concord("activate", "9")[0] == 1
    code, said = concord("show")
    assert code == 0
    for line in (
        "channel simulator:a: CNY 1 to 5000000; card, wallet",
        "rule night: 2330 to 0600 => simulator:b, priority 0",
        "by ann: first",
    ):
        assert line in said
    shown = json.loads(concord("show", "--format", "json")[1])
    assert [one["version"] for one in shown["versions"]] == [2, 1]
    code, said = concord(
        "explain", "--amount", "5000", "--currency", "CNY", "--at", "2026-01-05T12:00", "--health", "simulator:a=1/40"
    )
    assert (code, "-> simulator:c, by book 1, plain" in said, "simulator:a fails too often now" in said) == (
        0,
        True,
        True,
    )
    code, said = concord("explain", "--amount", "5000", "--currency", "EUR", "--format", "json")
    assert (code, json.loads(said)["routing"]["failure"]) == (1, "no_channel_after_filters")


def test_a_wrong_book_and_a_wrong_option_are_named(concord, tmp_path):
    (tmp_path / "wrong.yaml").write_text("offers: [{channel: a, limits: {CNY: {}}, fee_ppm: cheap}]")
    code, said = concord("load", str(tmp_path / "wrong.yaml"))
    assert (code, "offers[0].fee_ppm" in said) == (2, True)
    assert concord("simulate", EXAMPLE, "--failing", "nobody")[0] == 2
    assert concord("simulate", EXAMPLE, "--currency", "EUR")[0] == 2
    assert concord("explain", "--amount", "1", "--currency", "CNY", "--book", EXAMPLE, "--health", "a")[0] == 2


def test_a_simulated_day_needs_no_postgres(monkeypatch):
    monkeypatch.delenv("CONCORD_POSTGRES", raising=False)
    result = CliRunner().invoke(route, ["simulate", EXAMPLE, "--payments", "200"])
    assert result.exit_code == 0
    assert [line.split("  ")[0] for line in result.output.splitlines()[2:]] == [
        "fixed priority", "round robin", "plain score", "expected value",
    ]  # fmt: skip


async def test_recorded_decisions_are_replayed_under_another_book(database, concord, tmp_path):
    assert (await asyncio.to_thread(concord, "load", EXAMPLE, "--yes"))[0] == 0
    connection = await connect(database)
    held = await route_books.active(connection)
    assert held is not None
    for amount in (5_000, 2_000_000):
        asked = ask(held.book, AT, amount=amount, currency="CNY")
        one = Routed(
            id=f"c-{amount}", decided_at=AT, purpose="create", merchant="shop", order_id="o", payment_no="P",
            ask=asked, health={}, downgrades=(), routing=choose(asked, held.book, {}),
        )  # fmt: skip
        assert await route_decisions.keep(connection, one)
    await connection.close()
    only_c = "offers: [{channel: simulator:c, limits: {CNY: {}}, fee_ppm: 8000, fee_fixed: 10, assumed_ppm: 990000}]"
    (tmp_path / "c.yaml").write_text(only_c)
    span = ("--from", "2026-01-05", "--to", "2026-01-06")
    code, said = await asyncio.to_thread(concord, "replay", *span, "--book", str(tmp_path / "c.yaml"))
    assert code == 0
    assert said.splitlines() == [
        "2 decisions, 2 would differ",
        "         1  simulator:a -> simulator:c",
        "         1  simulator:b -> simulator:c",
        "fees in CNY minor units: 12010 as decided, 16060 by the other book (+4050)",
        "expected successes: 1.975 as decided, 1.980 by the other book (+0.005)",
        "without a channel: 0 as decided, 0 by the other book",
    ]
    code, said = await asyncio.to_thread(concord, "review", "--days", "90")
    assert (code, said.splitlines()[-2:]) == (
        0,
        ["0 downgrades", "no costs were reckoned; is `concord channel-health` running?"],
    )
    assert (await asyncio.to_thread(concord, "replay", *span, "--book", EXAMPLE))[1].startswith("2 decisions, 0 would")
    assert (
        await asyncio.to_thread(concord, "replay", "--from", "2026-01-06", "--to", "2026-01-05", "--book", EXAMPLE)
    )[0] == 2
