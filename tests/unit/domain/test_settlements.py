"""Rows of a payout: what they belong to, what they leave unexplained, and the one difference that a contract may explain (R-182, R-189)."""

from __future__ import annotations

import pytest

from streams.domain.bills import Local, Locals
from streams.domain.contract import Contract, Differences
from streams.domain.lines import SettlementRow
from streams.domain.settlements import compare, owner, residual, unexplained


def local(number: str, kind: str = "PAY", state: str = "SUCCESS", **fields) -> Local:
    plain = {"amount": 1000, "currency": "USD", "payment_no": "P1", "transaction": f"X{number}"}
    return Local(key=number, number=number, order_id="O1", kind=kind, state=state, **{**plain, **fields})


def row(kind: str = "PAY", amount: int = 1000, transaction: str | None = "XP1", **fields) -> SettlementRow:
    return SettlementRow(line=1, kind=kind, amount=amount, currency="USD", transaction=transaction, **fields)


@pytest.mark.parametrize(
    ("one", "ours", "verdict"),
    [
        (row(), local("P1"), "MATCHED"),
        (row(amount=990), local("P1"), "AMOUNT_MISMATCH"),
        (row(), local("P1", currency="EUR"), "CURRENCY_MISMATCH"),
        (row(), local("P1", state="PAYING"), "EVIDENCE"),
        (row(), local("P1", state="FAIL"), "STATUS_MISMATCH"),
        (row(transaction="X9"), local("P1"), "CHANNEL_ONLY"),
        (row(transaction=None, operation_no="P1"), local("P1"), "MATCHED"),
        (row("REFUND", -1000), local("P1", "REFUND"), "MATCHED"),
        (row("REFUND", -1000), local("P1"), "CHANNEL_ONLY"),
    ],
)
def test_a_row_belongs_to_what_it_names(one, ours, verdict):
    assert [found.verdict for found in compare([one], Locals([ours]))] == [verdict]


def test_a_second_row_of_one_operation_is_a_duplicate_and_fees_belong_to_whatever_they_name():
    ours = Locals([local("P1"), local("R1", "REFUND")])
    assert [one.verdict for one in compare([row(), row()], ours)] == ["MATCHED", "DUPLICATE_TRANSACTION"]
    fee = owner(row("FEE", -30, "XR1"), ours)
    assert fee is not None
    assert fee.key == "R1"
    assert owner(row("FEE", -30, None), ours) is None


def test_what_rows_leave_unexplained_is_a_persons_unless_the_contract_lets_a_batch_round():
    rows = [row(fee=59), row("REFUND", -400), row("FEE", -30)]
    assert residual(511, rows) == 0
    assert residual(513, rows) == 2
    allowed = Contract(differences=Differences(rounding=2))
    assert [unexplained(left, Contract()) for left in (0, 1, -1)] == [False, True, True]
    assert [unexplained(left, allowed) for left in (2, -2, 3)] == [False, False, True]
