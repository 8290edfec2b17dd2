"""What a due time may do: ask a channel, tell a person, and end what needs no channel's word.

Two timers write a final state: INIT expires, because no request was ever made; and an authorisation lapses at the moment that the
channel itself stated, with no capture out. No other path in this file may (R-005, R-056), and a test reads it to be sure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from streams.domain import age, legs
from streams.domain.captures import let_go
from streams.domain.gate import may_resend, sent_again
from streams.domain.order import Parked, Payment, Target, closing_at, due, lapses_at
from streams.domain.refunds import layers_apart
from streams.domain.schedule import SECOND_MS, ended, next_query, ref_of, stuck, unknown_order
from streams.domain.tables import AUTHORIZED, INIT, MACHINE, OPEN
from streams.domain.turn import Ruling, Turn

if TYPE_CHECKING:
    from collections.abc import Callable


def fire(turn: Turn, at: int, free: Callable[[Turn], None]) -> None:
    """Every due time up to `at`, in due order, each seeing its own moment. `free` handles evidence that no longer waits."""
    first = True
    while (moment := due(turn.order)) is not None and moment <= at:
        turn.set_time(moment)
        if not first:
            turn.open()
        first = False
        if _reached(turn.order.age_at, moment):
            age.shrink(turn)
        elif not (_fire_payments(turn, moment) or _fire_operations(turn, moment)):
            _park_window_over(turn, moment)
        free(turn)
        age.rest(turn)


def _reached(moment: int | None, now: int) -> bool:
    return moment is not None and moment <= now


def _fire_payments(turn: Turn, now: int) -> bool:
    for payment in turn.order.payments:
        if payment.state == INIT:
            if payment.expires_at <= now:
                _expire(turn, payment)
                return True
        elif payment.state == AUTHORIZED:
            if _reached(lapses_at(turn.order, payment), now):
                _lapse(turn, payment)
                return True
        elif payment.state in OPEN and _fire_open(turn, payment, now):
            return True
    return False


def _fire_open(turn: Turn, payment: Payment, now: int) -> bool:
    """In order: a person first, then the submit again, then the wish to close, then the plain question."""
    if _reached(payment.stuck_at, now):
        _window_over(turn, payment)
    elif _reached(payment.resend_at, now):
        _resend(turn, payment)
    elif _reached(closing_at(payment), now):
        _ask_to_close(turn, payment)
    elif _reached(payment.query_at, now):
        _query(turn, payment)
    else:
        return False
    return True


def _fire_operations(turn: Turn, now: int) -> bool:
    for operation in turn.order.operations:
        if operation.state in OPEN:
            if _reached(operation.stuck_at, now):
                _window_over(turn, operation)
                return True
            if _reached(operation.query_at, now):
                _query(turn, operation)
                return True
        if _reached(operation.posting_due_at, now):
            layers_apart(turn, operation)
            _close(turn, operation, "posting", "layers-apart")
            return True
    return False


# -- the two that end something


def _expire(turn: Turn, payment: Payment) -> None:
    before = payment.state
    payment.refusals = (ended(payment),)
    turn.enter(payment, MACHINE[before]["expire"], before)
    legs.ended(turn, payment, payment.key)
    _close(turn, payment, "expire", "init-expired", before)


def _lapse(turn: Turn, payment: Payment) -> None:
    before = payment.state
    payment.refusals = (*payment.refusals, ended(payment))
    turn.enter(payment, MACHINE[before]["lapse"], before)
    let_go(turn, payment, payment.key)
    legs.ended(turn, payment, payment.key)
    _close(turn, payment, "lapse", "authorisation-lapsed", before)


# -- those that ask


def _query(turn: Turn, target: Target) -> None:
    target.polls += 1
    target.query_at = next_query(turn, target)
    turn.request(target, "QUERY", "query-due", not_after=target.query_at)
    _close(turn, target, "query", "query-due")


def _ask_to_close(turn: Turn, payment: Payment) -> None:
    """Past its expiry the channel is asked how it stands and to close it; only its word closes it."""
    payment.expired = True
    if turn.contract(payment.channel).isolation == "manual":
        _close(turn, payment, "expire", "left-to-people")
        return
    turn.request(payment, "QUERY", "expired")
    turn.request(payment, "CLOSE", "expired")
    _close(turn, payment, "expire", "close-due")


def _resend(turn: Turn, payment: Payment) -> None:
    """No answer within the lease: the same request under the same key, where the gate lets it (R-031, R-064)."""
    contract = turn.contract(payment.channel)
    if not may_resend(payment, contract, turn.at):
        payment.resend_at = None
        _close(turn, payment, "lease", "resend-refused")
        return
    sent_again(payment, turn.at)
    payment.resend_at = turn.at + contract.lease_s * SECOND_MS
    turn.request(payment, "SUBMIT", "no-answer", not_after=payment.resend_at)
    _close(turn, payment, "lease", "resent")


# -- those that tell a person


def _window_over(turn: Turn, target: Target) -> None:
    target.stuck_at = None
    target.query_at = None
    turn.contest(
        "STUCK_UNKNOWN",
        stuck(target),
        ref=target.key,
        payment_no=target.number,
        merchant=target.merchant,
        evidence=target.key,
        detail=f"no final word from {target.channel} in the query window; ask the channel's support",
    )
    _close(turn, target, "window", "window-over")


def _park_window_over(turn: Turn, now: int) -> None:
    order = turn.order
    index, parked = next((index, parked) for index, parked in enumerate(order.parked) if _reached(parked.deadline, now))
    told = structs.replace(parked, deadline=None)
    order.parked = (*order.parked[:index], told, *order.parked[index + 1 :])
    contest_unknown_order(turn, parked, ref := ref_of(order, parked))
    turn.close(Ruling("applied", "park-window-over"), source="timer", word="park", evidence=ref)


def contest_unknown_order(turn: Turn, parked: Parked, ref: str) -> None:
    turn.contest(
        "UNKNOWN_ORDER",
        unknown_order(parked),
        ref=ref,
        payment_no=None,
        merchant=None,
        evidence=ref,
        detail="the channel speaks of an operation that was never started here",
    )


def _close(turn: Turn, target: Target, word: str, rule: str, before: str | None = None) -> None:
    ruling = Ruling("applied", rule)
    turn.close(ruling, source="timer", word=word, evidence=target.key, payment=target, before=before or target.state)
