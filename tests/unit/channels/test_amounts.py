"""Conversion between a channel's units and ours: exact, or refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.channels.amounts import (
    channel_exponent,
    from_channel_minor,
    from_text,
    iso_exponents,
    to_channel_minor,
    to_text,
)
from streams.channels.contracts import shipped
from streams.domain.contract import DEFAULT, Contract
from streams.domain.fields import MAX_AMOUNT

ADYEN = shipped()["adyen"]


@pytest.mark.parametrize(
    ("currency", "text", "amount"),
    [
        ("EUR", "19.99", 1999),
        ("EUR", "19.9", 1990),
        ("EUR", "19", 1900),
        ("EUR", "19.990000", 1999),
        ("EUR", "-0.5", -50),
        ("EUR", "0", 0),
        ("JPY", "500.00", 500),
        ("KWD", "1.234", 1234),
        ("CLF", "0.0001", 1),
    ],
)
def test_decimal_text_is_exact_minor_units(currency: str, text: str, amount: int):
    assert from_text(currency, text) == amount


@pytest.mark.parametrize(
    ("currency", "text"),
    [
        ("EUR", "19.999"),
        ("JPY", "500.5"),
        ("EUR", "1e2"),
        ("EUR", "1,00"),
        ("EUR", " 1"),
        ("EUR", "+1"),
        ("EUR", "1."),
        ("EUR", ".5"),
        ("EUR", ""),
        ("EUR", "\N{ARABIC-INDIC DIGIT ONE}"),
        ("EUR", "9" * 25),
        ("EUR", "9" * 20),
        ("XAU", "1"),
        ("ZZZ", "1"),
    ],
)
def test_what_is_not_exactly_an_amount_is_never_rounded(currency: str, text: str):
    assert from_text(currency, text) is None


@pytest.mark.parametrize(
    ("currency", "theirs", "ours"),
    [("CLP", 1200, 12), ("CLP", 1250, None), ("CVE", 12, 1200), ("ISK", 100, 1), ("EUR", 5, 5), ("JPY", -7, -7), ("XAU", 1, None)],
)  # fmt: skip
def test_a_channel_may_count_in_other_units_than_iso_4217(currency: str, theirs: int, ours: int | None):
    assert from_channel_minor(ADYEN, currency, theirs) == ours


def test_a_request_states_the_channels_units_or_is_not_made():
    assert to_channel_minor(ADYEN, "CLP", 12) == 1200
    assert to_channel_minor(ADYEN, "CVE", 1200) == 12
    assert to_channel_minor(ADYEN, "CVE", 1201) is None
    assert to_channel_minor(DEFAULT, "EUR", 7) == 7
    assert to_channel_minor(DEFAULT, "ZZZ", 7) is None


def test_an_override_of_a_currency_that_does_not_exist_converts_nothing():
    strange = Contract(exponents={"ZZZ": 2})
    assert channel_exponent(strange, "ZZZ") == 2
    assert from_channel_minor(strange, "ZZZ", 1) is None
    assert to_channel_minor(strange, "ZZZ", 1) is None


AMOUNTS = st.integers(-MAX_AMOUNT // 10_000, MAX_AMOUNT // 10_000)


@given(currency=st.sampled_from(sorted(iso_exponents())), amount=AMOUNTS, exponent=st.integers(0, 4))
def test_there_and_back_is_the_same_amount(currency: str, amount: int, exponent: int):
    contract = Contract(exponents={currency: exponent})
    theirs = to_channel_minor(contract, currency, amount)
    assert theirs is None or from_channel_minor(contract, currency, theirs) == amount
    ours = from_channel_minor(contract, currency, amount)
    assert ours is None or to_channel_minor(contract, currency, ours) == amount


@given(currency=st.sampled_from(sorted(iso_exponents())), amount=AMOUNTS)
def test_text_says_the_amount_that_it_was_made_of(currency: str, amount: int):
    text = to_text(currency, amount)
    assert text is not None
    assert from_text(currency, text) == amount


def test_an_amount_of_no_currency_has_no_text():
    assert to_text("XAU", 1) is None
    assert to_text("EUR", 5) == "0.05"
    assert to_text("JPY", -500) == "-500"
