"""`concord explain ORDER`: an order's story from the live state topic or a file: evidence, rule, verdict, state, and what is awaited."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from rich.console import Console

from streams.cli.lookup import EPILOG, about_an_order, located
from streams.cli.printable import json_text, styled
from streams.domain.story import story

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from streams.domain.story import Awaited, OperationStory, PaymentStory, Story


@click.command(epilog=EPILOG)
@about_an_order
def explain(order_id: str, as_json: bool, file: Path | None, scenario: str | None) -> None:
    """Tell the story of a merchant ORDER id."""
    found = located("explain", order_id, file, scenario)
    told = story(found.order, found.at)
    if as_json:
        click.echo(json_text(told))
    else:
        tell(told, Console(highlight=False, soft_wrap=True, emoji=False))


def tell(told: Story, console: Console) -> None:
    """Print a story for people. Every word that came from outside is made printable first."""
    counts = f"  {told.decisions} decisions, {told.duplicates} duplicates dropped"
    console.print(styled((f"order {told.order_id}", "bold"), counts))
    for payment in told.payments:
        console.print(styled(_headline(payment)))
    for operation in told.operations:
        console.print(styled(_operation(operation)))
    for piece in told.evidence:
        console.print(styled(f"  {_time(piece.at)}  {piece.source} ", (piece.word, "bold"), f"  {piece.ref}"))
        console.print(styled(f"      {piece.verdict} by rule {piece.rule}: {piece.because}"))
    for item in told.open:
        console.print(styled(("open", "red"), f" {item.kind} ({item.severity}) about {item.ref}, owner {item.owner}"))
    awaiting = [one.awaited for one in told.payments if one.awaited]
    awaiting += [one.awaited for one in told.operations if one.awaited]
    awaiting += told.waiting
    for awaited in awaiting:
        console.print(styled(("awaited", "yellow"), f" {_awaited(awaited)}"))
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


def _awaited(awaited: Awaited) -> str:
    when = f", next at {_time(awaited.when)}" if awaited.when else ""
    return f"{awaited.what}, from {awaited.whom}{when}"


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S") + "Z"
