"""Reconciliation in memory: files as they come, each through the product's own reading, comparing and telling.

What is concluded is concluded by `streams.domain` (bills, settlements, banking) and told to the law as events; this keeps what a database
would keep, and nothing else: which versions of files there are, their lines, and what is expected at the bank.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from streams import businessday
from streams.domain import banking, bills, reporter, settlements
from streams.domain.banking import Item
from streams.domain.bills import Local, Locals
from streams.domain.lines import Balances, BankEntry, BillRow, Control, Payout, RejectedRow, SettlementRow
from streams.domain.moment import moment
from streams.domain.order import Order, Payment
from streams.domain.order import Payout as Known
from streams.domain.reporting import keyed
from streams.replay import contents
from streams.replay.bank import Bank
from streams.replay.reading import read
from streams.statements.refusal import Refused

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streams.domain.banking import Item
    from streams.domain.bills import Outcome
    from streams.domain.contract import Contract
    from streams.domain.events import Event
    from streams.domain.order import Operation
    from streams.replay.given import Given
    from streams.replay.run import Run

Identity = tuple[str, str, str, str]


class Batch(Struct):
    """One version of a file that was booked."""

    identity: Identity
    name: str
    channel: str
    account: str
    kind: str
    day: date
    rows: list[BillRow]
    parts: list[SettlementRow]
    payout: Payout | None = None
    entries: dict[tuple[str, ...], BankEntry] = {}
    version: int = 1
    complete: bool = True


class Files:
    """Every file of a scenario so far, and what is known by them."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.hashes: dict[Identity, list[str]] = {}
        self.active: dict[Identity, Batch] = {}
        self.complete: dict[str, bool] = {}
        self.controls: dict[str, dict[str, int]] = {}
        self.balance: dict[str, str] = {}
        self.matched: dict[str, None] = {}
        self.paired: dict[str, None] = {}
        self.held: dict[str, None] = {}
        self.bank = Bank(run.given, self.tell, self._settled)
        self._told: set[str] = set()
        self._begin(run.given)

    def _begin(self, given: Given) -> None:
        for one in given.payouts:
            name = keyed("payout", one.channel, one.ref)
            payout = Known(one.ref, one.channel, one.amount, one.ccy, one.state)
            self._run.orders[name] = Order(name, payout=payout)
        for file in given.files:
            identity = (file.source, file.account, file.business_date, file.batch)
            self.hashes.setdefault(identity, []).append("")

    # -- a file

    def hear(self, event: dict[str, Any]) -> None:
        """One FILE event: what it is, what it says, what follows."""
        identity = (event["source"], event.get("account", "main"), event["business_date"], event["batch"])
        known = self.hashes.setdefault(identity, [])
        content = contents.content_hash(event)
        channel, name = event["channel"], event["batch"]
        if content in known:
            self.tell(reporter.difference("DUPLICATE_FILE", channel, name, name, detail="imported before"))
            return
        try:
            batch, rejected, ties = self._read(event, identity)
        except Refused as refused:
            self.complete.setdefault(name, False)
            self.tell(reporter.difference("FILE_REJECTED", channel, name, name, detail=str(refused)[:256]))
            return
        if ties is not None:
            self.balance[name] = "OK" if ties else "BREAK"
        if ties is False:
            self.complete[name] = False
            self.tell(
                reporter.difference("BALANCE_BREAK", channel, name, name, detail="it does not add up; not booked")
            )
            return
        known.append(content)
        batch.version = len(known)
        if batch.version > 1:
            ref = f"{name}#{batch.version}"
            self.tell(
                reporter.difference("FILE_VERSION_CHANGED", channel, ref, ref, detail="it replaces the version before")
            )
        for row in rejected:
            place = f"{name}:{row.line}"
            detail = f"{row.field}: {row.reason}"[:256]
            self.tell(reporter.difference("ROW_REJECTED", channel, place, place, detail=detail))
        self.active[identity] = batch
        self.complete[name] = batch.complete
        if batch.kind == "CHANNEL_BILL":
            self._bills(channel)
        elif batch.kind == "SETTLEMENT":
            self._settle(batch)
        else:
            self.bank.book(
                batch.entries,
                batch=batch.name,
                account=batch.account,
                channel=channel,
                contract=self._run.contracts.get(channel),
            )

    def _read(self, event: dict[str, Any], identity: Identity) -> tuple[Batch, list[RejectedRow], bool | None]:
        """Everything that a file says, before anything of it counts: the batch, rows that cannot be read, and whether it adds up."""
        contract = self._run.contracts.get(event["channel"])
        if "generate" in event and self._run.given.generate_ops is not None:
            event = {**event, "ccy": self._run.given.generate_ops.ccy}
        said: dict[type, list[Any]] = {}
        for line in read(event, contract):
            said.setdefault(type(line), []).append(line)
        batch = Batch(
            identity,
            event["batch"],
            event["channel"],
            identity[1],
            event["file_kind"],
            date.fromisoformat(identity[2]),
            rows=said.get(BillRow, []),
            parts=said.get(SettlementRow, []),
            payout=_payout(event),
        )
        seen: dict[tuple[str, ...], int] = {}
        for entry in said.get(BankEntry, ()):
            account = entry.account or batch.account
            name = banking.entry_name(entry, account=account, statement=batch.name, day=batch.day, seen=seen)
            batch.entries[name] = entry
        controls: list[Control] = said.get(Control, [])
        if controls:
            self.controls[batch.name] = {one.name: one.stated for one in controls}
        rejected: list[RejectedRow] = said.get(RejectedRow, [])
        batch.complete = not rejected
        ties = _ties(said.get(BankEntry, []), said.get(Balances, []), contract)
        if not rejected and not all(control.ties for control in controls):
            ties = False
        return batch, rejected, ties

    # -- telling

    def tell(self, event: Event) -> None:
        """Hand it to the law, once."""
        name = getattr(event, "event_id", None)
        if name is None or name not in self._told:
            self._run.report(event)
            if name is not None:
                self._told.add(name)

    # -- bills

    def locals(self, channel: str) -> Locals:
        """Our operations at a channel."""
        contract = self._run.contracts.get(channel)
        found: list[Local] = []
        for order in self._run.orders.values():
            found += [_local(one, order.order_id, contract) for one in order.payments if one.channel == channel]
            found += [
                _local(one, order.order_id, contract)
                for one in order.operations
                if one.channel == channel and one.kind == "REFUND"
            ]
        return Locals(found)

    def _bills(self, channel: str) -> None:
        """Every active bill of the channel against what we have, again: evidence may have moved something."""
        batches = [one for one in self.active.values() if one.channel == channel and one.kind == "CHANNEL_BILL"]
        batches.sort(key=lambda one: (one.day, one.name))
        while True:
            ours = self.locals(channel)
            compared = [(group, bills.compare([row for _, row in group], ours)) for group in _sources(batches)]
            evidence = [
                (group[outcome.row][1], outcome.local)
                for group, outcomes in compared
                for outcome in outcomes
                if outcome.verdict == "EVIDENCE" and outcome.local is not None
            ]
            told = [
                reporter.answered(row, local, channel) for row, local in evidence if self._once(channel, row, local)
            ]
            for one in told:
                self.tell(one)
            if not told:
                break
        for key in ours.by_key:
            self.matched.pop(key, None)
            self.paired.pop(key, None)
        for group, outcomes in compared:
            for outcome in outcomes:
                self._bill_outcome(channel, group, outcome)
        self._absent(channel, ours, batches)

    def _once(self, channel: str, row: BillRow, local: Local) -> bool:
        name = reporter.event_id("bill", channel, local.key, row.transaction, row.amount, row.currency)
        new = name not in self._told
        self._told.add(name)
        return new

    def _bill_outcome(self, channel: str, group: list[tuple[Batch, BillRow]], outcome: Outcome) -> None:
        batch, row = group[outcome.row]
        place = f"{batch.name}:{row.line}"
        local = outcome.local
        if local is not None:
            self.paired[local.key] = None
        if outcome.verdict in {"QUIET", "EVIDENCE"}:
            return
        if outcome.verdict == "MATCHED":
            assert local is not None
            self.matched[local.key] = None
            if row.fee:
                self.tell(reporter.fee(local, channel, row.fee, row.currency, place))
            return
        if outcome.candidates:
            self._run.candidates[row.transaction or place] = list(outcome.candidates)
        self.tell(reporter.of_row(outcome, row, channel, place))

    def _absent(self, channel: str, ours: Locals, batches: list[Batch]) -> None:
        complete = {one.day for one in batches if one.complete}
        hold = self._run.contracts.get(channel).hold_days
        for local in ours.by_key.values():
            self.held.pop(local.key, None)
            paired = local.key in self.paired
            found = bills.missing(local, paired=paired, complete=complete, hold_days=hold)
            if found == "HELD":
                self.held[local.key] = None
            elif found == "LOCAL_ONLY" and local.day is not None:
                evidence = f"bills of {local.day.isoformat()} and {hold} days more"
                self.tell(reporter.difference("LOCAL_ONLY", channel, local.key, evidence, local=local))
            elif paired and self._is_missing(local):
                self.tell(reporter.agreement(local, channel, f"paired in a bill of {channel}"))

    def _is_missing(self, local: Local) -> bool:
        order = self._run.orders[local.order_id]
        return any(one.open and one.kind == "LOCAL_ONLY" and one.ref == local.key for one in order.conflicts)

    # -- settlement

    def _settle(self, batch: Batch) -> None:
        channel = batch.channel
        for outcome in settlements.compare(batch.parts, self.locals(channel)):
            row = batch.parts[outcome.row]
            if outcome.verdict == "EVIDENCE" and outcome.local is not None and row.transaction:
                self.tell(reporter.answered(row, outcome.local, channel))
        ours = self.locals(channel)
        for outcome in settlements.compare(batch.parts, ours):
            self._part(batch, outcome)
        for row in batch.parts:
            if row.kind == "FEE":
                place = f"{batch.name}:{row.line}"
                local = settlements.owner(row, ours)
                self.tell(reporter.fee_row(row, local, channel, place, batch.identity[0]))
        if batch.payout is None:
            return
        left = settlements.residual(batch.payout.amount, batch.parts)
        self.bank.residuals[batch.payout.ref] = left
        if settlements.unexplained(left, self._run.contracts.get(channel)):
            detail = f"the payout has {left} {batch.payout.currency} over its rows"
            told = reporter.difference(
                "UNEXPLAINED_RESIDUAL",
                channel,
                batch.payout.ref,
                batch.name,
                detail=detail,
                amount=left,
                currency=batch.payout.currency,
            )
            self.tell(told)
        self.bank.expect(batch.payout.ref, batch.payout.amount, batch.payout.currency, channel)
        self.tell(reporter.sent(batch.payout, channel))

    def _part(self, batch: Batch, outcome: Outcome) -> None:
        row, local = batch.parts[outcome.row], outcome.local
        place = f"{batch.name}:{row.line}"
        if outcome.verdict == "MATCHED":
            assert local is not None
            self.matched[local.key] = None
            if row.fee:
                self.tell(reporter.fee(local, batch.channel, row.fee, row.currency, place))
        elif outcome.verdict != "EVIDENCE":
            self.tell(reporter.of_row(outcome, row, batch.channel, place))

    def _settled(self, item: Item) -> None:
        """What the payout lists is at the bank."""
        for batch in self.active.values():
            if batch.payout is not None and batch.payout.ref == item.ref:
                ours = self.locals(batch.channel)
                for row in batch.parts:
                    local = settlements.owner(row, ours) if row.kind in {"PAY", "REFUND"} else None
                    if local is not None:
                        self.tell(reporter.settled(local, batch.channel, item.ref, item.ref))


