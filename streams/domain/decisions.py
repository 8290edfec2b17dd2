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
    "release", "dispute", "person", "finding", "bill", "reconciliation", "payout",
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
    funds_stage: Literal["SETTLED"] | None = None
    """SETTLED: a bank credit contains its money (R-134). `state` and `before` are then both SUCCESS."""


class PayerAction(Struct, frozen=True, kw_only=True, gc=False, tag_field="type", tag="payer_action"):
    """What the payer needs to go on with a payment that a channel has accepted; for whoever shows it. It is no state and proves nothing.

    `action` is the channel's: a QR code's content, a page's address, a client secret. It is not to be logged.
    """

    id: str
    order_id: str
    payment_no: str
    merchant: str | None
    channel: str
    action: str
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


class Said(Struct, frozen=True, omit_defaults=True, gc=False):
    """What the evidence itself said, beside `word`, `key` and `payload` of its decision: what an inbox keeps (R-075, R-107, R-117).

    `amount` is integer minor units of `currency` as the channel stated them, ours or not; `amount_text` its own text where they do not
    fit. `event_time` is the channel's text, readable or not. `event_type` of a layer is the layer. Every piece had a valid signature,
    or came from our own connector: what does not is refused before it is evidence.
    """

    channel: str
    event_id: str | None = None
    transaction: str | None = None
    """The channel's reference of the operation it speaks of: of a refund, the refund's."""
    event_type: str = ""
    version: int | None = None
    sequence: int | None = None
    event_time: str | None = None
    received_at: datetime | None = None
    """When it was heard first, if it had to wait; None: `decided_at` of the decision."""
    amount: int | None = None
    currency: str | None = None
    amount_text: str | None = None
    fee: int | None = None
    cumulative_refunded: int | None = None
    error_class: str | None = None
    request_id: str | None = None
    reason: str | None = None
    authorization: str | None = None
    """A card entry's own name for the hold that it takes from."""
    sha256: str | None = None
    """Of the raw delivery, where its bytes came with it."""


class Asked(Struct, frozen=True, omit_defaults=True, gc=False):
    """What was asked of a channel about one operation: its attempts, and the schedule (R-101).

    An attempt was made first at `decided_at` of the decision that raised `attempts`, and sent last at that which raised `sends`.
    """

    attempts: int = 0
    sends: int = 0
    """How often the last attempt was sent, under its one key."""
    idempotency_key: str | None = None
    """The last attempt's; said only while a request is out."""
    refused_by: str | None = None
    """The evidence that the last attempt was not accepted."""
    queries: int = 0
    closes: int = 0
    next_query_at: datetime | None = None
    lease_ends_at: datetime | None = None
    """When the last submit may be sent again if nothing answers."""
    window_ends_at: datetime | None = None
    """When a person is told that nobody could settle it."""


class Money(Struct, frozen=True, omit_defaults=True, gc=False):
    """Where a payment's money is: integer minor units of its currency."""

    captured: int = 0
    held: int = 0
    returned: int = 0
    disputed: int = 0
    dispute: str | None = None
    """How a dispute of it stands; None: there is none."""
    duplicate: bool = False
    """It was paid beyond what was to be paid: neither announced nor posted."""
    fulfilled: bool = False
    finished: bool = False
    order_total: int | None = None


class Shown(Struct, frozen=True, omit_defaults=True, gc=False):
    """What each party shows of a refund (R-118, R-210)."""

    merchant: str | None = None
    processor: str | None = None
    card: str | None = None
    wallet: str | None = None


class Standing(Struct, frozen=True, omit_defaults=True, gc=False):
    """One operation as it stands after a decision that changed it: the row of an operation and of its last attempt (R-101, R-104, R-118).

    The last one replaces all before it; `seq` of the decision orders them. Amounts are integer minor units of `currency`, times UTC. An
    absent field is None, zero, False or empty, but for what never changes: `expires_at` is said while the payment is INIT.
    """

    number: str
    kind: Literal["PAY", "CAPTURE", "VOID", "REFUND"]
    payment_no: str
    """The payment it belongs to; a payment's own number."""
    channel: str
    amount: int
    currency: str
    state: str
    merchant: str | None = None
    biz_code: str = ""
    transaction: str | None = None
    evidence: str | None = None
    """The witness of its end (R-001 to R-003)."""
    expires_at: datetime | None = None
    success_at: datetime | None = None
    sequence: int | None = None
    version: int | None = None
    """The highest version of the channel's object that was heard."""
    fee: int | None = None
    announced: bool = False
    late: bool = False
    """A refund of money that came late."""
    settled_by: str | None = None
    """The payout whose bank credit contains its money."""
    fee_booked: int | None = None
    """What a bill said that it cost, as it was posted."""
    asked: Asked | None = None
    money: Money | None = None
    shown: Shown | None = None


class Decision(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type", tag="decision"):
    """What one event did, and by which rule. `messages` are the ids of what it caused; a refusal causes nothing else.

    Decisions alone tell everything that is to be remembered: `said` is the evidence, `operations` are the operations that it changed as
    they stand now, `ledger` what it posted, `discrepancies` the steps of those it moved, each whole.
    """

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
    said: Said | None = None
    """None for a command, a due time, and a duplicate, which says what was said before."""
    operations: tuple[Standing, ...] = ()
    discrepancies: tuple[Discrepancy, ...] = ()


Message: TypeAlias = (
    PaymentSuccess | Discrepancy | PaymentUpdate | OperationUpdate | PayerAction | Movement | ChannelRequest | Decision
)

KINDS: Final[dict[type[Message], str]] = {
    PaymentSuccess: "success",
    Discrepancy: "discrepancies",
    PaymentUpdate: "updates",
    OperationUpdate: "updates",
    PayerAction: "updates",
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
