"""What comes in: one type per thing a connector, a gateway or our own side may say about an order.

Amounts are integers in minor units of `currency`, bounded to what every JSON reader holds exactly. Ids are opaque text:
never trimmed, folded or normalised; an empty id is the same as an absent one. An absent field is unknown, not zero.
Unknown fields are ignored, so that a connector of the next release can talk to this one.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta, Struct

from streams.domain.fields import Amount, Currency, Details, Id, Moment, Text, Whole, Word  # noqa: TC001  msgspec reads the annotations
from streams.domain.reports import Agreement, Booking, Difference, PayoutNotice, Settled

Request: TypeAlias = Literal["submit", "query", "close", "capture", "void", "refund", "bill"]
"""What an answer answers. A line of a channel's own bill is heard like the answer to a query (R-025)."""


class Raw(Struct, frozen=True, kw_only=True, gc=False):
    """A delivery as it came in, for the audit; the law never reads it. `body` is base64 of the very bytes."""

    body: str
    sha256: str
    content_type: str = ""
    headers: dict[str, str] = {}


class CreatePayment(
    Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type", tag="create_payment"
):
    """Our side opens a payment. `channel` is one merchant account at one channel. The amount must be positive (R-133)."""

    command_id: Id
    order_id: Id
    payment_no: Id
    biz_code: Id
    channel: Id
    amount: Amount
    currency: Currency
    merchant: Id | None = None
    expires_at: Moment | None = None
    qr: bool = False
    order_total: Amount | None = None
    """Where several payments, its legs, pay the order together."""
    category: Id | None = None
    """The merchant category, for what a channel lets be captured above a hold."""
    routed: bool = False
    """Routing chose `channel`, nobody asked for it: a repetition may be routed elsewhere, and is of the payment there is."""


class StartPayment(
    Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type", tag="start_payment"
):
    """Our side asks to charge it. The one winner of INIT -> PAYING makes the one submit request (R-017)."""

    command_id: Id
    order_id: Id
    payment_no: Id
    merchant: Id | None = None
    channel: Id | None = None
    details: Details = {}


class RetryPayment(
    Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type", tag="retry_payment"
):
    """Our side asks for another attempt, at the same channel or another; only if every earlier one was not accepted (R-050).

    `details` replace those of the attempt before, which another channel would not understand.
    """

    command_id: Id
    order_id: Id
    payment_no: Id
    merchant: Id | None = None
    channel: Id | None = None
    details: Details = {}


class ClosePayment(
    Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type", tag="close_payment"
):
    """Our side gives the payment up: at once while no request of it was accepted, else the channel is asked to close it."""

    command_id: Id
    order_id: Id
    payment_no: Id
    merchant: Id | None = None


class CapturePayment(
    Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type", tag="capture_payment"
):
    """Our side asks for some or all of a hold, as an operation of its own."""

    command_id: Id
    order_id: Id
    payment_no: Id
    capture_no: Id
    amount: Amount
    currency: Currency
    merchant: Id | None = None


class VoidPayment(
    Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type", tag="void_payment"
):
    """Our side asks the channel to let a hold go."""

    command_id: Id
    order_id: Id
    payment_no: Id
    void_no: Id
    merchant: Id | None = None


class RefundPayment(
    Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type", tag="refund_payment"
):
    """Our side asks to give money back, as an operation with a number of its own (R-032, R-222)."""

    command_id: Id
    order_id: Id
    payment_no: Id
    refund_no: Id
    amount: Amount
    currency: Currency
    merchant: Id | None = None


