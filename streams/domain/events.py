"""What comes in: one type per thing a connector, a gateway or our own side may say about an order.

Amounts are integers in minor units of `currency`, bounded to what every JSON reader holds exactly. Ids are opaque text:
never trimmed, folded or normalised; an empty id is the same as an absent one. An absent field is unknown, not zero.
Unknown fields are ignored, so that a connector of the next release can talk to this one.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta, Struct

MAX_AMOUNT: Final = 2**53 - 1
"""The largest integer every JSON reader holds exactly; no payment comes near it."""

Amount: TypeAlias = Annotated[int, Meta(ge=-MAX_AMOUNT, le=MAX_AMOUNT, description="integer minor units of `currency`")]
Currency: TypeAlias = Annotated[str, Meta(min_length=3, max_length=3, description="ISO 4217, three capital letters")]
Id: TypeAlias = Annotated[str, Meta(max_length=256, description="opaque text")]
Word: TypeAlias = Annotated[str, Meta(max_length=64)]
Text: TypeAlias = Annotated[str, Meta(max_length=256)]
Moment: TypeAlias = Annotated[datetime, Meta(tz=True)]
Whole: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_AMOUNT)]

Request: TypeAlias = Literal["submit", "query", "close", "capture", "void", "refund"]
"""What an answer answers."""


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


class StartPayment(
    Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type", tag="start_payment"
):
    """Our side asks to charge it. The one winner of INIT -> PAYING makes the one submit request (R-017)."""

    command_id: Id
    order_id: Id
    payment_no: Id
    merchant: Id | None = None
    channel: Id | None = None


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


class Unmapped(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type", tag="unmapped"):
    """A verified notice that its adapter could not map: to the dead letters with its bytes; it never reaches the law."""

    channel: Id
    event_type: Text
    reason: Text
    order_id: Id = ""
    event_id: Id | None = None
    raw: Raw | None = None


class Answer(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type", tag="answer"):
    """What a channel answered to a request of ours; no answer in time is an answer with status TIMEOUT."""

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


Command: TypeAlias = CreatePayment | StartPayment
Evidence: TypeAlias = Callback | Answer | CardPosting
Event: TypeAlias = Command | Evidence

ID_FIELDS: Final = frozenset({
    "command_id", "order_id", "payment_no", "biz_code", "channel", "merchant", "event_id", "transaction", "request_id",
    "authorization", "subscription",
})  # fmt: skip
"""Fields that a connector may send as a JSON number; its digits are kept as text."""
