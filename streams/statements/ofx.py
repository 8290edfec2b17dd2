"""OFX statements, 1.x (SGML, where a leaf needs no end tag) and 2.x (XML): transactions of bank and card accounts, each with its FITID.

Both are read alike, tag by tag: a tag with text behind it is a leaf, any other opens an aggregate. No document type and no entity is known,
so there is nothing to expand. A FITID is unique in its account; the amount's sign is its direction.
"""

from __future__ import annotations

import re
from datetime import date
from typing import IO, TYPE_CHECKING, Final

from streams.domain.lines import Balances, BankEntry, Line, RejectedRow
from streams.statements import figures, opened
from streams.statements.figures import FigureError
from streams.statements.refusal import Refused

if TYPE_CHECKING:
    from collections.abc import Iterator

TAG: Final = re.compile(r"<(/?)([A-Za-z0-9_.]+)\s*/?>([^<]*)")
ENTITIES: Final = (("&lt;", "<"), ("&gt;", ">"), ("&nbsp;", " "), ("&amp;", "&"))
STATEMENTS: Final = frozenset({"STMTRS", "CCSTMTRS"})
ENCODINGS: Final = ("UTF-8", "ISO-8859-1")
LONGEST: Final = 1 << 16


def statement(stream: IO[bytes]) -> Iterator[Line]:
    """Entries, and the ledger balance of each statement after them. Raises `Refused`."""
    reading = _Reading()
    for line, end, name, text in _tags(opened.text(stream, ENCODINGS)):
        yield from reading.take(line, name.upper(), text, end=end)
    if not reading.known:
        raise Refused("structure", "there is no statement in it: no STMTRS and no CCSTMTRS")
    if reading.inside:
        raise Refused("structure", "the file is cut off inside a statement, fetch it again")


def _tags(text: IO[str]) -> Iterator[tuple[int, bool, str, str]]:
    """Line, whether it is an end tag, name and text of every tag."""
    rest, at = "", 1
    for line, raw in enumerate(text, 1):
        if "<!DOCTYPE" in raw or "<!ENTITY" in raw:
            raise Refused("xml", "a statement has no document type", f"line {line}")
        rest += raw
        if len(rest) > LONGEST:
            raise Refused("structure", "a tag goes on for too long; this is no OFX", f"line {line}")
        complete = rest.rfind("<")
        if complete <= 0 and not rest.endswith(("\n", "\r")):
            continue
        for match in TAG.finditer(rest):
            yield at, match[1] == "/", match[2], _plain(match[3])
        rest, at = "", line + 1


def _plain(text: str) -> str:
    for entity, character in ENTITIES:
        text = text.replace(entity, character)
    return text.strip()


class _Reading:
    """Statements under way."""

    def __init__(self) -> None:
        self.known = False
        self.inside = ""
        self._currency = ""
        self._account: str | None = None
        self._row: dict[str, str] | None = None
        self._line = 0
        self._balance: dict[str, str] = {}
        self._in_balance = False

    def take(self, line: int, name: str, text: str, *, end: bool) -> Iterator[Line]:
        if name in STATEMENTS:
            if end:
                yield self._balances()
            self.known, self.inside = True, "" if end else name
        elif name == "STMTTRN":
            if end and self._row is not None:
                yield self._entry(self._row)
            self._row, self._line = (None if end else {}), line
        elif name == "LEDGERBAL":
            self._in_balance = not end
        elif not end and text:
            self._leaf(name, text)

    def _leaf(self, name: str, text: str) -> None:
        if self._row is not None:
            self._row[name] = text
        elif self._in_balance:
            self._balance[name] = text
        elif name == "CURDEF":
            self._currency = text
        elif name == "ACCTID":
            self._account = text

    def _entry(self, row: dict[str, str]) -> BankEntry | RejectedRow:
        try:
            amount = figures.minor(figures.canonical(row.get("TRNAMT", "").replace(",", ".")), self._currency)
            booked_on = _day(row.get("DTPOSTED", ""))
        except (FigureError, ValueError) as wrong:
            return RejectedRow(
                line=self._line, field="TRNAMT" if isinstance(wrong, FigureError) else "DTPOSTED", reason=str(wrong)
            )
        if not row.get("FITID"):
            return RejectedRow(
                line=self._line, field="FITID", reason="is absent; without it the entry is not known again"
            )
        found = (row.get("REFNUM"), row.get("CHECKNUM"), row.get("MEMO"))
        return BankEntry(
            line=self._line,
            amount=abs(amount),
            currency=self._currency,
            direction="CRDT" if amount >= 0 else "DBIT",
            key=row["FITID"],
            references=tuple(dict.fromkeys(one for one in found if one)),
            text=row.get("TRNTYPE"),
            booked_on=booked_on,
        )

    def _balances(self) -> Balances:
        closing = None
        if "BALAMT" in self._balance:
            try:
                closing = figures.minor(figures.canonical(self._balance["BALAMT"].replace(",", ".")), self._currency)
            except FigureError as wrong:
                raise Refused("structure", f"BALAMT: {wrong}") from wrong
        found = Balances(
            statement=None, account=self._account, currency=self._currency or None, opening=None, closing=closing
        )
        self._balance = {}
        return found


def _day(text: str) -> date:
    """YYYYMMDD, whatever time and zone follow."""
    if not re.match(r"[0-9]{8}", text):
        raise ValueError(f"{text!r} does not begin with YYYYMMDD")
    return date(int(text[:4]), int(text[4:6]), int(text[6:8]))
