"""What the cashier takes and gives, as JSON: amounts are integer minor units, times RFC 3339 with their offset, unknown fields refused."""

from __future__ import annotations

from datetime import datetime  # noqa: TC003  msgspec reads the annotation
from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from streams.domain.fields import MAX_AMOUNT

Amount: TypeAlias = Annotated[int, Meta(ge=-MAX_AMOUNT, le=MAX_AMOUNT, description="integer minor units of `currency`")]
Currency: TypeAlias = Annotated[str, Meta(pattern="^[A-Z]{3}$", description="ISO 4217")]
OrderId: TypeAlias = Annotated[str, Meta(pattern=r"^[\x21-\x7e]{1,64}$", description="the merchant's order number")]
BizCode: TypeAlias = Annotated[str, Meta(pattern="^[A-Z][A-Z0-9]{1,6}$", description="the business line")]
Channel: TypeAlias = Annotated[str, Meta(pattern=r"^[\x21-\x7e]{1,128}$", description="`channel:account`")]
Method: TypeAlias = Annotated[
    str, Meta(pattern=r"^[a-z][a-z0-9_-]{0,31}$", description="as the route book names it, such as card")
]
Tag: TypeAlias = Annotated[
    str, Meta(pattern=r"^[\x21-\x7e]{1,64}$", description="the payer's group, as the route book names it")
]
Details: TypeAlias = Annotated[
    dict[Annotated[str, Meta(max_length=64)], Annotated[str, Meta(max_length=1024)]], Meta(max_length=16)
]
Conclusion: TypeAlias = Literal["SUCCESS", "FAILURE", "PENDING"]


class NewPayment(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A payment to open (R-132). Without `expires_at` it can be started for 15 minutes, with `qr` for 30 (R-062).

    Without `channel` routing chooses one, for `method` and `buyer_tag` (R-138).
    """

    order_id: OrderId
    biz_code: BizCode
    amount: Amount
    currency: Currency
    channel: Channel | None = None
    method: Method | None = None
    buyer_tag: Tag | None = None
    expires_at: Annotated[datetime, Meta(tz=True)] | None = None
    qr: bool = False


class Consultation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a payer is about to pay: which methods there are for it (R-140)."""

    biz_code: BizCode
    amount: Amount
    currency: Currency
    buyer_tag: Tag | None = None


class ObstacleView(Struct, frozen=True, kw_only=True):
    """Why a channel that knows the method cannot take it now. `reason` is one of the filter's names."""

    channel: str
    reason: str
    detail: str


class MethodView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One method. `channel` would take it; without one `why` says what stands against it."""

    method: str
    usable: bool
    channel: str = ""
    why: tuple[ObstacleView, ...] = ()


class ConsultationView(Struct, frozen=True, kw_only=True):
    """Every method: first those that can be used, the best first. It holds for this moment, and reserves nothing."""

    route_book: int
    methods: tuple[MethodView, ...]


class Start(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to start it. `details` pass to the channel, unread by us."""

    channel: Channel | None = None
    details: Details = {}


class Share(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much to capture or to refund."""

    amount: Amount
    currency: Currency


class PaymentView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A payment. `conclusion` is all that counts outward: SUCCESS, the funds are in transit; FAILURE, no payment occurred (R-136)."""

    payment_no: str
    order_id: str
    state: str
    conclusion: Conclusion
    funds_stage: Literal["IN_TRANSIT"] | UnsetType = UNSET
    """With SUCCESS only: it is accepted, not settled (R-134)."""
    biz_code: str = ""
    channel: str = ""
    amount: int | UnsetType = UNSET
    currency: str = ""
    captured: int | UnsetType = UNSET
    refunded: int | UnsetType = UNSET
    expires_at: datetime | UnsetType = UNSET
    as_of: datetime | UnsetType = UNSET
    payer_action: str = ""
    """What the payer needs to go on: a QR code's content, a page's address, a client secret."""
    replayed: bool = False
    """This very request had been decided before."""


class OperationView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A capture or void that was asked for, and its own state; how its payment stands is the payment's to tell."""

    operation_no: str
    payment_no: str
    order_id: str
    state: str
    replayed: bool = False


class RefundView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A refund that was asked for."""

    refund_no: str
    payment_no: str
    order_id: str
    state: str
    amount: int
    currency: str
    replayed: bool = False


class LayersView(Struct, frozen=True):
    """What each party shows; none speaks for another (R-210). None: nothing is known of it."""

    merchant: str | None
    processor: str | None
    card: str | None
    wallet: str | None


class ProgressText(Struct, frozen=True):
    """The progress page in one language, from top to bottom."""

    headline: str
    lines: tuple[str, ...]


class ProgressView(Struct, frozen=True, kw_only=True):
    """A refund's progress (R-231). `mark` lights only when all layers are closed (R-233)."""

    refund_no: str
    payment_no: str
    order_id: str
    channel: str
    state: str
    amount: int
    currency: str
    layers: LayersView
    mark: bool
    next: str
    """Who must continue: MERCHANT, PROCESSOR, ISSUER, WALLET, US or NOBODY."""
    checked_at: datetime
    zh: ProgressText
    en: ProgressText


class Accepted(Struct, frozen=True, kw_only=True):
    """The request is stored and will be decided; `location` tells how it went."""

    location: str
    status: Literal["accepted"] = "accepted"


ENDED_UNPAID = frozenset({"FAIL", "CLOSED", "VOIDED", "EXPIRED"})


def conclusion(state: str) -> Conclusion:
    """What a state means outward; FAILURE only where it is certain (R-234)."""
    if state == "SUCCESS":
        return "SUCCESS"
    return "FAILURE" if state in ENDED_UNPAID else "PENDING"
