"""`concord recon replay` and `diff`: a batch read again from its kept bytes, under its own parser or another one."""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import click
import msgspec

from stores import batches, history
from streams.cli import recon_files
from streams.cli.database import end, using
from streams.cli.exits import WRONG_SETTING
from streams.cli.printable import printable
from streams.domain import banking
from streams.domain.lines import BankEntry, BillRow, RejectedRow, SettlementRow
from streams.statements import parsers
from streams.statements.refusal import Refused

if TYPE_CHECKING:
    from stores.history import Batch
    from streams.domain.lines import Line

CODES: Final = (
    "Exit codes: 0 the same, 1 not the same, or there is no such batch, 2 an option is wrong, 3 the file is refused, "
    "4 Postgres does not answer."
)
_encode: Final = msgspec.json.Encoder().encode
SHOWN: Final = 20


class Reading(NamedTuple):
    """What one reading of the bytes gave: the digest over its lines, each line by its place, and the money by kind."""

    digest: str
    lines: dict[str, bytes]
    money: Counter[str]


@click.command(epilog=CODES)
@click.argument("batch_id", type=click.IntRange(1))
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def replay(batch_id: int, form: str) -> None:
    """Read a batch again from its kept bytes by the parser that it was imported with, and compare every line, byte for byte."""
    batch, reading = using("recon replay", lambda connection: _again(connection, batch_id, None, None))
    same = reading.digest == batch.digest
    if form == "json":
        click.echo(
            json.dumps(
                {
                    "batch": batch_id,
                    "parser": batch.parser,
                    "same": same,
                    "digest": reading.digest,
                    "then": batch.digest,
                }
            )
        )
    else:
        click.echo(
            f"batch {batch_id} by {batch.parser}: {len(reading.lines)} lines, {'the same' if same else 'NOT the same'} as imported"
        )
    sys.exit(0 if same else 1)


@click.command(epilog=CODES)
@click.argument("batch_id", type=click.IntRange(1))
@click.option("--parser", help="Another one, by name and version.")
@click.option("--layout", type=click.Path(exists=True, dir_okay=False), help="Another text layout (YAML).")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def diff(batch_id: int, parser: str | None, layout: str | None, form: str) -> None:
    """Read a batch by another parser or layout, in shadow, and print what would differ in lines and money. Nothing is changed.

    To make it count, import the file again with the same option: it becomes a version of its own.
    """
    if parser is None and layout is None:
        end("recon diff", WRONG_SETTING, "say what to compare with: --parser or --layout")

    async def work(connection: Any) -> tuple[Reading, Reading]:
        _, before = await _again(connection, batch_id, None, None)
        _, after = await _again(connection, batch_id, parser, layout)
        return before, after

    before, after = using("recon diff", work)
    changed = sorted(
        name for name in before.lines.keys() | after.lines.keys() if before.lines.get(name) != after.lines.get(name)
    )
    money = {
        name: after.money[name] - before.money[name]
        for name in sorted(before.money.keys() | after.money.keys())
        if after.money[name] != before.money[name]
    }
    if form == "json":
        click.echo(json.dumps({"lines": len(changed), "first": changed[:SHOWN], "money": money}))
    else:
        click.echo(
            f"{len(changed)} lines differ"
            + "".join(f"\n  {name} {amount:+} minor units" for name, amount in money.items())
        )
        for name in changed[:SHOWN]:
            click.echo(printable(f"  - {_shown(before.lines.get(name))}\n  + {_shown(after.lines.get(name))}"))
    sys.exit(1 if changed else 0)


def _shown(line: bytes | None) -> str:
    return "" if line is None else line.decode()


async def _again(connection: Any, batch_id: int, parser: str | None, layout: str | None) -> tuple[Batch, Reading]:
    batch = await history.one(connection, batch_id)
    if batch is None or batch.version == 0:
        _stop(1, f"there is no imported batch {batch_id}; `concord recon show` lists them")
    try:
        chosen = parser or batch.parser
        if chosen not in parsers.PARSERS or batch.kind not in parsers.PARSERS[chosen].kinds:
            _stop(WRONG_SETTING, f"parser {chosen} does not read {batch.kind}; known are {', '.join(parsers.PARSERS)}")
        text = batch.layout if layout is None else recon_files.layout_of(batch.channel, layout)
    except recon_files.WrongFileError as wrong:
        _stop(WRONG_SETTING, str(wrong))
    with tempfile.TemporaryFile() as stream:
        await batches.kept(connection, bytes.fromhex(batch.sha256), stream)
        try:
            return batch, _read(recon_files.lines(chosen, stream, batch.kind, text))
        except Refused as refused:
            _stop(recon_files.REFUSED, str(refused))


def _stop(code: int, why: str) -> NoReturn:
    click.echo(f"concord recon: {printable(why)}", err=True)
    sys.exit(code)


def _read(lines: Any) -> Reading:
    digest = hashlib.sha256()
    found: dict[str, bytes] = {}
    money: Counter[str] = Counter()
    for line in lines:
        packed = _encode(line)
        if isinstance(line, BillRow | SettlementRow | BankEntry | RejectedRow):
            found[f"{type(line).__name__} {line.line:>10}"] = packed
        if type(line).__name__ != "Balances":
            digest.update(packed)
        _sum(line, money)
    return Reading(digest.hexdigest(), found, money)


def _sum(line: Line, money: Counter[str]) -> None:
    if isinstance(line, BankEntry):
        money[f"{line.status} {line.currency}"] += banking.signed(line)
    elif isinstance(line, BillRow | SettlementRow):
        money[f"{line.kind} {line.currency}"] += line.amount
        money[f"fee {line.currency}"] += line.fee or 0
