"""`reviewers` and `reviewer_keys`: the people of the review desk, the one role of each, and their keys.

A key's secret is never stored and never read, only its SHA-256: it is 256 bits of chance. Every change is in the audit log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from msgspec import Struct

from stores import audit

if TYPE_CHECKING:
    from datetime import datetime

    from stores.schema import Connection

Role: TypeAlias = Literal["viewer", "operator", "approver", "admin"]
ROLES: Final[tuple[Role, ...]] = ("viewer", "operator", "approver", "admin")


class Reviewer(Struct, frozen=True, kw_only=True):
    """One person, and one key of theirs: the SHA-256 of its secret. It prints without it."""

    name: str
    role: Role
    key_id: str
    secret_hash: bytes

    def __repr__(self) -> str:
        return f"Reviewer({self.name}, {self.role}, {self.key_id})"


_LIVE: Final = """
SELECT k.key_id, k.secret_hash, r.name, r.role FROM reviewer_keys k JOIN reviewers r ON r.name = k.reviewer
WHERE k.key_id = $1 AND k.revoked_at IS NULL AND r.disabled_at IS NULL"""
_ALL: Final = """
SELECT r.name, r.role, r.disabled_at IS NOT NULL AS disabled,
       coalesce(array_agg(k.key_id ORDER BY k.key_id) FILTER (WHERE k.revoked_at IS NULL), '{}') AS keys
FROM reviewers r LEFT JOIN reviewer_keys k ON k.reviewer = r.name GROUP BY r.name ORDER BY r.name"""
_ADD: Final = "INSERT INTO reviewers (name, role, created_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING"
_ADD_KEY: Final = """
INSERT INTO reviewer_keys (key_id, reviewer, secret_hash, created_at) VALUES ($1, $2, $3, $4)"""
_DISABLE: Final = "UPDATE reviewers SET disabled_at = $2 WHERE name = $1 AND disabled_at IS NULL"
_REVOKE: Final = "UPDATE reviewer_keys SET revoked_at = $2 WHERE reviewer = $1 AND revoked_at IS NULL"


async def holder(connection: Connection, key_id: str) -> Reviewer | None:
    """Whose live key this is. It is asked at each request, so a person who is disabled is out at once."""
    row = await connection.fetchrow(_LIVE, key_id)
    return None if row is None else Reviewer(**row)


async def everybody(connection: Connection) -> list[Any]:
    """All people, as rows: name, role, disabled, ids of live keys."""
    return list(await connection.fetch(_ALL))


async def add(connection: Connection, person: Reviewer, at: datetime, actor: str) -> bool:
    """A new person with a first key; False if there is or was one of that name: names stand in the log for ever."""
    async with connection.transaction():
        if await connection.execute(_ADD, person.name, person.role, at) != "INSERT 0 1":
            return False
        await connection.execute(_ADD_KEY, person.key_id, person.name, person.secret_hash, at)
        await audit.append(
            connection, audit.act(at, actor, "add-reviewer", person.name, role=person.role, key=person.key_id)
        )
    return True


async def disable(connection: Connection, name: str, at: datetime, actor: str) -> bool:
    """End a person's access, and all their keys; False if there is no such person, or it had ended."""
    async with connection.transaction():
        if await connection.execute(_DISABLE, name, at) != "UPDATE 1":
            return False
        await connection.execute(_REVOKE, name, at)
        await audit.append(connection, audit.act(at, actor, "disable-reviewer", name))
    return True
