"""Alipay's asynchronous notices: verify one, and map it to what it says about one of our payments and its refunds.

The signature covers the sorted fields as bytes of the notice's own charset. Two rules are in use: most kinds of notices leave
`sign_type` out of the signed text, some keep it; both are tried. `out_trade_no` is our payment number; the merchant order id travels in
`passback_params`, which our side sets to the JSON text `{"order_id": "…"}`, urlencoded as the channel wants it.

`TRADE_CLOSED` is two things: a trade that nobody paid, or one that was paid and went back in full. What tells them apart is whether the
notice knows of a payment or a refund. A refund is told inside `TRADE_SUCCESS` (or that close): `refund_fee` is the total so far,
`out_biz_no` the refund's own number, so the refund's own amount is asked for. `notify_time` is the time of sending, another one at
each delivery, and therefore no part of what the notice says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote_plus

import msgspec

from streams.channels import forms, local_time
from streams.channels.adapter import PAYMENT, REFUND, TRANSACTION, Adapter, Mapped, Received, Reference
from streams.channels.amounts import from_text
from streams.channels.fitting import fitting, unmapped
from streams.channels.rsa_keys import made_by, private_key, public_key
from streams.channels.verification import BadSignature, Malformed, evidence
from streams.domain.events import Callback, RefundNotice

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

    from streams.domain.contract import Contract
    from streams.domain.events import Raw

CHANNEL: Final = "alipay"
RSA2: Final = b"RSA2"
CURRENCY: Final = "CNY"
TRADE: Final = "trade_status_sync"
FORM: Final = "%Y-%m-%d %H:%M:%S"
WORDS: Final = {
    "TRADE_SUCCESS": "SUCCESS",
    "TRADE_FINISHED": "SUCCESS",
    "TRADE_CLOSED": "CLOSED",
    "WAIT_BUYER_PAY": "PENDING",
}
PAID: Final = frozenset({"TRADE_SUCCESS", "TRADE_FINISHED"})
TRUSTED: Final = (
    "app_id", "notify_id", "notify_type", "out_biz_no", "out_trade_no", "passback_params", "refund_fee", "seller_id", "gmt_close",
    "gmt_payment", "gmt_refund", "total_amount", "trade_no", "trade_status", "trans_currency", "charset",
)  # fmt: skip
"""The fields that are read, so that none of them may be hidden in another's value."""


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """The credentials file. Keys as PEM, or as the bare base64 of the merchant console."""

    app_id: str
    """The application whose notices these are; a notice for another one is kept, not mapped."""
    alipay_public_keys: list[str]
    """Alipay's live public keys (RSA2), not the application's own; several while one replaces another."""
    seller_ids: list[str] = []
    """The merchants' user numbers (2088…); empty: any seller of the application."""
    app_private_key: str = ""
    """The application's private key (RSA2); only requests need it."""
    notify_url: str = ""
    """Where Alipay sends notices about trades that we start; empty: as set in its console."""


class Keys(NamedTuple):
    """The credentials made ready. `signing` is None where only notices are taken in."""

    app_id: str
    public: tuple[RSAPublicKey, ...]
    seller_ids: frozenset[str]
    signing: RSAPrivateKey | None
    notify_url: str


def keys(credentials: Credentials) -> Keys:
    """Raises `ValueError` naming the field and the fix."""
    if not credentials.app_id:
        raise ValueError("app_id: it is empty; give the application's number")
    if not credentials.alipay_public_keys:
        raise ValueError("alipay_public_keys: there is none; copy Alipay's public key from its console")
    public = tuple(
        public_key(text, f"alipay_public_keys[{n}]") for n, text in enumerate(credentials.alipay_public_keys)
    )
    own = credentials.app_private_key
    signing = private_key(own, "app_private_key") if own else None
    return Keys(credentials.app_id, public, frozenset(credentials.seller_ids), signing, credentials.notify_url)


def verify(held: Keys, received: Received) -> None:
    """Accept a notice that a live key of Alipay signed, or raise a `Refused`. No time is signed that could make it stale."""
    form = forms.fields_of(received.body)
    if form.get("sign_type", RSA2) != RSA2:
        raise Malformed("sign_type", "the signature type is not supported", "set the application's signature to RSA2")
    signature = forms.signature_of(form, "sign")
    if not made_by(held.public, signature, forms.signed_texts(form, {"sign"}, "sign_type")):
        raise BadSignature(
            "sign", "no live public key made it", "check that alipay_public_keys are Alipay's and pass the raw body"
        )


def events(held: Keys, received: Received, contract: Contract) -> list[Mapped]:
    """What a verified notice says: the payment's word, and beside it the refund's or that no more can be refunded."""
    channel, raw = f"{CHANNEL}:{received.account}", evidence(received.headers, received.body)
    try:
        form = forms.fields_of(received.body)
    except Malformed as error:
        return [Mapped(unmapped(channel, str(error), raw=raw))]
    fields = forms.decoded(form, form.get("charset", b""))
    if fields is None:
        return [Mapped(unmapped(channel, "charset: the fields are not text in the charset that they state", raw=raw))]
    reason = _not_ours(held, form, fields)
    if reason:
        kind, number = fields.get("notify_type", ""), fields.get("notify_id")
        return [Mapped(unmapped(channel, reason, raw=raw, event_type=kind, event_id=number))]
    return _said(_Notice(fields, channel, received, raw, contract.tz))


