"""How a simulated channel speaks: its notices as the real channel sends them, and its API as the real channel answers it.

The simulator decides what happened; a dialect only says it. Tests use the same dialects to make messages with keys of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from streams.channels.requests import Call, Reply
    from streams.domain.contract import Contract

S = TypeVar("S", bound=Struct)

Word: TypeAlias = Literal["SUCCESS", "FAILED", "CLOSED", "PROCESSING", "AUTHORIZED", "REFUSED", "NOT_FOUND"]
Verb: TypeAlias = Literal["submit", "query", "close", "capture", "void", "refund"]


class Fact(Struct, frozen=True, kw_only=True, gc=False):
    """What happened at the channel. Amounts in minor units (ISO 4217). `sequence` counts the facts about one transaction from 1."""

    about: Literal["payment", "capture", "void", "refund", "dispute", "card"]
    word: Word
    event_id: str
    order_id: str
    payment_no: str
    transaction: str
    amount: int
    currency: str
    at: datetime
    sequence: int = 1
    operation_no: str | None = None
    operation_transaction: str | None = None


class Delivery(Struct, frozen=True, kw_only=True, gc=False):
    """A notice ready to be sent: signed with the test keys over exactly these bytes."""

    headers: dict[str, str]
    body: bytes


class Asked(Struct, frozen=True, kw_only=True, gc=False):
    """A request that came in, understood. `key` is the idempotency key as the channel has it; amounts in minor units (ISO 4217)."""

    verb: Verb
    order_id: str = ""
    payment_no: str = ""
    operation_no: str | None = None
    transaction: str | None = None
    amount: int | None = None
    currency: str | None = None
    key: str | None = None
    about: Literal["payment", "capture", "void", "refund"] = "payment"
    """What a query asks about."""
    signed: bool = True
    """False: the signature is wrong; the channel refuses it."""


@dataclass(frozen=True, slots=True)
class Dialect(Generic[S]):
    """One channel as the simulator plays it.

    - `secrets`: make test keys, the same for the same seed: (the signing side, the credentials file for our side as plain data).
    - `notice`: the signed delivery of a fact, to `account`, at `now`.
    - `read`: an HTTP request of ours, understood; None for an address the channel does not have. The call's `url` is path and query.
    - `answer`: the channel's reply. `fact` is what it knows of the operation now, None when it knows none; `word` says how it takes the
      request: a state, REFUSED (not accepted), NOT_FOUND; `duplicate` that the number or key came before.
    """

    channel: str
    secrets: Callable[[int], tuple[S, Mapping[str, Any]]]
    notice: Callable[[S, Fact, str, datetime, Contract], Delivery]
    read: Callable[[S, Call], Asked | None] | None = None
    answer: Callable[[S, Asked, Word, Fact | None, bool, datetime, Contract], Reply] | None = None


AnyDialect: TypeAlias = Dialect[Any]
