"""What a report of reconciliation does: it opens and settles differences, posts what files prove, and marks what is settled.

No report moves the state of an operation; a line that is money for an open payment is no report but an answer (`request` "bill"), and
passes the same rules as a query's (R-025). Nothing is ever reversed here (R-191, R-196).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streams.domain import identity, ledger
from streams.domain.decisions import PaymentUpdate
from streams.domain.order import Operation, Payment, Payout
from streams.domain.tables import PAYOUT, SENT, SUCCESS, UNPAID
from streams.domain.turn import Ruling, Turn

if TYPE_CHECKING:
    from streams.domain.facts import Fact
    from streams.domain.order import Conflict, Target
    from streams.domain.reports import Agreement, Booking, Difference, PayoutNotice, Settled


def keyed(*parts: str) -> str:
    """The order id of what belongs to no order: `recon` or `payout`, then its source and reference."""
    return "/".join(identity.part(part) for part in parts)


def differ(turn: Turn, target: Target | None, event: Difference, fact: Fact) -> Ruling:
    """Open the difference; money that is known to have come late takes the line as evidence instead."""
    if event.status == "STATUS_MISMATCH" and event.money:
        late = _late(turn, target)
        if late is not None:
            return Ruling("applied", "attached", f"{late.kind}:{late.ref}")
    detail = event.detail or event.evidence
    if event.candidates:
        detail = f"{detail}; candidates: {', '.join(event.candidates)}"
    new = turn.contest(
        event.status,
        identity.digest("report", event.channel, event.status, event.ref, event.amount, event.currency),
        ref=event.ref,
        payment_no=fact.payment_no or None,
        merchant=fact.merchant,
        evidence=event.evidence,
        detail=detail,
        severity=event.severity,
    )
    return Ruling("conflict", "difference", detail) if new else Ruling("conflict", "difference-known", detail)


def _late(turn: Turn, target: Target | None) -> Conflict | None:
    """Late money of this operation that waits for a decision."""
    if target is None:
        return None
    for known in turn.order.conflicts:
        if known.open and known.kind == "LATE_SUCCESS" and known.payment_no in {None, target.number}:
            return known
    return None


def agree(turn: Turn, _target: Target | None, event: Agreement, _fact: Fact) -> Ruling:
    turn.clear(event.status, event.ref, event.evidence, "the line has come")
    return Ruling("applied", "agreed")


def book(turn: Turn, target: Target | None, event: Booking, fact: Fact) -> Ruling:
    """Post it. The fee of a transaction is posted once, as the first file states it; one of a failed operation must be the contract's."""
    if target is not None and event.status in {"FEE", "FEE_ROW"}:
        refusal = _fee(turn, target, event, fact)
        if refusal is not None:
            return refusal
    ledger.booked(turn, event)
    return Ruling("applied", "booked")


def _fee(turn: Turn, target: Target, event: Booking, fact: Fact) -> Ruling | None:
    if event.status == "FEE_ROW":
        agreed = turn.contract(event.channel).failure_fee
        if target.state not in UNPAID or event.amount == agreed:
            return None
        return _fee_differs(turn, event, fact, f"a failed operation may cost {agreed or 0}")
    if target.fee_booked is None:
        target.fee_booked = event.amount
        return None
    if target.fee_booked == event.amount:
        return Ruling("duplicate", "fee-known")
    return _fee_differs(turn, event, fact, f"{target.fee_booked} was posted before")


def _fee_differs(turn: Turn, event: Booking, fact: Fact, why: str) -> Ruling:
    """`evidence` names the line, which the difference is called by."""
    turn.contest(
        "FEE_MISMATCH",
        identity.digest("fee", event.evidence),
        ref=event.evidence,
        payment_no=fact.payment_no or None,
        merchant=fact.merchant,
        evidence=event.evidence,
        detail=f"{event.evidence} states a fee of {event.amount} {event.currency}; {why}",
    )
    return Ruling("conflict", "fee-differs")


def settle(turn: Turn, target: Target | None, event: Settled, _fact: Fact) -> Ruling:
    """Say that the money of a payment is at the bank, once."""
    if target is None or target.state != SUCCESS:
        return Ruling("stale", "not-settled")
    if target.settled_by is not None:
        return Ruling("duplicate", "settled")
    target.settled_by = event.transaction
    if isinstance(target, Operation):
        return Ruling("applied", "settled")
    assert isinstance(target, Payment)
    turn.say(
        PaymentUpdate(
            id=identity.update_id(turn.order, target, identity.SETTLED),
            order_id=turn.order.order_id,
            payment_no=target.payment_no,
            merchant=target.merchant,
            biz_code=target.biz_code,
            channel=target.channel,
            amount=target.amount,
            currency=target.currency,
            state=target.state,
            before=target.state,
            transaction=target.transaction,
            decision=turn.decision,
            decided_at=turn.moment,
            funds_stage="SETTLED",
        )
    )
    return Ruling("applied", "settled")


def payout(turn: Turn, _target: Target | None, event: PayoutNotice, fact: Fact) -> Ruling:
    """Move the payout by its table. Bank accounts are posted from bank lines only."""
    known = turn.order.payout or Payout(event.ref, event.channel, event.amount, event.currency, SENT)
    if (known.amount, known.currency) != (event.amount, event.currency):
        turn.contest(
            "AMOUNT_MISMATCH",
            identity.digest("payout", event.channel, event.ref, event.amount, event.currency),
            ref=fact.ref,
            payment_no=None,
            merchant=fact.merchant,
            evidence=fact.ref,
            detail=f"payout {event.ref} is known as {known.amount} {known.currency}, {fact.ref} says {event.amount} {event.currency}",
        )
        return Ruling("conflict", "payout-differs")
    after = PAYOUT[known.state].get(event.status)
    if after is None:
        return Ruling("refused", "payout-word-unknown", f"{event.status} is none of {', '.join(PAYOUT[SENT])}")
    turn.order.payout = Payout(known.ref, known.channel, known.amount, known.currency, after)
    return Ruling("applied", "payout")
