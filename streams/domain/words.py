"""What a channel's word about any operation is worth before it may move anything.

A word without a key, a word nobody has mapped, an amount that is not ours, a reference that stands for something else: each is kept
for a person and moves nothing. Successes and failures are kept as facts whatever the state, and every success that meets a failure
or another success is contested under an id made of that pair: every arrival order contests the same pairs, and only the type of
the discrepancy and the state tell which came first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from streams.domain.events import Answer, Callback, RefundNotice
from streams.domain.identity import digest
from streams.domain.order import MAX_FACTS, Paid, Payment, Refusal, Target
from streams.domain.schedule import await_final, ended, enter_unknown
from streams.domain.tables import (
    CAPTURE_WORDS,
    CLOSE_WORDS,
    DECLINE_NOT_FINAL,
    INCOMPLETE,
    MACHINES,
    MOVING,
    NOT_SENT,
    OPERATION_WORDS,
    RETURNED,
    SUCCESS,
    UNMAPPED,
    UNPROVEN,
    UNSENT,
    WORDS,
    Meaning,
)
from streams.domain.turn import Ruling, Turn

if TYPE_CHECKING:
    from typing import TypeAlias

    from streams.domain.contract import Contract
    from streams.domain.decisions import Severity
    from streams.domain.facts import Fact

    Word: TypeAlias = Callback | Answer | RefundNotice

ALREADY = Ruling("applied", "already-success")
APPLIED = {
    "success": Ruling("applied", "success"),
    "failure": Ruling("applied", "failure"),
    "closed": Ruling("applied", "closed"),
    "doubt": Ruling("applied", "unknown"),
    "pending": Ruling("applied", "pending"),
    "authorised": Ruling("applied", "authorised"),
}
STALE = Ruling("stale", "late-word")
ENDED = Ruling("stale", "ended-already")
SUCCEEDED = frozenset({SUCCESS, RETURNED})


def refuse_test_mode(turn: Turn, fact: Fact) -> Ruling:
    """A test notice on the live stream says nothing about any payment, known or not."""
    turn.contest(
        "ENVIRONMENT_MISMATCH",
        digest("test-mode", fact.key or fact.payload),
        ref=fact.ref,
        payment_no=fact.payment_no,
        merchant=fact.merchant,
        evidence=fact.ref,
        detail="livemode is false; point the channel's test endpoint elsewhere",
    )
    return Ruling("conflict", "test-mode")


def keyless(turn: Turn, target: Target, fact: Fact) -> Ruling:
    """It cannot be told from a repetition, so it moves nothing; one query settles what it may have meant."""
    new = turn.contest(
        "MISSING_DEDUP_KEY",
        digest("no-key", target.key),
        ref=target.key,
        payment_no=target.number,
        merchant=target.merchant,
        evidence=fact.ref,
        detail="event_id and transaction are both absent; send at least one of them",
    )
    if new:
        turn.request(target, "QUERY", "no-key")
    return Ruling("conflict", "no-key")


def unmapped(turn: Turn, target: Target, fact: Fact, detail: str) -> None:
    turn.contest(
        "STATUS_UNMAPPED",
        digest("unmapped", fact_id(fact)),
        ref=fact.ref,
        payment_no=target.number,
        merchant=target.merchant,
        evidence=fact.ref,
        detail=detail,
    )


def not_mapped(turn: Turn, target: Target, fact: Fact) -> Ruling:
    """A word that moves nothing, because nobody has said what it means."""
    unmapped(turn, target, fact, f"{fact.source} status {fact.word!r} is not mapped; map it in the channel's adapter")
    return Ruling("conflict", "not-mapped")


def fact_id(fact: Fact) -> bytes:
    """The event's key; an answer has none and is what it says."""
    return fact.key or digest(fact.source, fact.word, fact.ref, fact.witness)


