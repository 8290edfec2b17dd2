"""Refunds: money that goes back, each under a number of its own, and what channels give back by themselves.

A refund's own state is what its channel answers. Beside it stand the layers that payee, chain, card and wallet show; none implies
another, and nothing is sent again because one of them is silent (R-210, R-220). One channel reference stands for one refund.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, get_args

from msgspec import structs

from streams.domain import balance, captures, layers, ledger, returns
from streams.domain.events import Answer, Callback, RefundNotice
from streams.domain.identity import digest
from streams.domain.layers import Layers
from streams.domain.order import MAX_CARDS, ChannelRefund, Operation, Payment, Target
from streams.domain.schedule import SECOND_MS
from streams.domain.tables import AUTHORIZED, INCOMPLETE, MACHINES, OPEN, SUCCESS, UNMAPPED, Meaning
from streams.domain.turn import Ruling, Turn
from streams.domain.words import (
    ALREADY,
    APPLIED,
    STALE,
    SUCCEEDED,
    Wrong,
    blocked,
    contest_amount,
    contest_success,
    doubt,
    fail,
    keyless,
    meaning_of,
    not_mapped,
    reference,
    sequence_of,
    succeed,
)

if TYPE_CHECKING:
    from streams.domain.events import RefundLayer
    from streams.domain.facts import Fact
    from streams.domain.words import Word

RANKS: Final = {
    "merchant": (None, *get_args(layers.Merchant)),
    "processor": (None, *get_args(layers.Processor)),
    "card": (None, *get_args(layers.Card)),
    "wallet": (None, *get_args(layers.Wallet)),
}
"""The words of each layer in the order in which they can follow each other; an earlier one that arrives late changes nothing."""
MAX_CHANNEL_REFUNDS: Final = MAX_CARDS
REMAINDER: Final = "uncaptured_remainder"


# -- a refund of ours


def judge(turn: Turn, refund: Operation, event: Word, fact: Fact) -> Ruling:
    """The ruling on a word about a refund that we asked for."""
    if type(event) is not Answer and not fact.key:
        return keyless(turn, refund, fact)
    if returns.is_return(turn, refund, event):
        return returns.refund_returned(turn, refund, event, fact)
    meaning = meaning_of(refund, event, turn.contract(refund.channel))
    if meaning.outcome == "success":
        return complete(turn, refund, event, fact)
    if meaning.outcome == "failure":
        return fail(turn, refund, event, fact, meaning)
    claimed = reference(refund, event)
    if claimed and refund.state in OPEN and meaning is not UNMAPPED and not _claim(turn, refund, claimed, fact):
        return _foreign(turn, refund, fact)
    return doubt(turn, refund, fact, meaning)


def complete(turn: Turn, refund: Operation, event: Word, fact: Fact) -> Ruling:
    """A success of the refund, if amount, currency and reference are its own."""
    stopped = blocked(turn, refund, event, fact)
    if stopped is not None:
        return stopped
    claimed = reference(refund, event)
    if not claimed or event.amount is None or event.currency is None:
        return doubt(turn, refund, fact, INCOMPLETE)
    after = MACHINES["REFUND"][refund.state].get("success")
    if not _claim(turn, refund, claimed, fact):
        return _foreign(turn, refund, fact)
    if refund.state in SUCCEEDED and claimed == refund.transaction:
        return ALREADY
    if after is None:
        return _second(turn, refund, claimed, fact)
    refund.transaction = claimed
    _succeed(turn, refund, event, fact, claimed)
    return APPLIED["success"]


def _succeed(turn: Turn, refund: Operation, event: Word, fact: Fact, transaction: str) -> None:
    after = MACHINES["REFUND"][refund.state]["success"]
    succeed(turn, refund, fact, after, transaction=transaction, sequence=sequence_of(event))
    payment = turn.parent(refund)
    if payment is None or not payment.money.duplicate or refund.late:
        ledger.given_back(turn, refund)
    turn.move(refund, "REFUND_SUCCESS", refund.amount, fact.evidence)
    if payment is not None and payment.money.duplicate and _all_went_back(turn, payment):
        turn.clear("DUPLICATE_PAYMENT", payment.key, fact.evidence, "the duplicate went back in full")


def _all_went_back(turn: Turn, payment: Payment) -> bool:
    return balance.refunded(turn.order, payment) >= payment.money.captured


def _second(turn: Turn, refund: Operation, claimed: str, fact: Fact) -> Ruling:
    """Money left for a refund that had ended, or left twice: a person looks, and until then it counts as gone."""
    late = refund.state not in SUCCEEDED
    if contest_success(turn, refund, claimed, fact):
        payment = turn.parent(refund)
        if payment is not None:
            _keep_channel_refund(payment, claimed, refund.amount)
    return Ruling("illegal", "late-success") if late else Ruling("conflict", "second-transaction")


def _claim(turn: Turn, refund: Operation, claimed: str, fact: Fact) -> bool:
    """Whether this reference may stand for this refund: no other refund of the order at the same account has it."""
    account = refund.merchant, refund.channel
    for other in turn.order.operations:
        if other.kind != "REFUND" or other is refund or (other.merchant, other.channel) != account:
            continue
        if other.transaction == claimed:
            turn.contest(
                "REFERENCE_ALREADY_LINKED",
                digest("reference", claimed),
                ref=claimed,
                payment_no=refund.number,
                merchant=refund.merchant,
                evidence=fact.ref,
                detail=f"refund {other.key} has this reference already; {refund.key} needs one of its own",
            )
            return False
    if refund.state not in OPEN and refund.transaction is not None:
        return True  # it has its reference; this one is a second refund's, or its own again
    payment = turn.parent(refund)
    if payment is not None and payment.funds is not None:
        kept = tuple(one for one in payment.funds.channel_refunds if one.ref != claimed)
        if len(kept) != len(payment.funds.channel_refunds):  # it had been reported without our number before
            payment.funds = structs.replace(payment.funds, channel_refunds=kept)
    refund.transaction = refund.transaction or claimed
    return True


def _foreign(turn: Turn, refund: Operation, fact: Fact) -> Ruling:
    """The answer speaks of another refund's money, so this one's result is not known."""
    if refund.state in OPEN:
        doubt(turn, refund, fact, Meaning("unknown", "doubt"))
    return Ruling("conflict", "reference-linked")


# -- what the channel did by itself


def noticed(turn: Turn, target: Target, event: RefundNotice, fact: Fact) -> Ruling:
    """The ruling on a notice of a refund: of ours, or of one that the channel started."""
    if type(target) is Operation:
        return judge(turn, target, event, fact)
    assert type(target) is Payment
    return _by_channel(turn, target, event, fact)


def _by_channel(turn: Turn, payment: Payment, event: RefundNotice, fact: Fact) -> Ruling:
    """A refund without a number of ours: one we know by its reference, the release of a hold, or money the channel gave back."""
    for refund in balance.refunds(turn.order, payment):
        if event.refund_transaction and refund.transaction == event.refund_transaction:
            return judge(turn, refund, event, fact)
    if not fact.key:
        return keyless(turn, payment, fact)
    meaning = meaning_of(payment, event, turn.contract(payment.channel))
    if meaning is UNMAPPED:
        return not_mapped(turn, payment, fact)
    if meaning.outcome != "success":
        return STALE
    if event.reason == REMAINDER:
        return captures.release(turn, payment, fact)
    return _channel_started(turn, payment, event, event.refund_transaction or fact.ref, fact)


def _channel_started(turn: Turn, payment: Payment, event: RefundNotice, claimed: str, fact: Fact) -> Ruling:
    wrong = _other_currency(payment, event)
    if wrong is None and (event.amount is None or event.amount <= 0):
        wrong = Wrong("INVALID_AMOUNT", "amount-invalid", "a refund without its amount", event.amount, event.currency)
    if wrong is not None:
        return contest_amount(turn, payment, fact, wrong)
    assert event.amount is not None
    if not any(one.ref == claimed for one in payment.money.channel_refunds):
        _keep_channel_refund(payment, claimed, event.amount)
    _contest_channel_only(turn, payment, claimed, fact, event.amount)
    return Ruling("conflict", "channel-refund")


def _other_currency(payment: Payment, event: RefundNotice | Callback) -> Wrong | None:
    if event.currency is None or event.currency == payment.currency:
        return None
    detail = f"the refund is in {event.currency}, the payment in {payment.currency}"
    return Wrong("CURRENCY_MISMATCH", "currency-differs", detail, event.amount, event.currency)


def _keep_channel_refund(payment: Payment, ref: str, amount: int) -> None:
    """It is gone from what may be refunded. Beyond the bound the last entry grows, so that nothing is forgotten."""
    funds = payment.money
    kept = funds.channel_refunds
    if len(kept) >= MAX_CHANNEL_REFUNDS:
        kept = (*kept[:-1], structs.replace(kept[-1], amount=kept[-1].amount + amount))
    else:
        kept = (*kept, ChannelRefund(ref, amount))
    payment.funds = structs.replace(funds, channel_refunds=kept)


def _contest_channel_only(turn: Turn, payment: Payment, ref: str, fact: Fact, amount: int) -> None:
    turn.contest(
        "CHANNEL_ONLY",
        digest("channel-only", payment.key, ref),
        ref=ref,
        payment_no=payment.payment_no,
        merchant=payment.merchant,
        evidence=fact.ref,
        detail=f"the channel gave back {amount} that nobody here asked for; book it, or ask the channel",
    )


# -- totals


def total_stated(turn: Turn, payment: Payment, event: Callback, fact: Fact) -> Ruling:
    """Only how much was refunded in all: what is new of it completes the one refund of just that amount, or is the channel's own."""
    if payment.state == AUTHORIZED or event.captured_flag is False:
        return captures.release(turn, payment, fact)
    if payment.state != SUCCESS or event.cumulative_refunded is None:
        return STALE
    wrong = _other_currency(payment, event)
    if wrong is not None:
        return contest_amount(turn, payment, fact, wrong)
    known = balance.refunded(turn.order, payment) + balance.channel_started(payment.money)
    new = event.cumulative_refunded - known
    if new <= 0:
        return Ruling("stale", "total-known")
    fitting = [one for one in balance.refunds(turn.order, payment) if one.state in OPEN and one.amount == new]
    if len(fitting) == 1:
        refund = fitting[0]
        _succeed(turn, refund, event, fact, refund.transaction or refund.key)
        return Ruling("applied", "total-completes")
    _keep_channel_refund(payment, fact.ref, new)
    _contest_channel_only(turn, payment, fact.ref, fact, new)
    return Ruling("conflict", "channel-refund")


