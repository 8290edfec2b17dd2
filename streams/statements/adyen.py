"""Adyen's settlement detail report: what a batch is made of, and the payout that closes it.

CSV in UTF-8 without a byte order mark; a blank amount is zero and trailing zeros are dropped. The order of columns differs between files,
so they are found by name. The payout closes the batch: the net of all rows is zero. What is gross less net of a payment is commission,
markup, scheme fees and interchange, and no more.
"""

from __future__ import annotations

from datetime import date
from typing import IO, TYPE_CHECKING, Final, Literal

from streams.domain.lines import Control, Line, Payout, SettlementRow
from streams.statements import opened, sheet
from streams.statements.refusal import Refused
from streams.statements.sheet import Row, UnreadableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

NEEDED: Final = (
    "Psp Reference", "Merchant Reference", "Type", "Modification Reference", "Gross Currency", "Gross Debit (GC)", "Gross Credit (GC)",
    "Net Currency", "Net Debit (NC)", "Net Credit (NC)", "Batch Number",
)  # fmt: skip
FEES: Final = ("Commission (NC)", "Markup (NC)", "Scheme Fees (NC)", "Interchange (NC)")
KINDS: Final[Mapping[str, Literal["PAY", "REFUND", "FEE", "CHARGEBACK", "OTHER"]]] = {
    "Settled": "PAY", "SettledInInstallments": "PAY", "Refunded": "REFUND", "Fee": "FEE", "MiscCosts": "FEE", "InvoiceDeduction": "FEE",
    "Chargeback": "CHARGEBACK", "SecondChargeback": "CHARGEBACK", "ChargebackReversed": "CHARGEBACK",
    "ChargebackReversedExternallyWithInfo": "CHARGEBACK", "DepositCorrection": "OTHER", "Balancetransfer": "OTHER",
    "SettledReversed": "OTHER", "RefundedReversed": "OTHER", "ReserveAdjustment": "OTHER",
}  # fmt: skip


def settlement(stream: IO[bytes]) -> Iterator[Line]:
    """The rows of a batch, its payout, and whether its net is zero. Raises `Refused`."""
    rows = sheet.cells(opened.text(stream, ("UTF-8",)))
    columns = sheet.columns(next(rows, (1, [""]))[1], NEEDED)
    net: dict[str, int] = {}
    for line, found in rows:
        if len(found) != len(columns):
            yield sheet.narrow(line, found, len(columns))
            continue
        row = Row(columns, found, line)
        made = sheet.made(_line, row)
        if isinstance(made, SettlementRow | Payout):
            currency = row.need("Net Currency")
            net[currency] = net.get(currency, 0) + _net(row, currency)
        yield made
    if not net:
        raise Refused("empty", "the report has no row that can be read")
    for currency, left in sorted(net.items()):
        yield Control(name=f"net {currency}", stated=0, read=left)


def _net(row: Row, currency: str) -> int:
    return row.money(currency, "Net Credit (NC)") - row.money(currency, "Net Debit (NC)")


def _line(row: Row) -> Line:
    word, currency = row.need("Type"), row.need("Net Currency")
    net = _net(row, currency)
    if word == "MerchantPayout":
        reference = row.need("Modification Reference")
        return Payout(
            line=row.line, ref=reference.split()[0].rstrip(","), amount=-net, currency=currency, paid_on=_day(row)
        )
    if word not in KINDS:
        raise UnreadableError("Type", f"{word!r} is not mapped; it is none of {', '.join(KINDS)}, MerchantPayout")
    kind = KINDS[word]
    fees = sum(row.money(currency, name) for name in FEES)
    gross = row.money(row.get("Gross Currency") or currency, "Gross Credit (GC)") - row.money(
        row.get("Gross Currency") or currency, "Gross Debit (GC)"
    )
    same = row.get("Gross Currency") in {None, currency}
    if kind in {"PAY", "REFUND"} and same and gross - net != fees:
        raise UnreadableError("Net Credit (NC)", f"gross {gross} less net {net} is not the {fees} of its four fees")
    traded = kind in {"PAY", "REFUND"}
    return SettlementRow(
        line=row.line,
        kind=kind,
        amount=gross if traded and same else net,
        currency=currency,
        transaction=row.get("Modification Reference") if kind == "REFUND" else row.get("Psp Reference"),
        operation_no=row.get("Modification Merchant Reference") if kind == "REFUND" else row.get("Merchant Reference"),
        fee=fees if traded and same else None,
        net=net,
        trade_date=_day(row),
        raw_kind=word,
    )


def _day(row: Row) -> date | None:
    text = row.get("Creation Date")
    if text is None:
        return None
    try:
        return date.fromisoformat(text[:10])
    except ValueError as wrong:
        raise UnreadableError("Creation Date", f"{text!r} is no date") from wrong
