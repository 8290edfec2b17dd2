"""A bank's lines against what is expected there: payouts, credits and what we pay (R-182, R-187, R-188).

Only booked entries count. A line is one detail of an entry, or the entry where it has none. It belongs to the item that it names, whole:
its end-to-end id, reference or remittance is the item's. Several lines may add up to one item; each is posted as it arrives. Without a
usable reference items of equal amount and currency are candidates for a person, never a match; a reference that differs in blanks or
letter case only is a proposal as well. What nobody expects is CHANNEL_ONLY.

Files overlap: entries of one account with one servicer's reference, or with one key, are one entry, and details enrich it; keyless rows
of one account and day are the larger number of occurrences, not the sum. `lines_of` gives each line the name by which it is known again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from streams.domain.lines import BankDetail, BankEntry

ACTUAL: Final = "indicator_is_actual_direction"
Verdict: TypeAlias = Literal[
    "POSTED", "BOUNCED", "FOREIGN", "CURRENCY_MISMATCH", "AMOUNT_MISMATCH", "DUPLICATE_TRANSACTION", "AMBIGUOUS_MATCH", "CHANNEL_ONLY",
]  # fmt: skip


class Item(Struct, frozen=True, kw_only=True):
    """What is expected at the bank under `ref`: signed minor units; negative without a channel is what we pay. `came` has come so far."""

    ref: str
    amount: int
    currency: str
    channel: str | None = None
    payout: bool = False
    came: int = 0

    @property
    def open(self) -> int:
        return self.amount - self.came


class BankLine(Struct, frozen=True, kw_only=True):
    """One line as it is matched. `amount` is signed. `name` is the same in every file that has it; `ref` is what people call it."""

    name: tuple[str, ...]
    entry: tuple[str, ...]
    ref: str
    account: str
    amount: int
    currency: str
    references: tuple[str, ...] = ()
    charges: int = 0
    instructed_amount: int | None = None
    instructed_currency: str | None = None


class Placed(Struct, frozen=True, kw_only=True):
    """What came of a line. POSTED and BOUNCED post it; FOREIGN matches by the instructed amount and posts nothing."""

    verdict: Verdict
    item: Item | None = None
    severity: Literal["high", "info"] = "high"
    candidates: tuple[str, ...] = ()


def signed(entry: BankEntry, reversal: str = ACTUAL) -> int:
    """The movement of the account. Some banks mark a reversal and show the direction of what is reversed; the contract says so."""
    turned = entry.reversal and reversal != ACTUAL
    return entry.amount if (entry.direction == "CRDT") is not turned else -entry.amount


def entry_name(
    entry: BankEntry, *, account: str, statement: str, day: date, seen: dict[tuple[str, ...], int]
) -> tuple[str, ...]:
    """By what an entry is known again. `seen` counts equal keyless rows of the file, and is counted on."""
    if entry.account_ref:
        return ("ref", account, entry.account_ref)
    if entry.key:
        return ("key", account, entry.key)
    if entry.statement is not None or entry.details:
        return ("at", account, entry.statement or statement, str(entry.line))
    content = ("row", account, day.isoformat(), str(signed(entry)), entry.currency, entry.text or "", *entry.references)
    seen[content] = seen.get(content, 0) + 1
    return (*content, f"#{seen[content]}")


def lines_of(
    entry: BankEntry, name: tuple[str, ...], *, account: str, place: str, reversal: str = ACTUAL
) -> tuple[BankLine, ...]:
    """The lines of an entry. `place` is batch:line; people call the line by the servicer's reference, where there is one."""
    whole = signed(entry, reversal)
    ref = entry.account_ref or place
    if not entry.details:
        return (
            BankLine(
                name=name, entry=name, ref=ref, account=account, amount=whole, currency=entry.currency, references=entry.references
            ),
        )  # fmt: skip
    direction = 1 if whole >= 0 else -1
    return tuple(
        _detail(entry, detail, (*name, str(number)), name, ref, account, direction)
        for number, detail in enumerate(entry.details)
    )


def _detail(  # noqa: PLR0917  one call, right above
    entry: BankEntry,
    detail: BankDetail,
    name: tuple[str, ...],
    of: tuple[str, ...],
    ref: str,
    account: str,
    direction: int,
) -> BankLine:
    return BankLine(
        name=name,
        entry=of,
        ref=ref,
        account=account,
        amount=direction * detail.amount,
        currency=detail.currency,
        references=detail.references or (entry.references if len(entry.details) == 1 else ()),
        charges=detail.charges or 0,
        instructed_amount=None if detail.instructed_amount is None else direction * detail.instructed_amount,
        instructed_currency=detail.instructed_currency,
    )


def residual(entry: BankEntry, reversal: str = ACTUAL) -> int:
    """What an entry has over its details and the charges that they name; it is posted nowhere. 0 where it has no details to compare."""
    if not entry.details or any(detail.currency != entry.currency for detail in entry.details):
        return 0
    whole = signed(entry, reversal)
    direction = 1 if whole >= 0 else -1
    explained = sum(direction * detail.amount - (detail.charges or 0) for detail in entry.details)
    return whole - explained


def ties(entries: Sequence[BankEntry], opening: int | None, closing: int | None, reversal: str = ACTUAL) -> bool | None:
    """Whether opening and all booked lines make the closing balance; None where the file does not state both."""
    if opening is None or closing is None:
        return None
    return opening + sum(signed(entry, reversal) for entry in entries if entry.status == "BOOK") == closing


# -- matching


def place(line: BankLine, items: Sequence[Item]) -> Placed:
    """The item that a line belongs to, by what it names and nothing else."""
    named = [item for item in items if item.ref in line.references]
    if len(named) > 1:
        exact = [item for item in named if (item.open, item.currency) == (line.amount, line.currency)]
        if len(exact) != 1:
            return Placed(verdict="AMBIGUOUS_MATCH", candidates=tuple(sorted(item.ref for item in named)))
        named = exact
    if named:
        return _against(line, named[0])
    alike = [item.ref for item in items if any(_folded(item.ref) == _folded(one) for one in line.references)]
    if alike:
        return Placed(verdict="AMBIGUOUS_MATCH", severity="info", candidates=tuple(sorted(alike)))
    if not line.references:
        equal = [
            item.ref for item in items if item.open == line.amount and item.open and item.currency == line.currency
        ]
        if equal:
            return Placed(verdict="AMBIGUOUS_MATCH", candidates=tuple(sorted(equal)))
    return Placed(verdict="CHANNEL_ONLY")


def _folded(text: str) -> str:
    return "".join(text.split()).casefold()


def _against(line: BankLine, item: Item) -> Placed:
    """A line that names the item: it is posted, unless it is more than what is still expected."""
    if line.currency != item.currency:
        instructed = (line.instructed_amount, line.instructed_currency) == (item.open, item.currency)
        if instructed:
            return Placed(verdict="FOREIGN", item=item, severity="info")
        return Placed(verdict="CURRENCY_MISMATCH", item=item)
    return Placed(verdict=_amounts(line.amount, item), item=item)


def _amounts(amount: int, item: Item) -> Verdict:
    """A payout that leaves again bounces whole; of any other item what had come may go again."""
    if (amount < 0) is not (item.amount < 0):
        if not item.payout:
            return "POSTED"
        return "BOUNCED" if -amount == item.amount else "AMOUNT_MISMATCH"
    if item.open == 0:
        return "DUPLICATE_TRANSACTION"
    return "AMOUNT_MISMATCH" if abs(amount) > abs(item.open) else "POSTED"
