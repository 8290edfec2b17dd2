"""`concord replay FILE`: scenarios through the real law, without a broker, a clock or chance.

Each line is one scenario: what is given, and the events in their order; what it expects is not read. Exit codes: 0 every scenario ran,
whatever came of it; 2 the file cannot be read.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import click
import msgspec
from rich.console import Console
from rich.markup import escape

from streams.replay.report import report
from streams.replay.run import Run
from streams.replay.shapes import NotUnderstoodError

UNREADABLE: Final = 2


class Scenario(msgspec.Struct):
    """What is read of a line."""

    id: str
    given: Any = None
    events: list[Any] = []


_decode: Final = msgspec.json.Decoder(Scenario).decode
_encode: Final = msgspec.json.Encoder().encode


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def replay(file: Path, form: str) -> None:
    """Play the scenarios of FILE (JSON Lines) and print what comes of each."""
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        click.echo(f"concord replay: {error}", err=True)
        sys.exit(UNREADABLE)
    console = Console(highlight=False, soft_wrap=True)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        outcome = play(line, number)
        if form == "json":
            click.echo(_encode(outcome).decode())
        else:
            tell(outcome, console)


def play(line: bytes, number: int) -> dict[str, Any]:
    """The outcome of one scenario, or why it cannot be understood."""
    try:
        scenario = _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return {"id": None, "error": f"line {number}: {error}"}
    try:
        return {"id": scenario.id, **report(Run(scenario.given, scenario.events).play())}
    except NotUnderstoodError as error:
        return {"id": scenario.id, "error": str(error)}


def tell(outcome: dict[str, Any], console: Console) -> None:
    """One scenario for people: only what is not empty."""
    console.print(f"[bold]{escape(str(outcome['id']))}[/]")
    for name, value in outcome.items():
        if name != "id" and value not in ([], {}, 0):
            console.print(f"  {name:<21} {escape(str(value))}")
