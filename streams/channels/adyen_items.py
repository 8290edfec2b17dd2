"""Adyen's standard notifications: what one item is, which eight of its fields are signed, and what its event code says.

An item's signed text joins its fields by `:` and escapes nothing, so it could be cut another way where one of them holds a `:`. Only
the last of the free ones, the merchant's reference, may. `pspReference` of a modification is its own; `originalReference` is the payment.

Our requests set the reference of a payment to our payment number, of a refund to the refund's, and of a capture or a cancel to
`capture/…` or `void/…` and the operation's: what somebody does in Adyen's own pages carries the payment's reference, and must
never be taken for an operation of ours, nor its failure for the payment's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from msgspec import Struct

from streams.channels.adapter import PAYMENT, REFUND, REFUND_TRANSACTION, TRANSACTION, Mapped, Reference
from streams.channels.amounts import from_channel_minor
from streams.channels.fitting import TEXT, fitting, unmapped
from streams.channels.verification import in_utc
from streams.domain.events import Callback, Dispute, RefundNotice, Release

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from streams.domain.contract import Contract
    from streams.domain.events import Raw

UNREADABLE: Final = (msgspec.MsgspecError, UnicodeError, RecursionError)
SIGNATURE: Final = "hmacSignature"
CAPTURE: Final = "capture/"
VOID: Final = "void/"
WHOLE: Final = re.compile(r"-?[0-9]{1,18}", re.ASCII)
CODE: Final = re.compile(r"[A-Z]{3}", re.ASCII)


class Amount(Struct, frozen=True):
    """`value` in the channel's minor units; some events write it as text."""

    value: int | str = ""
    currency: str | None = None


class Item(Struct, frozen=True, rename="camel"):
    """One notification. An absent field is signed as empty text."""

    psp_reference: str | None = None
    original_reference: str | None = None
    merchant_account_code: str | None = None
    merchant_reference: str | None = None
    amount: Amount | None = None
    event_code: str | None = None
    success: str | None = None
    event_date: str | None = None
    additional_data: dict[str, Any] | None = None

    def signed_text(self) -> str:
        """The eight fields that the signature covers, joined as the channel joins them."""
        amount = self.amount or Amount()
        fields = (
            self.psp_reference, self.original_reference, self.merchant_account_code, self.merchant_reference,
            str(amount.value), amount.currency, self.event_code, self.success,
        )  # fmt: skip
        return ":".join(field or "" for field in fields)

    def noted(self, name: str) -> str:
        """A text of the additional data, which nobody signed; empty where there is none of a usable length."""
        value = (self.additional_data or {}).get(name)
        return value if isinstance(value, str) and len(value) <= TEXT else ""


class Holder(Struct, frozen=True):
    item: Item = msgspec.field(name="NotificationRequestItem")


class Batch(Struct, frozen=True, rename="camel"):
    """The envelope. `event_code` is there only in an item without its envelope."""

    notification_items: list[Holder] | None = None
    live: str | bool | None = None
    event_code: str | None = None


class Standard(NamedTuple):
    items: list[Item]
    live: bool | None


def standard(body: bytes) -> Standard | None:
    """The items of a standard notification; None for another form of message. Raises one of `UNREADABLE`.

    An item without an envelope is a batch of one, as for the official library.
    """
    batch = msgspec.json.decode(body, type=Batch)
    live = {"true": True, "false": False}.get(str(batch.live).lower())
    if batch.notification_items is not None:
        return Standard([holder.item for holder in batch.notification_items], live)
    if batch.event_code is not None:
        return Standard([msgspec.json.decode(body, type=Item)], live)
    return None


class Notice(NamedTuple):
    """One verified item and how it came."""

    item: Item
    live: bool | None
    channel: str
    merchant_account: str
    manual_capture: bool
    raw: Raw
    at: datetime
    contract: Contract

    @property
    def psp(self) -> str:
        return self.item.psp_reference or ""

    @property
    def original(self) -> str:
        return self.item.original_reference or ""

    @property
    def reference(self) -> str:
        return self.item.merchant_reference or ""

    @property
    def happened(self) -> bool:
        return self.item.success == "true"

    @property
    def event_id(self) -> str:
        return f"{self.psp}/{self.item.event_code or ''}/{self.item.success}"

    @property
    def travel(self) -> dict[str, Any]:
        return {"channel": self.channel, "event_id": self.event_id, "received_at": self.at, "raw": self.raw}

    @property
    def common(self) -> dict[str, Any]:
        """What callbacks and refund notices share."""
        date = self.item.event_date
        return self.travel | {
            "event_type": self.item.event_code or "",
            "event_time": in_utc(date) if date else None,
            "livemode": self.live,
        }

    @property
    def money(self) -> dict[str, Any]:
        """Amount and currency in our units; `amount_text` where the currency cannot express it."""
        stated = self.item.amount
        if stated is None or stated.value == "" or not stated.currency:
            return {}
        text = str(stated.value)
        whole = WHOLE.fullmatch(text)
        amount = from_channel_minor(self.contract, stated.currency, int(text)) if whole else None
        return {"currency": stated.currency} | ({"amount_text": text} if amount is None else {"amount": amount})

    @property
    def named(self) -> dict[str, Any]:
        """The payment by the metadata that our side sent with it, where both numbers came back; else the references find it."""
        order_id, payment_no = (self.item.noted(f"metadata.{name}") for name in ("order_id", "payment_no"))
        return {"order_id": order_id, "payment_no": payment_no} if order_id and payment_no else NAMELESS

    @property
    def of_payment(self) -> tuple[Reference, ...]:
        return (Reference(TRANSACTION, self.original or self.psp, self.channel), Reference(PAYMENT, self.reference))


