"""`concord why ORDER`: for everything open, what would settle it, who can supply that, when we ask next, and the deadline."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from rich.console import Console

from streams.cli.lookup import EPILOG, about_an_order, located
from streams.cli.printable import json_text, styled
from streams.domain import why as law

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path


@click.command(epilog=EPILOG)
@about_an_order
def why(order_id: str, as_json: bool, file: Path | None, scenario: str | None) -> None:
    """Say what a merchant ORDER id still waits for."""
    found = located("why", order_id, file, scenario)
    told = law.why(found.order, found.at)
    if as_json:
        click.echo(json_text(told))
    else:
        tell(told, Console(highlight=False, soft_wrap=True, emoji=False))


def tell(told: law.Why, console: Console) -> None:
    """Print the answer for people. Every word that came from outside is made printable first."""
    console.print(styled((f"order {told.order_id}", "bold")))
    for item in told.open:
        console.print(styled(("open", "yellow"), f" {item.about}"))
        console.print(styled(f"      settled by {item.what}"))
        console.print(styled(f"      from {item.whom}{_when(item.when, 'next at')}{_when(item.deadline, 'deadline')}"))
    for ended in told.ended:
        console.print(styled(("ended", "green"), f" {ended.about}: {' → '.join(ended.path)}"))
        console.print(styled(f"      witness {ended.witness}: {ended.because}"))


def _when(moment: datetime | None, what: str) -> str:
    return "" if moment is None else f", {what} {moment:%Y-%m-%d %H:%M:%S}Z"
