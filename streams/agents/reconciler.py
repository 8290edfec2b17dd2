"""Reconciliation of what was imported: every layer in one transaction with what is to be told of it, and then the telling.

Nothing is decided about money here. Lines are compared by `stores.matching` and `streams.domain`; what comes of them is told to the law as
events, at least once each and under ids that make a repetition one. A crash leaves the run undone, or done with its events waiting.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import structs

from stores import matching, outbox, settling
from streams import businessday
from streams.cloudevents import attributes
from streams.domain import banking, bills, reporter
from streams.domain import settlements as compared
from streams.domain.lines import BillRow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from aiokafka import AIOKafkaProducer

    from stores.schema import Connection
    from stores.settling import Booked, Settlement
    from streams.domain.banking import Item
    from streams.domain.contract import Contract
    from streams.domain.events import Event

PORTION: Final = 500
_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended('recon-run', 4041))"


class Reconciler:
    """`contracts` say zone, cut-off, hold days and how a bank marks reversals."""

    def __init__(self, connection: Connection, contracts: Mapping[str, Contract], default: Contract) -> None:
        self._connection, self._contracts, self._default = connection, contracts, default

    def contract(self, channel: str) -> Contract:
        return self._contracts.get(channel, self._default)

    async def channels(self) -> list[str]:
        """Channels with files that count; those that pay before the banks that are paid."""
        rows = await self._connection.fetch(
            "SELECT channel, bool_or(kind IN ('CHANNEL_BILL', 'SETTLEMENT')) AS pays FROM recon_batches WHERE state = 'active' GROUP BY 1"
        )
        return [row["channel"] for row in sorted(rows, key=lambda row: (not row["pays"], row["channel"]))]

    async def run(self, channel: str, at: datetime) -> dict[str, int]:
        """Compare everything of a channel that is not settled; how much came to what."""
        async with self._connection.transaction():
            await self._connection.execute(_LOCK)
            run_id = await self._connection.fetchval(
                "INSERT INTO recon_runs (channel, rules, ran_at, outcome) VALUES ($1, $2, $3, '{}') RETURNING id",
                channel,
                matching.RULES,
                at,
            )
            found = await self._bills(channel, run_id)
            found.update(await self._settlements(channel, run_id))
            found.update(await self._bank(channel, run_id))
            outcome = dict(sorted(found.items()))
            await self._connection.execute(
                "UPDATE recon_runs SET outcome = $2 WHERE id = $1", run_id, msgspec.json.encode(outcome).decode()
            )
        return outcome

    async def _tell(self, events: Sequence[Event]) -> None:
        await outbox.put(self._connection, events)

    # -- bills

    async def _bills(self, channel: str, run_id: int) -> Counter[str]:
        found = await matching.judge(self._connection, channel, run_id)
        async for rows in matching.findings(self._connection, channel, run_id):
            await self._tell([event for row in rows for event in _told(row)])
        await self._absent(channel, run_id, found)
        async for rows in matching.fees(self._connection, channel):
            told: list[Event] = [
                reporter.fee(
                    matching.local(row), channel, row["fee"], row["line_currency"], f"{row['batch']}:{row['line']}"
                )
                for row in rows
            ]
            await self._tell(told)
        return found

    async def _absent(self, channel: str, run_id: int, found: Counter[str]) -> None:
        contract = self.contract(channel)
        complete = await matching.complete_days(self._connection, channel)
        hold = timedelta(days=contract.hold_days)
        days = [
            matching.Day(
                day,
                *businessday.bounds(day, contract.tz, contract.cutoff),
                "LOCAL_ONLY" if day + hold in set(complete) else "HELD",
            )
            for day in complete
        ]
        came = await matching.absent(self._connection, channel, days, run_id)
        for row in came:
            if row["verdict"] == "LOCAL_ONLY":
                one = matching.missed(row)
                await self._tell([reporter.agreement(one, channel, f"paired in a bill of {channel}")])
        for row in await matching.missing(self._connection, channel):
            evidence = f"bills of {row['day'].isoformat()} and {contract.hold_days} days more"
            one = matching.local(row)
            await self._tell([reporter.difference("LOCAL_ONLY", channel, one.key, evidence, local=one)])
            found["LOCAL_ONLY"] += 1

    # -- settlement

    async def _settlements(self, channel: str, run_id: int) -> Counter[str]:
        found: Counter[str] = Counter()
        for one in await settling.settlements(self._connection, channel):
            await self._settlement(one, found, run_id)
        return found

    async def _settlement(self, one: Settlement, found: Counter[str], run_id: int) -> None:
        ours = await settling.ours(self._connection, one.channel, one.rows)
        outcomes = compared.compare(one.rows, ours)
        told: list[Event] = []
        for outcome in outcomes:
            found[f"SETTLEMENT {outcome.verdict}"] += 1
            told += _part(one, outcome)
        for row in one.rows:
            if row.kind == "FEE":
                place = f"{one.batch}:{row.line}"
                told.append(reporter.fee_row(row, compared.owner(row, ours), one.channel, place, one.source))
        await matching.put(
            self._connection, one.batch_id, [(one.rows[each.row].line, each) for each in outcomes], run_id
        )
        if len(one.payouts) == 1:
            (payout,) = one.payouts
            left = compared.residual(payout.amount, one.rows)
            if left and not compared.unexplained(left, self.contract(one.channel)):
                found["ROUNDING"] += 1
            elif left:
                found["UNEXPLAINED_RESIDUAL"] += 1
                told.append(
                    reporter.difference(
                        "UNEXPLAINED_RESIDUAL", one.channel, payout.ref, one.batch, amount=left, currency=payout.currency,
                        detail=f"the payout has {left} {payout.currency} over its rows",
                    )
                )  # fmt: skip
        for payout in one.payouts:
            await settling.expect(self._connection, one.channel, payout)
            told.append(reporter.sent(payout, one.channel))
        await self._tell(told)

    # -- bank

    async def _bank(self, channel: str, run_id: int) -> Counter[str]:
        found: Counter[str] = Counter()
        contract = self.contract(channel)
        waiting = await settling.booked(self._connection, channel)
        references = {ref for one in waiting for ref in (*one.entry.references, *_details(one))}
        items = {(item.channel, item.ref): item for item in await settling.items(self._connection, sorted(references))}
        counted: Counter[tuple[str, str]] = Counter()
        for one in waiting:
            account = one.entry.account or one.account
            lines = banking.lines_of(
                one.entry, one.name, account=account, place=f"{one.batch}:{one.entry.line}", reversal=contract.reversal
            )
            counted.update((one.batch, line.references[0]) for line in lines if line.references)
            await self._residual(one, lines[0].ref, channel, contract, found)
            placed: list[tuple[banking.BankLine, banking.Placed | None]] = []
            for line in lines:
                if not contract.match or one.posted:
                    placed.append((line, None))
                    continue
                placed.append((line, await self._place(line, items, channel)))
                found[f"BANK {placed[-1][1].verdict if placed[-1][1] else ''}"] += 1
            await settling.keep(self._connection, one, placed, run_id)
        for (batch, reference), count in counted.items():
            if count > 1:
                detail = f"{count} lines of {batch} name it"
                await self._tell([reporter.difference("REFERENCE_REUSED", channel, reference, batch, detail=detail)])
        return found

    async def _residual(self, one: Booked, ref: str, channel: str, contract: Contract, found: Counter[str]) -> None:
        left = banking.residual(one.entry, contract.reversal)
        if left:
            found["UNEXPLAINED_RESIDUAL"] += 1
            detail = f"the entry has {left} {one.entry.currency} over its details and charges"
            told = reporter.difference(
                "UNEXPLAINED_RESIDUAL", channel, ref, one.batch, detail=detail, amount=left, currency=one.entry.currency
            )
            await self._tell([told])

    async def _place(self, line: banking.BankLine, items: dict[Any, Item], channel: str) -> banking.Placed:
        placed = banking.place(line, list(items.values()))
        item = placed.item
        if item is not None and placed.verdict in {"POSTED", "BOUNCED"}:
            bounced = placed.verdict == "BOUNCED"
            await self._tell(reporter.moved(line, item, bounced=bounced))
            now = item if bounced else structs.replace(item, came=item.came + line.amount)
            await self._came(items, now, bounced=bounced)
            return placed
        if item is not None and placed.verdict == "FOREIGN":
            await self._came(items, structs.replace(item, came=item.amount), bounced=False)
        await self._tell([reporter.unplaced(line, placed, channel)])
        return placed

    async def _came(self, items: dict[Any, Item], now: Item, *, bounced: bool) -> None:
        items[now.channel, now.ref] = now
        await settling.came(self._connection, now, bounced=bounced)
        if now.open == 0 and not bounced and now.channel is not None:
            for one in await settling.listed(self._connection, now.channel, now.ref):
                ours = await settling.ours(self._connection, now.channel, one.rows)
                owners = [compared.owner(row, ours) for row in one.rows if row.kind in {"PAY", "REFUND"}]
                await self._tell(
                    [reporter.settled(owner, now.channel, now.ref, now.ref) for owner in owners if owner is not None]
                )


def _details(one: Booked) -> list[str]:
    return [ref for detail in one.entry.details for ref in detail.references]


def _told(row: Any) -> list[Event]:
    """What is told of a bill line: evidence for an open operation, or each way in which it differs."""
    place = f"{row['batch']}:{row['line']}"
    bill = BillRow(
        line=row["line"], kind=row["line_kind"], amount=row["line_amount"], currency=row["line_currency"], status=row["status"],
        transaction=row["line_transaction"], operation_no=row["operation_no"], funds=row["funds"], fee=row["fee"],
    )  # fmt: skip
    local = None if row["order_id"] is None else matching.local(row)
    if row["verdict"] == "EVIDENCE" and local is not None:
        return [reporter.answered(bill, local, row["channel"])]
    candidates = tuple(row["candidates"] or ())
    return [
        reporter.of_row(bills.Outcome(verdict, 0, local, candidates), bill, row["channel"], place)
        for verdict in row["verdict"].split("+")
    ]


def _part(one: Settlement, outcome: bills.Outcome) -> list[Event]:
    """What is told of a row of a settlement file."""
    row, local = one.rows[outcome.row], outcome.local
    place = f"{one.batch}:{row.line}"
    if outcome.verdict == "EVIDENCE" and local is not None:
        return [reporter.answered(row, local, one.channel)] if row.transaction else []
    if outcome.verdict == "MATCHED" and local is not None:
        return [reporter.fee(local, one.channel, row.fee, row.currency, place)] if row.fee else []
    return [reporter.of_row(outcome, row, one.channel, place)]


async def publish(connection: Connection, producer: AIOKafkaProducer, topic: str, now: datetime) -> int:
    """Send what waits, oldest first, and mark it; how many. What a crash leaves unmarked is sent again, as a repetition."""
    total = 0
    while waiting := await outbox.waiting(connection, PORTION):
        futures = [
            await producer.send(
                topic,
                one.body.encode(),
                one.order_id.encode(),
                headers=attributes(
                    one.event_id if len(one.event_id) <= 64 else reporter.event_id(one.body),
                    str(msgspec.json.decode(one.body)["type"]),
                    "concord-recon",
                    now.isoformat(),
                ),
            )
            for one in waiting
        ]
        for future in futures:
            await future
        await outbox.sent(connection, [one.seq for one in waiting], now)
        total += len(waiting)
    return total
