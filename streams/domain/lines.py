"""What a bill or a statement says, line by line: the shapes between the readers, the books and the matching.

A reader (`streams/statements`) makes a stream of these out of a file; the import keeps them; `match` pairs them. They say what the file
says, and nothing that anybody concludes from it. Amounts are integers in minor units of `currency`, dates are the file's own, ids are
opaque text, and what a file does not say is None (R-102, R-112). `line` is the physical line of a text file, from 1, or the ordinal of
the element in XML; it names the row together with its batch.
"""

from __future__ import annotations

from datetime import date  # noqa: TC003  msgspec reads the annotation
from typing import Literal, TypeAlias

from msgspec import Struct

FileKind: TypeAlias = Literal["CHANNEL_BILL", "SETTLEMENT", "BANK_CSV", "OFX", "MT940", "CAMT052", "CAMT053", "CAMT054"]


class FileIdentity(Struct, frozen=True, kw_only=True):
    """Which batch a file is (R-111). The same identity with another content is a newer version of it; the file's name is not part of it.

    `zone` is the IANA zone whose business day `business_date` is; `account` is the channel's or bank's account with us.
    """

    source: str
    account: str
    business_date: date
    batch: str
    zone: str = "UTC"


class BillRow(Struct, frozen=True, kw_only=True):
    """One transaction in a channel's own list. Direction comes from `kind`; amounts are positive as far as the channel says so.

    `transaction` is the channel's reference (of the refund, for a refund row); `operation_no` is our number (out-trade number, or our
    refund number). `status` is SUCCESS, CLOSED, FAILED or PENDING as the layout maps the word that `raw_status` keeps. `fee_text`
    keeps a fee that has more digits than the currency; `fee` is then rounded half to even.
    """

    line: int
    kind: Literal["PAY", "REFUND"]
    amount: int
    currency: str
    status: str = "SUCCESS"
    raw_status: str | None = None
    transaction: str | None = None
    operation_no: str | None = None
    parent_transaction: str | None = None
    funds: Literal["PAID", "NONE"] | None = None
    fee: int | None = None
    fee_text: str | None = None
    net: int | None = None
    local_time: str | None = None
    """The channel's text, as evidence; in the zone of the file."""


class SettlementRow(Struct, frozen=True, kw_only=True):
    """One part of a payout. `amount` is its effect on the payout before `fee`; a negative FEE row is a charge.

    `kind` CHARGEBACK and OTHER count in the payout like any row; PAYOUT is the payout itself and counts for `Payout`, not here.
    """

    line: int
    kind: Literal["PAY", "REFUND", "FEE", "CHARGEBACK", "OTHER"]
    amount: int
    currency: str
    transaction: str | None = None
    operation_no: str | None = None
    fee: int | None = None
    net: int | None = None
    trade_date: date | None = None
    settlement_date: date | None = None
    raw_kind: str | None = None


class Payout(Struct, frozen=True, kw_only=True):
    """What a settlement file says is paid to the bank, under the reference that the bank statement will carry."""

    line: int
    ref: str
    amount: int
    currency: str
    paid_on: date | None = None


class BankDetail(Struct, frozen=True, kw_only=True):
    """One transaction inside a booked bank entry. `amount` is positive, its direction is the entry's."""

    amount: int
    currency: str
    references: tuple[str, ...] = ()
    """What it may be known by, whole, the strongest first: end-to-end id, reference, remittance; never NOTPROVIDED."""
    charges: int | None = None
    instructed_amount: int | None = None
    instructed_currency: str | None = None
    rate: str | None = None


class BankEntry(Struct, frozen=True, kw_only=True):
    """One movement of a bank account. `amount` is positive, `direction` says where it went, before any rule about reversals.

    `account_ref` is the account servicer's reference, which files of one account share; `key` is a unique id where a format without such a
    reference has one (OFX FITID). `status` BOOK is money, PDNG is not.
    """

    line: int
    amount: int
    currency: str
    direction: Literal["CRDT", "DBIT"]
    status: Literal["BOOK", "PDNG", "INFO", "FUTR"] = "BOOK"
    reversal: bool = False
    account_ref: str | None = None
    key: str | None = None
    references: tuple[str, ...] = ()
    """As of a detail, where the entry has none."""
    statement: str | None = None
    """The statement of the file that it stands in; None where a file is one statement."""
    account: str | None = None
    """The account of that statement, where the file names it."""
    text: str | None = None
    booked_on: date | None = None
    value_on: date | None = None
    details: tuple[BankDetail, ...] = ()


class Balances(Struct, frozen=True, kw_only=True):
    """What a statement says of its account: signed balances before and after, if it states them. One for each statement of a file."""

    statement: str | None
    account: str | None
    currency: str | None
    opening: int | None
    closing: int | None


class Control(Struct, frozen=True, kw_only=True):
    """Totals that a file states of itself: of what (`count`, `amount`, `fee`, `refund_amount` …), as stated and as read.

    Money in minor units of the file's currency; a total whose text has more digits than that is compared exactly, in `*_text`.
    """

    name: str
    stated: int
    read: int
    stated_text: str | None = None
    read_text: str | None = None

    @property
    def ties(self) -> bool:
        return self.stated == self.read and self.stated_text == self.read_text


class RejectedRow(Struct, frozen=True, kw_only=True):
    """A row that could not be read; the others count. `field` is the column, `reason` says what is wrong and what would be right."""

    line: int
    field: str
    reason: str


Row: TypeAlias = BillRow | SettlementRow | BankEntry
Line: TypeAlias = Row | Payout | Balances | Control | RejectedRow
"""What a reader yields, in the order of the file; `Control` and `Balances` may come last."""
