"""UnionPay's settlement files: ZM, and ZME with its fewer fields. Fixed width in GBK bytes, one blank between fields.

Fields are cut by bytes and decoded then, as a character of GBK takes two. What is used of a row: its kind, the order number, UnionPay's own
number of the transaction, and amounts in fen with a C or D beside what is settled.
"""

from __future__ import annotations

from itertools import accumulate
from typing import IO, TYPE_CHECKING, Final

from streams.domain.lines import Line, RejectedRow, SettlementRow
from streams.statements import opened
from streams.statements.refusal import Refused

if TYPE_CHECKING:
    from collections.abc import Iterator

ZM: Final = (
    3, 11, 11, 6, 10, 19, 12, 4, 2, 21, 2, 32, 2, 6, 10, 13, 13, 4, 15, 2, 2, 6, 2, 4, 32, 1, 21, 15, 1, 15, 32, 13, 13, 8, 32, 13, 13, 12,
    2, 1, 32, 98,
)  # fmt: skip
"""Widths of the 42 fields."""
CODE, TRACE, TIME, CARD, AMOUNT, KIND, QUERY, ORDER, FEE_SIDE, FEE, NET = 0, 3, 4, 5, 6, 7, 9, 11, 14, 15, 16
KINDS: Final = {"S22": "PAY", "S30": "REFUND", "S56": "PAY", "S54": "REFUND", "S13": "REFUND", "S20": "PAY"}
"""Trade code -> what it is; any other counts in the sum only."""


def _places(widths: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Where each field begins and ends; one blank lies between two."""
    ends = tuple(accumulate(width + 1 for width in widths))
    return tuple((end - 1 - width, end - 1) for width, end in zip(widths, ends, strict=True))


PLACES: Final = _places(ZM)
LENGTH: Final = PLACES[-1][1]


def settlement(stream: IO[bytes]) -> Iterator[Line]:
    """Rows of a ZM file, in its ZIP or by itself. Raises `Refused`."""
    with opened.member(stream, "ZM_") as packed:
        found = 0
        for line, raw in enumerate(packed, 1):
            row = raw.rstrip(b"\r\n")
            if not row.strip():
                continue
            found += 1
            yield _row(row, line)
        if not found:
            raise Refused("empty", "the file has no row")


def _row(row: bytes, line: int) -> SettlementRow | RejectedRow:
    if not LENGTH - ZM[-1] <= len(row) <= LENGTH + 1:
        return RejectedRow(line=line, field="row", reason=f"{len(row)} bytes; a row of ZM has {LENGTH}")
    try:
        cells = [row[start:end].decode("gbk").strip() for start, end in PLACES]
    except UnicodeDecodeError as wrong:
        return RejectedRow(line=line, field="row", reason=f"byte {wrong.start} of a field is no GBK")
    amounts = {}
    for name, place in (("amount", AMOUNT), ("fee", FEE), ("net", NET)):
        text = cells[place]
        sign = -1 if text[:1] == "D" else 1
        digits = text.removeprefix("C").removeprefix("D")
        if not digits.isdecimal() or not digits.isascii():
            return RejectedRow(line=line, field=name, reason=f"{text!r} is no amount in fen")
        amounts[name] = sign * int(digits)
    kind = KINDS.get(cells[CODE], "OTHER")
    refund = kind == "REFUND"
    return SettlementRow(
        line=line,
        kind=kind,  # type: ignore[arg-type]
        amount=-amounts["amount"] if refund else amounts["amount"],
        currency="CNY",
        transaction=cells[QUERY] or None,
        operation_no=cells[ORDER] or None,
        fee=-amounts["fee"] if amounts["fee"] else 0,
        net=amounts["net"],
        raw_kind=cells[CODE],
    )
