"""The review desk: what people say about discrepancies, and the one way by which they act: a command that the law judges (R-197).

Nothing here edits an amount or a state. One person proposes, another approves; the approval is durable in Postgres before its command
is put onto Kafka, and the command is put there again, under the same id, until its verdict is known. So a crash anywhere in between
neither loses nor doubles it.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import asyncpg
import msgspec
import structlog

from stores import audit, proposals, reviewers, reviews
from stores.pool import LOST
from stores.proposals import Decided, Proposal, Verdict, Wanted
from stores.reviewers import Reviewer
from streams.cloudevents import attributes
from streams.domain.events import Resolve
from streams.domain.number import CHANCE_BYTES, operation_number
from streams.domain.tables import EXITS
from streams.gateway.cashier import command_id
from streams.gateway.review_rights import Declined, admit, key_id
from streams.gateway.store import Stored, Unavailable, Unstorable

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from stores.audit import Entry
    from stores.proposals import Refusal
    from stores.reviewers import Role
    from stores.reviews import Comment, Item, Wish
    from stores.schema import Connection
    from streams.gateway.review_rights import Right
    from streams.gateway.review_shapes import NewProposal
    from streams.gateway.store import Store
    from streams.gateway.verdicts import Verdicts

log: Final = structlog.get_logger(__name__)

DECIDED_S: Final = 5.0
"""How long an approval waits for the law's verdict; then its answer is 202."""
AGAIN: Final = timedelta(seconds=15)
"""After so long without a verdict a command is looked up, and sent again if nothing is known of it."""
EVERY_S: Final = 5.0
BROKEN: Final = (*LOST, asyncpg.UndefinedTableError)
"""What keeps the desk from its database, or its tables."""
CODES: Final[dict[Refusal, str]] = {
    "not-found": "DISCREPANCY_NOT_FOUND",
    "resolved": "DISCREPANCY_RESOLVED",
    "changed": "DISCREPANCY_CHANGED",
    "not-claimed": "NOT_CLAIMED",
    "one-is-open": "PROPOSAL_OPEN",
    "not-open": "PROPOSAL_NOT_OPEN",
    "one-person": "ONE_PERSON",
}

_encode: Final = msgspec.json.Encoder().encode


class Case(NamedTuple):
    """One discrepancy, and what people said and proposed."""

    item: Item
    comments: list[Comment]
    proposals: list[Proposal]


