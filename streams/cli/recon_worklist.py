"""`concord recon worklist`: what people tick off for a business day, as CSV."""

from __future__ import annotations

import csv
import sys
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from stores.worklist import Work
from stores.worklist import worklist as read
from streams.cli.database import using
from streams.cli.printable import printable

if TYPE_CHECKING:
    from datetime import datetime

CODES: Final = "Exit codes: 0 printed, 2 a setting is wrong, 4 Postgres does not answer."
HEADER: Final = tuple(name.rstrip("_") for name in Work.__struct_fields__)
FORMULA: Final = frozenset("=+-@\t\r")
"""A cell that begins so is a formula to a spreadsheet; a quote in front of it makes it text."""


@click.command(epilog=CODES)
@click.option("--date", "day", required=True, type=click.DateTime(["%Y-%m-%d"]), help="The business day.")
@click.option("--channel", help="Only this one.")
@click.option("--format", "form", type=click.Choice(["csv", "json"]), default="csv", show_default=True)
def worklist(day: datetime, channel: str | None, form: str) -> None:
    """Print what a business day left to people: CHANNEL_SINGLE, LOCAL_ONLY, STATE_OR_AMOUNT. Amounts are minor units."""
    found = using("recon worklist", lambda connection: read(connection, day.date(), channel))
    if form == "json":
        click.echo(msgspec.json.encode(found))
        return
    writer = csv.writer(sys.stdout)
    writer.writerow(HEADER)
    writer.writerows([_cell(getattr(one, name)) for name in Work.__struct_fields__] for one in found)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = printable(str(value))
    return f"'{text}" if isinstance(value, str) and text[:1] in FORMULA else text
