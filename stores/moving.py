"""Tables whose rows move on: one row for each thing, as it stands after the last decision about it.

What belongs to an order that is new to the books cannot be there yet, so it is copied in. Only the rest is inserted or moved on, by a
statement that looks for what is there: a row of it costs Postgres and the client twice as much. Both ways leave the same row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stores.told import columns

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from collections.abc import Set as AbstractSet

    from stores.schema import Connection
    from stores.told import Row


class Moving:
    """One table. `declared` are its columns with their types, `order_id` among them; `then` is what becomes of a row that is there."""

    def __init__(self, table: str, declared: str, then: str) -> None:
        pairs = [column.split() for column in declared.split(",")]
        self._table = table
        self._columns = [name.strip('"') for name, _ in pairs]
        self._order = self._columns.index("order_id")
        values = ", ".join(f"${place}::{kind}[]" for place, (_, kind) in enumerate(pairs, 1))
        names = ", ".join(name for name, _ in pairs)
        self._statement = f"INSERT INTO {table} AS known ({names}) SELECT * FROM unnest({values}) {then}"  # noqa: S608  our own text

    async def write(self, connection: Connection, rows: Collection[Row], new: AbstractSet[str]) -> None:
        """Write rows, in the order of the columns; none has the key of another. `new` are the orders that were not in the books."""
        fresh = [row for row in rows if row[self._order] in new]
        if fresh:
            await connection.copy_records_to_table(self._table, records=fresh, columns=self._columns)
        if len(fresh) < len(rows):
            await self._move(connection, (row for row in rows if row[self._order] not in new))

    async def _move(self, connection: Connection, rows: Iterable[Row]) -> None:
        await connection.execute(self._statement, *columns(rows))
