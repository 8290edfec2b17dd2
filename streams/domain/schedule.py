"""Time: what falls due, and what it may do.

Due times live in the order. A due time asks a channel, tells a person, or closes a payment for which no request was ever made;
it writes no other final state (R-005, R-056).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import structs

from streams.domain.identity import digest
from streams.domain.order import Order, Parked, Payment, Refusal, due
from streams.domain.tables import INIT, MACHINE, OPEN
from streams.domain.turn import Ruling, Turn

if TYPE_CHECKING:
    from collections.abc import Callable

SECOND_MS: Final = 1000
MINUTE_MS: Final = 60 * SECOND_MS


def stuck(payment: Payment) -> bytes:
    """The name of the discrepancy over a payment that nobody could settle."""
    return digest("stuck", payment.key)


def unknown_order(parked: Parked) -> bytes:
    """The name of the discrepancy over evidence whose payment does not appear."""
    return digest("unknown-order", parked.key or parked.payload)


def ended(payment: Payment) -> Refusal:
    """What a late success contradicts where no channel ever said no: our own ending of the payment."""
    return Refusal(digest("ended", payment.key), payment.key, "high")


def start_clock(turn: Turn, payment: Payment) -> None:
    """A request left: the first query and the end of the query window."""
    contract = turn.contract(payment.channel)
    payment.started_at = turn.at
    payment.query_at = turn.at + contract.query_after_s[0] * SECOND_MS
    payment.stuck_at = turn.at + contract.query_window_s * SECOND_MS


def enter_unknown(turn: Turn, payment: Payment) -> None:
    """The window is counted from the doubt; a schedule that had ended begins again."""
    contract = turn.contract(payment.channel)
    payment.stuck_at = turn.at + contract.query_window_s * SECOND_MS
    if payment.query_at is None:
        payment.query_at = turn.at + contract.query_after_s[0] * SECOND_MS


def await_final(turn: Turn, payment: Payment, evidence: str) -> None:
    """The final word came: nothing is due any more."""
    payment.query_at = None
    payment.stuck_at = None
    if turn.order.conflicts:
        turn.settle(stuck(payment), evidence, "the final word came")


def next_query(turn: Turn, payment: Payment) -> int | None:
    """When the schedule asks next, after `polls` queries; None past the window.

    The contract's own moments first, then the last distance doubled each time, plus up to an eighth of it derived from the
    operation's number, so that payments started together do not ask together and a replay asks at the same moments (R-053).
    """
    after = turn.contract(payment.channel).query_after_s
    assert payment.started_at is not None
    if payment.polls < len(after):
        moment = payment.started_at + after[payment.polls] * SECOND_MS
    else:
        distance = (after[-1] * SECOND_MS) << min(payment.polls - len(after), 16)
        jitter = int.from_bytes(digest("jitter", payment.key, payment.polls)[:4], "big")
        moment = turn.at + distance + jitter % (distance // 8 + 1)
    moment = max(moment, turn.at + MINUTE_MS)
    return moment if payment.stuck_at is None or moment < payment.stuck_at else None


def fire(turn: Turn, at: int, free: Callable[[Turn], None]) -> None:
    """Every due time up to `at`, in due order, each seeing its own moment. `free` handles evidence that no longer waits."""
    first = True
    while (moment := due(turn.order)) is not None and moment <= at:
        turn.set_time(moment)
        if not first:
            turn.open()
        first = False
        if _fire_payment(turn, moment):
            free(turn)
        else:
            _park_window_over(turn, moment)


def _fire_payment(turn: Turn, moment: int) -> bool:
    for payment in turn.order.payments:
        if payment.state == INIT and payment.expires_at <= moment:
            _expire(turn, payment)
            return True
        if payment.state in OPEN:
            if payment.stuck_at is not None and payment.stuck_at <= moment:
                _window_over(turn, payment)
                return True
            if payment.query_at is not None and payment.query_at <= moment:
                _query(turn, payment)
                return True
    return False


def _expire(turn: Turn, payment: Payment) -> None:
    before = payment.state
    payment.refusals = (ended(payment),)
    turn.enter(payment, MACHINE[before]["expire"], before)
    ruling = Ruling("applied", "init-expired")
    turn.close(ruling, source="timer", word="expire", evidence=payment.key, payment=payment, before=before)


def _query(turn: Turn, payment: Payment) -> None:
    payment.polls += 1
    payment.query_at = next_query(turn, payment)
    turn.request(payment, "QUERY", "query-due")
    _close_timer(turn, payment, "query", "query-due")


def _window_over(turn: Turn, payment: Payment) -> None:
    payment.stuck_at = None
    payment.query_at = None
    turn.contest(
        "STUCK_UNKNOWN",
        stuck(payment),
        ref=payment.key,
        payment_no=payment.payment_no,
        evidence=payment.key,
        detail=f"no final word from {payment.channel} in the query window; ask the channel's support",
    )
    _close_timer(turn, payment, "window", "window-over")


def _close_timer(turn: Turn, payment: Payment, word: str, rule: str) -> None:
    ruling = Ruling("applied", rule)
    turn.close(ruling, source="timer", word=word, evidence=payment.key, payment=payment, before=payment.state)


def _park_window_over(turn: Turn, moment: int) -> None:
    order = turn.order
    index, parked = next(
        (index, parked)
        for index, parked in enumerate(order.parked)
        if parked.deadline is not None and parked.deadline <= moment
    )
    told = structs.replace(parked, deadline=None)
    order.parked = (*order.parked[:index], told, *order.parked[index + 1 :])
    contest_unknown_order(turn, parked, ref := ref_of(order, parked))
    turn.close(Ruling("applied", "park-window-over"), source="timer", word="park", evidence=ref)


def ref_of(order: Order, parked: Parked) -> str:
    """What the parked event calls itself; its key if that was forgotten."""
    for seen in order.seen:
        if seen.payload == parked.payload and seen.key == parked.key:
            return seen.ref
    return parked.key.hex()


def contest_unknown_order(turn: Turn, parked: Parked, ref: str) -> None:
    turn.contest(
        "UNKNOWN_ORDER",
        unknown_order(parked),
        ref=ref,
        payment_no=None,
        evidence=ref,
        detail="the channel speaks of a payment that was never started here",
    )
