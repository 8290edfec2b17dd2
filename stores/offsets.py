"""How far the books are: the next record of each input, and the last decision of each order.

Both change in the transaction that writes what they speak of. A writer moves an offset only from the value that it has read itself:
the row's lock lets one through, and whoever lost the partition meanwhile finds another value, is `Overtaken`, and writes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from stores.moving import Moving
from stores.told import DecisionLostError, columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stores.schema import Connection
    from stores.told import Told

Place: TypeAlias = tuple[str, int]
"""Topic and partition."""


class Overtaken(Exception):  # noqa: N818  somebody else's progress, not an error
    """Another projector has written what we were about to write; the text says where."""


_READ: Final = """
SELECT topic, partition, next_offset FROM offsets
  JOIN unnest($1::text[], $2::int[]) AS wanted (topic, partition) USING (topic, partition)
"""
_BEGIN: Final = """
INSERT INTO offsets (topic, partition, next_offset) SELECT * FROM unnest($1::text[], $2::int[], $3::bigint[])
ON CONFLICT (topic, partition) DO NOTHING
"""
_MOVE: Final = """
UPDATE offsets SET next_offset = moved.after
  FROM unnest($1::text[], $2::int[], $3::bigint[], $4::bigint[]) AS moved (topic, partition, before, after)
 WHERE (offsets.topic, offsets.partition, offsets.next_offset) = (moved.topic, moved.partition, moved.before)
"""


async def read(connection: Connection, places: Sequence[Place]) -> dict[Place, int]:
    """The next offset of each place that is known."""
    if not places:
        return {}
    return {(row[0], row[1]): row[2] for row in await connection.fetch(_READ, *columns(places))}


async def begin(connection: Connection, first: Mapping[Place, int]) -> None:
    """Begin places that are not known yet at these offsets."""
    if first:
        await connection.execute(_BEGIN, *columns((*place, offset) for place, offset in sorted(first.items())))


async def move(connection: Connection, moved: Mapping[Place, tuple[int, int]]) -> None:
    """Move each place from what was read to what comes next: the first statement of a transaction. Raises `Overtaken`."""
    done = await connection.execute(
        _MOVE, *columns((*place, before, after) for place, (before, after) in sorted(moved.items()))
    )
    if done != f"UPDATE {len(moved)}":
        raise Overtaken(f"{done.removeprefix('UPDATE ')} of {len(moved)} offsets were as they had been read")


# -- orders

_KNOWN: Final = "SELECT order_id, seq FROM orders WHERE order_id = ANY($1::text[])"
_ORDERS: Final = Moving("orders", """
    order_id text, seq bigint, updated_at timestamptz
""", """
ON CONFLICT (order_id) DO UPDATE SET seq = EXCLUDED.seq, updated_at = EXCLUDED.updated_at WHERE known.seq < EXCLUDED.seq
""")  # fmt: skip


class Fresh(NamedTuple):
    """Decisions that are not in the books yet, in their order; `orders` are those of which nothing was there before."""

    told: list[Told]
    orders: set[str]


async def fresh(connection: Connection, told: Sequence[Told], *, whole: bool = True) -> Fresh:
    """Those decisions that are not in the books yet; the orders are moved on past them.

    `whole`: the topic still has its beginning, so that an order begins with its first decision. Raises `DecisionLostError` for a gap.
    """
    orders = {one.decision.order_id for one in told}
    last: dict[str, int] = dict(await connection.fetch(_KNOWN, list(orders)))
    orders.difference_update(last)
    new: list[Told] = []
    moved: dict[str, tuple[str, int, object]] = {}
    for one in told:
        decision = one.decision
        known = last.get(decision.order_id, 0)
        if decision.seq <= known:
            continue
        if decision.seq != known + 1 and (known or whole):
            raise DecisionLostError(
                f"order {decision.order_id!r}: decision {decision.seq} came after {known}; what is between is lost: "
                "run `concord audit stream`, then `concord projector rebuild`"
            )
        last[decision.order_id] = decision.seq
        moved[decision.order_id] = (decision.order_id, decision.seq, decision.decided_at)
        new.append(one)
    await _ORDERS.write(connection, moved.values(), orders)
    return Fresh(new, orders)
