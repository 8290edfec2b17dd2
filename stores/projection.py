"""The books, one batch at a time: everything that a batch of records says, and how far it goes, in one transaction.

What is only ever added is copied in; what moves on is one statement for each table. A batch that was written is never written again,
because its offsets move with it; a decision that is in the books already is passed over by its order's number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence  # noqa: TC003  msgspec reads the annotations
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from stores import deliveries, offsets
from stores.deliveries import DeadLetter, RawMessage  # noqa: TC001  msgspec reads the annotations
from stores.discrepancies import Discrepancies
from stores.inbox import CardEntries, Inbox
from stores.ledger import Ledger
from stores.operations import Operations
from stores.payments import Attempts, Payments
from stores.told import Told  # noqa: TC001  msgspec reads the annotation
from stores.transactions import Claims

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

    from stores.schema import Connection

DECISIONS: Final = (
    "order_id", "seq", "id", "verdict", "rule", "source", "word", "evidence", "merchant", "number", "before", "after", "detail",
    "marks", "messages", "event_key", "payload", "cause", "trace", "decided_at",
)  # fmt: skip


class Rows:
    """What decisions say, as the rows of every table. It depends on nothing that the books hold, so it may be made ahead."""

    def __init__(self, told: Iterable[Told] = ()) -> None:
        self._decisions: list[tuple[Any, ...]] = []
        self._payments, self._attempts, self._operations = Payments(), Attempts(), Operations()
        self._inbox, self._cards, self._claims = Inbox(), CardEntries(), Claims()
        self._ledger, self._discrepancies = Ledger(), Discrepancies()
        for one in told:
            self.see(one)

    def see(self, told: Told) -> None:
        """The next decision, in the order of its topic."""
        one = told.decision
        self._decisions.append((
            one.order_id, one.seq, one.id, one.verdict, one.rule, one.source, one.word, one.evidence, one.merchant or "",
            one.payment_no or None, one.before, one.after, one.detail, one.marks, one.messages, one.key, one.payload,
            told.cause, told.trace, one.decided_at,
        ))  # fmt: skip
        self._inbox.see(told)
        if one.source == "card":
            self._cards.see(one)
        if one.ledger:
            self._ledger.see(one)
        if one.discrepancies:
            self._discrepancies.see(one)
        for standing in one.operations:
            (self._payments if standing.kind == "PAY" else self._operations).see(one, standing)
            if standing.asked is not None:
                self._attempts.see(one, standing, standing.asked)
            if standing.transaction is not None:
                self._claims.see(one, standing, standing.transaction)

    async def write(self, connection: Connection, new: AbstractSet[str]) -> bool:
        """Write them; `new` are the orders of which nothing was there. Whether a transaction stands for two orders."""
        await connection.copy_records_to_table("decisions", records=self._decisions, columns=DECISIONS)
        for part in (self._payments, self._attempts, self._operations, self._inbox, self._cards):
            await part.write(connection, new)
        await self._ledger.write(connection)
        await self._discrepancies.write(connection)
        return await self._claims.write(connection)


class Batch(Struct, frozen=True, kw_only=True):
    """What was read. `moved` is, for each place, the offset that it was read from and the next one. `whole`: see `offsets.fresh`.

    `rows` are those of all of `told`, made ahead, or None.
    """

    moved: Mapping[tuple[str, int], tuple[int, int]]
    told: Sequence[Told] = ()
    raw: Sequence[RawMessage] = ()
    dead: Sequence[DeadLetter] = ()
    whole: bool = True
    rows: Rows | None = None


async def write(connection: Connection, batch: Batch) -> bool:
    """Write the batch whole, or not at all. Whether it found a transaction on two orders.

    Raises `Overtaken`, `DecisionLostError` and what asyncpg raises; after those of `pool.LOST` the outcome is unknown until the
    offsets are read again.
    """
    async with connection.transaction():
        await offsets.move(connection, batch.moved)
        await deliveries.write(connection, batch.raw, batch.dead)
        if not batch.told:
            return False
        told, orders = await offsets.fresh(connection, batch.told, whole=batch.whole)
        if not told:
            return False
        rows = batch.rows if batch.rows is not None and len(told) == len(batch.told) else Rows(told)
        return await rows.write(connection, orders)
