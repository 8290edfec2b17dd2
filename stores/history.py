"""What was imported, for whoever looks: batches, their versions, and what came of their lines."""

from __future__ import annotations

from datetime import date, datetime  # noqa: TC003  msgspec reads the annotations
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

if TYPE_CHECKING:
    from stores.schema import Connection

_BATCHES: Final = """
    SELECT id, source, account, business_date, zone, batch, version, channel, kind, file_name, encode(sha256, 'hex') AS sha256, size,
           parser, layout, imported_at, state, lines, rejected, complete, reason, encode(digest, 'hex') AS digest FROM recon_batches
"""


class Batch(Struct, frozen=True):
    """One version of a file, as it was imported. Hashes are hexadecimal."""

    id: int
    source: str
    account: str
    business_date: date
    zone: str
    batch: str
    version: int
    channel: str
    kind: str
    file_name: str
    sha256: str
    size: int
    parser: str
    layout: str
    imported_at: datetime
    state: str
    lines: int
    rejected: int
    complete: bool
    reason: str
    digest: str | None


class Whole(Struct, frozen=True):
    """A batch with all that is known of it; of many differences the first hundred."""

    batch: Batch
    versions: list[Batch]
    controls: list[tuple[str, str, str]]
    rejected_rows: list[tuple[int, str, str]]
    verdicts: dict[str, int]
    differences: list[tuple[int, str, str | None, str | None]]


async def batches(connection: Connection, channel: str | None, most: int) -> list[Batch]:
    """The last business days first."""
    rows = await connection.fetch(
        f"{_BATCHES} WHERE $1::text IS NULL OR channel = $1 ORDER BY business_date DESC, id DESC LIMIT $2",
        channel,
        most,
    )
    return [Batch(**dict(row)) for row in rows]


async def one(connection: Connection, batch_id: int) -> Batch | None:
    row = await connection.fetchrow(f"{_BATCHES} WHERE id = $1", batch_id)
    return None if row is None else Batch(**dict(row))


async def batch(connection: Connection, batch_id: int) -> Whole | None:
    found = await one(connection, batch_id)
    if found is None:
        return None
    versions = await connection.fetch(
        f"{_BATCHES} WHERE (source, account, business_date, batch) = ($1, $2, $3, $4) ORDER BY version",
        found.source, found.account, found.business_date, found.batch,
    )  # fmt: skip
    return Whole(
        batch=found,
        versions=[Batch(**dict(row)) for row in versions],
        controls=await _rows(
            connection,
            "SELECT name, coalesce(stated_text, stated::text), coalesce(read_text, read::text) FROM recon_controls WHERE batch_id = $1",
            batch_id,
        ),
        rejected_rows=await _rows(
            connection,
            "SELECT line, field, reason FROM recon_rejected_rows WHERE batch_id = $1 ORDER BY line LIMIT 100",
            batch_id,
        ),
        verdicts=dict(
            await _rows(
                connection,
                "SELECT verdict, count(*) FROM recon_results WHERE batch_id = $1 GROUP BY 1 ORDER BY 1",
                batch_id,
            )
        ),
        differences=await _rows(
            connection,
            "SELECT line, verdict, number, order_id FROM recon_results WHERE batch_id = $1 AND verdict NOT IN ('MATCHED', 'QUIET') "
            "ORDER BY line LIMIT 100",
            batch_id,
        ),
    )


async def _rows(connection: Connection, sql: str, batch_id: int) -> list[Any]:
    return [tuple(row) for row in await connection.fetch(sql, batch_id)]
