"""Where the commands of `concord route` get a book from: a file, or the one that holds in Postgres with what is known now."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from stores import route_knowledge
from stores.route_knowledge import Knowledge
from streams.cli.database import end, using
from streams.cli.exits import WRONG_SETTING
from streams.cli.printable import json_text, printable
from streams.routes.book_file import BookError, read

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from streams.domain.score import Book

NOT_DONE: Final = 1
CODES: Final = (
    "Exit codes: 0 done, 1 refused, or no channel fits, 2 a setting or the book is wrong, 4 Postgres does not answer."
)
A_FILE: Final = click.Path(dir_okay=False, path_type=Path)
A_TIME: Final = click.DateTime(formats=["%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M", "%Y-%m-%d"])
"""UTC."""
as_format = click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help="What is printed."
)


def from_file(path: Path) -> Book:
    """The book in a file; one that cannot be used ends the process."""
    try:
        return read(path)
    except BookError as error:
        end("route", WRONG_SETTING, printable(str(error)))


def known(path: Path | None, at: datetime) -> Knowledge:
    """Of a file nothing is known but what it assumes; without one it is what Postgres knows at `at`."""
    if path is not None:
        return Knowledge(book=from_file(path))
    found = using("route", lambda connection: route_knowledge.known(connection, at))
    return found or end("route", NOT_DONE, "no book was loaded yet; use `concord route load FILE`, or give --book FILE")


def say(lines: Iterable[str]) -> None:
    """Lines of text."""
    for line in lines:
        click.echo(printable(line))


def say_json(value: Any) -> None:
    """One JSON document."""
    click.echo(json_text(msgspec.to_builtins(value), indent=2))
