"""Alipay's bills: the trade bill and the account bill, GBK text inside a ZIP whose member names are GBK, too.

Lines that begin with `#` are title, period and totals. References end with a tab, also where there is none. Refund rows stand under the
transaction that they refund, negative and with a request number of their own. The other party's name stands in both bills and is not read.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import IO, TYPE_CHECKING, Final

from streams.domain.lines import BankEntry, BillRow, Control, Line
from streams.statements import figures, opened, sheet
from streams.statements.figures import FigureError
from streams.statements.refusal import Refused
from streams.statements.sheet import Row, UnreadableError

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator

TRADE: Final = ("支付宝交易号", "商户订单号", "业务类型", "完成时间", "订单金额（元）")
ACCOUNT: Final = ("账务流水号", "业务流水号", "商户订单号", "收入金额（+元）", "支出金额（-元）")
ENCODINGS: Final = ("GBK", "UTF-8")
KINDS: Final = {"交易": "PAY", "退款": "REFUND"}
TOTAL: Final = re.compile(r"#(交易|退款)合计：\s*([0-9]+)笔.*?(?:订单金额|商家实收)[^0-9\-]*(-?[0-9.]+)")
MOVED: Final = re.compile(r"#(收入|支出)合计：\s*([0-9]+)笔[^0-9\-]*(-?[0-9.]+)")


def trade(stream: IO[bytes]) -> Iterator[Line]:
    """The trade bill, in its ZIP or as its text. Raises `Refused`."""
    with opened.member(stream, "明细") as packed:
        yield from _trade(opened.text(packed, ENCODINGS))


def _trade(text: io.TextIOBase) -> Iterator[Line]:
    counts, sums = {"PAY": 0, "REFUND": 0}, {"PAY": Decimal(0), "REFUND": Decimal(0)}
    lines = _Lines(text)
    columns = sheet.columns(lines.header("支付宝交易号"), TRADE)
    for line, found in lines.rows():
        if len(found) != len(columns):
            yield sheet.narrow(line, found, len(columns))
            continue
        row = Row(columns, found, line)
        made = sheet.made(_bill_row, row)
        if isinstance(made, BillRow):
            counts[made.kind] += 1
            sums[made.kind] += row.exact("订单金额（元）")
        yield made
    for remark in lines.tail():
        match = TOTAL.search(remark)
        if match is not None:
            kind = KINDS[match[1]]
            yield Control(name=f"count {kind}", stated=int(match[2]), read=counts[kind])
            yield _control(f"amount {kind}", match[3], sums[kind])


def _bill_row(row: Row) -> BillRow:
    word = row.need("业务类型")
    if word not in KINDS:
        raise UnreadableError("业务类型", f"{word!r} is neither 交易 nor 退款")
    refund = word == "退款"
    fee, fee_text = row.fine("CNY", "服务费（元）")
    return BillRow(
        line=row.line,
        kind="REFUND" if refund else "PAY",
        amount=row.money("CNY", "订单金额（元）"),
        currency="CNY",
        raw_status=word,
        transaction=None if refund else row.need("支付宝交易号"),
        operation_no=row.need("退款批次号/请求号") if refund else row.need("商户订单号"),
        parent_transaction=row.need("支付宝交易号") if refund else None,
        fee=None if fee is None else -fee,  # the bill writes what it takes as negative
        fee_text=fee_text,
        net=row.money("CNY", "商家实收（元）"),
        local_time=row.get("完成时间"),
    )


def account(stream: IO[bytes]) -> Iterator[Line]:
    """The account bill: every movement of the account at Alipay. Raises `Refused`."""
    with opened.member(stream, "明细") as packed:
        yield from _account(opened.text(packed, ENCODINGS))


def _account(text: io.TextIOBase) -> Iterator[Line]:
    counts, sums = {"收入": 0, "支出": 0}, {"收入": Decimal(0), "支出": Decimal(0)}
    lines = _Lines(text)
    columns = sheet.columns(lines.header("账务流水号"), ACCOUNT)
    for line, found in lines.rows():
        if len(found) != len(columns):
            yield sheet.narrow(line, found, len(columns))
            continue
        row = Row(columns, found, line)
        made = sheet.made(_entry, row)
        if isinstance(made, BankEntry):
            way = "收入" if made.direction == "CRDT" else "支出"
            counts[way] += 1
            sums[way] += row.exact("收入金额（+元）") + row.exact("支出金额（-元）")
        yield made
    for remark in lines.tail():
        match = MOVED.search(remark)
        if match is not None:
            yield Control(name=f"count {match[1]}", stated=int(match[2]), read=counts[match[1]])
            yield _control(f"amount {match[1]}", match[3], sums[match[1]])


def _entry(row: Row) -> BankEntry:
    came, went = row.money("CNY", "收入金额（+元）"), row.money("CNY", "支出金额（-元）")
    if bool(came) == bool(went):
        raise UnreadableError("收入金额（+元）", "a movement comes or goes; one of both amounts is stated")
    return BankEntry(
        line=row.line,
        amount=abs(came or went),
        currency="CNY",
        direction="CRDT" if came else "DBIT",
        key=row.need("账务流水号"),
        references=tuple(dict.fromkeys(one for one in (row.id("业务流水号"), row.id("商户订单号")) if one)),
        text=row.get("业务类型"),
    )


def _control(name: str, stated: str, read: Decimal) -> Control:
    try:
        figure = Decimal(figures.canonical(stated))
    except FigureError as wrong:
        raise Refused("structure", f"{name}: {wrong}") from wrong
    # Some totals are written without the sign that the rows have.
    same = abs(figure) == abs(read)
    return Control(
        name=name,
        stated=int(abs(figure) * 100),
        read=int(abs(read) * 100),
        stated_text=None if same else stated,
        read_text=None if same else f"{read:f}",
    )


class _Lines:
    """Rows between the remarks."""

    def __init__(self, text: io.TextIOBase) -> None:
        self._cells = sheet.cells(text)
        self._remarks: list[str] = []

    def header(self, first: str) -> list[str]:
        for _, found in self._cells:
            named = [cell.strip() for cell in found]
            if named[0] == first:
                return named
            if not named[0].startswith("#"):
                break
        raise Refused("header", f"there is no line that begins with {first}; it is another layout")

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        for line, found in self._cells:
            if found[0].startswith("#"):
                self._remarks.append(",".join(found))
            elif self._remarks:
                raise Refused("structure", "a row stands behind the totals", f"line {line}")
            else:
                yield line, [cell.strip() for cell in found]
        if not self._remarks:
            raise Refused("structure", "the totals are missing; the file is cut off, fetch it again")

    def tail(self) -> list[str]:
        return self._remarks
