"""Numbers that we mint: their shape, their check character, and that none can be guessed or mistyped into another (R-038)."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as some

from streams.domain import number as room
from streams.domain.number import is_number, operation_number, payment_number

DAY = date(2026, 5, 1)
numbers = some.builds(
    payment_number,
    some.from_regex(r"[A-Z][A-Z0-9]{1,6}", fullmatch=True),
    some.dates(date(2000, 1, 1), date(2199, 12, 31)),
    some.binary(min_size=10, max_size=10),
)


def test_a_payment_number_is_code_date_chance_and_check():
    """R-038."""
    assert (
        payment_number("SALE", DAY, bytes(10)) == "SALE20260501" + "0" * 16 + payment_number("SALE", DAY, bytes(10))[-1]
    )


def test_the_check_character_is_that_of_the_standard():
    """ISO 7064 MOD 37,36 of A12425GABC1234002 is M, the example of the Global Release Identifier."""
    assert room._check("A12425GABC1234002") == "M"


@given(numbers)
def test_every_payment_number_fits_the_narrowest_channel(number: str):
    assert len(number) <= 32
    assert number.isascii()
    assert number.isalnum()
    assert is_number(number)


@given(numbers, some.data())
def test_a_wrong_character_is_always_seen(number: str, data):
    place = data.draw(some.integers(0, len(number) - 1))
    other = data.draw(some.sampled_from([c for c in "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ" if c != number[place]]))
    assert not is_number(number[:place] + other + number[place + 1 :])


@given(some.binary(min_size=10, max_size=10), some.binary(min_size=10, max_size=10))
def test_other_chance_gives_another_number(one: bytes, other: bytes):
    assert (operation_number("RF", one) == operation_number("RF", other)) == (one == other)


@pytest.mark.parametrize("code", ["", "A", "sale", "1SALE", "TOOLONGX", "SA-LE", "SALÉ"])
def test_a_code_that_cannot_stand_in_a_number_is_refused(code: str):
    with pytest.raises(ValueError, match="biz_code"):
        payment_number(code, DAY, bytes(10))


@pytest.mark.parametrize("size", [0, 9, 11])
def test_too_little_or_too_much_chance_is_refused(size: int):
    with pytest.raises(ValueError, match="chance"):
        operation_number("RF", bytes(size))


@pytest.mark.parametrize("text", ["", "SALE", "../../etc/passwd", "SALE20260501" + "0" * 17, "é" * 20, "A" * 400])
def test_what_is_no_number_is_seen(text: str):
    assert not is_number(text)