def _payout(event: dict[str, Any]) -> Payout | None:
    if "payout" not in event:
        return None
    stated = event["payout"]
    return Payout(line=0, ref=stated["ref"], amount=stated["amount"], currency=stated["ccy"])


def _sources(batches: Iterable[Batch]) -> list[list[tuple[Batch, BillRow]]]:
    """Rows by the source that lists them: two sources of one channel list the same transactions lawfully."""
    groups: dict[tuple[str, str], list[tuple[Batch, BillRow]]] = {}
    for batch in batches:
        rows = groups.setdefault((batch.identity[0], batch.account), [])
        rows += [(batch, row) for row in batch.rows]
    return list(groups.values())


def _local(target: Payment | Operation, order_id: str, contract: Contract) -> Local:
    day = None
    if target.success_at is not None:
        day = businessday.day_of(moment(target.success_at), contract.tz, contract.cutoff)
    return Local(
        key=target.key,
        number=target.number,
        order_id=order_id,
        kind="PAY" if isinstance(target, Payment) else "REFUND",
        amount=target.amount,
        currency=target.currency,
        state=target.state,
        payment_no=target.payment_no,
        merchant=target.merchant,
        transaction=target.transaction,
        day=day,
    )


def _ties(entries: list[BankEntry], balances: list[Balances], contract: Contract) -> bool | None:
    """Whether each statement of the file adds up, as far as it says."""
    found = []
    for one in balances:
        its = [entry for entry in entries if len(balances) == 1 or entry.statement == one.statement]
        found.append(banking.ties(its, one.opening, one.closing, contract.reversal))
    stated = [tie for tie in found if tie is not None]
    return all(stated) if stated else None