NAMELESS: Final[dict[str, Any]] = {"order_id": "", "payment_no": ""}


def said(notice: Notice) -> Mapped:
    """What an item says, or an `Unmapped` with the reason why that moves nothing."""
    item = notice.item
    if item.merchant_account_code != notice.merchant_account:
        return _kept(notice, "merchantAccountCode: it is another account's; give each its own address")
    if ":" in notice.psp or ":" in notice.original or ":" in notice.merchant_account:
        return _kept(notice, "pspReference: a `:` in it lets the signed text be cut another way")
    if item.success not in ("true", "false"):
        return _kept(notice, "success: it is neither true nor false")
    currency = item.amount.currency if item.amount else None
    if not notice.psp or (currency and not CODE.fullmatch(currency)):
        return _kept(notice, "pspReference, amount.currency: absent, or not of their form")
    mapper = CODES.get(item.event_code or "")
    if mapper is None:
        return _kept(notice, SILENT.get(item.event_code or "", "eventCode: it says nothing about a payment's money"))
    return mapper(notice)


def _kept(notice: Notice, reason: str) -> Mapped:
    kind, number = notice.item.event_code or "", notice.event_id if notice.psp else None
    return Mapped(unmapped(notice.channel, reason, raw=notice.raw, event_type=kind, event_id=number))


def _did_not_happen(notice: Notice) -> Mapped:
    return _kept(notice, "success: it is false, so what the event code names did not happen")


# -- the payment


def _payment(notice: Notice, word: str, transaction: str) -> Mapped:
    """A word about the payment, by its own number."""
    facts = notice.common | notice.money
    order_id = notice.item.noted("metadata.order_id")
    said = Callback(
        order_id=order_id, payment_no=notice.reference, status=word, transaction=transaction or None, **facts
    )
    return fitting(said, notice.of_payment[::-1])


def _authorisation(notice: Notice) -> Mapped:
    if not notice.happened:
        return _payment(notice, "FAILED", notice.psp)
    return _payment(notice, "AUTHORIZED" if notice.manual_capture else "SUCCESS", notice.psp)


def _pending(notice: Notice) -> Mapped:
    return _payment(notice, "PENDING", notice.psp)


def _offer_closed(notice: Notice) -> Mapped:
    """The payer never paid what was offered."""
    return _payment(notice, "CLOSED", notice.original or notice.psp) if notice.happened else _did_not_happen(notice)


# -- what is done to it


def _modified(notice: Notice, word: str) -> Mapped:
    """A modification that is none of our operations, as a word about the payment."""
    facts = notice.common | notice.money
    said = Callback(**notice.named, status=word, transaction=notice.original or None, **facts)
    return fitting(said, notice.of_payment)


def _operation(notice: Notice, mark: str, word: str) -> Mapped:
    """A modification that we asked for, by its own number. The order is found by the payment, or by our metadata."""
    number, facts = notice.reference.removeprefix(mark), notice.common | notice.money
    said = Callback(order_id=notice.named["order_id"], payment_no=number, status=word, transaction=notice.psp, **facts)
    return fitting(said, notice.of_payment[:1])


def _capture(notice: Notice) -> Mapped:
    if notice.reference.startswith(CAPTURE):
        return _operation(notice, CAPTURE, "SUCCESS" if notice.happened else "FAILED")
    if notice.happened:
        return _modified(notice, "SUCCESS")
    return _modified(notice, "PENDING" if notice.manual_capture else "FAILED")


def _capture_failed(notice: Notice) -> Mapped:
    """The scheme refused what was captured: the earlier success is contradicted."""
    if not notice.happened:
        return _did_not_happen(notice)
    if notice.reference.startswith(CAPTURE):
        return _operation(notice, CAPTURE, "FAILED")
    return _modified(notice, "FAILED")


