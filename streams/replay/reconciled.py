"""What came of the files of a scenario, under the keys of `recon`, and of payouts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streams import businessday
from streams.domain.bills import is_money
from streams.domain.decisions import Decision

if TYPE_CHECKING:
    from streams.replay.files import Batch, Files
    from streams.replay.run import Run


def recon(run: Run) -> dict[str, Any] | None:
    """None where a scenario has neither files nor anything that is expected at a bank."""
    has_files = any(event["type"] == "FILE" for event in run.events)
    if not (has_files or run.given.expected or run.given.payouts):
        return None
    files = run.files
    active = list(files.active.values())
    booked = files.bank.booked(
        name for batch in active for name, entry in batch.entries.items() if entry.status == "BOOK"
    )
    rows = [row for batch in active for row in batch.rows]
    totals: dict[str, int] = {}
    for entry in booked.values():
        totals[entry.account] = totals.get(entry.account, 0) + entry.amount
    billed = sum((1 if row.kind == "PAY" else -1) * abs(row.amount) for row in rows if is_money(row))
    lines = [line for entry in booked.values() for line in entry.lines]
    matched = [*files.matched, *files.bank.matched]
    return {
        "matched": [key for key in matched if key not in run.begun.generated],
        "held": [key for key in files.held if key not in run.begun.generated],
        "attached": _attached(run),
        "refs": list(dict.fromkeys(line.references[0] for line in lines if line.references)),
        "lines": len(lines) + len(rows),
        "entries": len(booked),
        "sum": sum(totals.values()) + billed,
        "by_account": totals,
        "open": {ref: item.open for ref, item in files.bank.items.items()},
        "balance": files.balance,
        "complete": files.complete,
        "control_totals": files.controls,
        "versions": {batch.name: batch.version for batch in active},
        "business_date": _days(run, files),
        "business_day": {batch.name: _bounds(run, batch) for batch in active},
        "residual": files.bank.residuals,
        "amounts": files.bank.amounts,
    }


def payouts(run: Run) -> dict[str, str]:
    return {order.payout.ref: order.payout.state for order in run.orders.values() if order.payout is not None}


def _attached(run: Run) -> list[str]:
    found = [one.detail for one in run.messages if isinstance(one, Decision) and one.rule == "attached"]
    return list(dict.fromkeys(found))


def _days(run: Run, files: Files) -> dict[str, str]:
    channels = {batch.channel for batch in files.active.values()} | {one.channel for one in run.given.ops}
    return {
        local.key: local.day.isoformat()
        for channel in channels
        for local in files.locals(channel).by_key.values()
        if local.day is not None and local.key not in run.begun.generated
    }


def _bounds(run: Run, batch: Batch) -> list[str]:
    contract = run.contracts.get(batch.channel)
    start, end = businessday.bounds(batch.day, contract.tz, contract.cutoff)
    return [f"{one:%Y-%m-%dT%H:%M:%SZ}" for one in (start, end)]
