"""The one funnel: every callback, answer, card entry, command, decision of people and due time passes here and nowhere else (R-022, R-025).

For each event: is it a repetition; can it be heard yet; what does the law say; what is set free by it. One event gives one
decision, and each piece of evidence that had waited and is now heard gives one more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec import msgpack, structs

from streams.domain import (
    age,
    captures,
    cards,
    commands,
    disputes,
    findings,
    identity,
    operations,
    payment,
    people,
    refunds,
    reporting,
    timers,
)
from streams.domain.decisions import Message
from streams.domain.events import (
    CapturePayment,
    CardPosting,
    ClosePayment,
    Command,
    CreatePayment,
    Dispute,
    Event,
    Evidence,
    Finding,
    RefundLayer,
    RefundNotice,
    RefundPayment,
    Release,
    Resolve,
    RetryPayment,
    StartPayment,
    Undelivered,
    VoidPayment,
)
from streams.domain.facts import ANSWERS, Fact, read, read_command
from streams.domain.order import MAX_PARKED, Order, Parked, Seen, Target, due
from streams.domain.reports import Agreement, Booking, Difference, PayoutNotice, Settled
from streams.domain.schedule import SECOND_MS, ref_of, unknown_order
from streams.domain.standing import said
from streams.domain.tables import INIT
from streams.domain.turn import Ruling, Turn
from streams.domain.waiting import FOR_STATE, place
from streams.domain.words import refuse_test_mode

if TYPE_CHECKING:
    from streams.domain.contract import Contracts

Decide: TypeAlias = Callable[[Order | None, object, int], tuple[Order | None, Sequence[Message]]]

DUPLICATE: Final = Ruling("duplicate", "same-key-same-payload")
_unpack: Final[msgpack.Decoder[Evidence]] = msgpack.Decoder(Evidence)

COMMANDS: Final[dict[type[Command], Callable[[Turn, Any, Fact], Ruling]]] = {
    CreatePayment: commands.create,
    StartPayment: commands.start,
    RetryPayment: commands.retry,
    ClosePayment: commands.close,
    CapturePayment: operations.capture,
    VoidPayment: operations.void,
    RefundPayment: operations.refund,
    Resolve: people.resolve,
    Undelivered: findings.undelivered,
}
OPERATIONS: Final[dict[str, Callable[[Turn, Any, Any, Fact], Ruling]]] = {
    "PAY": payment.judge,
    "CAPTURE": captures.judge_capture,
    "VOID": captures.judge_void,
    "REFUND": refunds.judge,
}


"""Who judges a word, a callback's or an answer's, about each kind of operation."""
EVIDENCE: Final[dict[type[Evidence], Callable[[Turn, Any, Any, Fact], Ruling]]] = {
    CardPosting: cards.post,
    RefundNotice: refunds.noticed,
    RefundLayer: refunds.set_layer,
    Release: captures.judge_release,
    Dispute: disputes.judge,
    Finding: findings.judge,
    Difference: reporting.differ,
    Agreement: reporting.agree,
    Booking: reporting.book,
    Settled: reporting.settle,
    PayoutNotice: reporting.payout,
}
"""Who judges evidence of a kind of its own. `waiting.place` has made sure that it speaks of the right kind of operation."""


def converge(
    order: Order | None, event: Event | None, at: int, contracts: Contracts
) -> tuple[Order | None, list[Message]]:
    """The new order and what is to be sent; `event` None lets all due times up to `at` (milliseconds, UTC) fire.

    Pure: the given order is not changed, and equal arguments give equal answers.
    """
    if event is None:
        return _due(order, at, contracts)
    turn = Turn(Order(event.order_id) if order is None else order, at, contracts)
    if type(event) in COMMANDS:
        _command(turn, event)  # type: ignore[arg-type]
    else:
        _hear(turn, event, read(event, at))  # type: ignore[arg-type]
    _free(turn)
    age.rest(turn)
    return turn.order, turn.says


def decider(contracts: Contracts, due_event: object) -> Decide:
    """`converge` as the engine calls it; `due_event` is what the engine hands over instead of an event at a due time."""

    def decide(order: Order | None, event: object, at: int) -> tuple[Order | None, Sequence[Message]]:
        return converge(order, None if event is due_event else event, at, contracts)  # type: ignore[arg-type]

    return decide


def _due(order: Order | None, at: int, contracts: Contracts) -> tuple[Order | None, list[Message]]:
    if order is None:
        return None, []
    moment = due(order)
    if moment is None or moment > at:
        return order, []
    turn = Turn(order, moment, contracts)
    timers.fire(turn, at, _free)
    return turn.order, turn.says


# -- commands


def _command(turn: Turn, command: Command) -> None:
    fact = read_command(command, turn.at)
    target = turn.find(fact.payment_no, fact.merchant)
    before = None if target is None else target.state
    known = _known(turn, fact)
    if known is not None:
        same = known.payload == fact.payload
        ruling = Ruling("duplicate", "same-command") if same else Ruling("refused", "command-reused")
        turn.order.duplicates += same
    else:
        ruling = COMMANDS[type(command)](turn, command, fact)
        turn.remember(fact, ruling)
        target = turn.find(fact.payment_no, fact.merchant)
    turn.close(
        ruling, source=fact.source, word=fact.word, evidence=fact.evidence, payment=target, before=before, fact=fact
    )


# -- evidence


def _hear(turn: Turn, event: Evidence, fact: Fact) -> None:
    """Repetition, then waiting, then the law (R-023)."""
    target, waits = place(turn, event, fact)
    before = None if target is None else target.state
    known = None if fact.parked else _known(turn, fact)
    if known is not None:
        ruling = _again(turn, target, known, fact)
    else:
        ruling = _rule(turn, target, waits, event, fact)
        turn.remember(fact, ruling)
    turn.close(
        ruling, source=fact.source, word=fact.word, evidence=fact.ref, payment=target, before=before, fact=fact,
        said=None if ruling is DUPLICATE else said(event, fact),
    )  # fmt: skip


def _known(turn: Turn, fact: Fact) -> Seen | None:
    """What was said before under this key. Without a key only what says the very same is a repetition, and answers never are."""
    for seen in turn.order.seen:
        if seen.key == fact.key and (fact.key or (seen.payload == fact.payload and fact.source not in ANSWERS)):
            return seen
    return age.recalled(turn.order, fact) if turn.order.kept else None


def _again(turn: Turn, target: Target | None, known: Seen, fact: Fact) -> Ruling:
    if known.payload == fact.payload:
        turn.order.duplicates += 1
        return DUPLICATE
    new = turn.contest(
        "PAYLOAD_CONFLICT",
        identity.digest("payload", fact.key),
        ref=known.ref,
        payment_no=fact.payment_no or None,
        merchant=fact.merchant,
        evidence=fact.ref,
        detail=f"{known.ref} was delivered with {known.payload.hex()} first and says {fact.payload.hex()} now",
    )
    if new and target is not None and target.state != INIT:
        turn.request(target, "QUERY", "same-key-other-payload")
    return Ruling("conflict", "same-key-other-payload")


def _rule(turn: Turn, target: Target | None, waits: Ruling | None, event: Evidence, fact: Fact) -> Ruling:
    if getattr(event, "livemode", None) is False:
        return refuse_test_mode(turn, fact)
    if waits is not None:
        return _park(turn, event, fact, waits)
    if turn.order.conflicts:
        turn.clear("UNKNOWN_ORDER", fact.ref, fact.ref, "the operation appeared")
    if type(event) in EVIDENCE:
        return EVIDENCE[type(event)](turn, target, event, fact)
    assert target is not None
    return OPERATIONS[target.kind](turn, target, event, fact)


# -- what waits


def _park(turn: Turn, event: Evidence, fact: Fact, waits: Ruling) -> Ruling:
    """Keep evidence that cannot be heard yet. Where too much waits, a person is told at once."""
    order = turn.order
    deadline = None
    if waits is not FOR_STATE:
        deadline = turn.at + turn.contract(event.channel).park_window_s * SECOND_MS
    why = "state" if waits is FOR_STATE else "operation"
    parked = Parked(fact.key, fact.payload, fact.at, deadline, fact.packed, why)
    if len(order.parked) >= MAX_PARKED:
        timers.contest_unknown_order(turn, parked, fact.ref)
        return Ruling("refused", "waiting-room-full")
    order.parked = (*order.parked, parked)
    return waits


def _free(turn: Turn) -> None:
    """Hear what waited and need not any more, in order of arrival, each as a decision of its own; and again what that sets free."""
    while turn.moved:
        turn.moved = False
        for parked in turn.order.parked:
            event = _unpack.decode(parked.event)
            fact = read(event, parked.at, parked=True)
            _, waits = place(turn, event, fact)
            if waits is None:
                turn.order.parked = tuple(one for one in turn.order.parked if one is not parked)
                turn.open()
                turn.settle(unknown_order(parked), fact.ref, "the operation appeared")
                _hear(turn, event, fact)
                turn.moved = True
                break
            if waits is FOR_STATE and parked.waits != "state":
                _found(turn, parked)


def _found(turn: Turn, parked: Parked) -> None:
    """The operation appeared, but cannot hear it yet: nobody need look for it."""
    waiting = structs.replace(parked, deadline=None, waits="state")
    turn.order.parked = tuple(waiting if one is parked else one for one in turn.order.parked)
    if turn.order.conflicts:
        name = unknown_order(parked)
        if any(known.id == name and known.open for known in turn.order.conflicts):
            turn.open()
            ref = ref_of(turn.order, parked)
            turn.settle(name, ref, "the operation appeared")
            turn.close(Ruling("applied", "operation-appeared"), source="timer", word="park", evidence=ref)
