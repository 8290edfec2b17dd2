"""The one door to a channel for a charge: start, retry, fallback and re-issue all pass `may_submit`, and nothing else submits.

It opens only if no other payment of the same thing has the money or may still get it, every earlier attempt of this one is known not
to have been accepted, and the channel's contract allows the request (R-017, R-050, R-157). To send the same request again is lawful
only where the channel promised to know its key for as long as we may retry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from streams.domain import balance
from streams.domain.order import MAX_ATTEMPTS, Attempt, Payment
from streams.domain.schedule import SECOND_MS
from streams.domain.tables import AUTHORIZED, INIT, MACHINE, OPEN
from streams.domain.turn import Ruling, Turn

if TYPE_CHECKING:
    from streams.domain.contract import Contract


def may_submit(turn: Turn, payment: Payment, channel: str) -> Ruling | None:
    """None: a new attempt may be made at `channel`. Else the refusal, the first that holds."""
    move = "start" if payment.state == INIT else "retry"
    if MACHINE[payment.state].get(move) is None:
        return Ruling("refused", "not-init", f"payment {payment.key} is {payment.state}")
    refusal = others(turn, payment)
    if refusal is None and move == "retry":
        refusal = _earlier(turn, payment, channel)
    return refusal


def _earlier(turn: Turn, payment: Payment, channel: str) -> Ruling | None:
    """Whether an earlier attempt may have been accepted, or no other one is lawful."""
    if not all(attempt.refused for attempt in payment.made):
        return Ruling(
            "refused", "attempt-in-flight", f"attempt {payment.attempts} of {payment.key} may have been accepted"
        )
    if payment.attempts >= MAX_ATTEMPTS:
        return Ruling("refused", "too-many-attempts", f"at most {MAX_ATTEMPTS} of one payment")
    if turn.contract(channel).isolation == "manual":
        return Ruling("refused", "channel-isolated", f"the contract of {channel} leaves another attempt to people")
    return None


def others(turn: Turn, payment: Payment) -> Ruling | None:
    """Whether another payment has paid, or may still pay, what this one pays."""
    group = [other for other in turn.order.payments if other is not payment and other.pays_same(payment)]
    total = payment.money.total
    if total is None:
        for other in group:
            if other.pays:
                return Ruling("refused", "already-paid", f"by payment {other.key}")
            if other.state in OPEN or other.state == AUTHORIZED:
                return Ruling("refused", "another-in-flight", f"payment {other.key} is {other.state}")
        return None
    if payment.amount + claimed(group) > total:
        return Ruling("refused", "over-total", f"the legs of {turn.order.order_id} would exceed {total}")
    return None


def claimed(group: list[Payment]) -> int:
    """What legs have brought in or may still bring in."""
    open_ = sum(other.amount for other in group if other.state in OPEN or other.state in {INIT, AUTHORIZED})
    return open_ + balance.paid(group)


def may_resend(payment: Payment, contract: Contract, at: int) -> bool:
    """Whether the last submit may be sent again under its own key at `at`: the channel must know the key until an answer can come.

    A channel without idempotency gets every request at most once; a lost one is found by query (R-050, R-051).
    """
    idempotency = contract.idempotency
    if not contract.resubmits or idempotency is None or "submit" not in idempotency.operations:
        return False
    if contract.isolation == "manual" or payment.made[-1].refused:
        return False
    attempt = payment.made[-1]
    if attempt.sends >= contract.most_submits:
        return False
    forgotten = None if idempotency.life_s is None else attempt.at + idempotency.life_s * SECOND_MS
    lease_ends = at + contract.lease_s * SECOND_MS
    in_window = at <= attempt.at + contract.submit_retry_window_s * SECOND_MS
    return in_window and (forgotten is None or lease_ends < forgotten)


def sent_again(payment: Payment, at: int) -> None:
    """The last attempt was sent once more."""
    *earlier, attempt = payment.made
    payment.tries = (*earlier, structs.replace(attempt, sends=attempt.sends + 1, last_at=at))
    payment.resends += 1


def attempt_at(payment: Payment, channel: str) -> Attempt | None:
    """The last attempt at a channel."""
    return next((one for one in reversed(payment.made) if one.channel == channel), None)


def refuse_attempt(payment: Payment, channel: str, evidence: str, *, whole: bool) -> None:
    """Keep the evidence that the last attempt at `channel` was not accepted: one sending of it, or the `whole` of it."""
    payment.tries = payment.made
    refused = attempt_at(payment, channel)
    if refused is None or refused.refused is not None:
        return
    refusals = refused.sends if whole else refused.refusals + 1
    witness = evidence if refusals >= refused.sends else None
    kept = structs.replace(refused, refusals=refusals, refused=witness)
    payment.tries = tuple(kept if one is refused else one for one in payment.tries)


def not_found_witnesses(payment: Payment, channel: str, contract: Contract, at: int) -> bool:
    """Whether "not found" at `at` proves that no sending of the last attempt at `channel` was accepted.

    It does if the contract says so, once its lease is over, so that no connector sends it any more, and the channel has had the
    time it promised to find what was sent at the last moment.
    """
    age = None if contract.query is None else contract.query.not_found_after_s
    attempt = attempt_at(payment, channel)
    if age is None or attempt is None:
        return False
    return at >= max(attempt.at, attempt.last_at) + (contract.lease_s + age) * SECOND_MS
