"""What the review desk takes and gives, as JSON; unknown fields are refused, times are RFC 3339 with their offset."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import datetime  # noqa: TC003  msgspec reads the annotation
from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta, Struct

from stores.proposals import Proposal  # noqa: TC001  msgspec reads the annotation
from stores.reviewers import Role  # noqa: TC001  msgspec reads the annotation
from stores.reviews import Comment, Item
from streams.gateway.review_rights import Declined

NAME: Final = "^[a-z][a-z0-9._-]{0,63}$"
Name: TypeAlias = Annotated[str, Meta(pattern=NAME, description="a person's name, for ever")]
WORDS: Final = r"^(?=\s*[^\s\x00])[^\x00]*$"
"""Something besides space, and no NUL."""
Words: TypeAlias = Annotated[str, Meta(min_length=1, max_length=4000, pattern=WORDS)]
Evidence: TypeAlias = Annotated[
    str,
    Meta(
        max_length=256,
        pattern=WORDS,
        description="what shows it: a statement, a ticket, the channel's answer",
    ),
]


class NewComment(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something to say about a discrepancy. No card number, no secret: it is kept for ever."""

    text: Words


class NewProposal(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An action on evidence. `revision` is the discrepancy's, as the proposer saw it; there is no field for an amount or a state."""

    action: Literal["refund", "fulfil", "book", "close"]
    evidence: Evidence
    revision: Annotated[int, Meta(ge=0, le=2**31 - 1)]


class Say(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a proposal is approved or rejected."""

    reason: Annotated[str, Meta(max_length=4000, pattern=r"^[^\x00]*$")] = ""


class NewReviewer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A person to let in, with one role."""

    name: Name
    role: Role


class ItemView(Item, frozen=True, kw_only=True):
    """A discrepancy, and its `handle`: what it is called in addresses, where its id cannot stand."""

    handle: str


class ItemsView(Struct, frozen=True, kw_only=True):
    """Discrepancies: the gravest first, then what is due first, then the oldest."""

    items: list[ItemView]


class CaseView(Struct, frozen=True, kw_only=True):
    """One discrepancy with what people said and proposed. `exits` are the actions that the law has for its kind."""

    item: ItemView
    exits: list[str]
    comments: list[Comment]
    proposals: list[Proposal]


class NumberView(Struct, frozen=True, kw_only=True):
    """The number of what was written, within its discrepancy."""

    discrepancy: str
    number: int


class ProposalView(Struct, frozen=True, kw_only=True):
    """A proposal after it was decided. `state` is approved while the law's verdict is not known."""

    discrepancy: str
    number: int
    state: Literal["approved", "applied", "refused", "rejected"]
    rule: str = ""
    detail: str = ""


class ReviewerView(Struct, frozen=True, kw_only=True):
    """A person; `key` is shown once, when it is made."""

    name: str
    role: str
    disabled: bool = False
    keys: list[str] = []
    key: str = ""


class EntryView(Struct, frozen=True, kw_only=True):
    """One line of the audit log; `hash` is its seal, in hexadecimal."""

    seq: int
    at: datetime
    actor: str
    act: str
    subject: str
    detail: str
    hash: str


def handle_of(discrepancy: str) -> str:
    """The id in base64url: it holds an order's own id, which may hold anything, slashes included."""
    return urlsafe_b64encode(discrepancy.encode()).rstrip(b"=").decode()


def named(handle: str) -> str:
    """The id that a handle stands for. Whatever is no handle of ours is of a discrepancy that is not there."""
    try:
        text = urlsafe_b64decode(handle + "=" * (-len(handle) % 4)).decode()
    except (binascii.Error, ValueError) as error:
        raise Declined("DISCREPANCY_NOT_FOUND") from error
    if "\0" in text or handle_of(text) != handle:
        raise Declined("DISCREPANCY_NOT_FOUND")
    return text
