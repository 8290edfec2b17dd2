"""UnionPay's back notices (全渠道 5.1.0): verify one, and map it to what it says about a payment, a refund or a hold of ours.

The signature is made over a hash's text: SHA-256 of the sorted fields, written in lower-case hexadecimal, is what RSA with SHA-256
signs. The certificate travels in the notice; only one that is pinned in the credentials is believed, inside its own validity, because the
channel's test chain is signed with SHA-1, which cannot be checked any more.

`orderId` is our number of the very operation: the payment's for a sale (01) or a hold (02), the capture's for a completion (03), the
refund's for a return (04), the void's for the release of a hold (32). 04 is the refund and 31 the void of a sale on its own day, after
which the money goes back too; libraries have taken the one for the other. `origQryId` is the payment's transaction. Only respCode 00 is
a success; no other code is a failure yet (the contract says why), so it is asked about.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote_plus

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding
from iso4217 import Currency

from streams.channels import forms, local_time
from streams.channels.adapter import (
    PAYMENT,
    REFUND,
    REFUND_TRANSACTION,
    TRANSACTION,
    Adapter,
    Mapped,
    Received,
    Reference,
)
from streams.channels.amounts import from_channel_minor
from streams.channels.fitting import fitting, unmapped
from streams.channels.rsa_keys import made_by
from streams.channels.verification import BadSignature, Malformed, Stale, evidence
from streams.domain.events import Callback, RefundNotice

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from streams.domain.contract import Contract
    from streams.domain.events import Raw

CHANNEL: Final = "unionpay"
RSA_SIGNED: Final = b"01"
FORM: Final = "%Y%m%d%H%M%S"
SUCCEEDED: Final = "00"
DOUBT: Final = "PROCESSING"
MOST_DIGITS: Final = 16
CAPTURE: Final = "03"
REFUNDS: Final = {"04": None, "31": "void of the sale on its own day", "33": "void of a completion"}
"""Transaction types after which paid money goes back, and the reason that tells them apart."""
SALES: Final = {"01": "SUCCESS", "02": "AUTHORIZED", CAPTURE: "SUCCESS", "32": "SUCCESS"}
"""Transaction types and the word of their success, under our own number of a payment, a hold, a capture or a void."""
TRUSTED: Final = (
    "merId", "orderId", "origOrderId", "origQryId", "queryId", "reqReserved", "respCode", "txnAmt", "txnTime", "txnType", "currencyCode",
    "encoding",
)  # fmt: skip
"""The fields that are read, so that none of them may be hidden in another's value."""


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """The credentials file."""

    merchant_ids: list[str]
    """Our merchant numbers (merId); a notice about another one is kept, not mapped."""
    certificates: list[str]
    """UnionPay's signing certificates (PEM), pinned; several while one replaces another."""


class Pinned(NamedTuple):
    """A certificate that is believed, in the time it is valid (UTC)."""

    key: RSAPublicKey
    since: datetime
    until: datetime


class Keys(NamedTuple):
    """The credentials made ready: certificates by the SHA-256 of their DER."""

    merchant_ids: frozenset[str]
    pinned: Mapping[bytes, Pinned]


def keys(credentials: Credentials) -> Keys:
    """Raises `ValueError` naming the field and the fix."""
    if not credentials.merchant_ids:
        raise ValueError("merchant_ids: there is none; give our merId")
    if not credentials.certificates:
        raise ValueError("certificates: there is none; copy UnionPay's signing certificate from its merchant site")
    pinned = [_pinned(pem, f"certificates[{n}]") for n, pem in enumerate(credentials.certificates)]
    return Keys(frozenset(credentials.merchant_ids), dict(pinned))


