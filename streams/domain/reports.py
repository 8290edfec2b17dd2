"""What reconciliation reports to the law: how files and our books differ and agree, what they prove was moved, and payouts.

A report names facts and decides nothing: which accounts a booking touches, and whether a difference is news, is the law's. What belongs
to no order is keyed by its source and reference (`order_id` is then `recon/…` or `payout/…`, see `streams.domain.reporting`). `event_id`
derives from the facts, so a report that is made twice is a repetition.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from streams.domain.fields import Amount, Currency, Id, Moment, Text, Word  # noqa: TC001  msgspec reads the annotations

Found: TypeAlias = Literal[
    "AMOUNT_MISMATCH", "CURRENCY_MISMATCH", "STATUS_MISMATCH", "DUPLICATE_TRANSACTION", "CHANNEL_ONLY", "LOCAL_ONLY", "AMBIGUOUS_MATCH",
    "REFERENCE_REUSED", "FEE_MISMATCH", "UNEXPLAINED_RESIDUAL", "BALANCE_BREAK", "FILE_REJECTED", "ROW_REJECTED", "DUPLICATE_FILE",
    "FILE_VERSION_CHANGED",
]  # fmt: skip


class Difference(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type", tag="difference"):
    """A file and our books disagree (R-181, R-190). `ref` is what the discrepancy is called, `evidence` the line, `source batch:line`.

    `money` says that the line is money: it then joins late money that is known already. `candidates` are proposals for a person, and
    never a match (R-217).
    """

    order_id: Id
    channel: Id
    status: Found
    ref: Id
    event_id: Id
    evidence: Text
    payment_no: Id = ""
    merchant: Id | None = None
    severity: Literal["high", "info"] | None = None
    detail: Text | None = None
    amount: Amount | None = None
    """What the file states, where the difference is about that; with `currency`."""
    currency: Currency | None = None
    money: bool = False
    candidates: Annotated[tuple[Text, ...], Meta(max_length=16)] = ()


class Agreement(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type", tag="agreement"):
    """The line that was missing has come: the difference called `ref` is explained by `evidence`."""

    order_id: Id
    channel: Id
    status: Literal["LOCAL_ONLY"]
    ref: Id
    event_id: Id
    evidence: Text
    payment_no: Id = ""
    merchant: Id | None = None


class Booking(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type", tag="booking"):
    """A file proves that money moved. `amount` is signed integer minor units, as the kind reads it; `ref` is the entry's reference.

    FEE: what a transaction cost, `payment_no` says which. FEE_ROW: a fee of its own; positive is a cost. BANK: a credit for a payout or an
    expected item of `channel` (a debit: reversed). OUT: a debit for what we pay. CHARGE: what a bank took. BOUNCE: a payout that left
    the bank again.
    """

    order_id: Id
    channel: Id
    status: Literal["FEE", "FEE_ROW", "BANK", "OUT", "CHARGE", "BOUNCE"]
    ref: Id
    event_id: Id
    amount: Amount
    currency: Currency
    evidence: Text
    account: Id | None = None
    payment_no: Id = ""
    merchant: Id | None = None


class Settled(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type", tag="settled"):
    """A bank credit contains this payment's money, by the payout that lists it (R-134). `transaction` is the payout's reference."""

    order_id: Id
    channel: Id
    status: Literal["SETTLED"]
    payment_no: Id
    event_id: Id
    transaction: Id
    evidence: Text
    merchant: Id | None = None


class PayoutNotice(
    Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type", tag="payout_notice"
):
    """A word about a payout to our bank: the channel's, or SENT of a settlement file. FAILED and FUNDS_RETURNED are one bounce."""

    order_id: Id
    channel: Id
    status: Word
    ref: Id
    event_id: Id
    amount: Amount
    currency: Currency
    received_at: Moment | None = None
    payment_no: Id = ""
    merchant: Id | None = None
