"""What every channel's adapter is: five pure functions over what was received, and the form of its credentials file.

An adapter reads one HTTP notice of its channel: the raw body and the headers. It verifies it against the live keys, and maps what
it says to events of the product. It never asks anybody: no network, no clock, no database. What it cannot know from the notice
alone, the merchant order id of a card entry for instance, it names by reference, and the gateway finds the order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

from msgspec import Struct

from streams.domain.events import Callback, CardPosting, Dispute, RefundLayer, RefundNotice, Release, Unmapped

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from streams.domain.contract import Contract

Said: TypeAlias = Callback | RefundNotice | RefundLayer | Release | Dispute | CardPosting | Unmapped

PAYMENT: Final = "payment"
TRANSACTION: Final = "transaction"
REFUND: Final = "refund"
REFUND_TRANSACTION: Final = "refund_transaction"
AUTHORIZATION: Final = "authorization"
NETWORK: Final = "network"
"""The kinds of references: ours (`payment`, `refund`), the channel's, and those that issuers and networks share."""


class Reference(Struct, frozen=True, gc=False):
    """A number by which the order of a notice may be found. `account` is `channel:account`; empty for our own numbers."""

    kind: str
    value: str
    account: str = ""

    @property
    def key(self) -> str:
        """The key of the reference in `payments.references`."""
        return f"{self.kind}/{self.account}/{self.value}"


class Mapped(Struct, frozen=True, gc=False):
    """One event of a notice. With an empty `order_id` (never on an `Unmapped`) the order is found by the first reference that is
    known; the link then also fills an empty `payment_no` and `refund_no`."""

    event: Said
    references: tuple[Reference, ...] = ()


@dataclass(frozen=True, slots=True)
class Received:
    """A notice as it came in. `headers` in lower case; `at` is the time of receipt in UTC; `account` as in the callback's address."""

    headers: Mapping[str, str]
    body: bytes
    account: str
    at: datetime


C = TypeVar("C", bound=Struct)
K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Adapter(Generic[C, K]):
    """One channel's intake.

    - `credentials`: the Struct of the credentials file (JSON or YAML, unknown fields refused), its fields documented; lists where
      several keys may live at once (rotation).
    - `keys`: those credentials made ready, PEM parsed and hex decoded. Raises `ValueError` naming the field and the fix, never the value.
    - `verify`: accept the notice, or raise a `Refused` of `streams.channels.verification`. Over the raw bytes, constant-time.
    - `events`: what a verified notice says, each item of a batch one; empty for one that says nothing to keep (a ping, a probe).
      What cannot be mapped is an `Unmapped` with the reason. May raise `Refused` when a sealed content cannot be opened, nothing else.
    - `acknowledgement`: the body of the answer where it depends on the notice; None: the contract's.
    """

    channel: str
    credentials: type[C]
    keys: Callable[[C], K]
    verify: Callable[[K, Received], None]
    events: Callable[[K, Received, Contract], list[Mapped]]
    content_types: tuple[str, ...] = ("application/json",)
    acknowledgement: Callable[[Received], bytes] | None = None


AnyAdapter: TypeAlias = Adapter[Any, Any]
