"""Double entries, written once and never changed: each adds up to nothing (R-180). A debit is above zero, a credit below."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from stores.schema import Connection
    from streams.domain.decisions import Decision

ENTRIES: Final = ("order_id", "seq", "line", "ref", "currency", "decision", "posted_at")
POSTINGS: Final = ("order_id", "seq", "line", "account", "amount")


class Ledger:
    """The entries of a batch."""

    def __init__(self) -> None:
        self.entries: list[tuple[Any, ...]] = []
        self.postings: list[tuple[Any, ...]] = []

    def see(self, decision: Decision) -> None:
        """What the decision posted, in its order."""
        for line, entry in enumerate(decision.ledger):
            key = (decision.order_id, decision.seq, line)
            self.entries.append((*key, entry.ref, entry.currency, decision.id, decision.decided_at))
            self.postings.append((*key, entry.dr, entry.amount))
            self.postings.append((*key, entry.cr, -entry.amount))

    async def write(self, connection: Connection) -> None:
        """Copy them in, postings first, as the tables demand. An entry that is there already is refused: nothing is posted twice."""
        if self.entries:
            await connection.copy_records_to_table("postings", records=self.postings, columns=POSTINGS)
            await connection.copy_records_to_table("ledger_entries", records=self.entries, columns=ENTRIES)
