"""What a verified webhook of Stripe says about one of our payments, its refunds, its disputes, or a card that Stripe issued.

The payment is named by metadata that our side sets: `order_id`, `payment_no`, and `refund_no` or `capture_no` where it is about one.
Without both of the first two the order is found by references. The channel transaction is the PaymentIntent's id, on its charges too,
so that both say the same about one payment.

- A failed charge or `payment_intent.payment_failed` ends an attempt of the buyer, not the payment: the intent can still succeed.
- A refund that succeeded can still fail: the later word follows the earlier one, both about one `re_…`.
- `charge.refunded` states a total and no refund, unless the refund is listed in it. Every refund has notices of its own, so the
  total is kept for information: counted beside them it would count the same money twice.
- A webhook is one event, so that its id stays the key of what it says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from streams.channels.adapter import (
    AUTHORIZATION,
    NETWORK,
    PAYMENT,
    REFUND,
    REFUND_TRANSACTION,
    TRANSACTION,
    Mapped,
    Received,
    Reference,
)
from streams.channels.amounts import from_channel_minor
from streams.channels.stripe_objects import (
    ID_LENGTH,
    INTENT_WORDS,
    REFUND_WORDS,
    UNREADABLE,
    CardTransaction,
    Charge,
    Disputed,
    Intent,
    Notice,
    Refund,
    id_of,
)
from streams.channels.verification import evidence, rfc3339
from streams.domain.events import Callback, CardPosting, Dispute, RefundNotice, Release, Unmapped
from streams.domain.fields import MAX_AMOUNT

if TYPE_CHECKING:
    from collections.abc import Callable

    from streams.domain.contract import Contract
    from streams.domain.events import Raw

CHANNEL: Final = "stripe"

CHARGE_WORDS: Final = {"succeeded": "SUCCESS", "failed": "FAILED", "pending": "PENDING"}
DISPUTE_WORDS: Final = {
    "needs_response": "OPEN",
    "under_review": "OPEN",
    "won": "WON",
    "prevented": "WON",
    "lost": "LOST",
}
SAYS_SUCCESS: Final = frozenset({"payment_intent.succeeded", "charge.succeeded", "charge.captured"})
SAYS_NO_SUCCESS: Final = frozenset({"payment_intent.canceled", "payment_intent.payment_failed", "charge.failed"})


class UnmappableError(ValueError):
    """A verified webhook that says nothing we can use; the text names the field and the fix."""


@dataclass(frozen=True, slots=True)
class Heard:
    """A webhook while it is read."""

    notice: Notice
    received: Received
    contract: Contract
    channel: str
    raw: Raw

    @property
    def common(self) -> dict[str, Any]:
        """What every event of it carries."""
        return {"channel": self.channel, "event_id": self.notice.id, "raw": self.raw}

    @property
    def stated(self) -> dict[str, Any]:
        """What events that are ordered by time carry as well."""
        time = {"event_time": rfc3339(self.notice.created), "received_at": self.received.at}
        return {**self.common, **time, "event_type": self.notice.type, "livemode": self.notice.livemode}

    def money(self, amount: int, currency: str) -> dict[str, Any]:
        """Amount and currency as ours; what the currency cannot express stays Stripe's own text."""
        code = currency.upper()
        ours = from_channel_minor(self.contract, code, amount)
        if ours is None or not -MAX_AMOUNT <= ours <= MAX_AMOUNT:
            return {"amount": None, "currency": code, "amount_text": str(amount)}
        return {"amount": ours, "currency": code}

    def exact(self, amount: int, currency: str) -> dict[str, Any]:
        """The same for an event that must have an amount."""
        found = self.money(amount, currency)
        if found["amount"] is None:
            raise UnmappableError(f"data.object.amount: {amount} is no amount of {found['currency']}; ask the channel")
        return found

    def live(self) -> None:
        """Refuse test traffic where the event has no field to say so."""
        if self.notice.livemode is False:
            raise UnmappableError("livemode: it is test traffic; point the channel's test endpoint elsewhere")

    def references(
        self, names: dict[str, Any], *transactions: str, refund: str = "", card: tuple[str, str] = ("", "")
    ) -> tuple[Reference, ...]:
        """By what the order can be found: our own numbers, then Stripe's, then what the card's side calls it."""
        found = (
            (PAYMENT, names.get("payment_no", ""), ""),
            (REFUND, names.get("refund_no", ""), ""),
            *((TRANSACTION, transaction, self.channel) for transaction in transactions),
            (REFUND_TRANSACTION, refund, self.channel),
            (AUTHORIZATION, card[0], self.channel),
            (NETWORK, card[1], ""),
        )
        return tuple(Reference(*one) for one in dict.fromkeys(found) if one[1])


