"""A text file by its contract: a header, rows, and perhaps totals; which column is what, and how figures are written, is the layout's.

A row that cannot be read is named by its physical line and the others count; a file whose header or bytes are not the layout's is
refused. The totals that it states are compared with the sums of the very columns, and are no transaction.
"""

from __future__ import annotations

import csv
from decimal import Decimal
from typing import IO, TYPE_CHECKING, Any, Final, Literal

from streams.channels.amounts import iso_exponents
from streams.domain.lines import BankEntry, BillRow, Control, Line, Payout, RejectedRow, SettlementRow
from streams.statements import figures, opened
from streams.statements.figures import FigureError
from streams.statements.refusal import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from streams.domain.contract import Layout

Kind = Literal["CHANNEL_BILL", "SETTLEMENT", "BANK_CSV"]
STATUSES: Final = frozenset({"SUCCESS", "CLOSED", "FAILED", "PENDING"})
NO_REFUND: Final = frozenset({"", "0"})


def read(stream: IO[bytes], layout: Layout, kind: Kind = "CHANNEL_BILL") -> Iterator[Line]:
    """The lines of a seekable stream, then its controls. Raises `Refused`, perhaps only at the end."""
    text = opened.text(stream, layout.encodings)
    for _ in range(layout.preamble_lines):
        text.readline()
    yield from _Reading(csv.reader(text, delimiter=layout.delimiter, strict=True), layout, kind).lines()


class _Row(dict[str, str]):
    """A row by field; what is empty is not in it."""

    def need(self, field: str) -> str:
        if field not in self:
            raise _UnreadableError(field, "is empty")
        return self[field]


class _UnreadableError(ValueError):
    def __init__(self, field: str, why: str) -> None:
        self.field, self.why = field, why
        super().__init__(f"{field}: {why}")


