"""`concord recon show`: the batches there are, or one of them with everything that is known of it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click
import msgspec

from stores import history
from streams.cli.database import using
from streams.cli.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stores.history import Batch, Whole

CODES: Final = "Exit codes: 0 printed, 1 there is no such batch, 2 a setting is wrong, 4 Postgres does not answer."


@click.command(epilog=CODES)
@click.argument("batch_id", required=False, type=click.IntRange(1))
@click.option("--channel", help="Only batches of this one.")
@click.option("--most", type=click.IntRange(1, 10_000), default=50, show_default=True)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def show(batch_id: int | None, channel: str | None, most: int, form: str) -> None:
    """List batches, the last business days first; or print one: versions, totals, rows that cannot be read, and what came of its lines."""
    if batch_id is None:
        batches = using("recon show", lambda connection: history.batches(connection, channel, most))
        if form == "json":
            click.echo(msgspec.json.encode(batches))
            return
        for one in batches:
            click.echo(printable(_line(one)))
        return
    found = using("recon show", lambda connection: history.batch(connection, batch_id))
    if found is None:
        click.echo(f"concord recon show: there is no batch {batch_id}; `concord recon show` lists them", err=True)
        sys.exit(1)
    if form == "json":
        click.echo(msgspec.json.encode(found))
        return
    for line in _whole(found):
        click.echo(printable(line))


def _whole(found: Whole) -> Iterator[str]:
    yield _line(found.batch)
    click.echo(
        printable(
            f"  {found.batch.file_name}, {found.batch.size} bytes, sha256 {found.batch.sha256}, by {found.batch.parser}"
        )
    )
    for version in found.versions:
        click.echo(
            printable(
                f"  version {version.version}: batch {version.id}, {version.state}, {version.imported_at:%Y-%m-%d %H:%M:%S}Z"
            )
        )
    for control in found.controls:
        yield f"  control {control[0]}: stated {control[1]}, read {control[2]}"
    for line, field, reason in found.rejected_rows:
        yield f"  line {line}: {field}: {reason}"
    for verdict, count in found.verdicts.items():
        yield f"  {verdict:<24}{count:>10}"
    for row in found.differences:
        yield f"  line {row[0]}: {row[1]} {row[2] or ''} {row[3] or ''}"


def _line(one: Batch) -> str:
    state = one.state if one.state != "rejected" else f"rejected: {one.reason}"
    whole = "complete" if one.complete else "not complete"
    return f"{one.id:>6}  {one.business_date}  {one.channel}  {one.batch}#{one.version}  {one.kind}  {one.lines} lines, {whole}, {state}"
