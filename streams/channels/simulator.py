"""Notices of the channel that is simulated: verify one, and map it. It has no trap; its dialect and its contract say the same.

A notice is one JSON object. `X-Signature: t=<Unix seconds>,v1=<hex>[,v1=…]` is the HMAC-SHA256 of `t.body` with the whole text of a
live secret as key. It states the merchant order id, so no reference has to be followed.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from streams.channels.adapter import PAYMENT, TRANSACTION, Adapter, Mapped, Reference
from streams.channels.amounts import iso_exponents
from streams.channels.verification import BadSignature, Malformed, check_fresh, evidence, header, in_utc, unix_seconds
from streams.domain.events import Callback, CardPosting, Dispute, RefundNotice, Unmapped
from streams.domain.fields import Amount, Currency, Id, Text, Whole, Word  # noqa: TC001  msgspec reads the annotations

if TYPE_CHECKING:
    from streams.channels.adapter import Received, Said
    from streams.domain.contract import Contract

CHANNEL: Final = "simulator"
SIGNATURE: Final = "X-Signature"
MOST_SIGNATURES: Final = 16


class Credentials(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`secrets`: every live secret that notices may be signed with. `api_key`: what our requests are sent with."""

    secrets: list[str]
    api_key: str = ""


class Keys(msgspec.Struct, frozen=True):
    """The credentials as bytes, ready to compute with."""

    secrets: tuple[bytes, ...]
    api_key: str


class Notice(msgspec.Struct, frozen=True):
    """What the body says. Amounts in minor units of `currency`."""

    event_id: Id
    about: Literal["payment", "capture", "void", "refund", "dispute", "card"]
    status: Word
    payment_no: Id
    order_id: Id = ""
    event_type: Text = ""
    event_time: Text | None = None
    transaction: Id | None = None
    operation_no: Id | None = None
    operation_transaction: Id | None = None
    amount: Amount | None = None
    currency: Currency | None = None
    sequence: Whole | None = None
    version: Whole | None = None


def keys(credentials: Credentials) -> Keys:
    """The live secrets. Raises `ValueError` when there is none, or an empty one."""
    if not credentials.secrets or not all(credentials.secrets):
        raise ValueError("secrets: there is none, or an empty one; state every live secret of the simulated account")
    return Keys(tuple(secret.encode() for secret in credentials.secrets), credentials.api_key)


def sign(secret: bytes, body: bytes, at_s: int) -> str:
    """The header of a notice that is signed at `at_s`."""
    return f"t={at_s},v1={_digest(secret, str(at_s), body)}"


def _digest(secret: bytes, at: str, body: bytes) -> str:
    return hmac.new(secret, at.encode("ascii") + b"." + body, hashlib.sha256).hexdigest()


def verify(live: Keys, received: Received) -> None:
    """Accept a notice that any live secret signed within the window, or raise a `Refused`."""
    signed_s, text, signatures = _signature(header(received.headers, SIGNATURE))
    matches = 0
    for secret in live.secrets:
        expected = _digest(secret, text, received.body).encode("ascii")
        for signature in signatures:
            matches += hmac.compare_digest(expected, signature)
    if not matches:
        raise BadSignature(SIGNATURE, "no live secret made it", "check the secrets of the account and the raw body")
    check_fresh(signed_s, int(received.at.timestamp()), f"{SIGNATURE} t")


def _signature(value: str) -> tuple[int, str, list[bytes]]:
    times: list[str] = []
    signatures: list[bytes] = []
    for item in value.split(","):
        name, _, text = item.strip().partition("=")
        if name == "t":
            times.append(text)
        elif name == "v1":
            signatures.append(text.encode())
    if len(times) != 1 or not 1 <= len(signatures) <= MOST_SIGNATURES:
        counts = f"it has {len(times)} t and {len(signatures)} v1 items"
        raise Malformed(SIGNATURE, counts, "it must read t=…,v1=…[,v1=…]")
    return unix_seconds(times[0], f"{SIGNATURE} t"), times[0], signatures


def events(_keys: Keys, received: Received, _contract: Contract) -> list[Mapped]:
    """The one event of a verified notice."""
    channel = f"{CHANNEL}:{received.account}"
    raw = evidence(received.headers, received.body)
    try:
        notice = msgspec.json.decode(received.body, type=Notice)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        reason = f"the body is not a notice of the simulator: {error}"
        return [Mapped(Unmapped(channel=channel, event_type="", reason=reason[:250], raw=raw))]
    common: dict[str, Any] = {"channel": channel, "event_id": notice.event_id, "raw": raw}
    reason = _unmappable(notice)
    if reason:
        return [Mapped(Unmapped(event_type=notice.event_type, reason=reason, **common))]
    event = _event(notice, {**common, "received_at": received.at})
    return [Mapped(event, () if notice.order_id else _references(notice, channel))]


def _unmappable(notice: Notice) -> str:
    """Why the notice says nothing about an operation, or empty text."""
    if not notice.event_id or not notice.payment_no:
        return "event_id and payment_no: one is empty; a notice names itself and its payment"
    if notice.currency is not None and notice.currency not in iso_exponents():
        return "currency: it is not one of ISO 4217; send its three capital letters"
    if notice.about in ("capture", "void", "refund") and not notice.operation_no:
        return f"operation_no: a notice about a {notice.about} has none; send its number"
    if notice.about in ("dispute", "card") and (notice.amount is None or notice.currency is None):
        return f"amount and currency: a notice about a {notice.about} states both; send them"
    if notice.about == "card" and notice.status not in ("PURCHASE", "REFUND"):
        return "status: a card entry is PURCHASE or REFUND; send one of them"
    return ""


def _event(notice: Notice, common: dict[str, Any]) -> Said:
    money: dict[str, Any] = {"amount": notice.amount, "currency": notice.currency}
    order: dict[str, Any] = {"order_id": notice.order_id, "payment_no": notice.payment_no}
    time = None if notice.event_time is None else in_utc(notice.event_time)
    order_of: dict[str, Any] = {"sequence": notice.sequence, "version": notice.version, "event_time": time}
    kind: dict[str, Any] = {"status": notice.status, "event_type": notice.event_type}
    if notice.about == "refund":
        references: dict[str, Any] = {
            "transaction": notice.transaction,
            "refund_transaction": notice.operation_transaction,
        }
        return RefundNotice(refund_no=notice.operation_no, **references, **order, **order_of, **kind, **money, **common)
    if notice.about == "dispute":
        return Dispute(status=notice.status, transaction=notice.transaction, **order, **money, **common)
    if notice.about == "card":
        common.pop("received_at")
        entry: Any = notice.status
        return CardPosting(status=entry, transaction=notice.transaction, event_time=time, **order, **money, **common)
    transaction = notice.transaction
    if notice.about != "payment":  # the law knows a capture or a void by its own number
        order["payment_no"] = notice.operation_no or ""
        transaction = notice.operation_transaction
    return Callback(transaction=transaction, **order, **order_of, **kind, **money, **common)


def _references(notice: Notice, channel: str) -> tuple[Reference, ...]:
    found = [Reference(PAYMENT, notice.payment_no)]
    if notice.transaction:
        found.append(Reference(TRANSACTION, notice.transaction, channel))
    return tuple(found)


ADAPTER: Final = Adapter(channel=CHANNEL, credentials=Credentials, keys=keys, verify=verify, events=events)