class _Reading:
    """One file under way: its columns, and what was summed so far."""

    def __init__(self, rows: Any, layout: Layout, kind: Kind) -> None:
        self._rows, self._layout, self._kind = rows, layout, kind
        self._sums: dict[str, Decimal] = {"count": Decimal(0), "amount": Decimal(0), "fee": Decimal(0)}
        self._currency = layout.ccy
        builders: dict[Kind, Callable[[_Row, int], Line]] = {
            "CHANNEL_BILL": self._bill,
            "SETTLEMENT": self._part,
            "BANK_CSV": self._entry,
        }
        self._build = builders[kind]

    def lines(self) -> Iterator[Line]:
        header = self._header()
        first_control = next(iter(self._layout.control_columns), None)
        found = 0
        stated: dict[str, str] | None = None
        for line, cells in self._cells(header):
            if isinstance(cells, RejectedRow):
                yield cells
            elif first_control is not None and cells[0].strip() == first_control:
                stated = self._stated([cell.strip() for cell in cells])
            else:
                made = self._line(header, cells, line)
                found += not isinstance(made, RejectedRow)
                yield made
        if found == 0 and (stated is None or Decimal(stated.get("count") or "1") != 0):
            raise Refused("empty", "no row could be read under this layout")
        for name, value in (stated or {}).items():
            yield self._control(name, value)

    def _header(self) -> list[str]:
        try:
            header = [self._stripped(cell) for cell in next(self._rows)]
        except (StopIteration, csv.Error) as wrong:
            raise Refused("header", "the file has no header line; correct the layout", "line 1") from wrong
        absent = [
            name
            for name, field in self._layout.columns.items()
            if name not in header and not field.startswith("refund_")
        ]
        if absent:
            place = f"line {self._layout.preamble_lines + self._rows.line_num}"
            raise Refused("header", f"the header lacks {', '.join(absent)}; correct the layout", place)
        return header

    def _stripped(self, cell: str) -> str:
        lead = self._layout.lead
        return cell.removeprefix(lead) if lead is not None else cell

    def _cells(self, header: list[str]) -> Iterator[tuple[int, list[str] | RejectedRow]]:
        """Rows with the line on which each begins. Totals are handed on with their own width."""
        controls = next(iter(self._layout.control_columns), None)
        in_totals = False
        while True:
            line = self._layout.preamble_lines + self._rows.line_num + 1
            try:
                raw = next(self._rows)
            except StopIteration:
                return
            except csv.Error as wrong:
                yield line, RejectedRow(line=line, field="row", reason=f"{wrong}; quote it as the layout says")
                continue
            if not raw:
                continue
            cells = [self._stripped(cell) for cell in raw]
            if in_totals:
                return
            if controls is not None and cells[0].strip() == controls:
                in_totals = True
                yield line, cells
            elif len(cells) != len(header):
                why = f"{len(cells)} fields, the header has {len(header)}; columns are never merged by guess"
                yield line, RejectedRow(line=line, field="row", reason=why)
            else:
                yield line, cells

    def _stated(self, header: list[str]) -> dict[str, str]:
        """The totals under their own header, by what they count."""
        try:
            values = [self._stripped(cell).strip() for cell in next(self._rows)]
        except (StopIteration, csv.Error) as wrong:
            raise Refused("structure", "the totals have a header and no values") from wrong
        by_header = dict(zip(header, values, strict=False))
        found: dict[str, str] = {}
        for name, what in self._layout.control_columns.items():
            if name not in by_header:
                raise Refused("structure", f"the totals lack {name}; correct the layout")
            try:
                found[what] = figures.canonical(by_header[name], self._layout.decimal, self._layout.group)
            except FigureError as wrong:
                raise Refused("structure", f"total {name}: {wrong}") from wrong
        return found

    def _control(self, name: str, stated: str) -> Control:
        read = self._sums[name]
        if name == "count":
            return Control(name=name, stated=int(Decimal(stated)), read=int(read))
        currency = self._currency or ""
        try:
            return Control(
                name=name,
                stated=figures.minor(stated, currency, self._layout.amount_unit),
                read=figures.minor(f"{read:f}", currency, self._layout.amount_unit),
            )
        except FigureError:
            digits = iso_exponents().get(currency, 2)
            return Control(
                name=name,
                stated=int(Decimal(stated).scaleb(digits)),
                read=int(read.scaleb(digits)),
                stated_text=f"{Decimal(stated).normalize():f}",
                read_text=f"{read.normalize():f}",
            )

    # -- rows

    def _line(self, header: list[str], cells: list[str], line: int) -> Line:
        columns = self._layout.columns
        row = _Row(
            {columns[name]: cell for name, cell in zip(header, cells, strict=True) if name in columns and cell != ""}
        )
        try:
            made = self._build(row, line)
        except _UnreadableError as wrong:
            return RejectedRow(line=line, field=wrong.field, reason=wrong.why)
        self._sum(row)
        return made

    def _sum(self, row: _Row) -> None:
        self._sums["count"] += 1
        for name in ("amount", "fee"):
            if name in row:
                self._sums[name] += Decimal(figures.canonical(row[name], self._layout.decimal, self._layout.group))

    def _money(self, row: _Row, field: str, currency: str) -> int:
        try:
            return figures.amount(row.need(field), currency, self._layout)
        except FigureError as wrong:
            raise _UnreadableError(field, str(wrong)) from wrong

    def _fee(self, row: _Row, currency: str) -> tuple[int | None, str | None]:
        if not row.get("fee", "").strip():
            row.pop("fee", None)
            return None, None
        try:
            return figures.fee(row["fee"], currency, self._layout)
        except FigureError as wrong:
            raise _UnreadableError("fee", str(wrong)) from wrong

    def _ccy(self, row: _Row) -> str:
        currency = row.get("ccy") or self._layout.ccy
        if currency is None or currency not in iso_exponents():
            raise _UnreadableError("ccy", f"{currency!r} is no currency of ISO 4217 with minor units")
        self._currency = self._currency or currency
        return currency

    def _bill(self, row: _Row, line: int) -> BillRow:
        currency = self._ccy(row)
        refund = row.get("refund_txn", "").strip() not in NO_REFUND
        kind = "REFUND" if refund else row.get("kind", "PAY")
        if kind not in {"PAY", "REFUND"}:
            raise _UnreadableError("kind", f"{kind!r} is neither PAY nor REFUND; map it in the layout")
        status = row.get("refund_status" if refund else "status", "SUCCESS")
        if status not in STATUSES:
            raise _UnreadableError(
                "status", f"{status!r} is none of {', '.join(sorted(STATUSES))}; map it in the layout"
            )
        funds = row.get("funds")
        if funds not in {None, "PAID", "NONE"}:
            raise _UnreadableError("funds", f"{funds!r} is neither PAID nor NONE")
        amount = self._money(row, "refund_amount" if refund else "amount", currency)
        fee, fee_text = self._fee(row, currency)
        return BillRow(
            line=line,
            kind=kind,  # type: ignore[arg-type]
            amount=amount,
            currency=currency,
            status=status,
            transaction=row.get("refund_txn" if refund else "txn"),
            parent_transaction=row.get("txn") if refund else None,
            operation_no=row.get("refund_op") if refund else row.get("op"),
            funds=funds,  # type: ignore[arg-type]
            fee=fee,
            fee_text=fee_text,
            net=self._money(row, "net", currency) if "net" in row else None,
            local_time=row.get("local_time") or row.get("time"),
        )

    def _part(self, row: _Row, line: int) -> SettlementRow | Payout:
        currency = self._ccy(row)
        kind = row.get("kind", "PAY")
        if kind == "PAYOUT":
            return Payout(
                line=line, ref=row.need("ref"), amount=self._money(row, "amount", currency), currency=currency
            )
        if kind not in {"PAY", "REFUND", "FEE", "CHARGEBACK", "OTHER"}:
            raise _UnreadableError(
                "kind", f"{kind!r} is none of PAY, REFUND, FEE, CHARGEBACK, OTHER, PAYOUT; map it in the layout"
            )
        fee, _ = self._fee(row, currency)
        return SettlementRow(
            line=line,
            kind=kind,  # type: ignore[arg-type]
            amount=self._money(row, "amount", currency),
            currency=currency,
            transaction=row.get("txn"),
            operation_no=row.get("op"),
            fee=fee,
            net=self._money(row, "net", currency) if "net" in row else None,
        )

    def _entry(self, row: _Row, line: int) -> BankEntry:
        currency = self._ccy(row)
        signed = self._money(row, "amount", currency)
        return BankEntry(
            line=line,
            amount=abs(signed),
            currency=currency,
            direction="CRDT" if signed >= 0 else "DBIT",
            key=row.get("key"),
            references=(row["ref"],) if "ref" in row else (),
            text=row.get("text"),
        )
