"""Bank lines: their sign, their names, what they belong to by what they name, and what is left for people (R-182, R-188, R-217)."""

from __future__ import annotations

from datetime import date

import pytest
from msgspec.structs import replace

from streams.domain.banking import BankLine, Item, entry_name, lines_of, place, residual, signed, ties
from streams.domain.lines import BankDetail, BankEntry

ORIGINAL = "indicator_is_original_direction"
ENTRY = BankEntry(line=1, amount=1000, currency="EUR", direction="CRDT")
LINE = BankLine(name=("n",), entry=("n",), ref="A1", account="main", amount=1000, currency="EUR", references=("PO1",))
ITEM = Item(ref="PO1", amount=1000, currency="EUR", channel="chA")


@pytest.mark.parametrize(
    ("direction", "reversal", "rule", "amount"),
    [
        ("CRDT", False, None, 1000),
        ("DBIT", False, None, -1000),
        ("CRDT", True, None, 1000),
        ("DBIT", True, ORIGINAL, 1000),
        ("CRDT", True, ORIGINAL, -1000),
        ("DBIT", False, ORIGINAL, -1000),
    ],
)
def test_the_contract_says_how_a_reversal_shows_its_direction(direction, reversal, rule, amount):
    entry = replace(ENTRY, direction=direction, reversal=reversal)
    assert (signed(entry, rule) if rule else signed(entry)) == amount


def test_opening_and_booked_lines_make_the_closing_balance():
    entries = [ENTRY, replace(ENTRY, direction="DBIT", amount=300), replace(ENTRY, status="PDNG", amount=5)]
    assert ties(entries, 100, 800) is True
    assert ties(entries, 100, 801) is False
    assert ties(entries, None, 800) is None


def named(entry: BankEntry, seen: dict[tuple[str, ...], int]) -> tuple[str, ...]:
    return entry_name(entry, account="main", statement="S1", day=date(2025, 3, 3), seen=seen)


def test_an_entry_is_known_again_by_what_is_its_own():
    seen: dict[tuple[str, ...], int] = {}
    assert named(replace(ENTRY, account_ref="A1", key="K1"), seen) == ("ref", "main", "A1")
    assert named(replace(ENTRY, key="K1"), seen) == ("key", "main", "K1")
    assert named(replace(ENTRY, statement="S7", line=4), seen) == ("at", "main", "S7", "4")
    first, second, other = (
        named(ENTRY, seen),
        named(replace(ENTRY, line=2), seen),
        named(replace(ENTRY, text="x"), seen),
    )
    assert len({first, second, other}) == 3
    again: dict[tuple[str, ...], int] = {}
    assert [named(ENTRY, again), named(ENTRY, again)] == [first, second], "the same in every file that has it"


def test_details_are_lines_of_their_own_and_charges_explain_what_they_name():
    details = (
        BankDetail(amount=700, currency="EUR", references=("a",)),
        BankDetail(amount=275, currency="EUR", charges=-25),
    )
    entry = replace(ENTRY, details=details, references=("whole",))
    first, second = lines_of(entry, ("n",), account="main", place="S:1")
    assert (first.amount, first.references, second.amount, second.references) == (700, ("a",), 275, ())
    assert residual(entry) == 0
    assert residual(replace(entry, amount=1010)) == 10
    debit = replace(
        ENTRY, direction="DBIT", amount=1526, details=(BankDetail(amount=1500, currency="EUR", charges=26),)
    )
    assert residual(debit) == 0
    assert residual(replace(entry, details=(replace(details[0], currency="USD"),))) == 0
    (only,) = lines_of(replace(entry, details=details[1:]), ("n",), account="main", place="S:1")
    assert only.references == ("whole",), "a detail without a name has its entry's"


@pytest.mark.parametrize(
    ("line", "item", "verdict"),
    [
        ({}, {}, "POSTED"),
        ({"amount": 400}, {}, "POSTED"),
        ({"amount": 600}, {"came": 400}, "POSTED"),
        ({"amount": 601}, {"came": 400}, "AMOUNT_MISMATCH"),
        ({}, {"came": 1000}, "DUPLICATE_TRANSACTION"),
        ({"amount": -1000}, {"payout": True}, "BOUNCED"),
        ({"amount": -999}, {"payout": True}, "AMOUNT_MISMATCH"),
        ({"amount": -400}, {"came": 400}, "POSTED"),
        ({"amount": -150}, {"amount": -150, "channel": None}, "POSTED"),
        ({"currency": "CHF"}, {}, "CURRENCY_MISMATCH"),
        ({"currency": "CHF", "instructed_amount": 1000, "instructed_currency": "EUR"}, {}, "FOREIGN"),
        ({"currency": "CHF", "instructed_amount": 999, "instructed_currency": "EUR"}, {}, "CURRENCY_MISMATCH"),
        ({"references": ("po 1",)}, {}, "AMBIGUOUS_MATCH"),
        ({"references": ()}, {}, "AMBIGUOUS_MATCH"),
        ({"references": ("PO2",)}, {}, "CHANNEL_ONLY"),
        ({"references": (), "amount": 999}, {}, "CHANNEL_ONLY"),
        ({"references": ()}, {"came": 1000}, "CHANNEL_ONLY"),
        ({"references": ("x", "PO1")}, {}, "POSTED"),
    ],
)
def test_a_line_belongs_to_the_item_that_it_names_whole(line, item, verdict):
    assert place(replace(LINE, **line), [replace(ITEM, **item)]).verdict == verdict


def test_a_reference_that_is_nearly_right_is_information_and_none_at_all_is_a_persons():
    assert place(replace(LINE, references=("po 1",)), [ITEM]).severity == "info"
    assert place(replace(LINE, references=()), [ITEM]).severity == "high"


def test_one_reference_for_two_items_is_decided_by_the_whole_amount_or_not_at_all():
    other = replace(ITEM, channel="chB", amount=700)
    placed = place(LINE, [ITEM, other])
    assert (placed.verdict, placed.item) == ("POSTED", ITEM)
    assert place(replace(LINE, amount=500), [ITEM, other]).verdict == "AMBIGUOUS_MATCH"
    assert place(LINE, [ITEM, replace(ITEM, channel="chB")]).candidates == ("PO1", "PO1")
