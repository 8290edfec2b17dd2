"""What a channel's word does to one payment.

First what the word is worth (a test notice, a word without a key or a meaning, an amount that is not ours), then its outcome, then
the machine. Successes and failures are kept as facts whatever the state, and every success that meets a failure or another
success is contested under an id made of that pair: every arrival order contests the same pairs, and only the type of the
discrepancy and the state tell which came first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streams.domain.events import Answer, Callback
from streams.domain.identity import digest
from streams.domain.order import MAX_FACTS, Paid, Payment, Refusal
from streams.domain.schedule import await_final, ended, enter_unknown
from streams.domain.tables import (
    CLOSE_WORDS,
    DECLINE_NOT_FINAL,
    INCOMPLETE,
    MACHINE,
    OPEN,
    SUCCESS,
    UNMAPPED,
    WORDS,
    Meaning,
)
from streams.domain.turn import Ruling, Turn

if TYPE_CHECKING:
    from streams.domain.contract import Contract
    from streams.domain.decisions import Severity
    from streams.domain.facts import Fact

ALREADY = Ruling("applied", "already-success")
APPLIED = {
    "success": Ruling("applied", "success"),
    "failure": Ruling("applied", "failure"),
    "closed": Ruling("applied", "closed"),
    "doubt": Ruling("applied", "unknown"),
    "pending": Ruling("applied", "pending"),
}
STALE = Ruling("stale", "late-word")
ENDED = Ruling("stale", "ended-already")
SECOND = Ruling("applied", "second-success")


def refuse_test_mode(turn: Turn, fact: Fact) -> Ruling:
    """A test notice on the live stream says nothing about any payment, known or not."""
    turn.contest(
        "ENVIRONMENT_MISMATCH",
        digest("test-mode", fact.key or fact.payload),
        ref=fact.ref,
        payment_no=fact.payment_no,
        evidence=fact.ref,
        detail="livemode is false; point the channel's test endpoint elsewhere",
    )
    return Ruling("conflict", "test-mode")


def judge(turn: Turn, payment: Payment, event: Callback | Answer, fact: Fact) -> Ruling:
    """The ruling on one word about a started or ended payment."""
    if type(event) is Callback:
        if not fact.key:
            return _keyless(turn, payment, fact)
    elif isinstance(event, Answer) and event.request not in {"submit", "query", "close"}:
        _unmapped(turn, payment, fact, f"an answer to a {event.request} request that was never made")
        return Ruling("conflict", "not-asked")
    meaning = meaning_of(event, turn.contract(payment.channel))
    if meaning is UNMAPPED:
        _unmapped(turn, payment, fact, f"status {event.status!r} is not mapped; map it in the channel's adapter")
    if meaning.outcome == "success":
        return _success(turn, payment, event, fact)
    if meaning.outcome == "failure":
        return _failure(turn, payment, event, fact, meaning)
    return _unknown(turn, payment, fact, meaning)


def meaning_of(event: Callback | Answer, contract: Contract) -> Meaning:
    """What the status says about the payment; a word nobody has mapped can only be unknown (R-006)."""
    if type(event) is Answer and event.request == "close":
        return CLOSE_WORDS.get(event.status, UNMAPPED)
    if event.status == "DECLINED_RETRYABLE" and not contract.decline_is_final:
        return DECLINE_NOT_FINAL
    return WORDS.get(event.status, UNMAPPED)


def _keyless(turn: Turn, payment: Payment, fact: Fact) -> Ruling:
    new = turn.contest(
        "MISSING_DEDUP_KEY",
        digest("no-key", payment.key),
        ref=payment.key,
        payment_no=payment.payment_no,
        evidence=fact.ref,
        detail="event_id and transaction are both absent; send at least one of them",
    )
    if new and payment.state in OPEN:
        turn.request(payment, "QUERY", "no-key")
    return Ruling("conflict", "no-key")


def _unmapped(turn: Turn, payment: Payment, fact: Fact, detail: str) -> None:
    turn.contest(
        "STATUS_UNMAPPED",
        digest("unmapped", _fact_id(fact)),
        ref=fact.ref,
        payment_no=payment.payment_no,
        evidence=fact.ref,
        detail=detail,
    )


def _fact_id(fact: Fact) -> bytes:
    """The event's key; an answer has none and is what it says."""
    return fact.key or digest(fact.source, fact.word, fact.ref)