def events(received: Received, contract: Contract) -> list[Mapped]:
    """The one event of a verified webhook; an `Unmapped` with the reason where it says nothing that can be used."""
    channel, raw = f"{CHANNEL}:{received.account}", evidence(received.headers, received.body)
    try:
        notice = msgspec.json.decode(received.body, type=Notice)
    except UNREADABLE as error:
        reason = f"the body is not a Stripe event: {error}"[:ID_LENGTH]
        return [Mapped(Unmapped(channel=channel, event_type="unreadable", reason=reason, raw=raw))]
    heard = Heard(notice, received, contract, channel, raw)
    try:
        return [_findable(_mapped(heard))]
    except UnmappableError as error:
        reason = str(error)
    except UNREADABLE as error:
        reason = f"data.object: {error}"
    return [Mapped(Unmapped(event_type=notice.type, reason=reason[:ID_LENGTH], **heard.common))]


def _findable(mapped: Mapped) -> Mapped:
    if not mapped.event.order_id and not mapped.references:
        raise UnmappableError("data.object: nothing in it names its order; ask the channel what it belongs to")
    return mapped


def _mapped(heard: Heard) -> Mapped:
    notice = heard.notice
    if notice.account not in (None, heard.received.account):
        about = f"the event is about {notice.account}, not {heard.received.account}"
        raise UnmappableError(f"account: {about}; give each account its own endpoint")
    for start, kind, read in READERS:
        if notice.type.startswith(start):
            return read(heard, msgspec.json.decode(notice.data.object, type=kind))
    if notice.type.startswith("issuing_authorization."):
        raise UnmappableError(
            f"type: {notice.type}: a card's hold moves no money; leave it out of the endpoint's events"
        )
    raise UnmappableError(f"type: {notice.type} says nothing about a payment; leave it out of the endpoint's events")


# -- payments


def _intent(heard: Heard, intent: Intent) -> Mapped:
    word = INTENT_WORDS.get(intent.status, intent.status)
    if heard.notice.type == "payment_intent.payment_failed" and word not in ("SUCCESS", "AUTHORIZED"):
        word = "DECLINED_RETRYABLE"
    amount = {"SUCCESS": intent.amount_received, "AUTHORIZED": intent.amount_capturable}.get(word, intent.amount)
    names = _names(intent.metadata)
    capture = _named(intent.metadata, "capture_no")
    if word == "SUCCESS" and capture and names["order_id"]:
        names["payment_no"] = capture  # what was received is that capture's, which may be less than the payment's
    status = _checked(heard.notice.type, word)
    event = Callback(
        **names, status=status, transaction=intent.id, **heard.money(amount, intent.currency), **heard.stated
    )
    return Mapped(event, heard.references(_names(intent.metadata), intent.id))


def _charge(heard: Heard, charge: Charge) -> Mapped:
    intent = id_of(charge.payment_intent)
    word, amount = CHARGE_WORDS.get(charge.status, charge.status), charge.amount
    if word == "SUCCESS" and not charge.captured:
        word = "AUTHORIZED"
    elif word == "SUCCESS" and charge.amount_captured is not None:
        amount = charge.amount_captured
    elif word == "FAILED" and intent:
        word = "DECLINED_RETRYABLE"
    names, transaction = _names(charge.metadata), intent or charge.id
    event = Callback(
        **names,
        status=_checked(heard.notice.type, word),
        transaction=transaction,
        **heard.money(amount, charge.currency),
        **heard.stated,
    )
    return Mapped(event, heard.references(names, transaction, charge.id))


def _checked(event_type: str, word: str) -> str:
    """The event's name and its object must tell the same story; if they do not, neither is believed."""
    if event_type in SAYS_SUCCESS and word not in ("SUCCESS", "AUTHORIZED"):
        return "CONTRADICTORY"
    if event_type in SAYS_NO_SUCCESS and word in ("SUCCESS", "AUTHORIZED"):
        return "CONTRADICTORY"
    return word


def _expired(heard: Heard, charge: Charge) -> Mapped:
    """An uncaptured charge lapsed: the hold is gone, and no money moved (R-212)."""
    if charge.captured:
        raise UnmappableError("data.object.captured: a captured charge cannot expire; ask the channel")
    return _released(heard, charge, charge.amount)


def _released(heard: Heard, charge: Charge, amount: int) -> Mapped:
    heard.live()
    names, transaction = _names(charge.metadata), id_of(charge.payment_intent) or charge.id
    money = heard.exact(amount, charge.currency)
    event = Release(
        **names, status="SUCCESS", transaction=transaction, received_at=heard.received.at, **money, **heard.common
    )
    return Mapped(event, heard.references(names, transaction, charge.id))


# -- refunds