def explains_close(turn: Turn, payment: Payment, event: Callback) -> bool:
    """CLOSED beside a refund total that equals what went back is how some channels call a full refund."""
    stated = event.cumulative_refunded
    if not stated or event.status != "CLOSED":
        return False
    return stated == balance.refunded(turn.order, payment) + balance.channel_started(payment.money)


# -- layers


def set_layer(turn: Turn, refund: Operation, event: RefundLayer, fact: Fact) -> Ruling:
    """Keep what one party shows. It moves nothing else."""
    if not fact.key:
        return keyless(turn, refund, fact)
    ranks = RANKS[event.layer]
    if event.status not in ranks:
        return not_mapped(turn, refund, fact)
    shown = refund.layers or Layers()
    if ranks.index(event.status) <= ranks.index(getattr(shown, event.layer)):
        return STALE
    show(turn, refund, event.layer, event.status)
    return Ruling("applied", "layer")


def show(turn: Turn, refund: Operation, layer: str, status: str) -> None:
    """One layer shows `status` now; a payee that is done starts the watch for the card."""
    refund.layers = structs.replace(refund.layers or Layers(), **{layer: status})
    window = turn.contract(refund.channel).card_posting_window_s
    watched = window is not None and refund.layers.merchant == "COMPLETED" and refund.layers.card != "POSTED"
    refund.posting_due_at = refund.started_at + (window or 0) * SECOND_MS if watched else None
    if refund.posting_due_at is not None and refund.posting_due_at <= turn.at:
        layers_apart(turn, refund)


def layers_apart(turn: Turn, refund: Operation) -> None:
    """The payee says done and the card shows nothing: a person finds out why; nothing is sent again (R-220)."""
    refund.posting_due_at = None
    turn.contest(
        "STATUS_MISMATCH",
        digest("layers", refund.key),
        ref=refund.key,
        payment_no=refund.number,
        merchant=refund.merchant,
        evidence=refund.key,
        detail="the payee completed the refund and the card shows no posting; ask the processing chain",
    )
