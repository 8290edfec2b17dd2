"""Amounts between a channel's units and ours, exactly: whole minor units by ISO 4217, whatever the channel counts in.

Zeros beyond the exponent are harmless; other digits there make an amount that does not exist, and it is never rounded.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

from iso4217 import Currency

from streams.domain.fields import MAX_AMOUNT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streams.domain.contract import Contract

PLAIN: Final = re.compile(r"(-?)([0-9]{1,24})(?:\.([0-9]{1,24}))?", re.ASCII)


@cache
def iso_exponents() -> Mapping[str, int]:
    """Every currency of ISO 4217 that has minor units, and how many digits they take. Gold and the like have none."""
    return {currency.code: currency.exponent for currency in Currency if currency.exponent is not None}


def channel_exponent(contract: Contract, currency: str) -> int | None:
    """The digits of the channel's own minor unit; None for a currency that has none."""
    return contract.exponents.get(currency, iso_exponents().get(currency))


def from_channel_minor(contract: Contract, currency: str, amount: int) -> int | None:
    """The channel's whole minor units in ours; None if they are not representable (R8 of the scenarios, INVALID_AMOUNT)."""
    exponent = channel_exponent(contract, currency)
    if exponent is None or currency not in iso_exponents():
        return None
    sign = "-" if amount < 0 else ""
    digits = str(abs(amount)).rjust(exponent + 1, "0")
    whole, fraction = (digits[:-exponent], digits[-exponent:]) if exponent else (digits, "")
    return from_text(currency, f"{sign}{whole}.{fraction or '0'}")


def to_channel_minor(contract: Contract, currency: str, amount: int) -> int | None:
    """Our minor units in the channel's, for a request; None if the channel cannot express them."""
    exponent = channel_exponent(contract, currency)
    ours = iso_exponents().get(currency)
    if exponent is None or ours is None:
        return None
    if exponent >= ours:
        return int(amount * 10 ** (exponent - ours))
    whole, rest = divmod(amount, 10 ** (ours - exponent))
    return int(whole) if rest == 0 else None


def from_text(currency: str, text: str) -> int | None:
    """Decimal text in major units (`19.99`, `-0.5`) as our minor units; None for anything that is not exactly one."""
    exponent = iso_exponents().get(currency)
    match = PLAIN.fullmatch(text)
    if exponent is None or match is None:
        return None
    sign, whole, fraction = match[1], match[2], match[3] or ""
    kept, beyond = fraction[:exponent], fraction[exponent:]
    if beyond.strip("0"):
        return None
    amount = int(whole + kept.ljust(exponent, "0"))
    if amount > MAX_AMOUNT:
        return None
    return -amount if sign else amount


def to_text(currency: str, amount: int) -> str | None:
    """Our minor units as decimal text in major units (`19.99`), the inverse of `from_text`; None for a currency that has none."""
    exponent = iso_exponents().get(currency)
    if exponent is None:
        return None
    digits = str(abs(amount)).rjust(exponent + 1, "0")
    whole, fraction = (digits[:-exponent], f".{digits[-exponent:]}") if exponent else (digits, "")
    return f"{'-' if amount < 0 else ''}{whole}{fraction}"