# -- unknown


def _unknown(turn: Turn, payment: Payment, fact: Fact, meaning: Meaning) -> Ruling:
    before = payment.state
    after = MACHINE[before].get(meaning.input)
    if after is None:
        return Ruling("conflict", "not-mapped") if meaning is UNMAPPED else STALE
    if after != before:
        enter_unknown(turn, payment)
        turn.enter(payment, after, before)
    # An answer to a query asks again at once only if it told something new; else a channel that keeps contradicting
    # itself would be asked in a tight loop.
    if meaning.ask and (fact.source != "query" or after != before):
        turn.request(payment, "QUERY", fact.word)
    if meaning is UNMAPPED:
        return Ruling("conflict", "not-mapped")
    if meaning is INCOMPLETE:
        return Ruling("applied", "incomplete-success")
    return APPLIED[meaning.input]


# -- success


def _success(turn: Turn, payment: Payment, event: Callback | Answer, fact: Fact) -> Ruling:
    transaction = event.transaction
    blocked = _blocked(turn, payment, event, fact)
    if blocked is not None:
        return blocked
    if not transaction or event.amount is None or event.currency is None:
        return _unknown(turn, payment, fact, INCOMPLETE)
    before = payment.state
    after = MACHINE[before].get("success")
    if after is None and before != SUCCESS:
        _contest_success(turn, payment, transaction, fact)
        return Ruling("illegal", "late-success")
    _keep(payment, event)
    if after is None:
        if transaction != payment.transaction:
            _contest_success(turn, payment, transaction, fact)
            return Ruling("conflict", "second-transaction")
        return ALREADY
    payment.transaction = transaction
    payment.evidence = fact.ref
    payment.success_at = fact.time
    payment.sequence = event.sequence if type(event) is Callback else None
    payment.paid = (Paid(transaction, fact.ref),)
    await_final(turn, payment, fact.ref)
    turn.enter(payment, after, before)
    return _announce(turn, payment, transaction, fact)


def _blocked(turn: Turn, payment: Payment, event: Callback | Answer, fact: Fact) -> Ruling | None:
    """Amount and currency are compared on every success, in every state (R-078); what is absent is not compared."""
    if type(event) is Callback and event.amount_text:
        kind, rule, detail = (
            "INVALID_AMOUNT",
            "amount-invalid",
            f"amount {event.amount_text!r} does not fit the currency",
        )
    elif event.currency is not None and event.currency != payment.currency:
        kind, rule, detail = (
            "CURRENCY_MISMATCH",
            "currency-differs",
            f"currency is {event.currency}, ours {payment.currency}",
        )
    elif event.amount is not None and event.amount != payment.amount:
        kind, rule, detail = "AMOUNT_MISMATCH", "amount-differs", f"amount is {event.amount}, ours {payment.amount}"
    else:
        return None
    turn.contest(
        kind,
        digest(rule, payment.key, _fact_id(fact), event.amount, event.currency),
        ref=fact.ref,
        payment_no=payment.payment_no,
        evidence=fact.ref,
        detail=detail,
    )
    return Ruling("conflict", rule, detail)


def _keep(payment: Payment, event: Callback | Answer) -> None:
    """The fee of the highest version; without versions, of the first notice that states one."""
    if type(event) is not Callback:
        return
    if event.version is not None and (payment.version is None or event.version > payment.version):
        payment.version = event.version
        if event.fee is not None:
            payment.fee = event.fee
    elif payment.fee is None and event.version == payment.version:
        payment.fee = event.fee


