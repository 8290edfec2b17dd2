"""Disputes: a payer's bank takes captured money back, and may give it back to us.

An open dispute takes the money, a win returns it, a loss keeps it; each posts once. A dispute and the refunds of a payment together
never exceed what was captured: where they would, nothing is posted and a person decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from streams.domain import balance, ledger
from streams.domain.identity import digest
from streams.domain.tables import DISPUTE
from streams.domain.turn import Ruling, Turn
from streams.domain.words import STALE, Wrong, contest_amount, fact_id, keyless, not_mapped

if TYPE_CHECKING:
    from streams.domain.events import Dispute
    from streams.domain.facts import Fact
    from streams.domain.order import Funds, Payment


def judge(turn: Turn, payment: Payment, event: Dispute, fact: Fact) -> Ruling:
    """The ruling on one notice of a dispute of a paid payment."""
    if not fact.key:
        return keyless(turn, payment, fact)
    if event.status not in DISPUTE:
        return not_mapped(turn, payment, fact)
    funds = payment.money
    wrong = _wrong_amount(turn, payment, funds, event, fact)
    if wrong is not None:
        return wrong
    after = DISPUTE[funds.dispute].get(event.status)
    if after is None:
        return _again(turn, payment, funds, event, fact)
    if funds.dispute == "NONE" and after != "WON" and _exceeds(turn, payment, funds, event.amount):
        turn.contest(
            "REFUND_AND_DISPUTE",
            digest("refund-and-dispute", payment.key, fact_id(fact)),
            ref=fact.ref,
            payment_no=payment.payment_no,
            merchant=payment.merchant,
            evidence=fact.ref,
            detail=f"{event.amount} is disputed of money that was refunded; contest the dispute, or stop the refund",
        )
        return Ruling("conflict", "money-was-refunded")
    _move(turn, payment, funds, event.amount, after)
    return Ruling("applied", f"dispute-{after.lower()}")


def _wrong_amount(turn: Turn, payment: Payment, funds: Funds, event: Dispute, fact: Fact) -> Ruling | None:
    ours = funds.disputed if funds.dispute != "NONE" else funds.captured
    if event.currency != payment.currency:
        wrong = ("CURRENCY_MISMATCH", "currency-differs", f"the dispute is in {event.currency}, not {payment.currency}")
    elif event.amount <= 0 or event.amount > funds.captured or (funds.dispute != "NONE" and event.amount != ours):
        wrong = ("AMOUNT_MISMATCH", "amount-differs", f"the dispute is over {event.amount}, ours is {ours}")
    else:
        return None
    return contest_amount(turn, payment, fact, Wrong(*wrong, event.amount, event.currency))


def _exceeds(turn: Turn, payment: Payment, funds: Funds, amount: int) -> bool:
    gone = balance.reserved(turn.order, payment) + balance.channel_started(funds) + funds.returned
    return amount + gone > funds.captured


def _again(turn: Turn, payment: Payment, funds: Funds, event: Dispute, fact: Fact) -> Ruling:
    """Repeated, or older than the end, a word changes nothing; another end contradicts the first."""
    if event.status in {funds.dispute, "OPEN"}:
        return STALE
    turn.contest(
        "ILLEGAL_TRANSITION",
        digest("won-and-lost", payment.key),
        ref=fact.ref,
        payment_no=payment.payment_no,
        merchant=payment.merchant,
        evidence=fact.ref,
        detail=f"the dispute was {funds.dispute} and is said to be {event.status}; ask the channel",
    )
    return Ruling("illegal", "dispute-ended")


def _move(turn: Turn, payment: Payment, funds: Funds, amount: int, after: str) -> None:
    """Money that was never posted, a duplicate's, is not taken from the books either."""
    posted = funds.dispute_posted
    if after in {"OPEN", "LOST"} and not posted and not funds.duplicate:
        ledger.dispute_taken(turn, payment, amount)
        posted = True
    elif after == "WON" and posted:
        ledger.dispute_won(turn, payment, amount)
    payment.funds = structs.replace(funds, dispute=after, disputed=amount, dispute_posted=posted)
