"""The state: everything about one merchant order id, compact, because it is written again at every event.

Everything here is bounded. Times are integer milliseconds of the UTC epoch, amounts integer minor units. The structs are arrays
on the wire: a later release may add fields with defaults at the end of each, and nothing else without a new version (see the codec).
Nobody changes a stored order: `Turn` works on copies.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from msgspec import Struct

from streams.domain.layers import Layers  # noqa: TC001  msgspec reads the annotation
from streams.domain.tables import AUTHORIZED, INIT, OPEN, SUCCESS

MAX_PAYMENTS: Final = 16
MAX_OPERATIONS: Final = 64
"""Captures, voids and refunds of all payments of one order."""
MAX_ATTEMPTS: Final = 8
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
    channel: str = ""
    """Who stated it; empty: the operation's own channel."""


class Refusal(Struct, array_like=True, frozen=True, gc=False):
    """A failure the channel stated. `fact` identifies it whatever else was said before it."""

    fact: bytes
    ref: str
    severity: str


class Attempt(Struct, array_like=True, frozen=True, gc=False):
    """One submission of a payment, sent once or more under one key. `refused` names the evidence that none of them was accepted.

    Each sending needs its own refusal, because another may have been accepted meanwhile; only that ends an attempt.
    """

    channel: str
    at: int
    refused: str | None = None
    sends: int = 1
    refusals: int = 0
    last_at: int = 0
    """When it was sent last; 0 for an attempt that was sent once."""


class ChannelRefund(Struct, array_like=True, frozen=True, gc=False):
    """Money that went back without an operation of ours that stands for it."""

    ref: str
    amount: int
    booked: bool = False


class Funds(Struct, array_like=True, frozen=True, gc=False):
    """The money of a payment, where it is not simply its amount: holds, captures, legs, disputes, returns.

    `authorized` is what was ever held, `hold` what still is. `uncovered` is money that the payment's own word captured, so that the
    answer to a capture does not count it again. `total` is the order's, if several legs pay it.
    """

    captured: int = 0
    hold: int = 0
    authorized: int = 0
    uncovered: int = 0
    released: bool = False
    lapses_at: int | None = None
    category: str | None = None
    total: int | None = None
    duplicate: bool = False
    finished: bool = False
    returned: int = 0
    late: int = 0
    """Late money that people took in to give it back; it waits in suspense."""
    fulfilled: bool = False
    decided: int = 0
    """Successes beyond the one that paid, about whose money people have decided."""
    dispute: str = "NONE"
    disputed: int = 0
    dispute_posted: bool = False
    channel_refunds: tuple[ChannelRefund, ...] = ()


NOTHING: Final = Funds()


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
    closes: int = 0
    """Requests to close made."""
    resends: int = 0
    """Submits sent again under an attempt's own key."""
    resend_at: int | None = None
    tries: tuple[Attempt, ...] = ()
    """Every attempt, once there was more than one or one was refused; until then there is one at `channel`, still out."""
    funds: Funds | None = None
    expired: bool = False
    """Its expiry has passed while it was open, and what that asks for was done."""
    details: dict[str, str] | None = None
    """What its start said for the channel alone. Kept while it is open, as a submit sent again must say the same."""
    actions: int = 0
    """Payer actions told; at most one for each submit sent."""
    fee_booked: int | None = None
    """The fee that was posted, as the first file stated it; negative where it was given back."""
    settled_by: str | None = None
    """The payout whose bank credit contains its money."""

    @property
    def kind(self) -> str:
        return "PAY"

    @property
    def number(self) -> str:
        return self.payment_no

    @property
    def key(self) -> str:
        """The operation key: `payment_no`, or `merchant/payment_no`."""
        return self.payment_no if self.merchant is None else f"{self.merchant}/{self.payment_no}"

    @property
    def money(self) -> Funds:
        """Its funds, also where they are simply its amount."""
        if self.funds is not None:
            return self.funds
        return NOTHING if self.state != SUCCESS else Funds(captured=self.amount, duplicate=not self.announced)

    @property
    def pays(self) -> bool:
        """Whether its money stands for the order: by its success, or because people let late money pay after all."""
        return self.state == SUCCESS or (self.funds is not None and self.funds.fulfilled)

    @property
    def made(self) -> tuple[Attempt, ...]:
        """Every attempt that was made."""
        if self.tries or not self.attempts:
            return self.tries
        assert self.started_at is not None
        return (Attempt(self.channel, self.started_at),)

    def pays_same(self, other: Payment) -> bool:
        """Whether both pay the same thing: one merchant's one business code of this order (R-037)."""
        return self.merchant == other.merchant and self.biz_code == other.biz_code

    def asked(self, channel: str) -> bool:
        """Whether a request was ever made to the channel, so that it may speak of this payment."""
        return channel == self.channel or any(channel == attempt.channel for attempt in self.tries)


