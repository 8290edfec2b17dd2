"""What a verified notice of WeChat Pay says about one of our payments or refunds.

`out_trade_no` is our payment number, `out_refund_no` our refund number. The merchant order id travels in `attach`, which our side sets to
the JSON text `{"order_id": "…"}` when it places the order; without it, and for refunds, the order is found by those numbers.

- The account is the merchant number (`mchid`); a notice about another one is kept, not mapped.
- `trade_state` REFUND means that the payment was paid and later refunded: it stays a success.
- A refund notice states no currency: the channel refunds in CNY. An ABNORMAL refund waits for a person at the channel and its money has
  not come back; it is neither failed nor to be made again under another number, so it is unknown.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from msgspec import Meta, Struct

from streams.channels.adapter import PAYMENT, REFUND, REFUND_TRANSACTION, TRANSACTION, Mapped, Received, Reference
from streams.channels.amounts import from_channel_minor
from streams.channels.verification import BadSignature, Malformed, evidence, in_utc
from streams.domain.events import Callback, RefundNotice, Unmapped
from streams.domain.fields import Whole  # noqa: TC001  msgspec reads the annotation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streams.domain.contract import Contract

CHANNEL: Final = "wechatpay"
ALGORITHM: Final = "AEAD_AES_256_GCM"
NONCE_SIZE: Final = 12
LENGTH: Final = 256
CURRENCY: Final = "CNY"
UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

Id: TypeAlias = Annotated[str, Meta(max_length=LENGTH)]
Number: TypeAlias = Annotated[str, Meta(min_length=1, max_length=LENGTH)]
Status: TypeAlias = Annotated[str, Meta(min_length=1, max_length=64)]
Code: TypeAlias = Annotated[str, Meta(pattern="^[A-Z]{3}$", min_length=3, max_length=3)]

WORDS: Final = {
    "SUCCESS": "SUCCESS",
    "REFUND": "SUCCESS",
    "CLOSED": "CLOSED",
    "REVOKED": "CLOSED",
    "PAYERROR": "FAILED",
    "NOTPAY": "PENDING",
    "USERPAYING": "PROCESSING",
    "ACCEPT": "PROCESSING",
}
REFUND_WORDS: Final = {
    "SUCCESS": "SUCCESS",
    "CLOSED": "CLOSED",
    "PROCESSING": "PROCESSING",
    "ABNORMAL": "PROCESSING",
}
"""By `refund_status` in notices, by `status` in replies."""


class Resource(Struct, frozen=True):
    """The sealed part of a notice; `ciphertext` is base64 with the tag in its last 16 bytes."""

    ciphertext: str
    nonce: str
    algorithm: str = ALGORITHM
    associated_data: str | None = None


class Notice(Struct, frozen=True):
    """The envelope of every notice."""

    id: Number
    event_type: Number
    resource: Resource
    create_time: Id | None = None


class Total(Struct, frozen=True):
    """What the buyer owes, in minor units (fen)."""

    total: Whole | None = None
    currency: Code | None = None


class Transaction(Struct, frozen=True):
    """A payment, as notices and queries state it."""

    mchid: Id
    out_trade_no: Id
    trade_state: Status
    transaction_id: Id | None = None
    attach: str | None = None
    success_time: Id | None = None
    amount: Total | None = None


class Refunded(Struct, frozen=True):
    """What goes back, in minor units (fen), and the payment's total."""

    refund: Whole | None = None
    total: Whole | None = None
    currency: Code | None = None


class Refund(Struct, frozen=True):
    """A refund, as notices state it."""

    mchid: Id
    out_trade_no: Id
    out_refund_no: Number
    refund_status: Status
    refund_id: Id | None = None
    transaction_id: Id | None = None
    success_time: Id | None = None
    amount: Refunded | None = None


class UnmappableError(ValueError):
    """A verified notice that says nothing we can use; the text names the field and the fix."""


def decrypt(resource: Resource, live: Sequence[bytes]) -> bytes:
    """Open a sealed resource with the live APIv3 keys. `Malformed`: it is not sealed as agreed; `BadSignature`: no key opens it."""
    if resource.algorithm != ALGORITHM:
        raise Malformed("resource.algorithm", "the algorithm is not supported", f"it must be {ALGORITHM}")
    if len(resource.nonce.encode()) != NONCE_SIZE:
        raise Malformed("resource.nonce", "it is not 12 bytes", "keep the resource as it was received")
    try:
        sealed = base64.b64decode(resource.ciphertext, validate=True)
    except ValueError as error:
        raise Malformed("resource.ciphertext", "it is not base64", "keep the resource as it was received") from error
    for key in live:
        try:
            return AESGCM(key).decrypt(resource.nonce.encode(), sealed, (resource.associated_data or "").encode())
        except InvalidTag:
            continue
    raise BadSignature("resource.ciphertext", "no live APIv3 key opens it", "add the merchant's current APIv3 key")


