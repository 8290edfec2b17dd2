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

    from stores.schema import Connection

DECISIONS: Final = (
    "order_id", "seq", "id", "verdict", "rule", "source", "word", "evidence", "merchant", "number", "before", "after", "detail",
    "marks", "messages", "event_key", "payload", "cause", "trace", "decided_at",
)  # fmt: skip


class Batch(Struct, frozen=True, kw_only=True):
    """What was read. `moved` is, for each place, the offset that it was read from and the next one. `whole`: see `offsets.fresh`."""

    moved: Mapping[tuple[str, int], tuple[int, int]]
    told: Sequence[Told] = ()
    raw: Sequence[RawMessage] = ()
    dead: Sequence[DeadLetter] = ()
    whole: bool = True


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
        return await _decisions(connection, await offsets.fresh(connection, batch.told, whole=batch.whole))


async def _decisions(connection: Connection, told: Sequence[Told]) -> bool:
    if not told:
        return False
    payments, attempts, operations, claims = Payments(), Attempts(), Operations(), Claims()
    inbox, cards, ledger, discrepancies = Inbox(), CardEntries(), Ledger(), Discrepancies()
    for one in told:
        decision = one.decision
        inbox.see(one)
        cards.see(decision)
        ledger.see(decision)
        discrepancies.see(decision)
        for standing in decision.operations:
            attempts.see(decision, standing)
            claims.see(decision, standing)
            (payments if standing.kind == "PAY" else operations).see(decision, standing)
    await connection.copy_records_to_table("decisions", records=_rows(told), columns=DECISIONS)
    for part in (payments, attempts, operations, inbox, cards, ledger, discrepancies):
        await part.write(connection)
    return await claims.write(connection)


def _rows(told: Iterable[Told]) -> list[tuple[Any, ...]]:
    return [
        (
            one.order_id, one.seq, one.id, one.verdict, one.rule, one.source, one.word, one.evidence, one.merchant or "",
            one.payment_no or None, one.before, one.after, one.detail, one.marks, one.messages, one.key, one.payload,
            each.cause, each.trace, one.decided_at,
        )
        for each in told
        for one in (each.decision,)
    ]  # fmt: skip
