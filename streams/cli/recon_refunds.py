"""`concord recon refunds`: refunds whose layers do not agree, why, and who has to go on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import click
import msgspec

from stores import refunding
from streams.cli.database import using
from streams.cli.printable import printable
from streams.domain.correlation import Explained, explain
from streams.domain.moment import milliseconds

CODES: Final = "Exit codes: 0 printed, 2 a setting is wrong, 4 Postgres does not answer."
STRAYS: Final = 10_000


@click.command(epilog=CODES)
@click.option("--older-than-days", "days", type=click.IntRange(0, 3650), default=0, show_default=True)
@click.option("--most", type=click.IntRange(1, 100_000), default=1000, show_default=True)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def refunds(days: int, most: int, form: str) -> None:
    """Explain every refund that is not closed in all its layers. It asks nobody and sends nothing again.

    Card entries without a shared reference are named as candidates: a person compares them, and nothing is matched by amount.
    """
    now = datetime.now(UTC)

    async def work(connection: Any) -> list[Explained]:
        strays = await refunding.strays(connection, STRAYS)
        views = await refunding.views(connection, now - timedelta(days=days), most)
        return [one for view in views if (one := explain(view, strays, milliseconds(now))) is not None]

    found = using("recon refunds", work)
    if form == "json":
        click.echo(msgspec.json.encode(found))
        return
    for one in found:
        click.echo(printable(f"{one.key}  {one.case}  {one.days} days  next: {one.owner}"))
        click.echo(printable(f"    {one.text}"))
        if one.candidates:
            click.echo(printable(f"    candidates on cards: {', '.join(one.candidates)}"))
