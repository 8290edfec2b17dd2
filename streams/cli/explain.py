"""`concord explain ORDER`: an order's story from the live state topic or a file: evidence, rule, verdict, state, and what is awaited.

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
from streams.domain.story import story

if TYPE_CHECKING:
    from datetime import datetime

    from streams.domain.story import Awaited, OperationStory, PaymentStory, Piece, Story


@click.command()
@click.argument("order_id", metavar="ORDER")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")
@click.option(
    "--file", type=click.Path(path_type=Path), help="Scenarios or recorded events instead of the live topics."
)
@click.option("--scenario", metavar="ID", help="Of this scenario of the file.")
def explain(order_id: str, as_json: bool, file: Path | None, scenario: str | None) -> None:
    """Tell the story of a merchant ORDER id."""
    found = located("concord explain", order_id, file, scenario)
    told = story(found.order, found.at)
    if as_json:
        click.echo(msgspec.json.encode(told).decode())
    else:
        tell(told, Console(highlight=False, soft_wrap=True))


def tell(told: Story, console: Console) -> None:
    """Print a story for people."""
    console.print(
        f"[bold]order {escape(told.order_id)}[/]  {told.decisions} decisions, {told.duplicates} duplicates dropped"
    )
    for payment in told.payments:
        console.print(escape(_headline(payment)))
    for operation in told.operations:
        console.print(escape(_operation(operation)))
    for piece in told.evidence:
        console.print(_lines(piece))
    for item in told.open:
        console.print(f"[red]open[/] {item.kind} ({item.severity}) about {escape(item.ref)}, owner {item.owner}")
    awaiting = [one.awaited for one in told.payments if one.awaited]
    awaiting += [one.awaited for one in told.operations if one.awaited]
    awaiting += told.waiting
    for awaited in awaiting:
        console.print(f"[yellow]awaited[/] {escape(_awaited(awaited))}")
    if not told.open and not awaiting:
        console.print("[green]nothing is awaited[/]")


def _headline(payment: PaymentStory) -> str:
    words = [f"payment {payment.payment} on {payment.channel}: {payment.amount} minor units {payment.currency}"]
    words.append(f"{' → '.join(payment.path)}, witness {payment.witness or 'none yet'}")
    if payment.announced:
        words.append("announced as success")
    if payment.held:
        words.append(f"{payment.held} held")
    return "; ".join(words)


def _operation(operation: OperationStory) -> str:
    shown = f"{operation.kind.lower()} {operation.operation} of {operation.payment}: {operation.amount} {operation.currency}"
    return f"{shown}; {' → '.join(operation.path)}, witness {operation.witness or 'none yet'}"


def _lines(piece: Piece) -> str:
    said = f"  {_time(piece.at)}  {piece.source} [bold]{escape(piece.word)}[/]  {escape(piece.ref)}"
    return f"{said}\n      {piece.verdict} by rule {piece.rule}: {piece.because}"


def _awaited(awaited: Awaited) -> str:
    when = f", next at {_time(awaited.when)}" if awaited.when else ""
    return f"{awaited.what}, from {awaited.whom}{when}"


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S") + "Z"
