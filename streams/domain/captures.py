"""Holds: money that is set aside and not taken. A capture takes some of it, a release gives it back, and neither is a refund (R-212).

The first money taken makes the payment succeed. A hold ends once, however many captures, releases and lapses speak of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from streams.domain import ledger, legs
from streams.domain.order import NOTHING, Funds, Operation, Payment, Refusal
from streams.domain.tables import AUTHORIZED, MACHINE, MACHINES, OPERATION_WORDS, SUCCESS, UNPAID
from streams.domain.turn import Ruling, Turn
from streams.domain.words import (
    ALREADY,
    APPLIED,
    STALE,
    blocked,
    contest_success,
    doubt,
    fact_id,
    fail,
    keep_refusal,
    keyless,
    meaning_of,
    not_mapped,
    sequence_of,
    succeed,
)

if TYPE_CHECKING:
    from streams.domain.events import Answer, Callback, Release
    from streams.domain.facts import Fact

RELEASED = Ruling("applied", "released")
NO_HOLD = Ruling("stale", "no-hold")


def taken(payment: Payment, amount: int, *, by_word: bool = False) -> Funds:
    """The payment's funds after `amount` of the hold was taken. A tolerated excess leaves no negative hold."""
    funds = payment.funds or NOTHING
    return structs.replace(
        funds,
        captured=funds.captured + amount,
        hold=0 if by_word else max(funds.hold - amount, 0),
        uncovered=funds.uncovered + amount if by_word else funds.uncovered,
    )


def judge_capture(turn: Turn, capture: Operation, event: Answer | Callback, fact: Fact) -> Ruling:
    """The ruling on a word about a capture."""
    if fact.source == "callback" and not fact.key:
        return keyless(turn, capture, fact)
    meaning = meaning_of(capture, event, turn.contract(capture.channel))
    if meaning.outcome == "failure":
        return fail(turn, capture, event, fact, meaning)
    if meaning.outcome == "unknown":
        return doubt(turn, capture, fact, meaning)
    return blocked(turn, capture, event, fact) or _captured(turn, capture, event, fact)


def _captured(turn: Turn, capture: Operation, event: Answer | Callback, fact: Fact) -> Ruling:
    payment = turn.parent(capture)
    transaction = event.transaction or capture.key
    if capture.state == SUCCESS:
        if event.transaction in {None, capture.transaction}:
            return ALREADY
        contest_success(turn, capture, transaction, fact)
        return Ruling("conflict", "second-transaction")
    after = MACHINES["CAPTURE"][capture.state].get("success")
    if after is None or payment is None or payment.state in UNPAID:
        contest_success(turn, capture, transaction, fact)
        return Ruling("illegal", "late-success")
    capture.transaction = event.transaction
    succeed(turn, capture, fact, after, transaction=transaction, sequence=sequence_of(event))
    _count(turn, payment, capture, fact)
    return APPLIED["success"]


def _count(turn: Turn, payment: Payment, capture: Operation, fact: Fact) -> None:
    """The captured money, but for what the payment's own word has counted already."""
    funds = payment.funds or NOTHING
    covered = min(capture.amount, funds.uncovered)
    if covered:
        payment.funds = structs.replace(funds, uncovered=funds.uncovered - covered)
    if capture.amount > covered:
        take(turn, payment, fact, capture.amount - covered, ref=capture.key)


def take(turn: Turn, payment: Payment, fact: Fact, amount: int, *, ref: str) -> None:
    """Money of the hold is taken: the first makes the payment succeed, each is posted under `ref`."""
    payment.funds = taken(payment, amount)
    before = payment.state
    if before == SUCCESS:
        if not payment.money.duplicate:
            ledger.received(turn, payment, amount, ref)
            legs.tendered(turn, payment, fact.evidence)
        return
    after = MACHINE[before]["captured"]
    succeed(turn, payment, fact, after, transaction=payment.transaction or ref, sequence=None)
    legs.paid(turn, payment, amount, ref, fact)


# -- letting go


def release(turn: Turn, payment: Payment, fact: Fact) -> Ruling:
    """The channel let the hold go, whatever it calls that: once; on a hold that is gone, nothing."""
    if not payment.money.hold:
        return NO_HOLD
    before = payment.state
    if before == AUTHORIZED:
        keep_refusal(payment, Refusal(fact_id(fact), fact.ref, "high"))
        payment.evidence = fact.evidence
        turn.enter(payment, MACHINE[before]["released"], before)
    let_go(turn, payment, fact.evidence)
    if payment.state != before:
        legs.ended(turn, payment, fact.evidence)
    return RELEASED


def let_go(turn: Turn, payment: Payment, evidence: str) -> None:
    """What is still held is free again: no money moved, so nothing is posted."""
    funds = payment.money
    if funds.hold:
        payment.funds = structs.replace(funds, hold=0, released=True)
        turn.move(payment, "AUTH_RELEASED", funds.hold, evidence)


def judge_release(turn: Turn, payment: Payment, event: Release, fact: Fact) -> Ruling:
    """A notice that a hold was let go."""
    if not fact.key:
        return keyless(turn, payment, fact)
    meaning = OPERATION_WORDS.get(event.status)
    if meaning is None:
        return not_mapped(turn, payment, fact)
    return release(turn, payment, fact) if meaning.outcome == "success" else STALE


def judge_void(turn: Turn, void: Operation, event: Answer | Callback, fact: Fact) -> Ruling:
    """The ruling on a word about a void of ours; its success lets the hold go."""
    if fact.source == "callback" and not fact.key:
        return keyless(turn, void, fact)
    meaning = meaning_of(void, event, turn.contract(void.channel))
    if meaning.outcome == "failure":
        return fail(turn, void, event, fact, meaning)
    if meaning.outcome == "unknown":
        return doubt(turn, void, fact, meaning)
    return _voided(turn, void, event, fact)


def _voided(turn: Turn, void: Operation, event: Answer | Callback, fact: Fact) -> Ruling:
    transaction = event.transaction or void.key
    if void.state == SUCCESS:
        return ALREADY
    after = MACHINES["VOID"][void.state].get("success")
    if after is None:
        contest_success(turn, void, transaction, fact)
        return Ruling("illegal", "late-success")
    void.transaction = event.transaction
    succeed(turn, void, fact, after, transaction=transaction, sequence=sequence_of(event))
    payment = turn.parent(void)
    assert payment is not None  # a void is asked for of a payment, and payments stay
    release(turn, payment, fact)
    return APPLIED["success"]