def _announce(turn: Turn, payment: Payment, transaction: str, fact: Fact) -> Ruling:
    """One announcement for what is to be paid: a second paid payment of it is a duplicate for a person (R-040, R-248)."""
    second = False
    for other in turn.order.payments:
        if other is not payment and other.state == SUCCESS and other.pays_same(payment):
            second = True
            turn.contest(
                "DUPLICATE_PAYMENT",
                digest("both-paid", *sorted((other.key, payment.key))),
                ref=payment.key,
                payment_no=payment.payment_no,
                evidence=fact.ref,
                detail=f"payments {other.key} and {payment.key} are both paid; return one of them",
            )
    if second:
        return SECOND
    turn.announce(payment, transaction, fact.ref)
    return APPLIED["success"]


def _contest_success(turn: Turn, payment: Payment, transaction: str, fact: Fact) -> None:
    """A success the machine refuses, against every failure and every other success of the payment."""
    paid = next((known for known in payment.paid if known.transaction == transaction), None)
    if paid is None:
        paid = Paid(transaction, fact.ref)
        for other in payment.paid:
            _contest_twice(turn, payment, other, paid, fact)
        if len(payment.paid) < MAX_FACTS:
            payment.paid = (*payment.paid, paid)
    if payment.state == SUCCESS:
        for refusal in payment.refusals:
            _contest_pair(turn, payment, paid, refusal, fact, severity=refusal.severity)
        return
    for refusal in payment.refusals or (ended(payment),):
        _contest_pair(turn, payment, Paid(transaction, fact.ref), refusal, fact, severity="high")


# -- failure


def _failure(turn: Turn, payment: Payment, event: Callback | Answer, fact: Fact, meaning: Meaning) -> Ruling:
    before = payment.state
    after = MACHINE[before].get(meaning.input)
    severity: Severity = "info" if before == SUCCESS and _excused(payment, event, fact) else "high"
    refusal = Refusal(_fact_id(fact), fact.ref, severity)
    if len(payment.refusals) < MAX_FACTS and all(known.fact != refusal.fact for known in payment.refusals):
        payment.refusals = (*payment.refusals, refusal)
    for paid in payment.paid:
        _contest_pair(turn, payment, paid, refusal, fact, severity=severity)
    if after is None:
        return Ruling("illegal", "success-stays") if before == SUCCESS else ENDED
    payment.evidence = fact.ref
    await_final(turn, payment, fact.ref)
    turn.enter(payment, after, before)
    return APPLIED[meaning.input]


def _excused(payment: Payment, event: Callback | Answer, fact: Fact) -> bool:
    """A failure that names another channel transaction, or is older than the success, contradicts nothing."""
    if event.transaction and event.transaction != payment.transaction:
        return True
    if type(event) is Callback and event.sequence is not None and payment.sequence is not None:
        return event.sequence < payment.sequence
    return payment.success_at is not None and fact.time < payment.success_at


# -- contradictions


def _contest_pair(turn: Turn, payment: Payment, paid: Paid, refusal: Refusal, fact: Fact, *, severity: str) -> None:
    stands = payment.state == SUCCESS
    turn.contest(
        "ILLEGAL_TRANSITION" if stands else "LATE_SUCCESS",
        digest("paid-and-refused", payment.key, paid.transaction, refusal.fact),
        ref=refusal.ref if stands else paid.ref,
        payment_no=payment.payment_no,
        evidence=fact.ref,
        detail=f"success of transaction {paid.transaction} ({paid.ref}) against {refusal.ref}; the payment is {payment.state}",
        severity="info" if severity == "info" else "high",
    )


def _contest_twice(turn: Turn, payment: Payment, one: Paid, other: Paid, fact: Fact) -> None:
    turn.contest(
        "DUPLICATE_PAYMENT",
        digest("paid-twice", payment.key, *sorted((one.transaction, other.transaction))),
        ref=payment.key,
        payment_no=payment.payment_no,
        evidence=fact.ref,
        detail=f"transactions {one.transaction} and {other.transaction} both succeeded under one payment; return one of them",
    )
