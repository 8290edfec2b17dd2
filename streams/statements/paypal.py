"""PayPal's activity export: what happened on the account, as a person downloads it. CSV in UTF-8, figures and dates by the locale.

Amounts are grouped and signed, fees are negative. Which of comma and point is the decimal sign is read off the file as a whole: a figure
that only one of them explains decides for all; a file in which none does, or two contradict, is refused. Conversions and holds are no
transactions of ours.
"""

from __future__ import annotations

import csv
import re
from typing import IO, TYPE_CHECKING, Final

from streams.domain.lines import Line, SettlementRow
from streams.statements import figures, opened, sheet
from streams.statements.figures import FigureError
from streams.statements.refusal import Refused
from streams.statements.sheet import Row, UnreadableError

if TYPE_CHECKING:
    from collections.abc import Iterator

NEEDED: Final = ("Type", "Status", "Currency", "Gross", "Fee", "Net", "Transaction ID")
POINT: Final = re.compile(r"-?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)\.[0-9]{1,2}|-?[0-9]{1,3}(?:,[0-9]{3}){2,}")
COMMA: Final = re.compile(r"-?(?:[0-9]{1,3}(?:\.[0-9]{3})+|[0-9]+),[0-9]{1,2}|-?[0-9]{1,3}(?:\.[0-9]{3}){2,}")
DONE: Final = frozenset({"Completed", "Partially Refunded", "Refunded"})
REFUNDS: Final = ("refund", "reversal")
FEES: Final = ("fee",)
ASIDE: Final = ("conversion", "hold", "authorization", "transfer", "withdrawal", "deposit")


def activity(stream: IO[bytes]) -> Iterator[Line]:
    """Completed transactions. Raises `Refused`."""
    decimal = _decimal(stream)
    rows = sheet.cells(opened.text(stream, ("UTF-8",)))
    columns = sheet.columns(next(rows, (1, [""]))[1], NEEDED)
    found = 0
    for line, cells in rows:
        found += 1
        if len(cells) != len(columns):
            yield sheet.narrow(line, cells, len(columns))
            continue
        row = Row(columns, cells, line)
        if row.get("Status") in DONE:
            yield sheet.made(lambda one: _line(one, decimal), row)
    if not found:
        raise Refused("empty", "the export has no row")


def _decimal(stream: IO[bytes]) -> str:
    """The decimal sign that the figures of the file allow."""
    rows = csv.DictReader(opened.text(stream, ("UTF-8",)))
    by_point = by_comma = False
    try:
        for row in rows:
            for name in ("Gross", "Fee", "Net"):
                text = (row.get(name) or "").strip()
                by_point |= POINT.fullmatch(text) is not None
                by_comma |= COMMA.fullmatch(text) is not None
    except csv.Error as wrong:
        raise Refused("structure", str(wrong)) from wrong
    if by_point == by_comma:
        why = "its figures contradict each other" if by_point else "no figure says which sign is the decimal one"
        raise Refused("structure", f"{why}; export it again with one locale")
    return "." if by_point else ","


def _line(row: Row, decimal: str) -> SettlementRow:
    currency, word = row.need("Currency"), row.need("Type")
    gross, fee, net = (_money(row, name, currency, decimal) for name in ("Gross", "Fee", "Net"))
    if gross + fee != net:
        raise UnreadableError("Net", f"gross {gross} and fee {fee} do not make the net {net}")
    lower = word.casefold()
    aside = any(part in lower for part in ASIDE)
    refund = any(part in lower for part in REFUNDS)
    charge = not refund and not aside and any(part in lower for part in FEES)
    return SettlementRow(
        line=row.line,
        kind="OTHER" if aside else "REFUND" if refund else "FEE" if charge else "PAY",
        amount=gross,
        currency=currency,
        transaction=row.need("Transaction ID"),
        operation_no=row.get("Invoice Number", "Custom Number"),
        fee=-fee,
        net=net,
        raw_kind=word,
    )


def _money(row: Row, name: str, currency: str, decimal: str) -> int:
    text = row.get(name) or "0"
    try:
        return figures.minor(figures.canonical(text, decimal, "," if decimal == "." else "."), currency)
    except FigureError as wrong:
        raise UnreadableError(name, str(wrong)) from wrong
