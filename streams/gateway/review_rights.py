"""Who may do what at the review desk. The table is the program: what is missing is refused.

No role holds all rights. Whoever lets people in cannot move money, and whoever approves cannot let people in; nobody approves what
they proposed themselves, whatever their role (R-197).
"""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from streams.gateway.problems import KINDS, Kind, Refused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stores.reviewers import Reviewer, Role

Right: TypeAlias = Literal["read", "claim", "comment", "propose", "decide", "people", "audit"]

RIGHTS: Final[Mapping[Role, frozenset[Right]]] = {
    "viewer": frozenset({"read"}),
    "operator": frozenset({"read", "claim", "comment", "propose"}),
    "approver": frozenset({"read", "claim", "comment", "propose", "decide", "audit"}),
    "admin": frozenset({"read", "people", "audit"}),
}

REVIEW_KINDS: Final = {
    **KINDS,
    "RIGHT_MISSING": Kind(403, "The person's role does not allow this."),
    "ONE_PERSON": Kind(403, "Another person than the proposer approves."),
    "DISCREPANCY_NOT_FOUND": Kind(404, "There is no such discrepancy."),
    "PROPOSAL_NOT_FOUND": Kind(404, "There is no such proposal."),
    "REVIEWER_NOT_FOUND": Kind(404, "There is no such person who has access."),
    "DISCREPANCY_CHANGED": Kind(409, "The discrepancy has changed since it was seen; look again."),
    "DISCREPANCY_RESOLVED": Kind(409, "The discrepancy is resolved."),
    "CLAIMED_BY_ANOTHER": Kind(409, "Another person works on it."),
    "NOT_CLAIMED": Kind(409, "Claim it first."),
    "PROPOSAL_OPEN": Kind(409, "Another proposal about it is not decided yet."),
    "PROPOSAL_NOT_OPEN": Kind(409, "The proposal is decided."),
    "REVIEWER_EXISTS": Kind(409, "There is or was a person of this name."),
    "NO_SUCH_EXIT": Kind(422, "A discrepancy of this kind cannot be settled by this action."),
    "DESK_UNAVAILABLE": Kind(503, "The review desk's database does not answer; try again."),
}

TOKEN: Final = re.compile(r"rk_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
_NOBODY: Final = bytes(32)


class Declined(Refused):
    """A refusal of the review desk."""

    kinds = REVIEW_KINDS


def key_id(authorization: str) -> str:
    """The id of the key in an `Authorization` header; empty where there is none."""
    found = _token(authorization)
    return found[1] if found else ""


def admit(authorization: str, holder: Reviewer | None, right: Right) -> Reviewer:
    """The person whose key it is, if their role has the right. Compared as SHA-256, in constant time, also where there is no such key."""
    found = _token(authorization)
    hashed = hashlib.sha256((found[2] if found else "").encode()).digest()
    same = hmac.compare_digest(hashed, _NOBODY if holder is None else holder.secret_hash)
    if holder is None or not same:
        raise Declined("UNAUTHENTICATED")
    if right not in RIGHTS[holder.role]:
        raise Declined("RIGHT_MISSING", f"{holder.role} has not the right to {right}")
    return holder


def _token(authorization: str) -> re.Match[str] | None:
    kind, _, token = authorization.partition(" ")
    return TOKEN.fullmatch(token) if kind.lower() == "bearer" else None
