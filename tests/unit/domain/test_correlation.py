"""Why the layers of a refund disagree, case by case; candidates without a reference; and that nothing is sent (R-210 to R-224)."""

from __future__ import annotations

import itertools

import pytest
from msgspec.structs import replace

from streams.domain.correlation import DAY_MS, REACH_MS, Entry, View, explain
from streams.domain.layers import CARD, MERCHANT, PROCESSOR, WALLET, Layers

START = 1_741_000_000_000
VIEW = View(key="R1", state="SUCCESS", amount=500, currency="USD", started_at=START, layers=Layers(), captured=1000)
NOW = START + 3 * DAY_MS


def case(*layers: str | None, **changes) -> tuple[str, str] | None:
    found = explain(replace(VIEW, layers=Layers(*layers), **changes), [], NOW)
    return None if found is None else (found.case, found.owner)


@pytest.mark.parametrize(
    ("layers", "changes", "wanted"),
    [
        (("COMPLETED", "SETTLED", "POSTED", "CREDITED"), {}, None),
        (("COMPLETED", None, None, None), {}, ("issued", "PROCESSOR")),
        (("COMPLETED", "SETTLED", None, None), {}, ("issued", "ISSUER")),
        (("COMPLETED", "SETTLED", "POSTED", None), {}, ("posted-balance-open", "WALLET")),
        ((None, None, "POSTED", "CREDITED"), {}, ("posted-payee-unknown", "MERCHANT")),
        (("REJECTED", None, None, None), {}, ("rejected", "MERCHANT")),
        (("COMPLETED", "FAILED", None, None), {}, ("chain-failed", "MERCHANT")),
        (("COMPLETED", "SETTLED", "RETURNED", None), {}, ("card-returned", "MERCHANT")),
        ((None, None, None, None), {"captured": 0, "held": 1000}, ("only-a-hold", "MERCHANT")),
        ((None, None, None, None), {"state": "REFUNDING"}, ("answer-open", "PROCESSOR")),
        ((None, None, None, None), {"state": "FAIL"}, None),
        (("COMPLETED", "SETTLED", "POSTED", "CREDITED"), {"posted_amount": 300, "posted_currency": "USD"}, ("posted-other-amount", "US")),
        (("COMPLETED", "SETTLED", "POSTED", "CREDITED"), {"posted_amount": 450, "posted_currency": "EUR"}, ("posted-other-currency", "US")),
        (("COMPLETED", "SETTLED", "POSTED", "CREDITED"), {"posted_amount": 500, "posted_currency": "USD"}, None),
    ],
)  # fmt: skip
def test_each_way_to_disagree_has_its_reason_and_its_owner(layers, changes, wanted):
    """R-221."""
    assert case(*layers, **changes) == wanted


def test_every_combination_is_closed_or_explained_and_only_one_is_closed():
    closed = [each for each in itertools.product(MERCHANT, PROCESSOR, CARD, WALLET) if case(*each) is None]
    assert closed == [("COMPLETED", "SETTLED", "POSTED", "CREDITED")]


def test_without_a_reference_there_are_candidates_and_several_refunds_may_have_the_same():
    """R-217: never a match."""
    entry = Entry(ref="visa/E1", amount=500, currency="USD", at=START + DAY_MS)
    strays = [
        entry,
        replace(entry, ref="visa/E2", amount=501),
        replace(entry, ref="visa/E3", currency="EUR"),
        replace(entry, ref="visa/E4", at=START - 1),
        replace(entry, ref="visa/E5", at=START + REACH_MS + 1),
        replace(entry, ref="visa/E0"),
    ]
    issued = replace(VIEW, layers=Layers("COMPLETED", "SETTLED"))
    for one in (issued, replace(issued, key="R2")):
        found = explain(one, strays, NOW)
        assert found is not None
        assert found.candidates == ("visa/E0", "visa/E1")
        assert found.days == 3
    posted = explain(replace(VIEW, layers=Layers("COMPLETED", "SETTLED", "POSTED")), strays, NOW)
    assert posted is not None
    assert posted.candidates == ()
