"""PayPal's webhooks: verify one, and map what it says to words that make us ask, because it proves no money.

Signed is `id|time|webhook id|CRC32 of the body`, and a CRC32 can be made to fit: whoever has seen one delivery can put another body under
its headers. So no word of a notice is believed. A success is said as one, and the law asks (the contract's `proves_money: false`);
a failure, a hold or a release is said as CONTRADICTORY, which moves nothing and asks too. A forged body can make us ask, and nothing
else. Whoever answers that question must compare `invoice_id` and `custom_id`, for the transaction may be forged as well.

The certificate is not fetched: it is configured under its address, which must be PayPal's own, and believed if its name, its chain and,
at the time of receipt, its validity are right. `custom_id` (v1: `custom`) is the merchant order id, `invoice_id` (v1:
`invoice_number`) our number of the payment, capture or refund. Resources of both versions come: v1 has `state` and `amount.total`,
v2 `status` and `amount.value`.
"""

from __future__ import annotations

import base64
import re
import zlib
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from streams.channels import paypal_certificates as certificates
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
from streams.channels.amounts import from_text
from streams.channels.fitting import fitting, unmapped
from streams.channels.rsa_keys import made_by
from streams.channels.verification import BadSignature, Malformed, Stale, evidence, header, in_utc
from streams.domain.events import Callback, RefundNotice

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streams.domain.contract import Contract

CHANNEL: Final = "paypal"
ID: Final = "PAYPAL-TRANSMISSION-ID"
TIME: Final = "PAYPAL-TRANSMISSION-TIME"
SIGNATURE: Final = "PAYPAL-TRANSMISSION-SIG"
CERTIFICATE: Final = "PAYPAL-CERT-URL"
ALGORITHM: Final = "PAYPAL-AUTH-ALGO"
RSA_SHA256: Final = "SHA256withRSA"
MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z", re.ASCII)
AHEAD: Final = timedelta(minutes=5)
BEHIND: Final = timedelta(days=3, minutes=5)
"""A notice is sent again for three days, perhaps with its first time."""

UNPROVEN: Final = "CONTRADICTORY"
"""The law's word for what is not believed and must be asked about."""
PAID: Final = frozenset({"COMPLETED", "REFUNDED", "PARTIALLY_REFUNDED"})
PAYMENTS: Final = frozenset({"SALE", "CAPTURE", "AUTHORIZATION"})
SAYS: Final = {"COMPLETED": "SUCCESS", "PENDING": "PENDING"}
"""The ends of event names that must agree with the object's own state; with any other end, the object is not believed as a success."""


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """The credentials file."""

    webhook_ids: list[str]
    """The ids of our live webhooks, which are part of what is signed."""
    certificates: dict[str, str]
    """Address of a certificate (as in PAYPAL-CERT-URL) -> its PEM text, with its intermediates after it if there are any."""
    roots: list[str] = []
    """Certificates (PEM) of the authorities that chains must end in; empty: the configured certificate itself is trusted."""


class Keys(NamedTuple):
    """The credentials made ready: chains by the address of their certificate."""

    webhook_ids: tuple[str, ...]
    chains: Mapping[str, certificates.Chain]


def keys(credentials: Credentials) -> Keys:
    """Raises `ValueError` naming the field and the fix."""
    if not credentials.webhook_ids:
        raise ValueError("webhook_ids: there is none; give the webhook's id from PayPal's dashboard")
    if not credentials.certificates:
        raise ValueError("certificates: there is none; fetch the one that PAYPAL-CERT-URL names and check it")
    roots = [certificates.authority(pem, f"roots[{n}]") for n, pem in enumerate(credentials.roots)]
    chains = {url: certificates.chain(url, pem, roots) for url, pem in credentials.certificates.items()}
    return Keys(tuple(credentials.webhook_ids), chains)


# -- verifying


