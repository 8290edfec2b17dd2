"""Time: what is asked when, and until when.

Due times live in the order. A schedule is the contract's own moments first, then doubled distances with a jitter derived from the
operation's number, so that operations started together do not ask together and a replay asks at the same moments (R-053). Time,
count and, at the connector, concurrency bound it together (R-054); what it could not settle goes to a person (R-056).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from streams.domain.identity import digest
from streams.domain.order import Operation, Order, Parked, Payment, Refusal, Target
from streams.domain.tables import UNKNOWN

if TYPE_CHECKING:
    from streams.domain.contract import Contract
    from streams.domain.turn import Turn

SECOND_MS: Final = 1000
MINUTE_MS: Final = 60 * SECOND_MS
RETRIES_S: Final = (1, 5, 30, 300, 1800)
MOST_RETRIES: Final = 8


def retry_after(failures: int) -> int | None:
    """Seconds until what has failed `failures` times is tried again: ascending, the last distance repeats; None after the eighth.

    For handling outside the law that repeats without a side effect at a channel (R-084): the notifier's deliveries, and a connector's
    calls that certainly never left, or only ask. The law itself never calls it. Evidence cannot fail to be handled: it is decided,
    waits, or is a dead letter. And a request to a channel follows its lease and the gate, or the query schedule (R-052).
    """
    if failures < 1:
        raise ValueError(f"failures is {failures}; count the one that has just happened, from 1")
    if failures >= MOST_RETRIES:
        return None
    return RETRIES_S[min(failures, len(RETRIES_S)) - 1]


def retry_at(failed_at: int, failures: int) -> int | None:
    """The moment of the next try after a failure at `failed_at`, both in milliseconds, UTC; None: give it up, as a dead letter (R-084)."""
    after = retry_after(failures)
    return None if after is None else failed_at + after * SECOND_MS


def stuck(target: Target) -> bytes:
    """The name of the discrepancy over an operation that nobody could settle."""
    return digest("stuck", target.key)


def unknown_order(parked: Parked) -> bytes:
    """The name of the discrepancy over evidence whose operation does not appear."""
    return digest("unknown-order", parked.key or parked.payload)


def ended(target: Target) -> Refusal:
    """What a late success contradicts where no channel ever said no: our own ending of the operation."""
    return Refusal(digest("ended", target.key), target.key, "high")


def ref_of(order: Order, parked: Parked) -> str:
    """What the parked event calls itself; its key if that was forgotten."""
    for seen in order.seen:
        if seen.payload == parked.payload and seen.key == parked.key:
            return seen.ref
    return parked.key.hex()


# -- one operation's times


def query_moments(target: Target, contract: Contract) -> tuple[int, ...]:
    """Seconds after the start at which it is asked about first."""
    if target.kind == "REFUND":
        return contract.refunds.poll_after_s
    return contract.query_after_s


def window_s(target: Target, contract: Contract) -> int:
    """How long we ask by ourselves, in seconds."""
    return contract.refunds.poll_window_s if target.kind == "REFUND" else contract.query_window_s


def start_clock(turn: Turn, payment: Payment) -> None:
    """A submit left: the first query, the end of the window, and the lease of the submit where it may be sent again."""
    contract = turn.contract(payment.channel)
    payment.started_at = turn.at
    payment.polls = 0
    _first_query(turn, payment, contract)
    told = contract.silence_is_stuck or payment.state == UNKNOWN  # another attempt does not take the doubt away
    payment.stuck_at = turn.at + contract.query_window_s * SECOND_MS if told else None
    payment.resend_at = turn.at + contract.lease_s * SECOND_MS if contract.resubmits else None


def start_operation(turn: Turn, operation: Operation) -> None:
    """The request of a capture, void or refund leaves."""
    contract = turn.contract(operation.channel)
    _first_query(turn, operation, contract)
    operation.stuck_at = turn.at + window_s(operation, contract) * SECOND_MS if contract.silence_is_stuck else None


def _first_query(turn: Turn, target: Target, contract: Contract) -> None:
    """An isolated channel is not asked by itself (R-051), and one that cannot be asked not at all."""
    alone = contract.isolation == "manual" or not contract.asks
    target.query_at = None if alone else turn.at + query_moments(target, contract)[0] * SECOND_MS


def enter_unknown(turn: Turn, target: Target) -> None:
    """The window is counted from the doubt; a schedule that had ended begins again."""
    contract = turn.contract(target.channel)
    target.stuck_at = turn.at + window_s(target, contract) * SECOND_MS
    if target.query_at is None:
        _first_query(turn, target, contract)


def await_final(turn: Turn, target: Target, evidence: str) -> None:
    """The final word came: nothing is due any more."""
    target.query_at = None
    target.stuck_at = None
    if type(target) is Payment:
        target.resend_at = None
    if turn.order.conflicts:
        turn.settle(stuck(target), evidence, "the final word came")


def next_query(turn: Turn, target: Target) -> int | None:
    """When the schedule asks next, after `polls` queries; None past the window or the contract's count."""
    contract = turn.contract(target.channel)
    after = query_moments(target, contract)
    assert target.started_at is not None
    if target.polls >= contract.most_queries:
        return None
    if target.polls < len(after):
        moment = target.started_at + after[target.polls] * SECOND_MS
    else:
        distance = (
            min(after[-1] << min(target.polls - len(after), 16), max(after[-1], contract.query_max_delay_s)) * SECOND_MS
        )
        jitter = int.from_bytes(digest("jitter", target.key, target.polls)[:4], "big")
        moment = turn.at + distance + jitter % (distance * contract.query_jitter_pct // 100 + 1)
    moment = max(moment, turn.at + min(after[0] * SECOND_MS, MINUTE_MS))
    return moment if moment < _window_ends(target, contract) else None


def _window_ends(target: Target, contract: Contract) -> int:
    """Silence alone does not stretch the window beyond its length from the start."""
    if target.stuck_at is not None:
        return target.stuck_at
    assert target.started_at is not None
    return target.started_at + window_s(target, contract) * SECOND_MS
