"""`concord recon read`: what a reader makes of a file, without a database."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from streams.cli import recon_files
from streams.cli.exits import WRONG_SETTING
from streams.cli.printable import printable
from streams.domain import banking
from streams.domain.bills import is_money
from streams.domain.lines import Balances, BankEntry, BillRow, Control, Payout, RejectedRow, SettlementRow
from streams.statements.parsers import KINDS
from streams.statements.refusal import Refused

if TYPE_CHECKING:
    from streams.domain.lines import Line

CODES: Final = "Exit codes: 0 read, 1 its totals or balances are not those of its lines, 2 an option is wrong, 3 the file is refused."
SHOWN: Final = 20


class Summary:
    """What a file says, summed while it is read."""

    def __init__(self) -> None:
        self.lines: Counter[str] = Counter()
        self.totals: Counter[str] = Counter()
        self.rejected: list[RejectedRow] = []
        self.refused_rows = 0
        self.controls: list[Control] = []
        self.statements: list[dict[str, Any]] = []
        self.payouts: list[Payout] = []
        self._moved: Counter[str | None] = Counter()

    def add(self, line: Line) -> None:
        if isinstance(line, BillRow):
            self.lines[line.kind] += 1
            self.totals[f"{line.kind} {line.currency}"] += abs(line.amount) if is_money(line) else 0
        elif isinstance(line, SettlementRow):
            self.lines[line.kind] += 1
            self.totals[f"{line.kind} {line.currency}"] += line.amount
        elif isinstance(line, BankEntry):
            self.lines[line.status] += 1
            if line.status == "BOOK":
                self.totals[f"BOOK {line.currency}"] += banking.signed(line)
                self._moved[line.statement] += banking.signed(line)
        elif isinstance(line, RejectedRow):
            self.refused_rows += 1
            if len(self.rejected) < SHOWN:
                self.rejected.append(line)
        elif isinstance(line, Control):
            self.controls.append(line)
        elif isinstance(line, Payout):
            self.payouts.append(line)
        else:
            self._balance(line)

    def _balance(self, one: Balances) -> None:
        moved = self._moved.pop(one.statement, 0)
        stated = one.opening is not None and one.closing is not None
        difference = one.closing - one.opening - moved if one.closing is not None and one.opening is not None else None
        self.statements.append({
            "statement": one.statement, "account": one.account, "currency": one.currency, "opening": one.opening, "moved": moved,
            "closing": one.closing, "difference": difference if stated else None,
        })  # fmt: skip

    @property
    def ties(self) -> bool:
        return all(one.ties for one in self.controls) and not any(one["difference"] for one in self.statements)

    def plain(self) -> dict[str, Any]:
        return {
            "lines": dict(self.lines),
            "totals": dict(self.totals),
            "controls": [
                {"name": one.name, "stated": one.stated_text or one.stated, "read": one.read_text or one.read, "ties": one.ties}
                for one in self.controls
            ],
            "statements": self.statements,
            "payouts": [{"ref": one.ref, "amount": one.amount, "currency": one.currency} for one in self.payouts],
            "rejected": self.refused_rows,
            "rejected_rows": [{"line": one.line, "field": one.field, "reason": one.reason} for one in self.rejected],
            "ties": self.ties,
        }  # fmt: skip


@click.command("read", epilog=CODES)
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--channel", required=True, help="Whose file it is, such as `stripe` or `bank`; its contract may say the layout."
)
@click.option("--kind", type=click.Choice(KINDS), help="What it is, if it does not show; a text is a CHANNEL_BILL.")
@click.option(
    "--layout", type=click.Path(exists=True, dir_okay=False), help="A text layout (YAML), instead of the contract's."
)
@click.option("--parser", help="An older one, by name and version.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def read(  # noqa: PLR0917  click hands them over
    file: str, channel: str, kind: str | None, layout: str | None, parser: str | None, form: str
) -> None:
    """Read a bill or a statement and print its lines by kind, its totals, its control differences and the rows that cannot be read.

    Amounts are minor units.
    """
    summary = Summary()
    try:
        with Path(file).open("rb") as stream:
            chosen = recon_files.chosen(stream, kind, parser)
            text = recon_files.layout_of(channel, layout) if recon_files.takes_layout(chosen.parser) else ""
            for line in recon_files.lines(chosen.parser, stream, chosen.kind, text):
                summary.add(line)
    except recon_files.WrongFileError as wrong:
        click.echo(f"concord recon read: {wrong}", err=True)
        sys.exit(WRONG_SETTING)
    except Refused as refused:
        if form == "json":
            click.echo(json.dumps({"refused": refused.reason, "place": refused.place, "detail": refused.detail}))
        click.echo(f"concord recon read: {printable(str(refused))}", err=True)
        sys.exit(recon_files.REFUSED)
    if form == "json":
        click.echo(json.dumps({"parser": chosen.parser, "kind": chosen.kind, **summary.plain()}, ensure_ascii=False))
    else:
        _show(f"{chosen.parser} as {chosen.kind}", summary)
    sys.exit(0 if summary.ties else 1)


def _show(parser: str, summary: Summary) -> None:
    click.echo(f"read by {parser}")
    for kind, count in sorted(summary.lines.items()):
        click.echo(f"  {kind:<12}{count:>10} lines")
    for name, total in sorted(summary.totals.items()):
        click.echo(f"  {name:<12}{total:>18} minor units")
    for one in summary.controls:
        verdict = "ties" if one.ties else "DIFFERS"
        click.echo(
            f"  control {one.name}: stated {one.stated_text or one.stated}, read {one.read_text or one.read}: {verdict}"
        )
    for stated in summary.statements:
        if stated["difference"] is None:
            verdict = "states no balances"
        else:
            verdict = "ties" if not stated["difference"] else f"DIFFERS by {stated['difference']}"
        click.echo(printable(f"  statement {stated['statement'] or '-'}: {verdict}"))
    for payout in summary.payouts:
        click.echo(printable(f"  payout {payout.ref}: {payout.amount} {payout.currency}"))
    for row in summary.rejected:
        click.echo(printable(f"  line {row.line}: {row.field}: {row.reason}"))
    if summary.refused_rows > len(summary.rejected):
        click.echo(f"  and {summary.refused_rows - len(summary.rejected)} rows more")
