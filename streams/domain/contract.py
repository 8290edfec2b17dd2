"""What a channel promises, as far as the law asks. Durations are whole seconds. A channel without a contract has the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, TypeAlias

from msgspec import Meta, Struct


class Contract(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One merchant account at one channel."""

    decline_is_final: bool = True
    """False: a declined attempt may still be authorised, so DECLINED_RETRYABLE is no failure."""
    query_window_s: int = 86_400
    """How long we ask by ourselves before a person is asked (R-056)."""
    query_after_s: Annotated[tuple[int, ...], Meta(min_length=1)] = (120, 600, 1800)
    """The first queries, counted from the start (R-058, R-059); later ones double the last distance."""
    park_window_s: int = 86_400
    """How long evidence waits for its payment before it becomes UNKNOWN_ORDER (R-081)."""
    init_expiry_s: int = 900
    qr_expiry_s: int = 1800
    """How long a payment may stay INIT (R-062)."""


DEFAULT: Final = Contract()

Contracts: TypeAlias = Mapping[str, Contract]
"""By channel."""