def _refund(heard: Heard, refund: Refund) -> Mapped:
    names, number = _names(refund.metadata), _named(refund.metadata, "refund_no")
    intent, charge = id_of(refund.payment_intent), id_of(refund.charge)
    event = RefundNotice(
        **names,
        refund_no=number or None,
        status=REFUND_WORDS.get(refund.status, refund.status),
        refund_transaction=refund.id,
        transaction=intent or charge or None,
        **heard.money(refund.amount, refund.currency),
        **heard.stated,
    )
    return Mapped(event, heard.references({**names, "refund_no": number}, intent, charge, refund=refund.id))


def _refunded(heard: Heard, charge: Charge) -> Mapped:
    """The newest refund that the charge lists, or only the total."""
    intent = id_of(charge.payment_intent)
    if not charge.captured:
        return _released(heard, charge, charge.amount_refunded or charge.amount)
    listed = (charge.refunds or {}).get("data")
    if isinstance(listed, list) and listed:
        newest = msgspec.convert(listed[0], Refund)
        found = _refund(heard, msgspec.structs.replace(newest, payment_intent=intent or None, charge=charge.id))
        total = heard.money(charge.amount_refunded, charge.currency)["amount"]
        return Mapped(msgspec.structs.replace(found.event, cumulative_refunded=total), found.references)
    names = _names(charge.metadata)
    money = heard.money(charge.amount_refunded, charge.currency)
    total = money.pop("amount")
    event = RefundNotice(
        **names,
        status="REFUND_TOTAL",
        transaction=intent or charge.id,
        cumulative_refunded=total,
        **money,
        **heard.stated,
    )
    return Mapped(event, heard.references(names, intent, charge.id))


# -- disputes, and cards that Stripe issued


def _dispute(heard: Heard, dispute: Disputed) -> Mapped:
    heard.live()
    if dispute.status.startswith("warning_"):
        raise UnmappableError(f"data.object.status: {dispute.status} is an inquiry; it takes no money, answer it there")
    names = _names(dispute.metadata)
    intent, charge = id_of(dispute.payment_intent), id_of(dispute.charge)
    event = Dispute(
        **names,
        status=DISPUTE_WORDS.get(dispute.status, dispute.status),
        transaction=intent or charge or None,
        received_at=heard.received.at,
        **heard.exact(dispute.amount, dispute.currency),
        **heard.common,
    )
    return Mapped(event, heard.references(names, intent, charge))


def _card(heard: Heard, entry: CardTransaction) -> Mapped:
    """An entry on a card: one however often it is told, so its own id is the key."""
    heard.live()
    signs = {"capture": -1, "refund": 1}
    if entry.type not in signs:
        raise UnmappableError(f"data.object.type: {entry.type} is neither capture nor refund; map it in the adapter")
    amount = entry.amount * signs[entry.type]
    if amount <= 0:
        raise UnmappableError(f"data.object.amount: its sign contradicts the type {entry.type}; ask the channel")
    network = (entry.network_data.transaction_id if entry.network_data else "") or ""
    authorization, order = id_of(entry.authorization), _named(entry.metadata, "order_id")
    number = _named(entry.metadata, "payment_no")
    event = CardPosting(
        order_id=order,
        payment_no=number or None,
        status="PURCHASE" if entry.type == "capture" else "REFUND",
        authorization=authorization or None,
        transaction=network or None,
        event_time=rfc3339(heard.notice.created if entry.created is None else entry.created),
        **{**heard.common, **heard.exact(amount, entry.currency), "event_id": entry.id},
    )
    return Mapped(event, heard.references({"payment_no": number}, card=(authorization, network)))


# -- names


def _named(metadata: dict[str, str] | None, name: str) -> str:
    value = (metadata or {}).get(name, "")
    if len(value) > ID_LENGTH:
        raise UnmappableError(f"data.object.metadata.{name}: it is longer than {ID_LENGTH}; give it a shorter number")
    return value


def _names(metadata: dict[str, str] | None) -> dict[str, Any]:
    """The order and the payment, both or neither: half a name is found by reference like none."""
    order, payment = _named(metadata, "order_id"), _named(metadata, "payment_no")
    return {"order_id": order if payment else "", "payment_no": payment}


READERS: Final[tuple[tuple[str, Any, Callable[[Heard, Any], Mapped]], ...]] = (
    ("payment_intent.", Intent, _intent),
    ("refund.", Refund, _refund),
    ("charge.refund.", Refund, _refund),
    ("charge.refunded", Charge, _refunded),
    ("charge.dispute.", Disputed, _dispute),
    ("charge.expired", Charge, _expired),
    ("charge.", Charge, _charge),
    ("issuing_transaction.", CardTransaction, _card),
)
"""By the start of the event's type, the first that fits: what its object is, and who reads it."""