def verify(held: Keys, received: Received) -> None:
    """Accept a webhook that a configured certificate signed for one of our webhooks, in its time, or raise a `Refused`."""
    headers = received.headers
    if header(headers, ALGORITHM) != RSA_SHA256:
        raise Malformed(ALGORITHM, "the algorithm is not supported", f"it must be {RSA_SHA256}")
    number, time, url, text = (header(headers, name) for name in (ID, TIME, CERTIFICATE, SIGNATURE))
    if not number.isascii() or "|" in number:
        raise Malformed(ID, "it is no transmission id", "pass the headers as they were received")
    signed_at = _moment(time)
    chain = held.chains.get(url)
    if chain is None:
        fix = "configure the certificate of this address" if certificates.is_paypals(url) else "PayPal never names it"
        raise BadSignature(CERTIFICATE, "no certificate of this address is configured", fix)
    texts = [signed_text(number, time, webhook, received.body) for webhook in held.webhook_ids]
    if not made_by([chain.key], _signature(text), texts):
        raise BadSignature(
            SIGNATURE, "the certificate's key did not make it", "check webhook_ids and pass the raw body"
        )
    if not chain.since <= received.at <= chain.until:
        raise Stale(CERTIFICATE, "the certificate is not valid at this time", "configure PayPal's current one")
    if not received.at - BEHIND <= signed_at <= received.at + AHEAD:
        raise Stale(
            TIME, "the signed time is too far from the clock", "check the clock, or have PayPal resend the notice"
        )


def signed_text(number: str, time: str, webhook: str, body: bytes) -> bytes:
    """What PayPal signs: of the body only a checksum, which another body can be made to have."""
    return f"{number}|{time}|{webhook}|{zlib.crc32(body)}".encode()


def _moment(text: str) -> datetime:
    try:
        if MOMENT.fullmatch(text):
            return datetime.fromisoformat(text)
    except ValueError:
        pass
    raise Malformed(TIME, "it is no time in UTC", "pass the headers as they were received")


def _signature(text: str) -> bytes:
    try:
        signature = base64.b64decode(text, validate=True)
    except ValueError as error:
        raise BadSignature(SIGNATURE, "it is not base64", "pass the headers as they were received") from error
    if base64.b64encode(signature).decode() != text:
        raise BadSignature(SIGNATURE, "it is not canonical base64", "pass the headers as they were received")
    return signature


# -- mapping


class Money(msgspec.Struct, frozen=True):
    """An amount of either version: decimal text and a currency."""

    value: str = ""
    currency_code: str = ""
    total: str = ""
    currency: str = ""


class Related(msgspec.Struct, frozen=True):
    """Other numbers of the channel for the same payment."""

    order_id: str = ""
    authorization_id: str = ""
    capture_id: str = ""


class Supplementary(msgspec.Struct, frozen=True):
    related_ids: Related = Related()


class Link(msgspec.Struct, frozen=True):
    href: str = ""
    rel: str = ""


class Resource(msgspec.Struct, frozen=True):
    """A sale, capture, authorisation or refund, of either version."""

    id: str = ""
    status: str = ""
    state: str = ""
    amount: Money = Money()
    custom_id: str = ""
    custom: str = ""
    invoice_id: str = ""
    invoice_number: str = ""
    sale_id: str = ""
    capture_id: str = ""
    parent_payment: str = ""
    supplementary_data: Supplementary = Supplementary()
    links: list[Link] = []

    @property
    def word(self) -> str:
        """The state, as v2 writes it."""
        return (self.status or self.state).upper()

    @property
    def order_id(self) -> str:
        return self.custom_id or self.custom

    @property
    def number(self) -> str:
        """Ours, of the payment, capture or refund."""
        return self.invoice_id or self.invoice_number

    @property
    def money(self) -> dict[str, Any]:
        """The amount without a sign (v1 writes refunds as negative), or its text where the currency cannot express it."""
        text = (self.amount.value or self.amount.total).removeprefix("-")
        currency = self.amount.currency_code or self.amount.currency
        if not text:
            return {}
        amount = from_text(currency, text)
        return {"currency": currency or None} | ({"amount_text": text} if amount is None else {"amount": amount})

    @property
    def paid_by(self) -> str:
        """The transaction that a refund is of."""
        above = next((link.href.rpartition("/")[2] for link in self.links if link.rel == "up"), "")
        return self.sale_id or self.capture_id or self.supplementary_data.related_ids.capture_id or above

    def known_as(self, account: str) -> tuple[Reference, ...]:
        """The channel's other numbers for the payment, in the order of trust."""
        related = self.supplementary_data.related_ids
        others = (related.authorization_id, related.order_id, self.parent_payment)
        return tuple(Reference(TRANSACTION, value, account) for value in others)