def meaning_of(target: Target, event: Word, contract: Contract) -> Meaning:
    """What the status says about the operation; a word nobody has mapped can only be unknown (R-006)."""
    status = event.status
    if status == "DECLINED_RETRYABLE" and not contract.decline_is_final:
        return DECLINE_NOT_FINAL
    if status == NOT_SENT and type(event) is Answer:
        return UNSENT
    if type(event) is not Answer and not contract.notice.proves_money and status in MOVING:
        return UNPROVEN
    if type(target) is not Payment:
        words = CAPTURE_WORDS if target.kind == "CAPTURE" else OPERATION_WORDS
        return words.get(status, UNMAPPED)
    if type(event) is Answer:
        return (CLOSE_WORDS if event.request == "close" else WORDS).get(status, UNMAPPED)
    return WORDS.get(status, UNMAPPED)


# -- unknown


def doubt(turn: Turn, target: Target, fact: Fact, meaning: Meaning) -> Ruling:
    """A word that settles nothing: at most it leads to UNKNOWN and to a question."""
    before = target.state
    after = MACHINES[target.kind][before].get(meaning.input)
    if meaning is UNMAPPED:
        unmapped(turn, target, fact, f"status {fact.word!r} is not mapped; map it in the channel's adapter")
    if after is None:
        return Ruling("conflict", "not-mapped") if meaning is UNMAPPED else STALE
    if after != before:
        enter_unknown(turn, target)
        turn.enter(target, after, before)
    # An answer to a query asks again at once only if it told something new; else a channel that keeps contradicting
    # itself would be asked in a tight loop.
    if meaning.ask and (fact.source != "query" or after != before):
        turn.request(target, "QUERY", fact.word)
    if meaning is UNMAPPED:
        return Ruling("conflict", "not-mapped")
    if meaning is INCOMPLETE:
        return Ruling("applied", "incomplete-success")
    if meaning is UNPROVEN:
        return Ruling("applied", "unproven")
    return APPLIED[meaning.input]


# -- amounts


class Wrong(NamedTuple):
    """How an amount is not ours: the discrepancy, the rule, and what was said."""

    kind: str
    rule: str
    detail: str
    amount: int | None
    currency: str | None


def blocked(turn: Turn, target: Target, event: Word, fact: Fact) -> Ruling | None:
    """Amount and currency are compared on every success, in every state (R-078); what is absent is not compared."""
    text = None if isinstance(event, Answer) else event.amount_text
    if text:
        wrong = ("INVALID_AMOUNT", "amount-invalid", f"amount {text!r} does not fit the currency")
    elif event.currency is not None and event.currency != target.currency:
        wrong = ("CURRENCY_MISMATCH", "currency-differs", f"currency is {event.currency}, ours {target.currency}")
    elif event.amount is not None and event.amount != target.amount:
        wrong = ("AMOUNT_MISMATCH", "amount-differs", f"amount is {event.amount}, ours {target.amount}")
    else:
        return None
    return contest_amount(turn, target, fact, Wrong(*wrong, event.amount, event.currency))


def contest_amount(turn: Turn, target: Target, fact: Fact, wrong: Wrong) -> Ruling:
    turn.contest(
        wrong.kind,
        digest(wrong.rule, target.key, fact_id(fact), wrong.amount, wrong.currency),
        ref=fact.ref,
        payment_no=target.number,
        merchant=target.merchant,
        evidence=fact.ref,
        detail=wrong.detail,
    )
    return Ruling("conflict", wrong.rule, wrong.detail)


# -- success and failure as facts


def succeed(turn: Turn, target: Target, fact: Fact, after: str, *, transaction: str, sequence: int | None) -> None:
    """The transition to success: witnessed, and nothing is awaited any more."""
    before = target.state
    target.evidence = fact.evidence
    target.success_at = fact.time
    target.sequence = sequence
    keep_success(turn, target, transaction, fact)
    await_final(turn, target, fact.ref)
    turn.enter(target, after, before)