class Operation(Struct, array_like=True, gc=False):
    """A capture, void or refund: a business act of its own, with its own number, beside its payment (R-032)."""

    number: str
    kind: str
    payment_no: str
    merchant: str | None
    channel: str
    amount: int
    currency: str
    state: str
    path: tuple[str, ...]
    started_at: int
    attempts: int = 1
    queries: int = 0
    polls: int = 0
    query_at: int | None = None
    stuck_at: int | None = None
    transaction: str | None = None
    evidence: str | None = None
    success_at: int | None = None
    sequence: int | None = None
    paid: tuple[Paid, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    layers: Layers | None = None
    posting_due_at: int | None = None
    """When the card must have shown it; None where nobody waits for that."""
    late: bool = False
    """A refund of late money: it goes out of suspense."""
    fee_booked: int | None = None
    """As of a payment."""
    settled_by: str | None = None

    @property
    def key(self) -> str:
        """The operation key: `number`, or `merchant/number`."""
        return self.number if self.merchant is None else f"{self.merchant}/{self.number}"

    def of(self, payment: Payment) -> bool:
        return self.payment_no == payment.payment_no and self.merchant == payment.merchant


Target: TypeAlias = Payment | Operation


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
    """Evidence that waits. `deadline` is None once a person was told, and for what waits only for a `state` of a known operation."""

    key: bytes
    payload: bytes
    at: int
    deadline: int | None
    event: bytes
    waits: str = "operation"


class Conflict(Struct, array_like=True, frozen=True, gc=False):
    """The life of one discrepancy. `opened_at` is 0 where an older release opened it."""

    id: bytes
    revision: int
    open: bool
    kind: str
    severity: str
    ref: str
    payment_no: str | None
    opened_at: int = 0
    decided: bool = False
    """People have decided about these facts; the same facts again change nothing."""
    merchant: str | None = None
    """Whose payment it is about; also None where an older release opened it."""


class CardEntry(Struct, array_like=True, frozen=True, gc=False):
    """An entry on the card's own account, as the issuer sees it."""

    event_id: str
    channel: str
    status: str
    amount: int
    currency: str
    payment_no: str | None


class Payout(Struct, array_like=True, frozen=True, gc=False):
    """What a channel pays to our bank for many payments; it is an order of its own, keyed by channel and reference."""

    ref: str
    channel: str
    amount: int
    currency: str
    state: str


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
    operations: tuple[Operation, ...] = ()
    age_at: int | None = None
    """When it shrinks to a stub, if nothing is heard of it until then; None while something is open."""
    kept: bytes = b""
    """What a stub remembers of its evidence (see `age`): keys and payload hashes, one after the other."""
    payout: Payout | None = None


def due(order: Order) -> int | None:
    """The earliest moment at which something falls due, in milliseconds, or None."""
    return order.age_at or pressing(order)


def pressing(order: Order) -> int | None:
    """The earliest moment at which time alone asks for something of the order's operations; nothing does once only age is left."""
    moments = [moment for payment in order.payments for moment in _of_payment(order, payment) if moment is not None]
    if order.operations:
        moments += [moment for one in order.operations for moment in _of_operation(one) if moment is not None]
    if order.parked:
        moments += [parked.deadline for parked in order.parked if parked.deadline is not None]
    return min(moments) if moments else None


def _of_payment(order: Order, payment: Payment) -> tuple[int | None, ...]:
    state = payment.state
    if state == INIT:
        return (payment.expires_at,)
    if state in OPEN:
        return (payment.query_at, payment.stuck_at, payment.resend_at, closing_at(payment))
    return (lapses_at(order, payment),) if state == AUTHORIZED else ()


def _of_operation(operation: Operation) -> tuple[int | None, ...]:
    if operation.state in OPEN:
        return (operation.query_at, operation.stuck_at, operation.posting_due_at)
    return (operation.posting_due_at,)


def closing_at(payment: Payment) -> int | None:
    """When an open payment has to be closed at its channel; None once that was asked for."""
    return None if payment.expired else payment.expires_at


def lapses_at(order: Order, payment: Payment) -> int | None:
    """When an authorisation lapses: never under a capture whose result is still out."""
    for operation in order.operations:
        if operation.kind == "CAPTURE" and operation.state in OPEN and operation.of(payment):
            return None
    return payment.money.lapses_at