def _pinned(pem: str, field: str) -> tuple[bytes, Pinned]:
    try:
        certificate = x509.load_pem_x509_certificate(pem.encode())
        key = certificate.public_key()
    except ValueError as error:
        raise ValueError(f"{field}: it is no certificate; give the PEM text") from error
    if not isinstance(key, RSAPublicKey):
        raise ValueError(f"{field}: its key is no RSA key; UnionPay signs with RSA (signMethod 01)")  # noqa: TRY004  a file's content
    der = certificate.public_bytes(Encoding.DER)
    valid = Pinned(key, certificate.not_valid_before_utc, certificate.not_valid_after_utc)
    return hashlib.sha256(der).digest(), valid


def verify(held: Keys, received: Received) -> None:
    """Accept a notice that a pinned certificate signed, or raise a `Refused`. No time of sending is signed, so none makes it stale."""
    form = forms.fields_of(received.body)
    if form.get("signMethod") != RSA_SIGNED:
        raise Malformed("signMethod", "it is not 01", "have the notices signed with RSA and a certificate")
    signature = forms.signature_of(form, "signature")
    certificate = held.pinned.get(_fingerprint(form.get("signPubKeyCert", b"")))
    if certificate is None:
        raise BadSignature(
            "signPubKeyCert", "the certificate is not pinned", "add UnionPay's new certificate if it is one"
        )
    texts = (digest_text(text) for text in forms.signed_texts(form, {"signature"}))
    if not made_by([certificate.key], signature, texts):
        raise BadSignature("signature", "the certificate's key did not make it", "pass the raw body as it was received")
    if not certificate.since <= received.at <= certificate.until:
        raise Stale("signPubKeyCert", "the certificate is not valid at this time", "ask UnionPay for the current one")


def digest_text(text: bytes) -> bytes:
    """What is signed: the hash of the fields, as lower-case hexadecimal text."""
    return hashlib.sha256(text).hexdigest().encode("ascii")


def _fingerprint(pem: bytes) -> bytes:
    """The SHA-256 of the certificate in a PEM text, without reading the certificate; empty for what is no PEM text."""
    start, end = b"-----BEGIN CERTIFICATE-----", b"-----END CERTIFICATE-----"
    inside = pem.partition(start)[2].partition(end)[0]
    try:
        der = base64.b64decode(b"".join(inside.split()), validate=True)
    except binascii.Error:
        return b""
    return hashlib.sha256(der).digest()


def events(held: Keys, received: Received, contract: Contract) -> list[Mapped]:
    """What a verified notice says: one event."""
    channel, raw = f"{CHANNEL}:{received.account}", evidence(received.headers, received.body)
    try:
        form = forms.fields_of(received.body)
    except Malformed as error:
        return [Mapped(unmapped(channel, str(error), raw=raw))]
    fields = forms.decoded(form, form.get("encoding", b""))
    if fields is None:
        return [Mapped(unmapped(channel, "encoding: the fields are not text in the encoding they state", raw=raw))]
    notice = _Notice(fields, channel, received, raw, contract)
    reason = _not_ours(held, form, fields)
    if reason:
        return [Mapped(unmapped(channel, reason, raw=raw, event_type=notice.kind, event_id=notice.event_id))]
    return [_refund(notice) if notice.kind in REFUNDS else _payment(notice)]


def _not_ours(held: Keys, form: forms.Form, fields: dict[str, str]) -> str:
    """Why a verified notice says nothing about an operation of ours; empty text if it does."""
    twice = forms.ambiguous(form, TRUSTED)
    if twice:
        return f"{twice}: its text could be read as another field under the same signature; keep `&` out of it"
    if fields.get("merId") not in held.merchant_ids:
        return "merId: the notice is about another merchant; add it to the credentials, or give it its own address"
    kind = fields.get("txnType", "")
    if kind not in SALES and kind not in REFUNDS:
        return f"txnType: {kind} says nothing about a payment or a refund"
    if not fields.get("respCode"):
        return "respCode: it is absent, so the notice says no result"
    return ""


