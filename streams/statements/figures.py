"""Figures as files write them, exactly: separators by the layout, minor units by the currency, and never a float."""

from __future__ import annotations

import re
from decimal import ROUND_HALF_EVEN, Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from streams.channels.amounts import from_text, iso_exponents

if TYPE_CHECKING:
    from streams.domain.contract import Layout


class FigureError(ValueError):
    """Not a figure of this layout, or none of this currency; the text says which."""


@lru_cache(maxsize=64)
def _pattern(decimal: str, group: str | None) -> re.Pattern[str]:
    whole = "[0-9]+" if group is None else rf"(?:[0-9]{{1,3}}(?:{re.escape(group)}[0-9]{{3}})+|[0-9]+)"
    return re.compile(rf"([+-]?)({whole})(?:{re.escape(decimal)}([0-9]+))?", re.ASCII)


def canonical(text: str, decimal: str = ".", group: str | None = None) -> str:
    """The same figure with a point and without grouping: `1.355,90` becomes `1355.90`."""
    match = _pattern(decimal, group).fullmatch(text.strip())
    if match is None:
        raise FigureError(f"{text!r} is no figure; it is written with {decimal!r} and groups of {group!r}")
    sign, whole, fraction = match[1], match[2], match[3]
    whole = whole if group is None else whole.replace(group, "")
    return f"{'-' if sign == '-' else ''}{whole}{f'.{fraction}' if fraction else ''}"


def amount(text: str, currency: str, layout: Layout) -> int:
    """Minor units. Digits beyond the currency's are refused, unless they are zeros."""
    plain = canonical(text, layout.decimal, layout.group)
    return minor(plain, currency, layout.amount_unit)


def minor(plain: str, currency: str, unit: Literal["minor", "major"] = "major") -> int:
    """A canonical figure as minor units."""
    if unit == "minor":
        whole, _, fraction = plain.partition(".")
        if fraction.strip("0"):
            raise FigureError(f"{plain} {currency} has a part of a minor unit")
        return int(whole)
    found = from_text(currency, plain)
    if found is None:
        digits = iso_exponents().get(currency)
        raise FigureError(
            f"{currency!r} is no currency of ISO 4217 with minor units" if digits is None
            else f"{plain} {currency} has more than {digits} decimals"
        )  # fmt: skip
    return found


def fee(text: str, currency: str, layout: Layout) -> tuple[int, str | None]:
    """A fee in minor units, half to even, and its text where it is finer than that (R-189)."""
    plain = canonical(text, layout.decimal, layout.group)
    return (minor(plain, currency, "minor"), None) if layout.amount_unit == "minor" else fine(plain, currency)


def fine(plain: str, currency: str) -> tuple[int, str | None]:
    """A canonical figure that may be finer than the currency: minor units, half to even, and its text if it is."""
    try:
        return minor(plain, currency), None
    except FigureError:
        digits = iso_exponents().get(currency)
        if digits is None:
            raise
        return int(Decimal(plain).scaleb(digits).to_integral_value(ROUND_HALF_EVEN)), plain
