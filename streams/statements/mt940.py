"""SWIFT MT940: statements of an account, tag by tag, amounts with a decimal comma.

Marks of `:61:` are C, D, RC and RD: a reversal shows the direction of what it reverses, so RC takes money and RD gives it. The owner's
reference stands in the line, the bank's behind `//`, and what the payer wrote in `:86:`. NONREF is no reference. A library was looked at
and passed over: it refuses lawful samples.
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

TAG: Final = re.compile(r":([0-9]{2}[A-Z]?):(.*)", re.DOTALL)
BALANCE: Final = re.compile(r"([CD])([0-9]{6})([A-Z]{3})([0-9]+,[0-9]*)")
MOVEMENT: Final = re.compile(
    r"(?P<value>[0-9]{6})(?P<booked>[0-9]{4})?(?P<mark>RC|RD|C|D)(?P<funds>[A-Z])?(?P<amount>[0-9]+,[0-9]*)"
    r"(?P<type>[A-Z][A-Z0-9]{3})(?P<reference>[^/\n]*(?:/[^/\n]+)*)(?://(?P<bank>[^\n]*))?(?:\n.*)?",
    re.DOTALL,
)
NONE: Final = frozenset({"", "NONREF", "NOTPROVIDED"})
ENCODINGS: Final = ("UTF-8", "ISO-8859-1")
EREF: Final = re.compile(r"(?:EREF|KREF)\+([^?+]*?)(?=(?:\?[0-9]{2})?(?:[A-Z]{4}\+)|\?|$)")


def statement(stream: IO[bytes]) -> Iterator[Line]:
    """Entries of every statement of the file, and its balances after them. Raises `Refused`."""
    reading = _Reading()
    for line, tag, value in _tags(opened.text(stream, ENCODINGS)):
        yield from reading.take(line, tag, value)
    yield from reading.done()
    if not reading.statements:
        raise Refused("structure", "there is no statement in it: no :20:")


def _tags(text: IO[str]) -> Iterator[tuple[int, str, str]]:
    """Each field with the line on which it begins; lines that begin with no tag go on with the one before."""
    current: tuple[int, str, list[str]] | None = None
    for line, raw in enumerate(text, 1):
        content = raw.rstrip("\r\n")
        match = TAG.fullmatch(content)
        if match is not None:
            if current is not None:
                yield current[0], current[1], "\n".join(current[2])
            current = (line, match[1], [match[2]])
        elif content.startswith(("-}", "{", "\x01")) or content.strip() in {"", "-"}:
            continue
        elif current is None:
            raise Refused("structure", f"{content[:20]!r} stands before the first tag", f"line {line}")
        else:
            current[2].append(content)
    if current is not None:
        yield current[0], current[1], "\n".join(current[2])


class _Reading:
    """Statements under way. An entry is handed out when its remarks, which follow it, were read."""

    def __init__(self) -> None:
        self.statements = 0
        self._reference: str | None = None
        self._account: str | None = None
        self._currency: str | None = None
        self._opening: int | None = None
        self._closing: int | None = None
        self._waiting: tuple[int, str] | None = None
        self._remarks = ""

    def take(self, line: int, tag: str, value: str) -> Iterator[Line]:
        if tag == "86" and self._waiting is not None:
            self._remarks = value
            return
        yield from self._entry()
        if tag == "20":
            yield from self.done()
            self.statements += 1
            self._reference = value.strip()
        elif tag == "25":
            self._account = value.strip()
        elif tag in {"60F", "60M"}:
            self._opening, self._currency = _balance(value, line)
        elif tag == "61":
            self._waiting = (line, value)
        elif tag in {"62F", "62M"}:
            self._closing, self._currency = _balance(value, line)

    def done(self) -> Iterator[Line]:
        yield from self._entry()
        if self._reference is not None:
            yield Balances(
                statement=self._reference, account=self._account, currency=self._currency, opening=self._opening, closing=self._closing
            )  # fmt: skip
        self._reference = self._account = self._currency = None
        self._opening = self._closing = None

    def _entry(self) -> Iterator[BankEntry | RejectedRow]:
        if self._waiting is None:
            return
        line, value = self._waiting
        remarks, self._waiting, self._remarks = self._remarks, None, ""
        match = MOVEMENT.fullmatch(value)
        if match is None or self._currency is None:
            yield RejectedRow(line=line, field=":61:", reason="it is not date, mark, amount, type and reference")
            return
        try:
            amount = figures.minor(figures.canonical(match["amount"].rstrip(","), ","), self._currency)
            value_on = _day(match["value"])
        except (FigureError, ValueError) as wrong:
            yield RejectedRow(line=line, field=":61:", reason=str(wrong))
            return
        mark = match["mark"]
        yield BankEntry(
            line=line,
            amount=amount,
            currency=self._currency,
            direction="CRDT" if mark in {"C", "RD"} else "DBIT",
            reversal=mark in {"RC", "RD"},
            account_ref=_reference(match["bank"]),
            references=tuple(
                one for one in dict.fromkeys((*_in_remarks(remarks), _reference(match["reference"]))) if one is not None
            ),
            statement=self._reference,
            text=" ".join(remarks.split()) or None,
            value_on=value_on,
            booked_on=_booked(value_on, match["booked"]),
        )


def _reference(text: str | None) -> str | None:
    found = (text or "").strip()
    return None if found in NONE else found


def _in_remarks(text: str) -> Iterator[str]:
    for match in EREF.finditer(text.replace("\n", "")):
        if (found := match[1].strip()) not in NONE:
            yield found


def _balance(value: str, line: int) -> tuple[int, str]:
    match = BALANCE.fullmatch(value.strip())
    if match is None:
        raise Refused("structure", "the balance is not mark, date, currency and amount", f"line {line}")
    try:
        amount = figures.minor(figures.canonical(match[4].rstrip(","), ","), match[3])
    except FigureError as wrong:
        raise Refused("structure", str(wrong), f"line {line}") from wrong
    return amount if match[1] == "C" else -amount, match[3]


def _day(text: str) -> date:
    """YYMMDD; SWIFT counts years from 80 on as of the last century."""
    year = int(text[:2])
    return date(1900 + year if year >= 80 else 2000 + year, int(text[2:4]), int(text[4:6]))


def _booked(value_on: date, text: str | None) -> date | None:
    """MMDD, in the year that brings it nearest to the value date."""
    if text is None:
        return None
    month, day = int(text[:2]), int(text[2:])
    try:
        days = [date(value_on.year + years, month, day) for years in (-1, 0, 1)]
    except ValueError:
        return None
    return min(days, key=lambda one: abs((one - value_on).days))
