"""Rows that are compared again, without those that matched, come to what they came to beside them (R-188, R-198)."""

from __future__ import annotations

from streams.domain.bills import Local, Locals, compare
from streams.domain.lines import BillRow
from tests.support import recon

ROWS = 20_000


def test_a_choice_among_references_stays_one_when_a_number_has_matched_one_of_them():
    ours = Locals([
        Local(key=name, number=name, order_id=name, kind="PAY", amount=5, currency="USD", state="SUCCESS", payment_no=name, transaction="X")
        for name in ("N1", "N2")
    ])  # fmt: skip
    vague = BillRow(line=1, kind="PAY", amount=5, currency="USD", transaction="X", operation_no=None)
    numbered = BillRow(line=2, kind="PAY", amount=5, currency="USD", transaction=None, operation_no="N1")
    first = compare([vague, numbered], ours)
    assert [one.verdict for one in first] == ["AMBIGUOUS_MATCH", "MATCHED"]
    assert compare([vague], ours, {("N1", "N1")}, {("N1", "N1")}) == first[:1]


def test_what_is_not_matched_comes_to_the_same_again():
    ours, rows = recon.worlds(1, ROWS)
    locals_ = Locals(ours)
    first = compare(rows, locals_)
    done = {one.row: one.local.name for one in first if one.verdict == "MATCHED" and one.local is not None}
    numbered = [
        name for place, name in done.items() if not locals_.of_transaction(rows[place].kind, rows[place].transaction)
    ]
    left = [place for place in range(len(rows)) if place not in done]
    again = compare([rows[place] for place in left], locals_, done.values(), numbered)
    assert [(left[one.row], one.verdict, one.local) for one in again] == [
        (one.row, one.verdict, one.local) for one in first if one.row not in done
    ]
