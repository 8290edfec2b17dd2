"""What a channel's word does to one payment: it is asked, it is authorised, it succeeds or fails, once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import structs

from streams.domain import captures, gate, identity, legs, links, refunds, returns
from streams.domain.decisions import PayerAction
from streams.domain.events import Answer, Callback
from streams.domain.moment import milliseconds
from streams.domain.order import NOTHING, Payment
from streams.domain.schedule import await_final
from streams.domain.tables import AUTHORIZED, INCOMPLETE, MACHINE, NOT_SENT, OPEN, SUCCESS, UNMAPPED, UNPROVEN, Meaning
from streams.domain.turn import Ruling, Turn
from streams.domain.words import (
    ALREADY,
    APPLIED,
    ENDED,
    STALE,
    blocked,
    contest_success,
    doubt,
    excused,
    fail,
    keyless,
    meaning_of,
    sequence_of,
    succeed,
    unmapped,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from streams.domain.facts import Fact

SECOND = Ruling("applied", "second-success")
OF_PAYMENTS = frozenset({"submit", "query", "close", "bill"})


def judge(turn: Turn, payment: Payment, event: Callback | Answer, fact: Fact) -> Ruling:
    """The ruling on one word about a started or ended payment."""
    if type(event) is Callback and not fact.key:
        return keyless(turn, payment, fact)
    if isinstance(event, Answer):
        ruling = _attempt(turn, payment, event, fact)
        if ruling is not None:
            return ruling
    if returns.is_return(turn, payment, event):
        return returns.payment_returned(turn, payment, event, fact)
    meaning = meaning_of(payment, event, turn.contract(event.channel))
    if meaning.input != "doubt" and fact.source == "submit":
        payment.resend_at = None
    if isinstance(event, Answer) and event.request == "submit" and event.payer_action:
        _tell_payer(turn, payment, event.payer_action)
    return INPUTS.get(meaning.input, _open)(turn, payment, event, fact, meaning)


def _open(turn: Turn, payment: Payment, event: Callback | Answer, fact: Fact, meaning: Meaning) -> Ruling:
    if payment.state in OPEN and meaning not in (UNMAPPED, UNPROVEN) and event.transaction:
        payment.transaction = event.transaction
    return doubt(turn, payment, fact, meaning)


def _tell_payer(turn: Turn, payment: Payment, action: str) -> None:
    """Hand on what the payer needs, once for each submit that was sent; an answer that comes twice tells it once."""
    if payment.state in OPEN and payment.actions < payment.attempts + payment.resends:
        payment.actions += 1
        turn.say(
            PayerAction(
                id=identity.action_id(turn.order, payment, payment.actions),
                order_id=turn.order.order_id,
                payment_no=payment.payment_no,
                merchant=payment.merchant,
                channel=payment.channel,
                action=action,
                decision=turn.decision,
                decided_at=turn.moment,
            )
        )


# -- attempts


def _attempt(turn: Turn, payment: Payment, event: Answer, fact: Fact) -> Ruling | None:
    """What an answer says about our request rather than about the payment."""
    if event.request not in OF_PAYMENTS:
        unmapped(turn, payment, fact, f"an answer to a {event.request} request that was never made")
        return Ruling("conflict", "not-asked")
    return _refused(payment, event, fact) if _not_accepted(turn, payment, event) else None


def _not_accepted(turn: Turn, payment: Payment, event: Answer) -> bool:
    """Whether the contract calls this answer a witness that the request was not accepted (R-006, R-050)."""
    contract = turn.contract(event.channel)
    refused = contract.failures.not_accepted
    if event.request == "submit":
        return (
            event.status == NOT_SENT
            or event.status in refused
            or (event.error_class is not None and event.error_class in refused)
        )
    if event.request != "query" or event.status != "NOT_FOUND":
        return False
    seen_at = turn.at if event.answered_at is None else min(turn.at, milliseconds(event.answered_at))
    return gate.not_found_witnesses(payment, event.channel, contract, seen_at)


def _refused(payment: Payment, event: Answer, fact: Fact) -> Ruling:
    """An attempt ended without anything begun: the payment stays open for another one, or for its close."""
    if payment.state not in OPEN:
        return STALE
    gate.refuse_attempt(payment, event.channel, fact.evidence, whole=event.request == "query")
    if all(attempt.refused for attempt in payment.tries):
        payment.query_at = payment.resend_at = None
    return Ruling("applied", "attempt-refused")


# -- a hold


def _authorised(turn: Turn, payment: Payment, event: Callback | Answer, fact: Fact, _: Meaning) -> Ruling:
    stopped = blocked(turn, payment, event, fact)
    if stopped is not None:
        return stopped
    before = payment.state
    after = MACHINE[before].get("authorised")
    if after is None:
        return STALE
    if event.transaction and before != AUTHORIZED and not links.claim(turn, payment, event, fact):
        return links.not_paid_by(turn, payment, event, fact)
    payment.transaction = event.transaction or payment.transaction
    funds = payment.funds or NOTHING
    stated = event.auth_expires_at
    lapses_at = funds.lapses_at if stated is None else milliseconds(stated)
    if before == AUTHORIZED:
        payment.funds = structs.replace(funds, lapses_at=lapses_at)
        return Ruling("applied", "already-authorised")
    held = payment.amount
    payment.funds = structs.replace(funds, hold=held, authorized=held, lapses_at=lapses_at)
    payment.evidence = fact.evidence
    payment.success_at = fact.time
    payment.sequence = sequence_of(event)
    await_final(turn, payment, fact.ref)
    turn.enter(payment, after, before)
    return APPLIED["authorised"]


def _finished(_turn: Turn, payment: Payment, *_: object) -> Ruling:
    """The channel accepts no more refunds."""
    if payment.state != SUCCESS:
        return STALE
    payment.funds = structs.replace(payment.money, finished=True)
    return Ruling("applied", "finished")


# -- success


def _success(turn: Turn, payment: Payment, event: Callback | Answer, fact: Fact, _: Meaning) -> Ruling:
    stopped = blocked(turn, payment, event, fact)
    if stopped is not None:
        return stopped
    before = payment.state
    after = MACHINE[before].get("success")
    transaction = event.transaction
    if not transaction or event.amount is None or event.currency is None:
        return doubt(turn, payment, fact, INCOMPLETE)
    free = links.claim(turn, payment, event, fact)
    if after is None and before != SUCCESS:
        contest_success(turn, payment, transaction, fact, channel=links.elsewhere(payment, event))
        return Ruling("illegal", "late-success")
    if after is not None and not free:
        return links.not_paid_by(turn, payment, event, fact)
    _keep(payment, event)
    if after is None:
        return _again(turn, payment, transaction, event, fact)
    if before == AUTHORIZED:
        payment.funds = captures.taken(payment, payment.amount, by_word=True)
    payment.transaction = transaction
    payment.channel = event.channel
    succeed(turn, payment, fact, after, transaction=transaction, sequence=sequence_of(event))
    return SECOND if legs.paid(turn, payment, payment.amount, payment.key, fact) else APPLIED["success"]


def _again(turn: Turn, payment: Payment, transaction: str, event: Callback | Answer, fact: Fact) -> Ruling:
    """Another word of success: of the same transaction it confirms; of another one, money came twice (R-040)."""
    if payment.transaction is None:  # a capture paid it, and nobody has named the payment's own transaction before
        payment.transaction = transaction
    if transaction == payment.transaction:
        return ALREADY
    contest_success(turn, payment, transaction, fact, channel=links.elsewhere(payment, event))
    return Ruling("conflict", "second-transaction")


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


# -- failure


def _failure(turn: Turn, payment: Payment, event: Callback | Answer, fact: Fact, meaning: Meaning) -> Ruling:
    if payment.state == SUCCESS and type(event) is Callback and refunds.explains_close(turn, payment, event):
        return Ruling("stale", "closed-by-refund")
    if payment.state == AUTHORIZED and excused(payment, event, fact):
        return STALE
    before = payment.state
    ruling = fail(turn, payment, event, fact, meaning)
    if before == AUTHORIZED:
        captures.let_go(turn, payment, fact.evidence)
    if ruling is not ENDED and payment.state != before:
        legs.ended(turn, payment, fact.evidence)
    return ruling


def _refund_total(turn: Turn, payment: Payment, event: Callback | Answer, fact: Fact, _: Meaning) -> Ruling:
    return refunds.total_stated(turn, payment, event, fact) if type(event) is Callback else STALE


INPUTS: Final[dict[str, Callable[[Turn, Payment, Any, Fact, Meaning], Ruling]]] = {
    "success": _success,
    "failure": _failure,
    "closed": _failure,
    "authorised": _authorised,
    "finished": _finished,
    "refunded": _refund_total,
}
"""What handles each input of the machine; any other leaves the payment open."""
