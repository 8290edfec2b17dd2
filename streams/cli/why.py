"""`concord why ORDER`: for everything open, what would settle it, who can supply that, when we ask next, and the deadline.

Exit codes: 0 told, 1 the order is not known, 2 wrong setting or file, 4 no broker answers.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
from rich.console import Console
from rich.markup import escape

from streams.cli.lookup import located
from streams.domain import why as law

if TYPE_CHECKING:
    from datetime import datetime


@click.command()
@click.argument("order_id", metavar="ORDER")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")
@click.option(
    "--file", type=click.Path(path_type=Path), help="Scenarios or recorded events instead of the live topics."
)
@click.option("--scenario", metavar="ID", help="Of this scenario of the file.")
def why(order_id: str, as_json: bool, file: Path | None, scenario: str | None) -> None:
    """Say what a merchant ORDER id still waits for."""
    found = located("concord why", order_id, file, scenario)
    told = law.why(found.order, found.at)
    if as_json:
        click.echo(msgspec.json.encode(told).decode())
    else:
        tell(told, Console(highlight=False, soft_wrap=True))


def tell(told: law.Why, console: Console) -> None:
    """Print the answer for people."""
    console.print(f"[bold]order {escape(told.order_id)}[/]")
    for item in told.open:
        console.print(f"[yellow]open[/] {escape(item.about)}")
        console.print(f"      settled by {escape(item.what)}")
        console.print(f"      from {escape(item.whom)}{_when(item.when, 'next at')}{_when(item.deadline, 'deadline')}")
    for ended in told.ended:
        console.print(f"[green]ended[/] {escape(ended.about)}: {escape(' → '.join(ended.path))}")
        console.print(f"      witness {escape(ended.witness)}: {escape(ended.because)}")


def _when(moment: datetime | None, what: str) -> str:
    return "" if moment is None else f", {what} {moment:%Y-%m-%d %H:%M:%S}Z"