class _Notice(NamedTuple):
    fields: dict[str, str]
    channel: str
    received: Received
    raw: Raw
    contract: Contract

    def get(self, name: str) -> str:
        return self.fields.get(name, "")

    @property
    def kind(self) -> str:
        return self.get("txnType")

    @property
    def event_id(self) -> str | None:
        """The result is part of it: an operation may be in doubt first and succeed later under one `queryId`."""
        query_id = self.get("queryId")
        return f"{query_id}/{self.kind}/{self.get('respCode')}" if query_id else None

    @property
    def money(self) -> dict[str, Any]:
        """The amount in minor units, or as text where its currency cannot express it."""
        text, currency = self.get("txnAmt"), iso_code(self.get("currencyCode"))
        if not text:
            return {}
        amount = None
        if currency is not None and text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS:
            amount = from_channel_minor(self.contract, currency, int(text))
        return {"currency": currency} | ({"amount_text": text} if amount is None else {"amount": amount})

    @property
    def common(self) -> dict[str, Any]:
        reserved = ours(self.get("reqReserved"))
        time = self.get("txnTime")
        return {
            "order_id": reserved.get("order_id", ""),
            "channel": self.channel,
            "event_type": self.kind,
            "event_id": self.event_id,
            "event_time": local_time.in_utc(time, FORM, self.contract.tz) if time else None,
            "received_at": self.received.at,
            "raw": self.raw,
        } | self.money


def word(success: str, code: str) -> str:
    """What a result says: 00 is the success; whatever else is no proof of a failure, and is asked about."""
    return success if code == SUCCEEDED else DOUBT


@cache
def _codes() -> Mapping[str, str]:
    return {f"{currency.number:03d}": currency.code for currency in Currency}


def iso_code(number: str) -> str | None:
    """The three letters of a currency's three digits."""
    return _codes().get(number)


def iso_number(code: str) -> str | None:
    """The three digits of a currency's three letters."""
    return next((number for number, letters in _codes().items() if letters == code), None)


def ours(reserved: str) -> dict[str, str]:
    """What our side had put into `reqReserved`: base64 (or plain, or urlencoded) JSON with `order_id` and, of a refund, `payment_no`."""
    for text in (_unwrapped(reserved), reserved, unquote_plus(reserved)):
        try:
            found = msgspec.json.decode(text, type=dict[str, Any])
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            continue
        return {name: value for name, value in found.items() if isinstance(value, str)}
    return {}


def _unwrapped(reserved: str) -> bytes:
    try:
        return base64.b64decode(reserved, validate=True)
    except ValueError:
        return b""


def _payment(notice: _Notice) -> Mapped:
    """A sale or a hold under the payment's number; a completion or a release under its own."""
    number, transaction, account = notice.get("orderId"), notice.get("queryId"), notice.channel
    event = Callback(
        payment_no=number,
        status=word(SALES[notice.kind], notice.get("respCode")),
        transaction=transaction or None,
        **notice.common,
    )
    of_payment = () if notice.kind in {"01", "02"} else (Reference(TRANSACTION, notice.get("origQryId"), account),)
    return fitting(event, (*of_payment, Reference(PAYMENT, number), Reference(TRANSACTION, transaction, account)))


def _refund(notice: _Notice) -> Mapped:
    """Money that goes back under a number of its own: a refund, or the void of what was paid."""
    number, transaction, paid = notice.get("orderId"), notice.get("queryId"), notice.get("origQryId")
    event = RefundNotice(
        payment_no=ours(notice.get("reqReserved")).get("payment_no", ""),
        status=word("SUCCESS", notice.get("respCode")),
        refund_no=number or None,
        refund_transaction=transaction or None,
        transaction=paid or None,
        reason=REFUNDS[notice.kind],
        **notice.common,
    )
    references = (
        Reference(REFUND, number),
        Reference(TRANSACTION, paid, notice.channel),
        Reference(REFUND_TRANSACTION, transaction, notice.channel),
    )
    return fitting(event, references)


ADAPTER: Final[Adapter[Credentials, Keys]] = Adapter(
    channel=CHANNEL, credentials=Credentials, keys=keys, verify=verify, events=events, content_types=forms.CONTENT_TYPES
)