def events(live: Sequence[bytes], received: Received, contract: Contract) -> list[Mapped]:
    """The one event of a verified notice. What cannot be mapped comes back as `Unmapped` with the reason: it is kept all the same.

    Raises `BadSignature` when none of our APIv3 keys opens it: that is our missing key, and the channel sends it again.
    """
    channel, raw = f"{CHANNEL}:{received.account}", evidence(received.headers, received.body)
    try:
        notice = msgspec.json.decode(received.body, type=Notice)
    except UNREADABLE as error:
        reason = f"the body is not a notice: {error}"[:LENGTH]
        return [Mapped(Unmapped(channel=channel, event_type="unreadable", reason=reason, raw=raw))]
    common: dict[str, Any] = {"channel": channel, "event_type": notice.event_type, "event_id": notice.id, "raw": raw}
    try:
        return [_findable(_mapped(notice, live, received, contract, common))]
    except (UnmappableError, Malformed) as error:
        reason = str(error)
    except UNREADABLE as error:
        reason = f"resource: {error}"
    return [Mapped(Unmapped(reason=reason[:LENGTH], **common))]


def _findable(mapped: Mapped) -> Mapped:
    if not mapped.event.order_id and not mapped.references:
        raise UnmappableError("out_trade_no: it is empty, as is transaction_id; ask the channel what was paid")
    return mapped


def _mapped(
    notice: Notice, live: Sequence[bytes], received: Received, contract: Contract, common: dict[str, Any]
) -> Mapped:
    kind = notice.event_type.partition(".")[0]
    if kind not in ("TRANSACTION", "REFUND"):
        raise UnmappableError(f"event_type: {notice.event_type} says nothing about a payment or a refund")
    plain = decrypt(notice.resource, live)
    stated: dict[str, Any] = {"received_at": received.at, **common}
    if kind == "REFUND":
        refund = msgspec.json.decode(plain, type=Refund)
        _ours(refund.mchid, received.account)
        return _refund(notice, refund, contract, stated)
    transaction = msgspec.json.decode(plain, type=Transaction)
    _ours(transaction.mchid, received.account)
    return _payment(notice, transaction, contract, stated)


def _ours(mchid: str, account: str) -> None:
    if mchid != account:
        raise UnmappableError(f"mchid: it is about {mchid}, not {account}; give each merchant its own endpoint")


def _payment(notice: Notice, paid: Transaction, contract: Contract, stated: dict[str, Any]) -> Mapped:
    word = WORDS.get(paid.trade_state, paid.trade_state)
    if notice.event_type == "TRANSACTION.SUCCESS" and word != "SUCCESS":
        word = "CONTRADICTORY"  # the notice's name and its content must tell the same story
    amount = paid.amount or Total()
    event = Callback(
        order_id=order_in(paid.attach) if paid.out_trade_no else "",
        payment_no=paid.out_trade_no,
        status=word,
        transaction=paid.transaction_id or None,
        event_time=_time(paid.success_time, notice.create_time),
        **money(contract, amount.total, amount.currency),
        **stated,
    )
    return Mapped(event, _references(event.channel, paid.out_trade_no, transaction=paid.transaction_id))


def _refund(notice: Notice, refund: Refund, contract: Contract, stated: dict[str, Any]) -> Mapped:
    word = REFUND_WORDS.get(refund.refund_status, refund.refund_status)
    says = {"REFUND.SUCCESS": "SUCCESS", "REFUND.CLOSED": "CLOSED"}.get(notice.event_type)
    if says is not None and word != says:
        word = "CONTRADICTORY"
    amount = refund.amount or Refunded()
    event = RefundNotice(
        order_id="",
        payment_no=refund.out_trade_no,
        refund_no=refund.out_refund_no,
        status=word,
        refund_transaction=refund.refund_id or None,
        transaction=refund.transaction_id or None,
        event_time=_time(refund.success_time, notice.create_time),
        **money(contract, amount.refund, amount.currency or CURRENCY),
        **stated,
    )
    found = _references(
        event.channel, refund.out_trade_no, refund.out_refund_no, refund.transaction_id, refund.refund_id
    )
    return Mapped(event, found)


def money(contract: Contract, amount: int | None, currency: str | None) -> dict[str, Any]:
    """Amount and currency as ours; what is absent stays unknown, what the currency cannot express stays the channel's own text."""
    if amount is None or currency is None:
        return {"amount": amount, "currency": currency}
    ours = from_channel_minor(contract, currency, amount)
    if ours is None:
        return {"amount": None, "currency": currency, "amount_text": str(amount)}
    return {"amount": ours, "currency": currency}


def order_in(attach: str | None) -> str:
    """The merchant order id, if `attach` is a JSON object that has it; a merchant's own text there names no order."""
    try:
        found = msgspec.json.decode(attach or "", type=dict[str, Any]).get("order_id")
    except UNREADABLE:
        return ""
    return found if isinstance(found, str) and len(found) <= LENGTH else ""


def _time(happened: str | None, created: str | None) -> str | None:
    text = happened or created
    return in_utc(text) if text else None


def _references(
    channel: str, payment: str, refund: str = "", transaction: str | None = None, refund_id: str | None = None
) -> tuple[Reference, ...]:
    """Our own numbers first, then the channel's."""
    found = (
        Reference(PAYMENT, payment),
        Reference(REFUND, refund),
        Reference(TRANSACTION, transaction or "", channel),
        Reference(REFUND_TRANSACTION, refund_id or "", channel),
    )
    return tuple(one for one in found if one.value)