class Notice(msgspec.Struct, frozen=True):
    """The envelope of every webhook."""

    id: str
    event_type: str
    resource: msgspec.Raw
    create_time: str | None = None


def events(held: Keys, received: Received, contract: Contract) -> list[Mapped]:
    """What a verified webhook says: one event."""
    del held, contract  # nothing in the body is sealed, and amounts are decimal text
    channel, raw = f"{CHANNEL}:{received.account}", evidence(received.headers, received.body)
    try:
        notice = msgspec.json.decode(received.body, type=Notice)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return [Mapped(unmapped(channel, f"the body is no event of PayPal's: {error}", raw=raw))]
    common: dict[str, Any] = {
        "channel": channel,
        "event_type": notice.event_type,
        "event_id": notice.id,
        "received_at": received.at,
        "event_time": in_utc(notice.create_time) if notice.create_time else None,
        "raw": raw,
    }
    try:
        mapped = _mapped(notice, common)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        mapped = f"resource: {error}"
    if isinstance(mapped, Mapped):
        return [mapped]
    return [Mapped(unmapped(channel, mapped, raw=raw, event_type=notice.event_type, event_id=notice.id))]


def _mapped(notice: Notice, common: dict[str, Any]) -> Mapped | str:
    """The event, or the reason why there is none."""
    area, _, name = notice.event_type.partition(".")
    family, _, end = name.partition(".")
    if area == "CUSTOMER":
        return "event_type: a dispute moves money, which this signature does not prove; look it up at PayPal"
    if area != "PAYMENT" or family not in {*PAYMENTS, "REFUND"} or not end:
        return f"event_type: {notice.event_type} says nothing about a payment; leave it out of the webhook's events"
    resource = msgspec.json.decode(notice.resource, type=Resource)
    if family == "REFUND" or end == "REFUNDED":
        return _refund(resource, end, common)
    return _payment(resource, family, end, common)


def _payment(resource: Resource, family: str, end: str, common: dict[str, Any]) -> Mapped:
    transaction = resource.paid_by if end == "REVERSED" else resource.id
    event = Callback(
        order_id=resource.order_id if resource.number else "",
        payment_no=resource.number,
        status=_word(resource, family, end),
        transaction=transaction or None,
        **resource.money,
        **common,
    )
    account = common["channel"]
    references = (Reference(PAYMENT, resource.number), Reference(TRANSACTION, transaction, account))
    return fitting(event, (*references, *resource.known_as(account)))


def _word(resource: Resource, family: str, end: str) -> str:
    """Success and waiting are said where name and object agree; everything else is only a reason to ask."""
    word = "SUCCESS" if resource.word in PAID else resource.word
    return word if family != "AUTHORIZATION" and SAYS.get(end) == word else UNPROVEN


def _refund(resource: Resource, end: str, common: dict[str, Any]) -> Mapped:
    word = "SUCCESS" if resource.word == "COMPLETED" else resource.word
    said = {"REFUNDED": "SUCCESS"} | SAYS
    account, paid_by = common["channel"], resource.paid_by
    event = RefundNotice(
        order_id=resource.order_id if resource.number else "",
        payment_no="",
        status=word if said.get(end) == word else UNPROVEN,
        refund_no=resource.number or None,
        refund_transaction=resource.id or None,
        transaction=paid_by or None,
        **resource.money,
        **common,
    )
    references = (
        Reference(REFUND, resource.number),
        Reference(TRANSACTION, paid_by, account),
        Reference(REFUND_TRANSACTION, resource.id, account),
    )
    return fitting(event, (*references, *resource.known_as(account)))


ADAPTER: Final[Adapter[Credentials, Keys]] = Adapter(
    channel=CHANNEL, credentials=Credentials, keys=keys, verify=verify, events=events
)
