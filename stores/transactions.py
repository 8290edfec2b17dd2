"""Whose a channel's transaction is. Orders live apart, so only here can it be seen that two of them claim one (R-040).

The first claim takes the key; another order's claim runs into it. Then every order that claims is remembered, and the holder is the
earliest of them, whichever was written first: so the tables do not depend on the order in which partitions are written. What is found
is told to the law as an event of each order (`untold`, `told`), which makes the discrepancy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from stores.told import columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stores.schema import Connection
    from streams.domain.decisions import Decision, Standing

_CLAIMS: Final = (
    "unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::timestamptz[]) "
    "AS claim (channel, transaction, order_id, merchant, number, claimed_at)"
)
_TAKE: Final = f"""
INSERT INTO transactions (channel, transaction, order_id, merchant, number, claimed_at)
SELECT * FROM {_CLAIMS} ORDER BY channel, transaction, claimed_at, order_id
ON CONFLICT (channel, transaction) DO NOTHING
"""  # noqa: S608  our own text
_SHARE: Final = f"""
WITH clash AS (
    SELECT claim.*, held.order_id AS o, held.merchant AS m, held.number AS n, held.claimed_at AS at
      FROM {_CLAIMS} JOIN transactions held USING (channel, transaction)
     WHERE held.order_id <> claim.order_id
)
INSERT INTO shared_transactions (channel, transaction, order_id, merchant, number, claimed_at)
SELECT channel, transaction, order_id, merchant, number, claimed_at FROM clash
 UNION SELECT channel, transaction, o, m, n, at FROM clash
 ORDER BY 1, 2, 3
ON CONFLICT (channel, transaction, order_id) DO NOTHING
RETURNING channel, transaction
"""  # noqa: S608  as above
_FIRST: Final = """
UPDATE transactions AS held SET (order_id, merchant, number, claimed_at) = (
    SELECT order_id, merchant, number, claimed_at FROM shared_transactions one
     WHERE (one.channel, one.transaction) = (held.channel, held.transaction) ORDER BY claimed_at, order_id LIMIT 1
)
  FROM unnest($1::text[], $2::text[]) AS clash (channel, transaction)
 WHERE (held.channel, held.transaction) = (clash.channel, clash.transaction)
"""
_UNTOLD: Final = """
SELECT one.channel, one.transaction, one.order_id, one.merchant, one.number, other.order_id AS other_order, other.number AS other_number
  FROM shared_transactions one
  JOIN shared_transactions other USING (channel, transaction)
 WHERE other.order_id <> one.order_id AND NOT EXISTS (
    SELECT FROM told_findings told
     WHERE (told.channel, told.transaction, told.order_id, told.other_order)
         = (one.channel, one.transaction, one.order_id, other.order_id)
 )
 ORDER BY channel, transaction, one.order_id, other_order LIMIT $1
"""
_TOLD: Final = """
INSERT INTO told_findings (channel, transaction, order_id, other_order)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) ON CONFLICT DO NOTHING
"""


class Shared(Struct, frozen=True, kw_only=True):
    """One order's view of a transaction that another order claims as well. Numbers are those of the operations that claim it."""

    channel: str
    transaction: str
    order_id: str
    merchant: str
    number: str
    other_order: str
    other_number: str


class Claims:
    """The first claim of each order of a batch to each transaction."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str, str], tuple[Any, ...]] = {}

    def see(self, decision: Decision, one: Standing, transaction: str) -> None:
        """An operation that names its channel's transaction claims it."""
        key = (one.channel, transaction, decision.order_id)
        if key not in self._rows:
            self._rows[key] = (*key, one.merchant or "", one.number, decision.decided_at)

    async def write(self, connection: Connection) -> bool:
        """Take what is free; remember what several claim. Whether there was such."""
        if not self._rows:
            return False
        claims = columns(self._rows.values())
        await connection.execute(_TAKE, *claims)
        clashes = {(row["channel"], row["transaction"]) for row in await connection.fetch(_SHARE, *claims)}
        if clashes:
            await connection.execute(_FIRST, *columns(sorted(clashes)))
        return bool(clashes)


async def untold(connection: Connection, most: int = 500) -> list[Shared]:
    """What was found and not told yet."""
    return [Shared(**row) for row in await connection.fetch(_UNTOLD, most)]


async def told(connection: Connection, findings: Sequence[Shared]) -> None:
    """Remember that these were told. They are told again if this is lost, which the law takes for a repetition."""
    rows = [(one.channel, one.transaction, one.order_id, one.other_order) for one in findings]
    if rows:
        await connection.execute(_TOLD, *columns(rows))
