"""What people see and say about discrepancies: the projection's rows beside `review_claims` and `review_comments`.

The projection can be built again, so nothing of people is kept in it and no key leads there. It is read, never written.
"""

from __future__ import annotations

from datetime import datetime  # noqa: TC003  msgspec reads the annotation
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct

from stores import audit

if TYPE_CHECKING:
    from stores.schema import Connection

MOST: Final = 200


class Item(Struct, frozen=True, kw_only=True):
    """A discrepancy as it stands, and who works on it. `deadline` is when its owner should have; times are UTC."""

    id: str
    revision: int
    status: str
    kind: str
    severity: str
    ref: str
    order_id: str
    payment_no: str | None
    evidence: str
    owner: str
    detail: str
    deadline: datetime | None
    opened_at: datetime
    updated_at: datetime
    claimed_by: str | None


class Comment(Struct, frozen=True, kw_only=True):
    """What somebody said about it."""

    number: int
    author: str
    said_at: datetime
    text: str


class Wish(Struct, frozen=True, kw_only=True):
    """Which discrepancies to list; None: any. `overdue` asks for those whose deadline is before it, `opened_before` for old ones."""

    resolved: bool = False
    severity: str | None = None
    kind: str | None = None
    owner: str | None = None
    order_id: str | None = None
    claimed_by: str | None = None
    opened_before: datetime | None = None
    overdue: datetime | None = None
    most: int = MOST
    skip: int = 0


_ITEM: Final = """
SELECT d.id, d.revision, d.status, d.kind, d.severity, d.ref, d.order_id, d.payment_no, d.evidence, d.owner, d.detail, d.deadline,
       d.opened_at, d.updated_at, c.reviewer AS claimed_by
FROM books.discrepancies d LEFT JOIN review_claims c ON c.discrepancy = d.id"""
_LIST: Final = (
    _ITEM
    + """
WHERE (d.status = 'resolved') = $1 AND ($2::text IS NULL OR d.severity = $2) AND ($3::text IS NULL OR d.kind = $3)
  AND ($4::text IS NULL OR d.owner = $4) AND ($5::text IS NULL OR d.order_id = $5) AND ($6::text IS NULL OR c.reviewer = $6)
  AND ($7::timestamptz IS NULL OR d.opened_at < $7) AND ($8::timestamptz IS NULL OR d.deadline < $8)
ORDER BY CASE d.severity WHEN 'high' THEN 0 ELSE 1 END, d.deadline NULLS LAST, d.opened_at, d.id LIMIT $9 OFFSET $10"""
)
_ONE: Final = _ITEM + " WHERE d.id = $1"
_COMMENTS: Final = (
    "SELECT number, author, said_at, text FROM review_comments WHERE discrepancy = $1 ORDER BY number LIMIT 1000"
)
_CLAIM: Final = """
INSERT INTO review_claims (discrepancy, reviewer, claimed_at) SELECT id, $2, $3 FROM books.discrepancies WHERE id = $1
ON CONFLICT (discrepancy) DO UPDATE SET reviewer = excluded.reviewer, claimed_at = excluded.claimed_at
WHERE $4 OR review_claims.reviewer = $2"""
_COMMENT: Final = """
INSERT INTO review_comments (discrepancy, number, author, said_at, text)
SELECT $1, coalesce(max(number), 0) + 1, $2, $3, $4 FROM review_comments WHERE discrepancy = $1 RETURNING number"""


async def listed(connection: Connection, wish: Wish) -> list[Item]:
    """The gravest first, then what is due first, then the oldest."""
    rows = await connection.fetch(
        _LIST, wish.resolved, wish.severity, wish.kind, wish.owner, wish.order_id, wish.claimed_by, wish.opened_before,
        wish.overdue, min(wish.most, MOST), wish.skip,
    )  # fmt: skip
    return [Item(**row) for row in rows]


async def one(connection: Connection, discrepancy: str) -> Item | None:
    """One of them, resolved ones too."""
    row = await connection.fetchrow(_ONE, discrepancy)
    return None if row is None else Item(**row)


async def comments(connection: Connection, discrepancy: str) -> list[Comment]:
    """The first thousand, in order."""
    return [Comment(**row) for row in await connection.fetch(_COMMENTS, discrepancy)]


async def claim(
    connection: Connection, discrepancy: str, person: str, at: datetime, *, over: bool
) -> Literal["claimed", "held", "not-found"]:
    """Take it to work on; `over`: also from another one. Whoever has it may claim it again."""
    async with connection.transaction():
        if await connection.execute(_CLAIM, discrepancy, person, at, over) != "INSERT 0 1":
            return "held" if await one(connection, discrepancy) else "not-found"
        await audit.append(connection, audit.act(at, person, "claim", discrepancy))
    return "claimed"


async def comment(connection: Connection, discrepancy: str, person: str, at: datetime, text: str) -> int | None:
    """Say something about it: the comment's number, or None if there is no such discrepancy. The log has the words as well."""
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", discrepancy)
        if await one(connection, discrepancy) is None:
            return None
        number = int(await connection.fetchval(_COMMENT, discrepancy, person, at, text))
        await audit.append(connection, audit.act(at, person, "comment", discrepancy, number=str(number), text=text))
    return number
