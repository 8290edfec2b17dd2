"""WeChat Pay's bills: the trade bill (ALL, SUCCESS and REFUND, 20 to 29 columns, and the layout of 2014) and the fund-flow bill.

UTF-8 with a byte order mark; each value begins with one backtick, so that spreadsheets leave it alone. The last two lines are totals
under a header of their own. One transaction stands in several rows, once for itself and once for each refund; a row with a refund number is
a refund. Fees have five digits.
"""

from __future__ import annotations

from decimal import Decimal
from typing import IO, TYPE_CHECKING, Final

from streams.domain.lines import BankEntry, BillRow, Control, Line
from streams.statements import figures, opened, sheet
from streams.statements.figures import FigureError
from streams.statements.refusal import Refused
from streams.statements.sheet import Row, UnreadableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FIRST: Final = "交易时间"
NEEDED: Final = ("微信订单号", "商户订单号", "交易状态", "货币种类")
ORDER: Final = ("订单金额", "总金额", "应结订单金额")
"""What the payer was charged for, by layout; coupons are part of it."""
REFUND: Final = ("申请退款金额", "退款金额")
TOTALS: Final[Mapping[str, tuple[str, ...]]] = {
    "应结订单总金额": ("应结订单金额", "总金额"),
    "总交易额": ("总金额", "应结订单金额"),
    "退款总金额": ("退款金额",),
    "总退款金额": ("退款金额",),
    "充值券退款总金额": ("充值券退款金额", "企业红包退款金额"),
    "总企业红包退款金额": ("企业红包退款金额", "充值券退款金额"),
    "手续费总金额": ("手续费",),
    "订单总金额": ("订单金额",),
    "申请退款总金额": ("申请退款金额",),
}
"""A total -> the columns that it may be the sum of; the first that the file has."""
COUNT: Final = frozenset({"总交易单数"})
STATES: Final[Mapping[str, str]] = {"SUCCESS": "SUCCESS", "REFUND": "SUCCESS", "REVOKED": "CLOSED"}
REFUND_STATES: Final[Mapping[str, str]] = {
    "SUCCESS": "SUCCESS", "PROCESSING": "PENDING", "CHANGE": "PENDING", "ABNORMAL": "PENDING", "FAIL": "FAILED", "CLOSED": "FAILED",
}  # fmt: skip


def bill(stream: IO[bytes]) -> Iterator[Line]:
    """The trade bill of any kind. Raises `Refused`."""
    rows = sheet.cells(opened.text(stream, ("UTF-8",)))
    columns = sheet.columns(next(rows, (1, [""]))[1], NEEDED)
    wanted = {name for options in TOTALS.values() for name in options} & columns.keys()
    sums = dict.fromkeys(wanted, Decimal(0))
    count = 0
    for line, found in rows:
        if found[0] in COUNT:
            yield from _totals(found, next(rows, (0, []))[1], sums, count)
            return
        if len(found) != len(columns):
            yield sheet.narrow(line, found, len(columns))
            continue
        row = Row(columns, [_bare(cell) for cell in found], line)
        parts: dict[str, Decimal] = {}

        def build(row: Row, parts: dict[str, Decimal] = parts) -> BillRow:
            parts.update({name: row.exact(name) for name in wanted})
            return _bill_row(row)

        made = sheet.made(build, row)
        if isinstance(made, BillRow):
            count += 1
            for name, part in parts.items():
                sums[name] += part
        yield made
    raise Refused("structure", "the totals are missing; the file is cut off, fetch it again")


def _bare(cell: str) -> str:
    return cell.removeprefix("`")


def _totals(header: list[str], values: list[str], sums: dict[str, Decimal], count: int) -> Iterator[Line]:
    stated = dict(zip(header, (_bare(value).strip() for value in values), strict=False))
    if len(stated) < len(header):
        raise Refused("structure", "the totals have fewer values than names; the file is cut off")
    for name, text in stated.items():
        try:
            figure = Decimal(figures.canonical(text))
        except FigureError as wrong:
            raise Refused("structure", f"{name}: {wrong}") from wrong
        if name in COUNT:
            yield Control(name="count", stated=int(figure), read=count)
            continue
        of = next((column for column in TOTALS.get(name, ()) if column in sums), None)
        if of is not None:
            yield _control(of, figure, sums[of])


