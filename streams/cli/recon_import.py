"""`concord recon import`: files into Postgres, each there whole or not at all."""

from __future__ import annotations

import sys
from datetime import UTC, date, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from stores import batches
from stores.outbox import put
from streams import businessday
from streams.cli import recon_files
from streams.cli.database import end, using
from streams.cli.exits import WRONG_SETTING
from streams.cli.printable import printable
from streams.domain import reporter
from streams.domain.lines import FileIdentity
from streams.statements import parsers
from streams.statements.parsers import KINDS
from streams.statements.refusal import Refused

if TYPE_CHECKING:
    from stores.batches import Imported
    from streams.domain.lines import RejectedRow
    from streams.domain.reports import Found

CODES: Final = (
    "Exit codes: 0 every file is there (now, or before), 2 an option is wrong, 3 a file was refused and nothing of it is booked, "
    "4 Postgres does not answer."
)


class Wanted(NamedTuple):
    """How the files are to be read and named."""

    channel: str
    account: str
    day: date
    zone: str
    batch: str
    source: str | None
    kind: str | None
    parser: str | None
    layout: str | None
    reversal: str


@click.command("import", epilog=CODES)
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False))
@click.option("--channel", required=True, help="`channel:account` whose files they are; banks are channels too.")
@click.option("--date", "day", required=True, type=click.DateTime(["%Y-%m-%d"]), help="The business day.")
@click.option("--account", default="main", show_default=True, help="The account within it, such as a bank account.")
@click.option("--zone", help="IANA zone of the business day; the contract's without it.")
@click.option(
    "--batch",
    help="What the channel calls the batch; the day without it, the name of each of several files.",
)
@click.option("--source", help="What lists it; channel and kind without it.")
@click.option("--kind", type=click.Choice(KINDS), help="What it is, if it does not show; a text is a CHANNEL_BILL.")
@click.option(
    "--layout", type=click.Path(exists=True, dir_okay=False), help="A text layout (YAML), instead of the contract's."
)
@click.option("--parser", help="An older one, by name and version.")
def imported(files: tuple[str, ...], day: datetime, **options: Any) -> None:
    """Import bills and statements: the same file again adds nothing, a corrected one supersedes, and both are kept."""
    wanted = _wanted(day.date(), several=len(files) > 1, **options)
    refused = False
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed} lines"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        for path in files:
            task = progress.add_task(printable(Path(path).name), total=None)
            named = wanted if len(files) == 1 else wanted._replace(batch=Path(path).name[:128])
            said, good = using(
                "recon import",
                loading(Path(path), named, lambda done, task=task: progress.update(task, completed=done)),
            )
            progress.update(task, total=1, completed=1, visible=False)
            click.echo(printable(said))
            refused |= not good
    sys.exit(recon_files.REFUSED if refused else 0)


def _wanted(day: date, *, several: bool, channel: str, account: str, **options: Any) -> Wanted:
    contract = recon_files.contract_of(channel)
    zone = options["zone"] or contract.tz
    try:
        businessday.zone(zone)
    except businessday.ZoneUnknownError as wrong:
        end("recon import", WRONG_SETTING, str(wrong))
    if several and options["batch"]:
        end("recon import", WRONG_SETTING, "--batch names one batch; leave it away for several files")
    return Wanted(
        channel, account, day, zone, options["batch"] or f"{day:%Y%m%d}", options["source"], options["kind"], options["parser"],
        options["layout"], contract.reversal,
    )  # fmt: skip


def loading(path: Path, wanted: Wanted, seen: Any) -> Any:
    """The work on a connection: one file. What it gives is a sentence, and whether the file is there."""

    async def work(connection: Any) -> tuple[str, bool]:
        now = datetime.now(UTC)
        with path.open("rb") as stream:
            try:
                file = _file(path, stream, wanted)
            except recon_files.WrongFileError as wrong:
                end("recon import", WRONG_SETTING, f"{path.name}: {wrong}")
            try:
                async with connection.transaction():
                    done = await batches.load(
                        connection, file, stream, lambda: recon_files.lines(file.parser, stream, file.kind, file.layout), now, seen
                    )  # fmt: skip
                    rows = [] if done.duplicate else await batches.rejected_rows(connection, done.batch_id)
                    await put(connection, [*_told(wanted, done), *_rows(wanted, rows)])
            except (Refused, batches.DoesNotTieError) as wrong:
                kind: Found = "BALANCE_BREAK" if isinstance(wrong, batches.DoesNotTieError) else "FILE_REJECTED"
                told = reporter.difference(
                    kind, wanted.channel, wanted.batch, wanted.batch, detail=printable(str(wrong))[:256]
                )
                async with connection.transaction():
                    await batches.reject(connection, file, str(wrong), now)
                    await put(connection, [told])
                return f"{path.name}: refused: {wrong}", False
        return f"{path.name}: {_said(done)}", True

    return work


def _file(path: Path, stream: IO[bytes], wanted: Wanted) -> batches.File:
    """What is imported. An archive that cannot be opened is told by the reading, which refuses it."""
    try:
        chosen = recon_files.chosen(stream, wanted.kind, wanted.parser)
    except Refused:
        chosen = parsers.Chosen(parsers.newest("table"), wanted.kind or "CHANNEL_BILL")
    sha256, size = recon_files.hashed(stream)
    return batches.File(
        identity=FileIdentity(
            source=wanted.source or f"{wanted.channel}/{chosen.kind.lower()}", account=wanted.account, business_date=wanted.day,
            batch=wanted.batch, zone=wanted.zone,
        ),
        channel=wanted.channel, kind=chosen.kind, name=path.name, sha256=sha256, size=size, parser=chosen.parser,
        layout=recon_files.layout_of(wanted.channel, wanted.layout) if recon_files.takes_layout(chosen.parser) else "",
        reversal=wanted.reversal,
    )  # fmt: skip


def _told(wanted: Wanted, done: Imported) -> list[Any]:
    """What the law is told of an import: that it repeats, or replaces."""
    if done.duplicate:
        return [
            reporter.difference("DUPLICATE_FILE", wanted.channel, wanted.batch, wanted.batch, detail="imported before")
        ]
    if done.version == 1:
        return []
    ref = f"{wanted.batch}#{done.version}"
    return [
        reporter.difference("FILE_VERSION_CHANGED", wanted.channel, ref, ref, detail="it replaces the version before")
    ]


def _rows(wanted: Wanted, rows: list[RejectedRow]) -> list[Any]:
    return [
        reporter.difference(
            "ROW_REJECTED", wanted.channel, f"{wanted.batch}:{row.line}", f"{wanted.batch}:{row.line}",
            detail=printable(f"{row.field}: {row.reason}")[:256],
        )
        for row in rows
    ]  # fmt: skip


def _said(done: Imported) -> str:
    if done.duplicate:
        return f"was imported before, as version {done.version} (batch {done.batch_id}); nothing added"
    state = "complete" if done.complete else f"{done.rejected} rows cannot be read, so it proves no absence"
    return f"{done.lines} lines, batch {done.batch_id}, version {done.version}, {state}"