def fail(turn: Turn, target: Target, event: Word, fact: Fact, meaning: Meaning) -> Ruling:
    """A failure: it ends what is open, and contradicts what succeeded."""
    before = target.state
    after = MACHINES[target.kind][before].get(meaning.input)
    stands = before in SUCCEEDED
    severity: Severity = "info" if stands and excused(target, event, fact) else "high"
    refusal = Refusal(fact_id(fact), fact.ref, severity)
    keep_refusal(target, refusal)
    for paid in target.paid:
        contest_pair(turn, target, paid, refusal, fact, severity=severity)
    if after is None:
        return Ruling("illegal", "success-stays") if stands else ENDED
    target.evidence = fact.evidence
    await_final(turn, target, fact.ref)
    turn.enter(target, after, before)
    return APPLIED[meaning.input]


def keep_refusal(target: Target, refusal: Refusal) -> None:
    if len(target.refusals) < MAX_FACTS and all(known.fact != refusal.fact for known in target.refusals):
        target.refusals = (*target.refusals, refusal)


def excused(target: Target, event: Word, fact: Fact) -> bool:
    """A failure that names another channel transaction, or is older than the success, contradicts nothing."""
    transaction = reference(target, event)
    if transaction and target.transaction and transaction != target.transaction:
        return True
    sequence = sequence_of(event)
    if sequence is not None and target.sequence is not None:
        return sequence < target.sequence
    return target.success_at is not None and fact.time < target.success_at


def sequence_of(event: Word) -> int | None:
    """The channel's own order of its notices; answers have none."""
    return None if isinstance(event, Answer) else event.sequence


def reference(target: Target, event: Word) -> str | None:
    """The channel's reference of this very operation."""
    if type(event) is RefundNotice and target.kind == "REFUND":
        return event.refund_transaction
    return event.transaction


# -- contradictions


def keep_success(turn: Turn, target: Target, transaction: str, fact: Fact, *, channel: str = "") -> tuple[Paid, bool]:
    """The fact that a transaction succeeded, against every other one that did; True if it was not known before."""
    for known in target.paid:
        if known.transaction == transaction:
            return known, False
    paid = Paid(transaction, fact.ref, channel)
    for other in target.paid:
        _contest_twice(turn, target, other, paid, fact)
    if len(target.paid) < MAX_FACTS:
        target.paid = (*target.paid, paid)
    return paid, True


def contest_success(turn: Turn, target: Target, transaction: str, fact: Fact, *, channel: str = "") -> bool:
    """A success the machine refuses, against every failure of the operation; True if this transaction was not known before."""
    paid, new = keep_success(turn, target, transaction, fact, channel=channel)
    if target.state in SUCCEEDED:
        for refusal in target.refusals:
            contest_pair(turn, target, paid, refusal, fact, severity=refusal.severity)
        return new
    for refusal in target.refusals or (ended(target),):
        contest_pair(turn, target, Paid(transaction, fact.ref), refusal, fact, severity="high")
    return new


def contest_pair(turn: Turn, target: Target, paid: Paid, refusal: Refusal, fact: Fact, *, severity: str) -> None:
    stands = target.state in SUCCEEDED
    turn.contest(
        "ILLEGAL_TRANSITION" if stands else "LATE_SUCCESS",
        digest("paid-and-refused", target.key, paid.transaction, refusal.fact),
        ref=refusal.ref if stands else paid.ref,
        payment_no=target.number,
        merchant=target.merchant,
        evidence=fact.ref,
        detail=f"success of transaction {paid.transaction} ({paid.ref}) against {refusal.ref}; {target.key} is {target.state}",
        severity="info" if severity == "info" else "high",
    )


def _contest_twice(turn: Turn, target: Target, one: Paid, other: Paid, fact: Fact) -> None:
    pair = digest("paid-twice", target.key, *sorted((one.transaction, other.transaction)))
    if target.kind == "REFUND":
        turn.contest(
            "CHANNEL_ONLY",
            pair,
            ref=other.transaction,
            payment_no=target.number,
            merchant=target.merchant,
            evidence=fact.ref,
            detail=f"refunds {one.transaction} and {other.transaction} both left under one number; only one was asked for",
        )
        return
    turn.contest(
        "DUPLICATE_PAYMENT",
        pair,
        ref=target.key,
        payment_no=target.number,
        merchant=target.merchant,
        evidence=fact.ref,
        detail=f"transactions {one.transaction} and {other.transaction} both succeeded under one payment; return one of them",
    )