def _control(name: str, stated: Decimal, read: Decimal) -> Control:
    return Control(
        name=name, stated=int(stated * 100), read=int(read * 100), stated_text=f"{stated.normalize():f}", read_text=f"{read.normalize():f}"
    )  # fmt: skip


def _bill_row(row: Row) -> BillRow:
    currency = row.need("货币种类")
    word = row.need("交易状态")
    refund = row.id("微信退款单号")
    states, raw = (REFUND_STATES, row.need("退款状态")) if refund else (STATES, word)
    if raw not in states:
        raise UnreadableError(
            "退款状态" if refund else "交易状态", f"{raw!r} is not mapped; it is none of {', '.join(states)}"
        )
    fee, fee_text = row.fine(currency, "手续费")
    return BillRow(
        line=row.line,
        kind="REFUND" if refund else "PAY",
        amount=row.money(currency, *(REFUND if refund else ORDER)),
        currency=currency,
        status=states[raw],
        raw_status=raw,
        transaction=refund or row.need("微信订单号"),
        operation_no=row.id("商户退款单号") if refund else row.need("商户订单号"),
        parent_transaction=row.need("微信订单号") if refund else None,
        fee=fee,
        fee_text=fee_text,
        local_time=row.get("退款申请时间", FIRST),
    )


FLOW: Final = ("记账时间", "微信支付业务单号", "资金流水单号", "收支类型", "收支金额(元)")
DIRECTIONS: Final = {"收入": "CRDT", "支出": "DBIT"}
FLOW_TOTALS: Final = {
    "收入笔数": ("count", "CRDT"),
    "收入金额": ("amount", "CRDT"),
    "支出笔数": ("count", "DBIT"),
    "支出金额": ("amount", "DBIT"),
}
FLOW_COUNT: Final = "资金流水总笔数"


def flow(stream: IO[bytes]) -> Iterator[Line]:
    """The fund-flow bill: every movement of the account at WeChat, in yuan. Raises `Refused`."""
    rows = sheet.cells(opened.text(stream, ("UTF-8",)))
    columns = sheet.columns([_bare(cell) for cell in next(rows, (1, [""]))[1]], FLOW)
    counts, sums = {"CRDT": 0, "DBIT": 0}, {"CRDT": 0, "DBIT": 0}
    for line, found in rows:
        if _bare(found[0]) == FLOW_COUNT:
            yield from _flow_totals(found, next(rows, (0, []))[1], counts, sums)
            return
        if len(found) != len(columns):
            yield sheet.narrow(line, found, len(columns))
            continue
        made = sheet.made(_entry, Row(columns, [_bare(cell).strip() for cell in found], line))
        if isinstance(made, BankEntry):
            counts[made.direction] += 1
            sums[made.direction] += made.amount
        yield made
    raise Refused("structure", "the totals are missing; the file is cut off, fetch it again")


def _entry(row: Row) -> BankEntry:
    way = row.need("收支类型")
    if way not in DIRECTIONS:
        raise UnreadableError("收支类型", f"{way!r} is neither 收入 nor 支出")
    return BankEntry(
        line=row.line,
        amount=row.money("CNY", "收支金额(元)"),
        currency="CNY",
        direction="CRDT" if way == "收入" else "DBIT",
        key=row.id("资金流水单号"),
        references=tuple(dict.fromkeys(one for one in (row.id("业务凭证号"), row.id("微信支付业务单号")) if one)),
        text=row.get("业务类型"),
    )


def _flow_totals(header: list[str], values: list[str], counts: dict[str, int], sums: dict[str, int]) -> Iterator[Line]:
    stated = dict(zip((_bare(one) for one in header), (_bare(value).strip() for value in values), strict=False))
    try:
        yield Control(
            name="count", stated=int(Decimal(figures.canonical(stated.get(FLOW_COUNT, "")))), read=sum(counts.values())
        )
        for name, (what, way) in FLOW_TOTALS.items():
            figure = figures.canonical(stated.get(name, ""))
            if what == "count":
                yield Control(name=f"count {way}", stated=int(Decimal(figure)), read=counts[way])
            else:
                yield Control(name=f"amount {way}", stated=figures.minor(figure, "CNY"), read=sums[way])
    except FigureError as wrong:
        raise Refused("structure", f"the totals: {wrong}") from wrong
