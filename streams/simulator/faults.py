"""What goes wrong, how often, and for whom: decided by the seed and the number it happens to, never by the order of arrival.

So a run that another machine repeats with the same seed loses the same answers and drops the same notices, whatever came first.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Final, Literal, TypeAlias

import msgspec

Rate: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1)]
Kind: TypeAlias = Literal[
    "drop", "delay", "double", "reorder", "lose", "maintenance", "contradict", "fail", "slow", "authorize"
]

WHOLE: Final = 1 << 64


class Rates(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Each from 0 to 1. The last three are no faults: how payments end."""

    drop: Rate = 0.0
    """Of notices: never sent."""
    delay: Rate = 0.0
    """Of notices: sent late."""
    double: Rate = 0.0
    """Of notices: sent twice."""
    reorder: Rate = 0.0
    """Of notices: held until a later one has passed."""
    lose: Rate = 0.0
    """Of requests: carried out, and the connection cut instead of an answer."""
    maintenance: Rate = 0.0
    """Of requests: answered with 503 and not carried out."""
    contradict: Rate = 0.0
    """Of successes: followed by a notice of failure."""
    fail: Rate = 0.0
    """Of payments and refunds: they fail."""
    slow: Rate = 0.0
    """Of payments and refunds: PROCESSING first."""
    authorize: Rate = 0.0
    """Of payments: only held, to be captured or voided."""


class FaultsError(ValueError):
    """Text that is no list of rates; it says what is wrong and how to write it."""


def rates(text: str) -> Rates:
    """`drop=0.05,lose=0.1` as rates. Raises `FaultsError`."""
    found: dict[str, float] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = item.partition("=")
        if name not in Rates.__struct_fields__:
            raise FaultsError(f"{name!r} is no fault; use {', '.join(Rates.__struct_fields__)}")
        try:
            found[name] = float(value)
        except ValueError as error:
            raise FaultsError(f"{name}={value!r} is no number; write {name}=0.05") from error
    try:
        return msgspec.convert(found, Rates)
    except msgspec.ValidationError as error:
        raise FaultsError(f"{error}; a rate lies between 0 and 1") from error


class Chance:
    """Draws that depend on the seed and on what they are about, and on nothing else."""

    def __init__(self, seed: int, rates: Rates) -> None:
        self.seed = seed
        self.rates = rates

    def strikes(self, kind: Kind, *about: object) -> bool:
        """Whether this happens to that."""
        rate: float = getattr(self.rates, kind)
        return rate > 0 and self._draw(kind, about) < rate * WHOLE

    def share(self, what: str, *about: object) -> float:
        """A number from 0 to below 1, for how long or where."""
        return self._draw(what, about) / WHOLE

    def name(self, *about: object) -> str:
        """Sixteen hexadecimal digits that name something."""
        return self._digest("name", about).hex()

    def _draw(self, what: str, about: tuple[object, ...]) -> int:
        return int.from_bytes(self._digest(what, about), "big")

    def _digest(self, what: str, about: tuple[object, ...]) -> bytes:
        text = "\x1f".join(map(str, (self.seed, what, *about)))
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