def _cancellation(notice: Notice) -> Mapped:
    if notice.reference.startswith(VOID):
        return _operation(notice, VOID, "SUCCESS" if notice.happened else "FAILED")
    return _modified(notice, "CLOSED" if notice.happened else "PENDING")


def _cancel_or_refund(notice: Notice) -> Mapped:
    """We never ask for it, so it has no number of ours; the additional data says which of the two it was."""
    action = notice.item.noted("modification.action")
    if action == "cancel":
        return _cancellation(notice)
    if action == "refund":
        return _refund_notice(notice, "SUCCESS" if notice.happened else "FAILED", None)
    return _kept(notice, "additionalData.modification.action: it is absent, so nobody knows which of the two it was")


def _adjusted(notice: Notice) -> Mapped:
    """A hold over another amount, which nobody here asked for: the law compares it and tells a person."""
    if not notice.happened or not notice.manual_capture:
        return _kept(notice, "eventCode: the hold is what it was, or is taken already")
    return _modified(notice, "AUTHORIZED")


def _expired(notice: Notice) -> Mapped:
    """What is left of the hold is free."""
    if not notice.happened:
        return _did_not_happen(notice)
    money = {name: value for name, value in notice.money.items() if name != "amount_text"}
    said = Release(**notice.named, status="SUCCESS", transaction=notice.original or None, **money, **notice.travel)
    return fitting(said, notice.of_payment)


# -- refunds


def _refund(notice: Notice) -> Mapped:
    return _refund_notice(notice, "SUCCESS" if notice.happened else "FAILED", notice.reference)


def _refund_postponed(notice: Notice) -> Mapped:
    return _refund_notice(notice, "PENDING", notice.reference)


def _refund_failed(notice: Notice) -> Mapped:
    return _refund_notice(notice, "FAILED", notice.reference) if notice.happened else _did_not_happen(notice)


def _refund_reversed(notice: Notice) -> Mapped:
    """The refunded money came back; the contract has the word for it."""
    if not notice.happened:
        return _did_not_happen(notice)
    word = notice.contract.refund_return_status or notice.item.event_code or ""
    return _refund_notice(notice, word, notice.reference)


def _refund_notice(notice: Notice, word: str, number: str | None) -> Mapped:
    """A refund of ours by its number. One that carries the payment's own reference was made by somebody else."""
    facts, named = notice.common | notice.money, notice.named
    refund_no = None if number in (None, "", named["payment_no"]) else number
    said = RefundNotice(
        **named,
        status=word,
        refund_no=refund_no,
        refund_transaction=notice.psp,
        transaction=notice.original or None,
        **facts,
    )
    references = (
        *([Reference(REFUND, refund_no)] if refund_no else ()),
        Reference(REFUND_TRANSACTION, notice.psp, notice.channel),
        *notice.of_payment,
    )
    return fitting(said, references)


# -- disputes


def _disputed(word: str) -> Callable[[Notice], Mapped]:
    def mapper(notice: Notice) -> Mapped:
        if not notice.happened:
            return _did_not_happen(notice)
        if "amount" not in notice.money:
            return _kept(notice, "amount: it is absent, or no amount of its currency")
        said = Dispute(
            **notice.named, status=word, transaction=notice.original or None, **notice.money, **notice.travel
        )
        return fitting(said, notice.of_payment)

    return mapper


CODES: Final[dict[str, Callable[[Notice], Mapped]]] = {
    "AUTHORISATION": _authorisation,
    "AUTHORISATION_ADJUSTMENT": _adjusted,
    "CANCELLATION": _cancellation,
    "CANCEL_OR_REFUND": _cancel_or_refund,
    "CAPTURE": _capture,
    "CAPTURE_FAILED": _capture_failed,
    "CHARGEBACK": _disputed("OPEN"),
    "CHARGEBACK_REVERSED": _disputed("WON"),
    "EXPIRE": _expired,
    "OFFER_CLOSED": _offer_closed,
    "PENDING": _pending,
    "POSTPONED_REFUND": _refund_postponed,
    "PREARBITRATION_LOST": _disputed("LOST"),
    "PREARBITRATION_WON": _disputed("WON"),
    "REFUND": _refund,
    "REFUNDED_REVERSED": _refund_reversed,
    "REFUND_FAILED": _refund_failed,
    "REFUND_WITH_DATA": _refund,
    "SECOND_CHARGEBACK": _disputed("LOST"),
    "TECHNICAL_CANCEL": _cancellation,
}
"""Event code -> what it says. A dispute's codes tell of money that moved when `success` is true."""
SILENT: Final = {
    "REPORT_AVAILABLE": "eventCode: a report can be fetched; reconciliation reads it, no payment moved",
    "NOTIFICATION_OF_CHARGEBACK": "eventCode: a dispute is announced; the money moves with CHARGEBACK",
    "REQUEST_FOR_INFORMATION": "eventCode: the payer's bank asks; no money moved",
}
