"""Why is it not settled: for everything open, what would settle it, who can supply that, when we ask next, and until when.

Pure, and total: whatever is open has an answer, and what has ended has the chain of evidence that ended it.
"""

from __future__ import annotations

from datetime import datetime  # noqa: TC003  msgspec reads the annotation
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from streams.domain.story import Awaited, Story, story
from streams.domain.tables import EXITS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from streams.domain.order import Order

SETTLES_ITSELF: Final[Mapping[str, str]] = {
    "UNKNOWN_ORDER": "the operation's start; then it clears itself",
    "STUCK_UNKNOWN": "the channel's final word, by its support; then it clears itself",
    "PARTIAL_TENDER": "a payment of the rest; then it clears itself",
    "DUPLICATE_PAYMENT": "the duplicate's refund in full, which clears it",
}
ACTS: Final[Mapping[str, str]] = {
    "refund": "give the money back as a refund of its own",
    "fulfil": "let the money pay the order after all",
    "book": "book what the channel did",
    "close": "close it with the evidence that explains it",
}


class Open(Struct, frozen=True):
    """One thing that is not settled. `when` is when we ask or act next, `deadline` when its owner should have."""

    about: str
    what: str
    whom: str
    when: datetime | None
    deadline: datetime | None


class Ended(Struct, frozen=True):
    """One operation that has ended: the states it went through, the evidence and the rule that ended it."""

    about: str
    state: str
    path: tuple[str, ...]
    witness: str
    because: str


class Why(Struct, frozen=True):
    order_id: str
    at: datetime
    open: tuple[Open, ...]
    ended: tuple[Ended, ...]


def why(order: Order, at: int) -> Why:
    """What is open about the order at `at` (milliseconds, UTC), and how the rest ended."""
    told = story(order, at)
    return Why(told.order_id, told.at, tuple(_open(told)), tuple(_ended(told)))


def _open(told: Story) -> Iterator[Open]:
    for payment in told.payments:
        if payment.awaited is not None:
            yield _of(f"payment {payment.payment} is {payment.state}", payment.awaited)
    for operation in told.operations:
        if operation.awaited is not None:
            yield _of(f"{operation.kind.lower()} {operation.operation} is {operation.state}", operation.awaited)
    for item in told.open:
        yield Open(f"{item.kind} about {item.ref}", _exit(item.kind), item.owner, None, item.deadline)
    for awaited in told.waiting:
        yield _of("evidence waits", awaited)


def _of(about: str, awaited: Awaited) -> Open:
    return Open(about, awaited.what, awaited.whom, awaited.when, awaited.when)


def _exit(kind: str) -> str:
    """Every discrepancy can be settled: by itself, or by two people."""
    acts = " or ".join(ACTS[act] for act in sorted(EXITS.get(kind, {"close"})))
    decided = f"two people who {acts}"
    itself = SETTLES_ITSELF.get(kind)
    return decided if itself is None else f"{itself}, or {decided}"


def _ended(told: Story) -> Iterator[Ended]:
    """The witness is evidence, or our own clock and command where no request was ever accepted."""
    for payment in told.payments:
        if payment.awaited is None:
            because = _because(told, payment.witness)
            yield Ended(
                f"payment {payment.payment}",
                payment.state,
                payment.path,
                payment.witness or "no request was made",
                because,
            )
    for operation in told.operations:
        if operation.awaited is None:
            because = _because(told, operation.witness)
            name = f"{operation.kind.lower()} {operation.operation}"
            yield Ended(name, operation.state, operation.path, operation.witness or "none", because)


def _because(told: Story, witness: str | None) -> str:
    """The rule that heard the witness; the evidence may be older than what is remembered."""
    for piece in reversed(told.evidence):
        if witness is not None and witness == piece.ref and piece.verdict == "applied":
            return piece.because
    return "by time" if witness is None else f"on the evidence {witness}"
