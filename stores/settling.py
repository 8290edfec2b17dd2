"""Settlement files and bank lines in Postgres: what a payout lists, what is expected at the bank, and every bank line once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, json

from stores.matching import local
from streams.domain.banking import BankLine, Item, Placed
from streams.domain.bills import Locals
from streams.domain.lines import BankEntry, Payout, SettlementRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stores.schema import Connection

_entry: Final = json.Decoder(BankEntry).decode


class Settlement(Struct, frozen=True):
    """An active settlement file with its rows."""

    batch_id: int
    batch: str
    source: str
    channel: str
    rows: list[SettlementRow]
    payouts: list[Payout]


class Booked(Struct, frozen=True):
    """A booked entry of an active bank file that was not matched yet. `known`: an entry without details of it was."""

    batch_id: int
    batch: str
    account: str
    name: tuple[str, ...]
    entry: BankEntry
    known: bool
    posted: bool


async def settlements(connection: Connection, channel: str) -> list[Settlement]:
    """The active settlement files of a channel whose payouts are not settled."""
    batches = await connection.fetch(
        "SELECT id, batch, source FROM recon_batches b WHERE channel = $1 AND kind = 'SETTLEMENT' AND state = 'active' AND NOT EXISTS ("
        "SELECT FROM recon_payouts p JOIN recon_items i ON i.channel = $1 AND i.ref = p.ref WHERE p.batch_id = b.id AND i.settled) "
        "ORDER BY business_date, batch",
        channel,
    )
    return await _read(connection, channel, batches)


async def listed(connection: Connection, channel: str, payout: str) -> list[Settlement]:
    """The active settlement files that list a payout."""
    batches = await connection.fetch(
        "SELECT b.id, b.batch, b.source FROM recon_batches b JOIN recon_payouts p ON p.batch_id = b.id "
        "WHERE b.channel = $1 AND b.state = 'active' AND p.ref = $2 ORDER BY b.business_date, b.batch",
        channel,
        payout,
    )
    return await _read(connection, channel, batches)


async def _read(connection: Connection, channel: str, batches: Sequence[Any]) -> list[Settlement]:
    found = []
    for batch in batches:
        rows = await connection.fetch(
            "SELECT * FROM recon_settlement_lines WHERE batch_id = $1 ORDER BY line", batch["id"]
        )
        payouts = await connection.fetch("SELECT * FROM recon_payouts WHERE batch_id = $1 ORDER BY line", batch["id"])
        found.append(
            Settlement(
                batch["id"], batch["batch"], batch["source"], channel, [_row(row) for row in rows], [_payout(row) for row in payouts]
            )
        )  # fmt: skip
    return found


def _row(row: Any) -> SettlementRow:
    return SettlementRow(**{name: row[name] for name in SettlementRow.__struct_fields__})


def _payout(row: Any) -> Payout:
    return Payout(**{name: row[name] for name in Payout.__struct_fields__})


async def ours(connection: Connection, channel: str, rows: Iterable[SettlementRow]) -> Locals:
    """Our operations that these rows may name."""
    transactions = sorted({row.transaction for row in rows if row.transaction})
    numbers = sorted({row.operation_no for row in rows if row.operation_no})
    found = await connection.fetch(
        "SELECT 'PAY' AS kind, merchant, payment_no AS number, order_id, payment_no, amount, currency, state, transaction "
        "FROM payments WHERE channel = $1 AND (transaction = ANY($2::text[]) OR payment_no = ANY($3::text[])) "
        "UNION ALL SELECT 'REFUND', merchant, number, order_id, payment_no, amount, currency, state, transaction "
        "FROM operations WHERE kind = 'REFUND' AND channel = $1 AND (transaction = ANY($2::text[]) OR number = ANY($3::text[]))",
        channel, transactions, numbers,
    )  # fmt: skip
    return Locals([local(row) for row in found])


# -- items


async def expect(connection: Connection, channel: str, payout: Payout) -> None:
    """A payout that a settlement file lists; what has come stays."""
    await connection.execute(
        "INSERT INTO recon_items (ref, channel, amount, currency, payout) VALUES ($1, $2, $3, $4, true) "
        "ON CONFLICT (channel, ref) DO UPDATE SET amount = excluded.amount, currency = excluded.currency",
        payout.ref, channel, payout.amount, payout.currency,
    )  # fmt: skip


async def items(connection: Connection, references: Sequence[str]) -> list[Item]:
    """What is still expected, and whatever these references name."""
    rows = await connection.fetch(
        "SELECT * FROM recon_items WHERE came <> amount OR ref = ANY($1::text[]) ORDER BY channel, ref",
        list(references),
    )
    return [
        Item(
            ref=row["ref"], amount=row["amount"], currency=row["currency"], channel=row["channel"] or None, payout=row["payout"],
            came=row["came"],
        )
        for row in rows
    ]  # fmt: skip


async def came(connection: Connection, item: Item, *, bounced: bool) -> None:
    """What has come of an item so far, and whether it left again."""
    await connection.execute(
        "UPDATE recon_items SET came = $3, settled = settled OR $3 = amount, bounced = bounced OR $4 WHERE channel = $1 AND ref = $2",
        item.channel or "", item.ref, item.came, bounced,
    )  # fmt: skip


# -- bank lines


async def booked(connection: Connection, channel: str) -> list[Booked]:
    """Booked entries of active files that are not known yet, and details of entries that were known without."""
    rows = await connection.fetch(
        "SELECT DISTINCT ON (b.business_date, b.batch, e.line) b.id, b.batch, b.account, e.name, e.entry, r.detailed, r.verdict "
        "FROM recon_bank_entries e JOIN recon_batches b ON b.id = e.batch_id LEFT JOIN recon_bank_results r ON r.entry = e.name "
        "WHERE b.channel = $1 AND b.state = 'active' AND (r.name IS NULL OR NOT r.detailed) ORDER BY b.business_date, b.batch, e.line",
        channel,
    )
    found = []
    for row in rows:
        entry = _entry(row["entry"])
        known = row["verdict"] is not None
        if entry.status == "BOOK" and (not known or entry.details):
            posted = row["verdict"] in {"POSTED", "BOUNCED", "FOREIGN"}
            found.append(Booked(row["id"], row["batch"], row["account"], tuple(row["name"]), entry, known, posted))
    return found


async def keep(
    connection: Connection, one: Booked, lines: Sequence[tuple[BankLine, Placed | None]], run_id: int
) -> None:
    """Write down what came of an entry's lines; those of an entry that was known as a whole replace it."""
    await connection.execute("DELETE FROM recon_bank_results WHERE entry = $1", list(one.name))
    await connection.executemany(
        "INSERT INTO recon_bank_results (name, entry, batch_id, line, account, amount, currency, verdict, channel, item, candidates, "
        "detailed, run_id) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
        [
            (
                list(line.name), list(line.entry), one.batch_id, one.entry.line, line.account, line.amount, line.currency,
                "POSTED" if placed is None and one.posted else "IMPORTED" if placed is None else placed.verdict,
                "" if placed is None or placed.item is None else placed.item.channel or "",
                None if placed is None or placed.item is None else placed.item.ref,
                None if placed is None else list(placed.candidates) or None, bool(one.entry.details), run_id,
            )
            for line, placed in lines
        ],
    )  # fmt: skip
