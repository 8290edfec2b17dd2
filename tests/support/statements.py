"""Bills as channels write them, from rows: what a round trip puts into a file and has to find again."""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Row(NamedTuple):
    """A successful payment of a bill, in minor units."""

    txn: str
    op: str
    amount: int
    currency: str = "CNY"
    fee: int = 1


def major(amount: int) -> str:
    return f"{amount // 100}.{amount % 100:02}"


def table(rows: Sequence[Row]) -> bytes:
    """A generic text file; `TABLE` is its layout."""
    lines = ["txn,op,amount,ccy,fee", *(f"{r.txn},{r.op},{major(r.amount)},{r.currency},{major(r.fee)}" for r in rows)]
    return "\n".join([*lines, "rows", str(len(rows)), ""]).encode()


TABLE: Final = (
    '{"columns":{"txn":"txn","op":"op","amount":"amount","ccy":"ccy","fee":"fee"},"control_columns":{"rows":"count"}}'
)


def wechat(rows: Sequence[Row]) -> bytes:
    """WeChat Pay's trade bill, with its totals."""
    lines = [
        "交易时间,微信订单号,商户订单号,交易状态,货币种类,应结订单金额,手续费,订单金额",
        *(
            f"`2025-03-03 10:00:00,`{r.txn},`{r.op},`SUCCESS,`{r.currency},`{major(r.amount)},`{major(r.fee)}000,`{major(r.amount)}"
            for r in rows
        ),
        "总交易单数,应结订单总金额,手续费总金额,订单总金额",
    ]
    total, fees = major(sum(r.amount for r in rows)), major(sum(r.fee for r in rows))
    return "\r\n".join([*lines, f"`{len(rows)}.0,`{total},`{fees}000,`{total}"]).encode("utf-8-sig")


def alipay(rows: Sequence[Row]) -> bytes:
    """Alipay's trade bill in its archive, with its totals."""
    total = major(sum(r.amount for r in rows))
    text = [
        "#支付宝业务明细查询",
        "支付宝交易号,商户订单号,业务类型,完成时间,订单金额（元）,商家实收（元）,退款批次号/请求号,服务费（元）",
        *(
            f"{r.txn}\t,{r.op}\t,交易,2025-03-03 10:00:00,{major(r.amount)},{major(r.amount)},\t,-{major(r.fee)}"
            for r in rows
        ),
        "#业务明细列表结束",
        f"#交易合计：{len(rows)}笔，商家实收共{total}元，商家优惠共0.00元",
    ]
    found = io.BytesIO()
    with zipfile.ZipFile(found, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("2088_20250303_业务明细.csv", "\r\n".join([*text, ""]).encode("gbk"))
    return found.getvalue()


class Format(NamedTuple):
    """How a bill is written and read. `currencies`: whether its rows say theirs."""

    write: Callable[[Sequence[Row]], bytes]
    parser: str
    layout: str
    currencies: bool


FORMATS: Final = {
    "table": Format(table, "table/1", TABLE, currencies=True),
    "wechatpay": Format(wechat, "wechatpay-bill/1", "", currencies=True),
    "alipay": Format(alipay, "alipay-trade/1", "", currencies=False),
}