def _not_ours(held: Keys, form: forms.Form, fields: dict[str, str]) -> str:
    """Why a verified notice says nothing about a payment of ours; empty text if it does."""
    twice = forms.ambiguous(form, TRUSTED)
    if twice:
        return f"{twice}: its text could be read as another field under the same signature; keep `&` out of it"
    if fields.get("app_id") != held.app_id:
        return "app_id: the notice is for another application; give each application its own address"
    if held.seller_ids and fields.get("seller_id") not in held.seller_ids:
        return "seller_id: the notice is about another seller; add the seller to the credentials, or give it its own address"
    if fields.get("notify_type", TRADE) != TRADE:
        return f"notify_type: {fields['notify_type']} says nothing about a payment"
    if not fields.get("trade_status"):
        return "trade_status: it is absent, so the notice says nothing about a payment"
    return ""


class _Notice(NamedTuple):
    fields: dict[str, str]
    channel: str
    received: Received
    raw: Raw
    zone: str

    def get(self, name: str) -> str:
        return self.fields.get(name, "")

    def time(self, *names: str) -> str | None:
        """The first of these times that is stated; fractions of a second are cut, as the channel shows them only sometimes."""
        text = next((self.fields[name] for name in names if self.fields.get(name)), "")
        return local_time.in_utc(text.partition(".")[0], FORM, self.zone) if text else None

    @property
    def currency(self) -> str:
        return self.get("trans_currency") or CURRENCY

    @property
    def refunded(self) -> bool:
        return bool(self.get("gmt_refund") or self.get("refund_fee").strip("0."))

    @property
    def common(self) -> dict[str, Any]:
        return {
            "order_id": order_id(self.get("passback_params")),
            "channel": self.channel,
            "transaction": self.get("trade_no") or None,
            "event_type": self.get("trade_status"),
            "received_at": self.received.at,
            "raw": self.raw,
        }

    @property
    def references(self) -> tuple[Reference, ...]:
        return (
            Reference(PAYMENT, self.get("out_trade_no")),
            Reference(TRANSACTION, self.get("trade_no"), self.channel),
        )


def order_id(passback: str) -> str:
    """The merchant order id that our side had put there; empty where it is not the JSON of ours."""
    for text in (passback, unquote_plus(passback)):
        try:
            found = msgspec.json.decode(text, type=dict[str, Any]).get("order_id", "")
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            continue
        return found if isinstance(found, str) else ""
    return ""


def money(text: str, currency: str) -> dict[str, Any]:
    """Decimal text as an amount, or as `amount_text` where the currency cannot express it; nothing where nothing is stated."""
    if not text:
        return {}
    amount = from_text(currency, text)
    return {"currency": currency} | ({"amount_text": text} if amount is None else {"amount": amount})


def _said(notice: _Notice) -> list[Mapped]:
    status, number = notice.get("trade_status"), notice.get("notify_id") or None
    paid_back = status == "TRADE_CLOSED" and (notice.refunded or bool(notice.get("gmt_payment")))
    word = "SUCCESS" if paid_back else WORDS.get(status, status)
    said = [fitting(_payment(notice, word, number), notice.references)]
    if notice.refunded and (paid_back or status in PAID):
        said.append(_refund(notice, number))
    if status == "TRADE_FINISHED":
        said.append(fitting(_payment(notice, "FINISHED", _part(number, "finished")), notice.references))
    return said


def _part(number: str | None, name: str) -> str | None:
    """The id of one of several things that one notice says."""
    return f"{number}/{name}" if number else None


def _payment(notice: _Notice, word: str, number: str | None) -> Callback:
    times = ("gmt_close",) if word == "CLOSED" else ("gmt_payment", "gmt_create")
    return Callback(
        payment_no=notice.get("out_trade_no"),
        status=word,
        event_id=number,
        event_time=notice.time(*times),
        **money(notice.get("total_amount"), notice.currency),
        **notice.common,
    )


def _refund(notice: _Notice, number: str | None) -> Mapped:
    """The refund that a notice tells of. Only the total is stated, so a refund of ours is asked for its own amount."""
    total = from_text(notice.currency, notice.get("refund_fee"))
    facts: dict[str, Any] = {
        "payment_no": notice.get("out_trade_no"),
        "event_id": _part(number, "refund"),
        "event_time": notice.time("gmt_refund"),
        "currency": notice.currency,
        "cumulative_refunded": total,
    }
    refund_no = notice.get("out_biz_no")
    if refund_no in {"", notice.get("out_trade_no")}:  # a refund without a number of its own
        return fitting(Callback(status="REFUND_TOTAL", **facts, **notice.common), notice.references)
    said = RefundNotice(status="SUCCESS", refund_no=refund_no, refund_transaction=refund_no, **facts, **notice.common)
    return fitting(said, (*notice.references, Reference(REFUND, refund_no)))


ADAPTER: Final = Adapter(
    channel=CHANNEL, credentials=Credentials, keys=keys, verify=verify, events=events, content_types=forms.CONTENT_TYPES
)
