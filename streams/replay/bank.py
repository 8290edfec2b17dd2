"""The bank's side in memory: entries by the name under which they are known again, and what is expected there."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from streams.domain import banking, reporter
from streams.domain.banking import BankLine, Item

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from streams.domain.contract import Contract
    from streams.domain.events import Event
    from streams.domain.lines import BankEntry
    from streams.replay.given import Given

Name = tuple[str, ...]


class Entry(Struct):
    """A booked entry: its lines, whether it came with details, and whether any of it was posted."""

    amount: int
    account: str
    lines: tuple[BankLine, ...]
    detailed: bool
    posted: bool = False


class Bank:
    """`tell` hands an event to the law; `settled` is called with an item that came in full."""

    def __init__(self, given: Given, tell: Callable[[Event], None], settled: Callable[[Item], None]) -> None:
        self._tell, self._settled = tell, settled
        self.items: dict[str, Item] = {}
        self.entries: dict[Name, Entry] = {}
        self.matched: dict[str, None] = {}
        self.residuals: dict[str, int] = {}
        self.amounts: dict[str, dict[str, Any]] = {}
        self.candidates: dict[str, list[str]] = {}
        self.given: set[Name] = set()
        self._aliases: dict[Name, Name] = {}
        for one in given.expected:
            self.items[one.ref] = Item(ref=one.ref, amount=one.amount, currency=one.ccy, channel=one.channel)
        for sent in given.payouts:
            self.expect(sent.ref, sent.amount, sent.ccy, sent.channel)
        for line in given.bank_lines:
            name = ("key", line.account, line.key)
            self._aliases["ref", line.account, line.key] = name
            self.given.add(name)
            whole = BankLine(
                name=name, entry=name, ref=line.key, account=line.account, amount=line.amount, currency=line.ccy
            )  # fmt: skip
            self.entries[name] = Entry(line.amount, line.account, (whole,), detailed=False, posted=True)

    def expect(self, ref: str, amount: int, currency: str, channel: str) -> None:
        """A payout that a file or the channel tells of; what has come stays."""
        came = self.items[ref].came if ref in self.items else 0
        self.items[ref] = Item(ref=ref, amount=amount, currency=currency, channel=channel, payout=True, came=came)

    def book(
        self, entries: dict[Name, BankEntry], *, batch: str, account: str, channel: str, contract: Contract
    ) -> None:
        """The booked entries of one file."""
        references: Counter[str] = Counter()
        for name, entry in entries.items():
            if entry.status != "BOOK":
                continue
            lines = banking.lines_of(
                entry, name, account=entry.account or account, place=f"{batch}:{entry.line}", reversal=contract.reversal
            )
            references.update(line.references[0] for line in lines if line.references)
            self._entry(self._aliases.get(name, name), entry, lines, batch, channel, contract)
        for reference, count in references.items():
            if count > 1:
                detail = f"{count} lines of {batch} name it"
                self._tell(reporter.difference("REFERENCE_REUSED", channel, reference, batch, detail=detail))

    def _entry(  # noqa: PLR0917  one call, right above
        self, name: Name, entry: BankEntry, lines: tuple[BankLine, ...], batch: str, channel: str, contract: Contract
    ) -> None:
        """One that is new is placed; details of one that is known enrich it, and are placed only if nothing of it was."""
        known = self.entries.get(name)
        if known is not None and (known.detailed or not entry.details):
            return
        amount = banking.signed(entry, contract.reversal)
        posted = known is not None and known.posted
        now = Entry(amount, lines[0].account, lines, bool(entry.details), posted)
        self.entries[name] = now
        for line in lines:
            self.amounts[line.ref] = {
                "amount": line.amount,
                "ccy": line.currency,
                "instructed_amount": line.instructed_amount,
                "instructed_ccy": line.instructed_currency,
            }
        self._residual(entry, lines[0].ref, batch, channel, contract)
        if contract.match and not posted:
            for line in lines:
                now.posted |= self._place(line, channel)

    def _residual(self, entry: BankEntry, ref: str, batch: str, channel: str, contract: Contract) -> None:
        if not entry.details:
            return
        left = banking.residual(entry, contract.reversal)
        self.residuals[ref] = left
        if left:
            detail = f"the entry has {left} {entry.currency} over its details and charges"
            told = reporter.difference(
                "UNEXPLAINED_RESIDUAL", channel, ref, batch, detail=detail, amount=left, currency=entry.currency
            )
            self._tell(told)

    def _place(self, line: BankLine, channel: str) -> bool:
        """Whether it was posted."""
        placed = banking.place(line, list(self.items.values()))
        if placed.candidates:
            self.candidates[line.ref] = list(placed.candidates)
        item = placed.item
        if item is not None and placed.verdict in {"POSTED", "BOUNCED"}:
            self._post(line, item, bounced=placed.verdict == "BOUNCED")
            return True
        if item is not None and placed.verdict == "FOREIGN":
            self._came(item, item.open)
        self._tell(reporter.unplaced(line, placed, channel))
        return placed.verdict == "FOREIGN"

    def _post(self, line: BankLine, item: Item, *, bounced: bool) -> None:
        told = reporter.moved(line, item, bounced=bounced)
        for one in told:
            self._tell(one)
        if bounced:
            self.matched[f"{item.ref}-return"] = None
        else:
            self._came(item, line.amount)

    def _came(self, item: Item, amount: int) -> None:
        now = structs.replace(item, came=item.came + amount)
        self.items[item.ref] = now
        if now.open:
            self.matched.pop(item.ref, None)
        else:
            self.matched[item.ref] = None
            self._settled(now)

    def booked(self, active: Iterable[Name]) -> dict[Name, Entry]:
        """The entries of files that count, and those that were there before."""
        names = {self._aliases.get(name, name) for name in active} | self.given
        return {name: entry for name, entry in self.entries.items() if name in names}
