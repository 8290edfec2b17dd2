"""What goes out: one type per thing the law may say, each with an id that a replay mints again.

`id` names the thing for good. A discrepancy lives on under one id, so its records differ by `revision`; `message_id` is unique
per record and is what consumers dedupe by. Amounts are integer minor units; times are UTC.
"""

from __future__ import annotations

from datetime import datetime  # noqa: TC003  msgspec reads the annotation
from typing import Final, Literal, TypeAlias

from msgspec import Struct

Verdict: TypeAlias = Literal["applied", "duplicate", "stale", "conflict", "illegal", "parked", "refused"]
Verb: TypeAlias = Literal["SUBMIT", "QUERY", "CLOSE", "CAPTURE", "VOID", "REFUND"]
Severity: TypeAlias = Literal["high", "info"]
Source: TypeAlias = Literal[
    "command", "callback", "submit", "query", "close", "capture", "void", "refund", "card", "timer", "refund-notice", "layer",
    "release", "dispute", "person",
]  # fmt: skip


class PaymentSuccess(Struct, frozen=True, kw_only=True, gc=False, tag_field="type", tag="payment_success"):
    """The one announcement that an order's payment succeeded (R-139). SUCCESS is not settlement: see `funds_stage` (R-134)."""

    id: str
    order_id: str
    payment_no: str
    merchant: str | None
    biz_code: str
    channel: str
    transaction: str
    amount: int
    currency: str
    evidence: str
    decision: str
    decided_at: datetime
    funds_stage: Literal["IN_TRANSIT", "SETTLED"] = "IN_TRANSIT"
    order_total: int | None = None
    """Where several legs paid the order: what they add up to. This record is the one that reached it."""


class Discrepancy(Struct, frozen=True, kw_only=True, gc=False, tag_field="type", tag="discrepancy"):
    """A named disagreement with a life. The id comes from the facts that disagree, so every arrival order opens the same one."""

    id: str
    revision: int
    status: Literal["opened", "updated", "resolved"]
    kind: str
    severity: Severity
    ref: str
    order_id: str
    payment_no: str | None
    evidence: str
    owner: str
    decision: str
    decided_at: datetime
    detail: str
    deadline: datetime | None = None
    """When its owner should have worked it."""


class PaymentUpdate(Struct, frozen=True, kw_only=True, gc=False, tag_field="type", tag="payment_update"):
    """A payment entered `state`; for the trade domain. `before` is None when it was created."""

    id: str
    order_id: str
    payment_no: str
    merchant: str | None
    biz_code: str
    channel: str
    amount: int
    currency: str
    state: str
    before: str | None
    transaction: str | None
    decision: str
    decided_at: datetime


class OperationUpdate(Struct, frozen=True, kw_only=True, gc=False, tag_field="type", tag="operation_update"):
    """A capture, void or refund of a payment entered `state`; for the trade domain. `before` is None when it was asked for."""

    id: str
    order_id: str
    payment_no: str
    merchant: str | None
    kind: Literal["CAPTURE", "VOID", "REFUND"]
    operation_no: str
    channel: str
    amount: int
    currency: str
    state: str
    before: str | None
    transaction: str | None
    decision: str
    decided_at: datetime


class Movement(Struct, frozen=True, kw_only=True, gc=False, tag_field="type", tag="movement"):
    """What happened to money after the payment's own success, or instead of it: each kind once for an operation, by its transition.

    `operation_no` is the refund, where it is one. `state` is the operation's after the change. RELEASED money was only held.
    """

    id: str
    kind: Literal["REFUND_SUCCESS", "REFUND_RETURNED", "AUTH_RELEASED", "PAYMENT_REVERSED", "LATE_MONEY_FULFILLED"]
    order_id: str
    payment_no: str
    merchant: str | None
    operation_no: str | None
    channel: str
    transaction: str | None
    amount: int
    currency: str
    state: str
    evidence: str
    decision: str
    decided_at: datetime


class ChannelRequest(Struct, frozen=True, kw_only=True, gc=False, tag_field="type", tag="channel_request"):
    """What a connector shall ask the channel. The idempotency key is the attempt's and survives every retry (R-031)."""

    id: str
    verb: Verb
    order_id: str
    payment_no: str
    merchant: str | None
    channel: str
    amount: int
    currency: str
    idempotency_key: str
    transaction: str | None
    why: str
    decision: str
    decided_at: datetime
    operation_no: str | None = None
    """The capture, void or refund; None: the payment itself."""
    not_after: datetime | None = None
    """Its lease: a connector does not send it later than this, because then it may be asked for again (R-064)."""
    details: dict[str, str] = {}
    """What the start of the payment said that only its channel wants to know, unread by us."""
    operation: str | None = None
    """What `operation_no` is, CAPTURE, VOID or REFUND, so that a query knows what it asks about."""
    payment_transaction: str | None = None
    """The channel's reference of the payment that the operation is of; channels name what is captured or refunded by it."""
    payment_amount: int | None = None
    """That payment's amount, in minor units; some channels want it beside the amount of a refund."""


class LedgerEntry(Struct, frozen=True, array_like=False, gc=False):
    """One double entry: `amount` > 0 minor units to the debit of `dr` and the credit of `cr`."""

    dr: str
    cr: str
    amount: int
    currency: str
    ref: str


class Decision(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type", tag="decision"):
    """What one event did, and by which rule. `messages` are the ids of what it caused; a refusal causes nothing else."""

    id: str
    order_id: str
    seq: int
    verdict: Verdict
    rule: str
    source: Source
    evidence: str
    decided_at: datetime
    word: str = ""
    key: str = ""
    payload: str = ""
    payment_no: str | None = None
    merchant: str | None = None
    before: str | None = None
    after: str | None = None
    messages: tuple[str, ...] = ()
    ledger: tuple[LedgerEntry, ...] = ()
    marks: tuple[str, ...] = ()
    detail: str = ""


Message: TypeAlias = (
    PaymentSuccess | Discrepancy | PaymentUpdate | OperationUpdate | Movement | ChannelRequest | Decision
)

KINDS: Final[dict[type[Message], str]] = {
    PaymentSuccess: "success",
    Discrepancy: "discrepancies",
    PaymentUpdate: "updates",
    OperationUpdate: "updates",
    Movement: "updates",
    ChannelRequest: "channel-requests",
    Decision: "decisions",
}
"""The logical name of the topic that carries each type."""


def message_id(message: Message) -> str:
    """The id of this very record, unique among all records of its kind."""
    if type(message) is Discrepancy:
        return f"{message.id}/{message.revision}"
    return message.id
