"""Rows of a delimited file under named columns, for readers that know their columns: where a row stands, and what a cell says.

A cell that cannot be what its column is makes the row unreadable, by its physical line; the others count.
"""

from __future__ import annotations

import csv
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from streams.domain.lines import Line, RejectedRow
from streams.statements import figures
from streams.statements.figures import FigureError
from streams.statements.refusal import Refused

if TYPE_CHECKING:
    import io
    from collections.abc import Callable, Iterator, Sequence

NONE: Final = frozenset({"", "0"})


class UnreadableError(ValueError):
    """A cell is not what its column is."""

    def __init__(self, field: str, why: str) -> None:
        self.field, self.why = field, why
        super().__init__(f"{field}: {why}")


class Row:
    """One row. An empty cell is None, and so is a column that the file has not."""

    __slots__ = ("_cells", "_columns", "line")

    def __init__(self, columns: dict[str, int], cells: Sequence[str], line: int) -> None:
        self._columns, self._cells, self.line = columns, cells, line

    def get(self, *names: str) -> str | None:
        """The first of these columns that the file has."""
        for name in names:
            place = self._columns.get(name)
            if place is not None:
                return self._cells[place] or None
        return None

    def need(self, *names: str) -> str:
        found = self.get(*names)
        if found is None:
            raise UnreadableError(names[0], "is empty")
        return found

    def id(self, *names: str) -> str | None:
        """A reference; files write 0 where there is none."""
        found = self.get(*names)
        return None if found is None or found in NONE else found

    def money(self, currency: str, *names: str, group: str | None = None) -> int:
        """Minor units; an empty cell is zero, as files that have a column for each direction write it."""
        text = self.get(*names)
        if text is None:
            return 0
        try:
            return figures.minor(figures.canonical(text, group=group), currency)
        except FigureError as wrong:
            raise UnreadableError(names[0], str(wrong)) from wrong

    def fine(self, currency: str, *names: str) -> tuple[int | None, str | None]:
        """A fee that may have more digits than the currency: minor units, half to even, and its text if it is finer."""
        text = self.get(*names)
        if text is None:
            return None, None
        try:
            return figures.fine(figures.canonical(text), currency)
        except FigureError as wrong:
            raise UnreadableError(names[0], str(wrong)) from wrong

    def exact(self, *names: str) -> Decimal:
        """The very figure, for a sum that is compared with a stated one."""
        text = self.get(*names)
        try:
            return Decimal(0) if text is None else Decimal(figures.canonical(text))
        except FigureError as wrong:
            raise UnreadableError(names[0], str(wrong)) from wrong


def cells(text: io.TextIOBase, *, before: int = 0, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """Every row that is not empty, with the line on which it begins. `before` lines were read already.

    A row that is no row (an open quote, a stray one) refuses the file: where it ends cannot be known.
    """
    rows = csv.reader(text, delimiter=delimiter, strict=True)
    while True:
        line = before + rows.line_num + 1
        try:
            found = next(rows)
        except StopIteration:
            return
        except csv.Error as wrong:
            raise Refused("structure", f"{wrong}; the row is not quoted as it should be", f"line {line}") from wrong
        if found:
            yield line, found


def columns(header: Sequence[str], needed: Sequence[str]) -> dict[str, int]:
    """Where each column stands. Raises `Refused` for one that is needed and absent."""
    found = {name: place for place, name in enumerate(header)}
    absent = [name for name in needed if name not in found]
    if absent:
        raise Refused("header", f"the header lacks {', '.join(absent)}; it is another layout")
    return found


def made(build: Callable[[Row], Line], row: Row) -> Line:
    """The line of a row, or the row that cannot be read."""
    try:
        return build(row)
    except UnreadableError as wrong:
        return RejectedRow(line=row.line, field=wrong.field, reason=wrong.why)


def narrow(line: int, found: Sequence[str], wide: int) -> RejectedRow:
    """A row with more or fewer cells than the header."""
    return RejectedRow(
        line=line, field="row", reason=f"{len(found)} cells, the header has {wide}; none is merged by guess"
    )
