"""`concord recon coverage`: how much money is proven by what, and until which day bills are whole."""

from __future__ import annotations

import json
from typing import Any, Final

import click
import msgspec

from stores import coverage as store
from streams.cli.database import using
from streams.cli.printable import printable

CODES: Final = "Exit codes: 0 printed, 2 a setting is wrong, 4 Postgres does not answer."


@click.command(epilog=CODES)
@click.option("--channel", help="Only this one.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def coverage(channel: str | None, form: str) -> None:
    """Print every channel's money by its strongest proof, and until which business day its bills are complete.

    Above that day a payment is waiting for its bill, and nothing can be said to be missing.
    """

    async def work(connection: Any) -> tuple[list[store.Share], list[store.Calendar]]:
        return await store.shares(connection, channel), await store.calendars(connection, channel)

    shares, calendars = using("recon coverage", work)
    if form == "json":
        plain = {"shares": msgspec.to_builtins(shares), "calendars": msgspec.to_builtins(calendars)}
        click.echo(json.dumps(plain, ensure_ascii=False))
        return
    totals: dict[tuple[str, str], int] = {}
    for one in shares:
        totals[one.channel, one.currency] = totals.get((one.channel, one.currency), 0) + one.amount
    for (name, currency), total in totals.items():
        click.echo(printable(f"{name} {currency}: {total} minor units succeeded"))
        for rung in store.RUNGS:
            amount = sum(
                one.amount for one in shares if (one.channel, one.currency, one.rung) == (name, currency, rung)
            )
            click.echo(f"  {rung:<10}{amount:>18}  {_share(amount, total)}")
    for calendar in calendars:
        click.echo(printable(_sentence(calendar)))


def _share(amount: int, total: int) -> str:
    tenths = amount * 1000 // total if total else 0
    return f"{tenths // 10:>3}.{tenths % 10} %"


def _sentence(one: store.Calendar) -> str:
    if one.complete_to is None:
        return f"{one.channel}: no complete bill since {one.first}; pending bill: everything"
    said = f"{one.channel}: bills complete to {one.complete_to} ({one.zone}, {one.sha256[:12]}); pending bill: everything after"
    if one.lacking:
        said += f"; lacking: {', '.join(str(day) for day in one.lacking[:10])}"
    if one.superseded:
        said += f"; corrected: {', '.join(str(day) for day in one.superseded[:10])}"
    return said
