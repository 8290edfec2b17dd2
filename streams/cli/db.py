"""`concord db`: the tables in Postgres. `migrate` makes them what this release needs, `check` says whether they are.

Exit codes: 0 they are, 1 something has not run yet (`check`), 2 a wrong setting, 4 Postgres cannot be reached, or holds what this
release cannot use.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Final

import click

from stores import schema
from streams.cli.database import using

NOT_YET: Final = 1


@click.group()
def db() -> None:
    """The tables in Postgres."""


@db.command()
def migrate() -> None:
    """Run the migrations that have not run yet, each once and whole. Safe to run from several places at once."""
    now = datetime.now(UTC)
    done = using("db", lambda connection: schema.migrate(connection, now))
    for one in done:
        click.echo(f"ran {one.file}")
    click.echo(f"{len(done)} migrations ran" if done else "nothing to do")


@db.command()
def check() -> None:
    """Say what has not run yet; change nothing."""
    waiting = using("db", schema.check)
    for one in waiting:
        click.echo(f"has not run: {one.file}")
    if waiting:
        sys.exit(NOT_YET)
    click.echo(f"all {len(schema.shipped())} migrations ran")