class Desk:
    """All acts of the desk. `connections` is an asyncpg pool, `now` is UTC. Whatever is refused raises `Declined`."""

    def __init__(
        self, *, topic: str, store: Store, verdicts: Verdicts, connections: Connection, now: Callable[[], datetime]
    ) -> None:
        self._topic, self._store, self._verdicts = topic, store, verdicts
        self._connections, self._now = connections, now

    async def enter(self, authorization: str, right: Right) -> Reviewer:
        """The person whose key this is, as of now, if their role has the right."""
        name = key_id(authorization)
        return admit(authorization, await reviewers.holder(self._connections, name) if name else None, right)

    # -- reading

    async def listed(self, wish: Wish) -> list[Item]:
        """Discrepancies, the most pressing first."""
        return await reviews.listed(self._connections, wish)

    async def case(self, discrepancy: str) -> Case:
        """One of them, whole."""
        async with self._connections.acquire() as connection:
            item = await reviews.one(connection, discrepancy)
            if item is None:
                raise Declined("DISCREPANCY_NOT_FOUND")
            return Case(
                item, await reviews.comments(connection, discrepancy), await proposals.of(connection, discrepancy)
            )

    async def log_of(self, subject: str) -> list[Entry]:
        """What people did about a discrepancy or a person."""
        async with self._connections.acquire() as connection:
            return await audit.of(connection, subject)

    # -- saying

    async def claim(self, person: Reviewer, discrepancy: str) -> None:
        """Take it to work on; an approver takes it also from another."""
        async with self._connections.acquire() as connection:
            over = person.role == "approver"
            told = await reviews.claim(connection, discrepancy, person.name, self._now(), over=over)
        if told != "claimed":
            raise Declined("DISCREPANCY_NOT_FOUND" if told == "not-found" else "CLAIMED_BY_ANOTHER")

    async def comment(self, person: Reviewer, discrepancy: str, text: str) -> int:
        """Its number."""
        async with self._connections.acquire() as connection:
            number = await reviews.comment(connection, discrepancy, person.name, self._now(), text)
        if number is None:
            raise Declined("DISCREPANCY_NOT_FOUND")
        return number

    async def propose(self, person: Reviewer, discrepancy: str, wanted: NewProposal) -> int:
        """The proposal's number. A refund gets its own number now, so that who approves sees it."""
        item = (await self.case(discrepancy)).item
        if wanted.action not in exits(item.kind):
            raise Declined("NO_SUCH_EXIT", f"action: {item.kind} is settled by {', '.join(exits(item.kind))}")
        refunds = wanted.action == "refund"
        ready = Wanted(
            discrepancy=discrepancy,
            revision=wanted.revision,
            action=wanted.action,
            evidence=wanted.evidence,
            command_id=command_id("resolve", discrepancy, secrets.token_hex(16)),
            refund_no=operation_number("RF", secrets.token_bytes(CHANCE_BYTES)) if refunds else None,
        )
        async with self._connections.acquire() as connection:
            try:
                told = await proposals.propose(connection, ready, person.name, self._now())
            except asyncpg.UniqueViolationError as error:
                raise Declined("PROPOSAL_OPEN") from error
        if isinstance(told, str):
            raise Declined(CODES[told])
        return told

    # -- deciding

    async def decide(self, said: Decided) -> tuple[Proposal, Verdict | None]:
        """Approve or reject. What is approved goes to the law at once; None: its verdict is not known yet."""
        async with self._connections.acquire() as connection:
            told = await proposals.decide(connection, said, self._now())
        if isinstance(told, str):
            raise Declined("PROPOSAL_NOT_FOUND" if told == "not-found" else CODES[told])
        if not said.approves:
            return told, None
        return told, await self._ask(msgspec.structs.replace(told, decider=said.decider))

    async def _ask(self, proposal: Proposal) -> Verdict | None:
        """Put the command onto Kafka and wait for its verdict. What is not stored now is sent again by `run`."""
        with self._verdicts.decided.expect(proposal.command_id) as waiter:
            try:
                await self._store.put([self._record(proposal)])
            except (Unavailable, Unstorable) as error:
                log.warning("an approved action waits", discrepancy=proposal.discrepancy, why=str(error))
                return None
            decision = await waiter.within(DECIDED_S)
        if decision is None or decision.verdict == "duplicate":  # the first verdict is in the books, or will be
            return None
        known = Verdict(decision.verdict, decision.rule, decision.detail)
        await self._judged(proposal, known)
        return known

    async def _judged(self, proposal: Proposal, known: Verdict) -> None:
        async with self._connections.acquire() as connection:
            await proposals.judged(connection, proposal.command_id, known, self._now())

    def _record(self, proposal: Proposal) -> Stored:
        assert proposal.decider is not None
        command = Resolve(
            command_id=proposal.command_id,
            order_id=proposal.order_id,
            discrepancy=proposal.discrepancy,
            revision=proposal.revision,
            action=proposal.action,
            evidence=proposal.evidence,
            proposer=proposal.proposer,
            approver=proposal.decider,
            refund_no=proposal.refund_no,
        )
        headers = attributes(command.command_id, "resolve", "review", self._now().isoformat())
        return Stored(self._topic, command.order_id.encode(), _encode(command), tuple(headers))

    async def run(self) -> None:
        """Send what was approved and has no verdict, again and again, for as long as the gateway runs."""
        while True:
            await asyncio.sleep(EVERY_S)
            try:
                await self.settle(self._now() - AGAIN)
            except BROKEN as error:
                log.warning("approved actions cannot be read", error=type(error).__name__)

    async def settle(self, before: datetime) -> None:
        """Once: learn the verdicts of what was approved before this moment, and send what has none."""
        async with self._connections.acquire() as connection:
            waiting = await proposals.to_send(connection, before)
        for proposal in waiting:
            async with self._connections.acquire() as connection:
                known = await proposals.verdict(connection, proposal)
            if known is None:
                await self._ask(proposal)
            else:
                await self._judged(proposal, known)

    # -- people

    async def add(self, actor: Reviewer, name: str, role: Role) -> str:
        """Let somebody in: their key, which is shown this once."""
        person, key = new_reviewer(name, role)
        async with self._connections.acquire() as connection:
            if not await reviewers.add(connection, person, self._now(), actor.name):
                raise Declined("REVIEWER_EXISTS")
        return key

    async def disable(self, actor: Reviewer, name: str) -> None:
        """End somebody's access; what they did stays."""
        async with self._connections.acquire() as connection:
            if not await reviewers.disable(connection, name, self._now(), actor.name):
                raise Declined("REVIEWER_NOT_FOUND")

    async def people(self) -> list[Any]:
        """Everybody, as rows: name, role, disabled, keys."""
        async with self._connections.acquire() as connection:
            return await reviewers.everybody(connection)


def new_reviewer(name: str, role: Role) -> tuple[Reviewer, str]:
    """A person with a new key: 256 bits of chance, of which only the SHA-256 is kept."""
    made, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
    hashed = hashlib.sha256(secret.encode()).digest()
    return Reviewer(name=name, role=role, key_id=made, secret_hash=hashed), f"rk_{made}_{secret}"


def exits(kind: str) -> list[str]:
    """The actions that the law has for a discrepancy of this kind. Over money that waits it refuses to close."""
    return sorted(EXITS.get(kind, frozenset()) | {"close"})
