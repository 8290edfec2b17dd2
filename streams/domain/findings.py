"""What our own books and our notifier find, where the law, which sees one order and no merchant's server, has to be told.

A finding moves nothing. It becomes a discrepancy of each order it speaks of, named by the facts, however often and in whatever order
the others are found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streams.domain.commands import NOT_FOUND
from streams.domain.identity import digest
from streams.domain.turn import Ruling, Turn

if TYPE_CHECKING:
    from streams.domain.events import Finding, Undelivered
    from streams.domain.facts import Fact
    from streams.domain.order import Target


def judge(turn: Turn, _target: Target | None, event: Finding, fact: Fact) -> Ruling:
    """One channel transaction that stands for two orders (R-040): a person finds out whose money it is."""
    detail = f"channel transaction {event.transaction} of {event.channel} also stands for order {event.other_order}; find whose it is"
    turn.contest(
        event.status,
        digest("two-orders", event.channel, event.transaction),
        ref=event.transaction,
        payment_no=fact.payment_no,
        merchant=fact.merchant,
        evidence=fact.ref,
        detail=detail,
    )
    return Ruling("conflict", "transaction-on-two-orders", detail)


def undelivered(turn: Turn, command: Undelivered, fact: Fact) -> Ruling:
    """A notice of a payment that its merchant did not hear, by its id: given up again it is the same one (R-084, R-086)."""
    if turn.find(fact.payment_no, fact.merchant) is None:
        return NOT_FOUND
    new = turn.contest(
        "NOTIFICATION_UNDELIVERED",
        digest("undelivered", command.ref),
        ref=command.ref,
        payment_no=fact.payment_no,
        merchant=fact.merchant,
        evidence=fact.ref,
        detail=command.detail,
    )
    return Ruling("applied", "notice-undelivered") if new else Ruling("duplicate", "notice-undelivered")
