"""Numbers that we mint for payments and their operations: not guessable, safe with every channel, and wrong ones are seen at once.

A payment number is business code, date, chance and check character (R-038); it is what a channel gets as its out-trade number
(R-039), so it is at most 32 capitals and digits, which is the narrowest that channels take. The check is ISO 7064 MOD 37,36: it sees
every single wrong character and every exchange of neighbours. Chance and date are arguments; nothing here is drawn or looked up.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from datetime import date

Kind: TypeAlias = Literal["CP", "VD", "RF"]
"""A capture, a void, a refund."""

CODE: Final = re.compile(r"[A-Z][A-Z0-9]{1,6}")
"""A business code, as it may stand in a number."""
CHANCE_BYTES: Final = 10
"""80 bits: among a billion payments of one code and day, one guess in 10^15 meets one."""

_LETTERS: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Crockford's: none that is read as another."""
_CHECKED: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_SHAPE: Final = re.compile(r"[A-Z][A-Z0-9]{17,31}")


def payment_number(biz_code: str, day: date, chance: bytes) -> str:
    """`biz_code`, `day` as YYYYMMDD, 16 characters of `chance` (10 bytes), and the check character. Refuses other shapes."""
    if not CODE.fullmatch(biz_code):
        raise ValueError(f"biz_code is {biz_code!r}; use 2 to 7 capitals and digits that begin with a capital")
    return _with_check(f"{biz_code}{day:%Y%m%d}{_written(chance)}")


def operation_number(kind: Kind, chance: bytes) -> str:
    """`kind`, 16 characters of `chance` (10 bytes), and the check character: a capture's, void's or refund's own number (R-032)."""
    return _with_check(f"{kind}{_written(chance)}")


def is_number(text: str) -> bool:
    """Whether it can be a number of ours: its shape, and its check character."""
    return _SHAPE.fullmatch(text) is not None and _check(text[:-1]) == text[-1]


def _written(chance: bytes) -> str:
    if len(chance) != CHANCE_BYTES:
        raise ValueError(f"chance has {len(chance)} bytes; pass {CHANCE_BYTES}")
    value = int.from_bytes(chance, "big")
    return "".join(_LETTERS[value >> shift & 31] for shift in range(75, -1, -5))


def _with_check(text: str) -> str:
    return text + _check(text)


def _check(text: str) -> str:
    """ISO 7064, hybrid system MOD 37,36."""
    product = 36
    for letter in text:
        product = (product + _CHECKED.index(letter)) % 36 or 36
        product = product * 2 % 37
    return _CHECKED[(37 - product) % 36]
