"""`review_proposals`: an action that one person proposes on evidence, another one decides, and the law judges.

proposed -> rejected, or approved -> applied or refused. Approved is a command to be sent, again and again under one id, until its
verdict is known: the law takes a repetition for one. All of it is written with its entry in the audit log, or not at all.
"""

from __future__ import annotations

from datetime import datetime  # noqa: TC003  msgspec reads the annotation
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from msgspec import Struct

from stores import audit

if TYPE_CHECKING:
    from stores.schema import Connection

Action: TypeAlias = Literal["refund", "fulfil", "book", "close"]
Refusal: TypeAlias = Literal["not-found", "resolved", "changed", "not-claimed", "one-is-open", "not-open", "one-person"]
"""Why nothing was written."""


class Proposal(Struct, frozen=True, kw_only=True):
    """One row. Its discrepancy and number name it; times are UTC."""

    discrepancy: str
    number: int
    revision: int
    order_id: str
    action: Action
    evidence: str
    refund_no: str | None
    proposer: str
    proposed_at: datetime
    state: str
    decider: str | None
    decided_at: datetime | None
    reason: str
    command_id: str
    rule: str
    detail: str


class Verdict(NamedTuple):
    """What the law decided about a command, by which rule, and its words."""

    verdict: str
    rule: str
    detail: str


class Wanted(Struct, frozen=True, kw_only=True):
    """What is proposed. `refund_no` is with a refund, and only then."""

    discrepancy: str
    revision: int
    action: Action
    evidence: str
    command_id: str
    refund_no: str | None = None


_OF: Final = "SELECT * FROM review_proposals WHERE discrepancy = $1 ORDER BY number"
_ONE: Final = "SELECT * FROM review_proposals WHERE discrepancy = $1 AND number = $2 FOR UPDATE"
_TO_SEND: Final = """
SELECT * FROM review_proposals WHERE state = 'approved' AND decided_at <= $1 ORDER BY decided_at LIMIT $2"""
_SEEN: Final = "SELECT revision, status, order_id FROM books.discrepancies WHERE id = $1"
_CLAIMED: Final = "SELECT reviewer FROM review_claims WHERE discrepancy = $1 FOR UPDATE"
_LAST: Final = "SELECT max(number) AS last, bool_or(state IN ('proposed', 'approved')) AS open FROM review_proposals WHERE discrepancy = $1"
_ADD: Final = """
INSERT INTO review_proposals
    (discrepancy, number, revision, order_id, action, evidence, refund_no, command_id, proposer, proposed_at, state)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 'proposed')"""
_DECIDE: Final = """
UPDATE review_proposals SET state = $3, decider = $4, decided_at = $5, reason = $6 WHERE discrepancy = $1 AND number = $2"""
_JUDGE: Final = """
UPDATE review_proposals SET state = $2, rule = $3, detail = $4 WHERE command_id = $1 AND state = 'approved' RETURNING discrepancy, number"""
_VERDICT: Final = """
SELECT verdict, rule, detail FROM books.decisions
WHERE order_id = $1 AND source = 'person' AND evidence = $2 AND verdict <> 'duplicate' ORDER BY seq LIMIT 1"""


async def of(connection: Connection, discrepancy: str) -> list[Proposal]:
    """All proposals about one discrepancy, in order."""
    return [Proposal(**row) for row in await connection.fetch(_OF, discrepancy)]


async def propose(connection: Connection, wanted: Wanted, proposer: str, at: datetime) -> int | Refusal:
    """A new proposal's number. The proposer holds the claim, has seen the discrepancy as it stands, and no other proposal is open."""
    async with connection.transaction():
        if await connection.fetchval(_CLAIMED, wanted.discrepancy) != proposer:
            return "not-claimed"
        seen = await connection.fetchrow(_SEEN, wanted.discrepancy)
        if seen is None:
            return "not-found"
        if seen["status"] == "resolved":
            return "resolved"
        if seen["revision"] != wanted.revision:
            return "changed"
        before = await connection.fetchrow(_LAST, wanted.discrepancy)
        if before["open"]:
            return "one-is-open"
        number = int(before["last"] or 0) + 1
        await connection.execute(
            _ADD, wanted.discrepancy, number, wanted.revision, seen["order_id"], wanted.action, wanted.evidence,
            wanted.refund_no, wanted.command_id, proposer, at,
        )  # fmt: skip
        told = {"action": wanted.action, "evidence": wanted.evidence, "refund_no": wanted.refund_no or ""}
        await audit.append(
            connection, audit.act(at, proposer, "propose", wanted.discrepancy, number=str(number), **told)
        )
    return number


class Decided(Struct, frozen=True, kw_only=True):
    """What another person says about a proposal. `reason` is why, in words."""

    discrepancy: str
    number: int
    decider: str
    approves: bool
    reason: str = ""


async def decide(connection: Connection, said: Decided, at: datetime) -> Proposal | Refusal:
    """Approve or reject; the proposal as it stood before. Whoever proposed it may take it back, and may not approve it."""
    async with connection.transaction():
        row = await connection.fetchrow(_ONE, said.discrepancy, said.number)
        if row is None:
            return "not-found"
        if row["state"] != "proposed":
            return "not-open"
        if said.approves and row["proposer"] == said.decider:
            return "one-person"
        state = "approved" if said.approves else "rejected"
        await connection.execute(_DECIDE, said.discrepancy, said.number, state, said.decider, at, said.reason)
        act = "approve" if said.approves else "reject"
        told = {"number": str(said.number), "reason": said.reason, "command_id": row["command_id"]}
        await audit.append(connection, audit.act(at, said.decider, act, said.discrepancy, **told))
    return Proposal(**row)


async def to_send(connection: Connection, before: datetime, most: int = 100) -> list[Proposal]:
    """Approved ones whose verdict is not known, decided before this moment; the oldest first."""
    return [Proposal(**row) for row in await connection.fetch(_TO_SEND, before, most)]


async def judged(connection: Connection, command_id: str, known: Verdict, at: datetime) -> bool:
    """The law's verdict on an approved one, once; False if it was known."""
    async with connection.transaction():
        state = "applied" if known.verdict == "applied" else "refused"
        row = await connection.fetchrow(_JUDGE, command_id, state, known.rule, known.detail)
        if row is None:
            return False
        told = {"number": str(row["number"]), "rule": known.rule}
        await audit.append(connection, audit.act(at, "law", state, row["discrepancy"], **told))
    return True


async def verdict(connection: Connection, proposal: Proposal) -> Verdict | None:
    """What the projection knows of a command's first decision."""
    row = await connection.fetchrow(_VERDICT, proposal.order_id, proposal.command_id)
    return None if row is None else Verdict(**row)
