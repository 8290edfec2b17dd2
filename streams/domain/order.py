"""The state: everything about one merchant order id, compact, because it is written again at every event.

Everything here is bounded. Times are integer milliseconds of the UTC epoch, amounts integer minor units. The structs are arrays
on the wire: a later release may add fields with defaults at the end of each, and nothing else without a new version (see the codec).
Nobody changes a stored order: `Turn` works on copies.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from streams.domain.tables import INIT, OPEN

MAX_PAYMENTS: Final = 16
MAX_SEEN: Final = 64
"""Pieces of evidence remembered; the oldest go first. A forgotten key is still harmless: the machine refuses a second move."""
MAX_PARKED: Final = 16
MAX_CONFLICTS: Final = 64
"""Discrepancies with a life of their own; further ones are sent once each, by number."""
MAX_FACTS: Final = 8
MAX_CARDS: Final = 32


class Paid(Struct, array_like=True, frozen=True, gc=False):
    """A success the channel stated with our amount and currency; `ref` names the event."""

    transaction: str
    ref: str


class Refusal(Struct, array_like=True, frozen=True, gc=False):
    """A failure the channel stated. `fact` identifies it whatever else was said before it."""

    fact: bytes
    ref: str
    severity: str


class Payment(Struct, array_like=True, gc=False):
    """One payment of the order. `path` is every state it entered, in order."""

    payment_no: str
    merchant: str | None
    biz_code: str
    channel: str
    amount: int
    currency: str
    state: str
    path: tuple[str, ...]
    created_at: int
    expires_at: int
    started_at: int | None = None
    attempts: int = 0
    queries: int = 0
    """Query requests made, of the schedule and out of it."""
    polls: int = 0
    """Query requests the schedule made."""
    query_at: int | None = None
    stuck_at: int | None = None
    transaction: str | None = None
    evidence: str | None = None
    success_at: int | None = None
    sequence: int | None = None
    version: int | None = None
    fee: int | None = None
    announced: bool = False
    paid: tuple[Paid, ...] = ()
    refusals: tuple[Refusal, ...] = ()

    @property
    def key(self) -> str:
        """The operation key: `payment_no`, or `merchant/payment_no`."""
        return self.payment_no if self.merchant is None else f"{self.merchant}/{self.payment_no}"

    def pays_same(self, other: Payment) -> bool:
        """Whether both pay the same thing: one merchant's one business code of this order (R-037)."""
        return self.merchant == other.merchant and self.biz_code == other.biz_code


class Seen(Struct, array_like=True, frozen=True, gc=False):
    """One piece of evidence or one command: who said what when, and what came of it. Without a key it was never compared."""

    key: bytes
    payload: bytes
    at: int
    source: str
    word: str
    ref: str
    payment_no: str
    verdict: str
    rule: str


class Parked(Struct, array_like=True, frozen=True, gc=False):
    """Evidence that waits for its payment. `deadline` is None once a person was told."""

    key: bytes
    payload: bytes
    at: int
    deadline: int | None
    event: bytes


class Conflict(Struct, array_like=True, frozen=True, gc=False):
    """The life of one discrepancy."""

    id: bytes
    revision: int
    open: bool
    kind: str
    severity: str
    ref: str
    payment_no: str | None


class CardEntry(Struct, array_like=True, frozen=True, gc=False):
    """An entry on the card's own account, as the issuer sees it."""

    event_id: str
    channel: str
    status: str
    amount: int
    currency: str
    payment_no: str | None


class Order(Struct, array_like=True, gc=False):
    """One merchant order. `seq` counts its decisions, `overflow` the discrepancies beyond the bound, `forgotten` the evidence."""

    order_id: str
    seq: int = 0
    duplicates: int = 0
    forgotten: int = 0
    overflow: int = 0
    payments: tuple[Payment, ...] = ()
    seen: tuple[Seen, ...] = ()
    parked: tuple[Parked, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    cards: tuple[CardEntry, ...] = ()


def due(order: Order) -> int | None:
    """The earliest moment at which time alone asks for something, in milliseconds, or None."""
    first: int | None = None
    for payment in order.payments:
        if payment.state == INIT:
            first = payment.expires_at if first is None or payment.expires_at < first else first
        elif payment.state in OPEN:
            for moment in (payment.query_at, payment.stuck_at):
                if moment is not None and (first is None or moment < first):
                    first = moment
    for parked in order.parked:
        if parked.deadline is not None and (first is None or parked.deadline < first):
            first = parked.deadline
    return first
