"""A settlement file: which of our operations a payout pays, what it costs, and whether its rows explain it (R-182, R-183).

Rows belong to operations by the channel's reference, else by our number; that one is absent proves nothing. A row that has no operation is
CHANNEL_ONLY. Fees of rows post once per transaction; a row that is a fee itself posts as stated, unless it is the fee of a failed
operation, which the law compares with the contract. The payout becomes an item that is expected at the bank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streams.domain.bills import UNDECIDED, WON, Local, Locals, Outcome, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streams.domain.contract import Contract
    from streams.domain.lines import SettlementRow


def owner(row: SettlementRow, locals_: Locals) -> Local | None:
    """The one operation that a row names; None where it names none, or more than one."""
    kinds = ("REFUND",) if row.kind == "REFUND" else ("PAY", "REFUND") if row.kind == "FEE" else ("PAY",)
    found = [one for kind in kinds for one in locals_.of_transaction(kind, row.transaction)]
    found = found or [one for kind in kinds for one in locals_.of_number(kind, row.operation_no)]
    return found[0] if len(found) == 1 else None


def compare(rows: Sequence[SettlementRow], locals_: Locals) -> list[Outcome]:
    """What came of the rows that are transactions, by place. Fees, chargebacks and whatever else it lists count in the sum only."""
    found: list[Outcome] = []
    taken: set[str] = set()
    for place, row in enumerate(rows):
        if row.kind not in {"PAY", "REFUND"}:
            continue
        local = owner(row, locals_)
        if local is None:
            found.append(Outcome("CHANNEL_ONLY", place))
        elif local.key in taken:
            found.append(Outcome("DUPLICATE_TRANSACTION", place, local))
        else:
            taken.add(local.key)
            found.append(Outcome(_verdict(row, local), place, local))
    return found


def _verdict(row: SettlementRow, local: Local) -> Verdict:
    if row.currency != local.currency:
        return "CURRENCY_MISMATCH"
    if local.state in UNDECIDED:
        return "EVIDENCE"
    if abs(row.amount) != local.amount:
        return "AMOUNT_MISMATCH"
    return "MATCHED" if local.state in WON else "STATUS_MISMATCH"


def residual(stated: int, rows: Sequence[SettlementRow]) -> int:
    """What a payout has over the sum of its rows, signed minor units; 0 where they explain it."""
    return stated - sum(row.amount - (row.fee or 0) for row in rows)


def unexplained(left: int, contract: Contract) -> bool:
    """Whether what is left over needs a person: more than the contract lets a batch miss its rows by (R-189)."""
    return abs(left) > contract.differences.rounding
