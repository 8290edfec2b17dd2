"""What an order's payments add up to: one payment pays it, or legs that reach its total; a further one is a duplicate.

The order's success is announced once, by the payment that reaches what is to be paid. Money beyond that is a duplicate: it is
neither announced nor posted, and waits for two people or for its refund (R-040, R-139, R-248).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from streams.domain import balance, ledger
from streams.domain.identity import digest
from streams.domain.tables import NOT_YET_PAID, UNPAID

if TYPE_CHECKING:
    from streams.domain.facts import Fact
    from streams.domain.order import Payment
    from streams.domain.turn import Turn


def paid(turn: Turn, payment: Payment, amount: int, ref: str, fact: Fact) -> bool:
    """The payment has just succeeded with `amount`: post and announce it, or contest it as a duplicate. True: a duplicate."""
    others = [other for other in turn.order.payments if other is not payment and other.pays_same(payment)]
    duplicate = _covered(others, payment.money.total)
    if payment.funds is not None:
        captured = payment.funds.captured or amount
        payment.funds = structs.replace(payment.funds, captured=captured, duplicate=duplicate)
    if duplicate:
        _contest_duplicates(turn, payment, others, fact)
        return True
    ledger.received(turn, payment, amount, ref)
    tendered(turn, payment, fact.evidence)
    return False


def _covered(others: list[Payment], total: int | None) -> bool:
    if total is None:
        return any(other.pays for other in others)
    return balance.paid(others) >= total


def _contest_duplicates(turn: Turn, payment: Payment, others: list[Payment], fact: Fact) -> None:
    for other in others:
        if other.pays:
            turn.contest(
                "DUPLICATE_PAYMENT",
                both_paid(other, payment),
                ref=payment.key,
                payment_no=payment.payment_no,
                merchant=payment.merchant,
                evidence=fact.ref,
                detail=f"payments {other.key} and {payment.key} are both paid; return one of them",
            )


def tendered(turn: Turn, payment: Payment, evidence: str) -> None:
    """More money is in: announce the order if this reached what is to be paid, and settle or raise what that leaves of its legs."""
    group = [other for other in turn.order.payments if other.pays_same(payment)]
    total = payment.money.total
    if total is not None and balance.paid(group) < total:
        _contest_part(turn, payment, group, evidence)
        return
    if not any(one.announced for one in group):
        transaction = payment.transaction or payment.key
        turn.announce(payment, payment.money.captured, transaction, evidence)
    if total is not None:
        turn.settle(part(payment), evidence, "the total is reached")


def fulfilled(turn: Turn, payment: Payment, evidence: str) -> None:
    """Late money pays after all: legs may have reached their total by it. The decision itself tells the trade domain."""
    group = [other for other in turn.order.payments if other.pays_same(payment)]
    total = payment.money.total
    if total is not None and balance.paid(group) >= total:
        turn.settle(part(payment), evidence, "the total is reached")


def ended(turn: Turn, payment: Payment, evidence: str) -> None:
    """A payment ended unpaid: legs that are paid already may be left alone."""
    if payment.money.total is not None:
        _contest_part(turn, payment, [other for other in turn.order.payments if other.pays_same(payment)], evidence)


def both_paid(one: Payment, other: Payment) -> bytes:
    """The name of the discrepancy over two payments of one thing."""
    return digest("both-paid", *sorted((one.key, other.key)))


def part(payment: Payment) -> bytes:
    """The name of the discrepancy over legs that stopped short of their total."""
    return digest("part", payment.merchant, payment.biz_code)


def _contest_part(turn: Turn, payment: Payment, group: list[Payment], evidence: str) -> None:
    """One leg is paid, another ended unpaid, and none is open that could still bring the rest."""
    states = {one.state for one in group}
    brought = balance.paid(group)
    if brought and states & UNPAID and not states & NOT_YET_PAID and brought < (payment.money.total or 0):
        turn.contest(
            "PARTIAL_TENDER",
            part(payment),
            ref=turn.order.order_id,
            payment_no=payment.payment_no,
            merchant=payment.merchant,
            evidence=evidence,
            detail=f"the legs brought {brought} of {payment.money.total}; return it, or ask for the rest",
        )