class Resolve(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type", tag="resolve"):
    """Two people decide about a discrepancy, on evidence. Nothing they say edits an amount or a state (R-197).

    `refund` and `fulfil` are the two exits of money that came late; `book` posts what the channel did by itself; `close` says
    that the evidence explains it. `revision` is the one they saw. `refund_no` is the number of the refund, where one is decided.
    """

    command_id: Id
    order_id: Id
    discrepancy: Id
    revision: Whole
    action: Literal["refund", "fulfil", "book", "close"]
    evidence: Text
    proposer: Id
    approver: Id
    refund_no: Id | None = None


class Undelivered(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type", tag="undelivered"):
    """Our notifier gave up telling the merchant of a payment: a person has to (R-084, R-086). `ref` is the notice's id."""

    command_id: Id
    order_id: Id
    payment_no: Id
    ref: Id
    detail: Text
    merchant: Id | None = None


class Callback(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type", tag="callback"):
    """A channel's notice about one payment, verified and mapped by its adapter.

    `amount_text` is the channel's own text where it is not representable in minor units of the currency. `event_time`
    stays text: an unreadable one is a mark on the evidence, not a refusal. `received_at`, `subscription` and `raw` tell
    how the notice travelled and are no part of what it says.
    """

    order_id: Id
    payment_no: Id
    channel: Id
    status: Word
    event_type: Text = ""
    merchant: Id | None = None
    event_id: Id | None = None
    transaction: Id | None = None
    amount: Amount | None = None
    currency: Currency | None = None
    event_time: Text | None = None
    sequence: Whole | None = None
    version: Whole | None = None
    fee: Amount | None = None
    net_amount: Amount | None = None
    settle_amount: Amount | None = None
    settle_currency: Currency | None = None
    livemode: bool | None = None
    amount_text: Text | None = None
    subscription: Id | None = None
    received_at: Moment | None = None
    raw: Raw | None = None
    captured_flag: bool | None = None
    """False beside a refund: nothing was captured, so a hold was let go."""
    cumulative_refunded: Amount | None = None
    """What the channel says was refunded of the payment so far."""
    charged_back: Amount | None = None
    auth_expires_at: Moment | None = None
    """When the channel lets an authorisation lapse."""


class RefundNotice(
    Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type", tag="refund_notice"
):
    """A channel's notice about one refund of a payment. Without `refund_no` the refund was started at the channel.

    `amount` is this refund; `cumulative_refunded` the total so far, for information. `reason` `uncaptured_remainder` says that it
    is no refund but the release of a hold.
    """

    order_id: Id
    payment_no: Id
    channel: Id
    status: Word
    event_type: Text = ""
    refund_no: Id | None = None
    merchant: Id | None = None
    event_id: Id | None = None
    refund_transaction: Id | None = None
    transaction: Id | None = None
    amount: Amount | None = None
    currency: Currency | None = None
    event_time: Text | None = None
    sequence: Whole | None = None
    version: Whole | None = None
    cumulative_refunded: Amount | None = None
    reason: Text | None = None
    livemode: bool | None = None
    amount_text: Text | None = None
    received_at: Moment | None = None
    raw: Raw | None = None


class RefundLayer(
    Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type", tag="refund_layer"
):
    """What one party shows of a refund: the payee, the processing chain, the card or the wallet. It is nobody else's word (R-210)."""

    order_id: Id
    payment_no: Id
    refund_no: Id
    channel: Id
    layer: Literal["merchant", "processor", "card", "wallet"]
    status: Word
    event_id: Id | None = None
    merchant: Id | None = None
    amount: Amount | None = None
    currency: Currency | None = None
    received_at: Moment | None = None
    raw: Raw | None = None


class Release(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type", tag="release"):
    """The channel let a hold go. It is no refund (R-212)."""

    order_id: Id
    payment_no: Id
    channel: Id
    status: Word
    event_id: Id | None = None
    merchant: Id | None = None
    transaction: Id | None = None
    amount: Amount | None = None
    currency: Currency | None = None
    received_at: Moment | None = None
    raw: Raw | None = None


class Dispute(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type", tag="dispute"):
    """A payer disputes a payment, or the dispute was won or lost."""

    order_id: Id
    payment_no: Id
    channel: Id
    status: Word
    amount: Amount
    currency: Currency
    event_id: Id | None = None
    merchant: Id | None = None
    transaction: Id | None = None
    received_at: Moment | None = None
    raw: Raw | None = None


class Unmapped(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type", tag="unmapped"):
    """A verified notice that its adapter could not map: to the dead letters with its bytes; it never reaches the law."""

    channel: Id
    event_type: Text
    reason: Text
    order_id: Id = ""
    event_id: Id | None = None
    raw: Raw | None = None


class Answer(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type", tag="answer"):
    """What a channel answered to a request of ours; no answer in time is an answer with status TIMEOUT.

    `operation_no` is the capture, void or refund it is about; without it, it is about the payment. `transaction` is the channel's
    reference of that operation.
    """

    request: Request
    order_id: Id
    payment_no: Id
    channel: Id
    status: Word
    request_id: Id | None = None
    merchant: Id | None = None
    transaction: Id | None = None
    amount: Amount | None = None
    currency: Currency | None = None
    error_class: Text | None = None
    answered_at: Moment | None = None
    raw: Raw | None = None
    operation_no: Id | None = None
    auth_expires_at: Moment | None = None
    payer_action: Annotated[str, Meta(max_length=4096)] | None = None
    """What the payer needs to go on: a QR code's content, a page's address, a client secret."""


class CardPosting(
    Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type", tag="card_posting"
):
    """An entry on the card's own account, seen by the issuer. `channel` is the issuer's account with us."""

    channel: Id
    order_id: Id
    event_id: Id
    amount: Amount
    currency: Currency
    status: Literal["PURCHASE", "REFUND"]
    merchant: Id | None = None
    payment_no: Id | None = None
    authorization: Id | None = None
    transaction: Id | None = None
    event_time: Text | None = None
    raw: Raw | None = None


class Finding(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type", tag="finding"):
    """Our own books found this of an order beside others. `payment_no` is the operation of this order that it speaks of."""

    order_id: Id
    payment_no: Id
    channel: Id
    status: Literal["TRANSACTION_ON_TWO_ORDERS"]
    event_id: Id
    transaction: Id
    other_order: Id
    merchant: Id | None = None


Command: TypeAlias = (
    CreatePayment
    | StartPayment
    | RetryPayment
    | ClosePayment
    | CapturePayment
    | VoidPayment
    | RefundPayment
    | Resolve
    | Undelivered
)
Report: TypeAlias = Difference | Agreement | Booking | Settled | PayoutNotice
Evidence: TypeAlias = (
    Callback | Answer | CardPosting | RefundNotice | RefundLayer | Release | Dispute | Finding | Report
)
Event: TypeAlias = Command | Evidence

ID_FIELDS: Final = frozenset({
    "command_id", "order_id", "payment_no", "biz_code", "channel", "merchant", "event_id", "transaction", "request_id",
    "authorization", "subscription", "refund_no", "capture_no", "void_no", "operation_no", "refund_transaction", "category",
    "discrepancy", "proposer", "approver", "other_order", "ref", "account",
})  # fmt: skip
"""Fields that a connector may send as a JSON number; its digits are kept as text."""
