"""Stripe's itemised reports: balance change from activity, and payout reconciliation. CSV in UTF-8, amounts in major units.

Of a charge the report states gross, fee and net, and the reference of the payment intent beside that of the balance row. An automatic
payout is listed with what it pays; its reference is what the bank statement carries.
"""

from __future__ import annotations

from datetime import date
from typing import IO, TYPE_CHECKING, Final, Literal

from streams.domain.lines import Line, Payout, SettlementRow
from streams.statements import opened, sheet
from streams.statements.refusal import Refused
from streams.statements.sheet import Row, UnreadableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

NEEDED: Final = ("balance_transaction_id", "currency", "gross", "fee", "net", "reporting_category")
KINDS: Final[Mapping[str, Literal["PAY", "REFUND", "FEE", "CHARGEBACK", "OTHER"]]] = {
    "charge": "PAY", "refund": "REFUND", "partial_capture_reversal": "REFUND", "dispute": "CHARGEBACK", "dispute_reversal": "CHARGEBACK",
    "fee": "FEE", "network_cost": "FEE", "charge_failure": "OTHER", "refund_failure": "OTHER", "other_adjustment": "OTHER",
    "payout_reversal": "OTHER", "transfer": "OTHER", "transfer_reversal": "OTHER", "topup": "OTHER", "topup_reversal": "OTHER",
    "advance": "OTHER", "advance_funding": "OTHER", "anticipation_repayment": "OTHER", "connect_reserved_funds": "OTHER",
    "risk_reserved_funds": "OTHER", "platform_earning": "OTHER", "platform_earning_refund": "OTHER", "tax": "FEE",
}  # fmt: skip
REFERENCES: Final = ("payment_intent_id", "charge_id", "source_id")


def balance(stream: IO[bytes]) -> Iterator[Line]:
    """Rows of the balance, payouts among them. Raises `Refused`."""
    rows = sheet.cells(opened.text(stream, ("UTF-8",)))
    columns = sheet.columns(next(rows, (1, [""]))[1], NEEDED)
    payouts: dict[tuple[str, str], int] = {}
    several = 0
    for line, found in rows:
        several += 1
        if len(found) != len(columns):
            yield sheet.narrow(line, found, len(columns))
            continue
        row = Row(columns, found, line)
        made = sheet.made(_line, row)
        if isinstance(made, SettlementRow) and (ref := row.get("automatic_payout_id")):
            payouts[ref, made.currency] = payouts.get((ref, made.currency), 0) + (made.net or 0)
        yield made
    if several == 0:
        raise Refused("empty", "the report has no row")
    for (ref, currency), amount in sorted(payouts.items()):
        yield Payout(line=0, ref=ref, amount=amount, currency=currency)


def _line(row: Row) -> Line:
    currency = row.need("currency").upper()
    word = row.need("reporting_category")
    gross, fee, net = (row.money(currency, name) for name in ("gross", "fee", "net"))
    if gross - fee != net:
        raise UnreadableError("net", f"gross {gross} less fee {fee} is not the net {net}")
    if word == "payout":
        ref = row.get("source_id", "automatic_payout_id") or row.need("balance_transaction_id")
        return Payout(line=row.line, ref=ref, amount=-net, currency=currency)
    if word not in KINDS:
        raise UnreadableError("reporting_category", f"{word!r} is not mapped; it is none of {', '.join(KINDS)}, payout")
    kind = KINDS[word]
    traded = kind in {"PAY", "REFUND"}
    return SettlementRow(
        line=row.line,
        kind=kind,
        amount=gross if traded else net,
        currency=currency,
        transaction=row.get("refund_id", "source_id") if kind == "REFUND" else row.get(*REFERENCES),
        operation_no=row.get("payment_metadata[order]", "merchant_reference"),
        fee=fee if traded else None,
        net=net,
        trade_date=_day(row),
        raw_kind=word,
    )


def _day(row: Row) -> date | None:
    text = row.get("created_utc", "created")
    if text is None:
        return None
    try:
        return date.fromisoformat(text[:10])
    except ValueError as wrong:
        raise UnreadableError("created", f"{text!r} is no date") from wrong
