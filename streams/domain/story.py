"""An order's story: what was said and what came of it, what stands open, what is awaited and from whom.

Pure: the same order at the same moment tells the same story. Every payment that has not ended has an answer to "what now".
"""

from __future__ import annotations

from datetime import datetime  # noqa: TC003  msgspec reads the annotation

from msgspec import Struct

from streams.domain import identity
from streams.domain.moment import moment
from streams.domain.order import Order, Payment, due
from streams.domain.schedule import ref_of
from streams.domain.tables import INIT, KINDS, OPEN, RULES


class Awaited(Struct, frozen=True):
    """What would settle something, who can supply it, and when we ask or act next; `when` None means: only a person or they."""

    what: str
    whom: str
    when: datetime | None


class Piece(Struct, frozen=True):
    """One piece of evidence or one command."""

    at: datetime
    source: str
    word: str
    ref: str
    payment_no: str
    verdict: str
    rule: str
    because: str


class PaymentStory(Struct, frozen=True):
    payment: str
    channel: str
    amount: int
    currency: str
    state: str
    path: tuple[str, ...]
    transaction: str | None
    witness: str | None
    """The evidence that justifies the end; None while it is open, or if only time ended it."""
    announced: bool
    queries: int
    awaited: Awaited | None


class OpenItem(Struct, frozen=True):
    """A discrepancy that waits for its owner."""

    id: str
    kind: str
    severity: str
    ref: str
    payment_no: str | None
    owner: str


class Story(Struct, frozen=True):
    order_id: str
    at: datetime
    decisions: int
    duplicates: int
    forgotten: int
    payments: tuple[PaymentStory, ...]
    evidence: tuple[Piece, ...]
    open: tuple[OpenItem, ...]
    waiting: tuple[Awaited, ...]
    """Evidence that waits for a payment we do not know."""
    next_due: datetime | None


def story(order: Order, at: int) -> Story:
    """The story of the order at `at` (milliseconds, UTC)."""
    return Story(
        order_id=order.order_id,
        at=moment(at),
        decisions=order.seq,
        duplicates=order.duplicates,
        forgotten=order.forgotten,
        payments=tuple(_payment(payment) for payment in order.payments),
        evidence=tuple(
            Piece(
                at=moment(seen.at),
                source=seen.source,
                word=seen.word,
                ref=seen.ref,
                payment_no=seen.payment_no,
                verdict=seen.verdict,
                rule=seen.rule,
                because=RULES[seen.rule],
            )
            for seen in order.seen
        ),
        open=tuple(
            OpenItem(
                id=identity.discrepancy_id(order, conflict.id),
                kind=conflict.kind,
                severity=conflict.severity,
                ref=conflict.ref,
                payment_no=conflict.payment_no,
                owner=KINDS[conflict.kind].owner,
            )
            for conflict in order.conflicts
            if conflict.open
        ),
        waiting=tuple(_waiting(ref_of(order, parked), parked.deadline) for parked in order.parked),
        next_due=_maybe(due(order)),
    )


def _payment(payment: Payment) -> PaymentStory:
    return PaymentStory(
        payment=payment.key,
        channel=payment.channel,
        amount=payment.amount,
        currency=payment.currency,
        state=payment.state,
        path=payment.path,
        transaction=payment.transaction,
        witness=payment.evidence,
        announced=payment.announced,
        queries=payment.queries,
        awaited=_awaited(payment),
    )


def _awaited(payment: Payment) -> Awaited | None:
    if payment.state == INIT:
        return Awaited("a start command; without one it closes unpaid", "trade domain", moment(payment.expires_at))
    if payment.state not in OPEN:
        return None
    what = "the final word on the payment"
    if payment.query_at is not None:
        return Awaited(f"{what}; we query it next", f"channel {payment.channel}", moment(payment.query_at))
    if payment.stuck_at is not None:
        return Awaited(f"{what}; then a person takes over", f"channel {payment.channel}", moment(payment.stuck_at))
    return Awaited(
        f"{what}, which automatic queries did not bring",
        f"{KINDS['STUCK_UNKNOWN'].owner}, with {payment.channel}",
        None,
    )


def _waiting(ref: str, deadline: int | None) -> Awaited:
    what = f"the payment that {ref} speaks of, started at its channel"
    if deadline is None:
        return Awaited(what, KINDS["UNKNOWN_ORDER"].owner, None)
    return Awaited(what, "trade domain", moment(deadline))


def _maybe(at: int | None) -> datetime | None:
    return None if at is None else moment(at)
