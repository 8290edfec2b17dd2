"""`concord recon watch`: a folder whose files are imported as they come."""

from __future__ import annotations

import re
import sys
import time
from datetime import date
from pathlib import Path
from typing import Final, NamedTuple

import click

from streams.cli import recon_files
from streams.cli.database import using
from streams.cli.exits import INTERRUPTED
from streams.cli.printable import printable
from streams.cli.recon_import import Wanted, loading

NAME: Final = re.compile(
    r"(?P<channel>[A-Za-z0-9_.-]+)@(?P<account>[A-Za-z0-9_.-]+)_(?P<day>\d{4}-\d{2}-\d{2})(?P<rest>[_.].*)?"
)
PARTIAL: Final = (".part", ".tmp", ".crdownload", ".filepart")
DONE: Final = "imported"
REFUSED: Final = "refused"
CODES: Final = (
    "Exit codes, with --once: 0 all were imported, 3 some were refused; 2 a setting is wrong, 4 Postgres does not answer, "
    "130 stopped."
)


class Seen(NamedTuple):
    """What a file looked like: it is complete once that stays for a look."""

    size: int
    changed: int


@click.command(epilog=CODES)
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--every", type=click.FloatRange(min=0.05), default=2.0, show_default=True, help="Seconds between looks.")
@click.option("--once", is_flag=True, help="Import what is there, and end.")
def watch(folder: Path, every: float, once: bool) -> None:
    """Import files as they come into FOLDER, named CHANNEL@ACCOUNT_YYYY-MM-DD…, such as wechatpay@shop_2026-03-03.csv.

    A file is taken once its size and time have stayed for a look; names that begin with a dot or end as downloads do are left alone. What
    was imported moves to FOLDER/imported, what was refused to FOLDER/refused with the reason beside it. A crash between an import and the
    move does no harm: the same content again adds nothing.
    """
    known: dict[Path, Seen] = {}
    refused = False
    try:
        while True:
            looked = {path: _seen(path) for path in sorted(folder.iterdir()) if _is_file(path)}
            ready = [path for path, seen in looked.items() if known.get(path) == seen]
            for path in ready:
                refused |= not _take(path)
            if once and known and not (looked.keys() - set(ready)):
                break
            known = {path: seen for path, seen in looked.items() if path not in ready}
            if once and not known:
                break
            time.sleep(every)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    sys.exit(recon_files.REFUSED if refused else 0)


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.name.startswith(".") and not path.name.endswith(PARTIAL)


def _seen(path: Path) -> Seen:
    stat = path.stat()
    return Seen(stat.st_size, stat.st_mtime_ns)


def _take(path: Path) -> bool:
    """Import one file and move it away; whether it is there."""
    match = NAME.fullmatch(path.name)
    if match is None:
        _move(path, REFUSED, "its name is not CHANNEL@ACCOUNT_YYYY-MM-DD…; rename it and put it back")
        return False
    try:
        day = date.fromisoformat(match["day"])
    except ValueError as wrong:
        _move(path, REFUSED, f"its name has no day: {wrong}")
        return False
    channel = f"{match['channel']}:{match['account']}"
    contract = recon_files.contract_of(channel)
    wanted = Wanted(
        channel, match["account"], day, contract.tz, path.name[:128], None, None, None, None, contract.reversal
    )
    said: str
    good: bool
    said, good = using("recon watch", loading(path, wanted, lambda _: None))
    click.echo(printable(said))
    _move(path, DONE if good else REFUSED, "" if good else said)
    return good


def _move(path: Path, where: str, why: str) -> None:
    """Put it there, never over another file of its name."""
    folder = path.parent / where
    folder.mkdir(exist_ok=True)
    target = folder / path.name
    number = 1
    while target.exists():
        number += 1
        target = folder / f"{path.name}.{number}"
    path.rename(target)
    if why:
        target.with_name(f"{target.name}.reason").write_text(f"{why}\n", encoding="utf-8")
        click.echo(printable(f"{path.name}: {why}"), err=True)
