"""The one funnel: every callback, answer, card entry, command and due time passes here and nowhere else (R-022, R-025).

For each event: is it a repetition; does the payment exist; what does the law say; what is set free by it. One event gives one
decision, and each piece of evidence that had waited and is now heard gives one more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import msgpack

from streams.domain import cards, commands, identity, payment, schedule
from streams.domain.decisions import Message
from streams.domain.events import Answer, Callback, CardPosting, Command, CreatePayment, Event, Evidence, StartPayment
from streams.domain.facts import Fact, read, read_command
from streams.domain.order import MAX_PARKED, Order, Parked, Payment, Seen, due
from streams.domain.schedule import SECOND_MS
from streams.domain.tables import INIT
from streams.domain.turn import Ruling, Turn

if TYPE_CHECKING:
    from streams.domain.contract import Contracts

Decide: TypeAlias = Callable[[Order | None, object, int], tuple[Order | None, Sequence[Message]]]

DUPLICATE: Final = Ruling("duplicate", "same-key-same-payload")
_unpack: Final[msgpack.Decoder[Evidence]] = msgpack.Decoder(Evidence)


def converge(
    order: Order | None, event: Event | None, at: int, contracts: Contracts
) -> tuple[Order | None, list[Message]]:
    """The new order and what is to be sent; `event` None lets all due times up to `at` (milliseconds, UTC) fire.

    Pure: the given order is not changed, and equal arguments give equal answers.
    """
    if event is None:
        return _due(order, at, contracts)
    turn = Turn(Order(event.order_id) if order is None else order, at, contracts)
    if isinstance(event, CreatePayment | StartPayment):
        _command(turn, event)
    else:
        _hear(turn, event, read(event, at))
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
    schedule.fire(turn, at, _free)
    return turn.order, turn.says


# -- commands


def _command(turn: Turn, command: Command) -> None:
    fact = read_command(command, turn.at)
    target = turn.payment(command.payment_no, fact.merchant)
    before = None if target is None else target.state
    known = _known(turn, fact)
    if known is not None:
        same = known.payload == fact.payload
        ruling = Ruling("duplicate", "same-command") if same else Ruling("refused", "command-reused")
        turn.order.duplicates += same
    else:
        if type(command) is CreatePayment:
            ruling = commands.create(turn, command, fact)
        else:
            assert type(command) is StartPayment
            ruling = commands.start(turn, command, fact)
        turn.remember(fact, ruling)
        target = turn.payment(command.payment_no, fact.merchant)
    turn.close(ruling, source="command", word=fact.word, evidence=fact.ref, payment=target, before=before, fact=fact)
    if ruling.verdict == "applied":
        _free(turn)


# -- evidence


def _hear(turn: Turn, event: Evidence, fact: Fact) -> None:
    """Repetition, then parking, then the law (R-023)."""
    target = _target(turn, event, fact)
    before = None if target is None else target.state
    known = None if fact.parked else _known(turn, fact)
    if known is not None:
        ruling = _again(turn, target, known, fact)
    else:
        ruling = _rule(turn, target, event, fact)
        turn.remember(fact, ruling)
    turn.close(ruling, source=fact.source, word=fact.word, evidence=fact.ref, payment=target, before=before, fact=fact)


def _known(turn: Turn, fact: Fact) -> Seen | None:
    """What was said before under this key. Without a key only what says the very same is a repetition, and answers never are."""
    for seen in turn.order.seen:
        if seen.key == fact.key and (fact.key or (seen.payload == fact.payload and fact.source == "callback")):
            return seen
    return None


def _again(turn: Turn, target: Payment | None, known: Seen, fact: Fact) -> Ruling:
    if known.payload == fact.payload:
        turn.order.duplicates += 1
        return DUPLICATE
    new = turn.contest(
        "PAYLOAD_CONFLICT",
        identity.digest("payload", fact.key),
        ref=known.ref,
        payment_no=fact.payment_no or None,
        evidence=fact.ref,
        detail=f"{known.ref} was delivered with {known.payload.hex()} first and says {fact.payload.hex()} now",
    )
    if new and target is not None:
        turn.request(target, "QUERY", "same-key-other-payload")
    return Ruling("conflict", "same-key-other-payload")


def _target(turn: Turn, event: Evidence, fact: Fact) -> Payment | None:
    """The payment that the event speaks of. A channel can only speak of a request that was made to it, or of an ended payment."""
    for candidate in turn.order.payments:
        if candidate.payment_no == fact.payment_no and candidate.merchant == fact.merchant:
            if type(event) is CardPosting or (candidate.state != INIT and candidate.channel == event.channel):
                return candidate
            return None
    return None


def _rule(turn: Turn, target: Payment | None, event: Evidence, fact: Fact) -> Ruling:
    if type(event) is CardPosting:
        return cards.post(turn, target, event, fact) if target or not fact.payment_no else _park(turn, event, fact)
    if type(event) is Callback and event.livemode is False:
        return payment.refuse_test_mode(turn, fact)
    if target is None:
        return _park(turn, event, fact)
    assert isinstance(event, Callback | Answer)
    return payment.judge(turn, target, event, fact)


# -- parking


def _park(turn: Turn, event: Evidence, fact: Fact) -> Ruling:
    """Keep evidence whose payment is not there yet. Where too much waits, a person is told at once."""
    order = turn.order
    window = turn.contract(event.channel).park_window_s * SECOND_MS
    parked = Parked(fact.key, fact.payload, fact.at, turn.at + window, fact.packed)
    if len(order.parked) >= MAX_PARKED:
        schedule.contest_unknown_order(turn, parked, fact.ref)
        return Ruling("refused", "waiting-room-full")
    order.parked = (*order.parked, parked)
    return Ruling("parked", "waits-for-payment")


def _free(turn: Turn) -> None:
    """Hear what waited for a payment that is there now, in order of arrival, each as a decision of its own."""
    if not turn.order.parked:
        return
    waiting = []
    heard = []
    for parked in turn.order.parked:
        event = _unpack.decode(parked.event)
        fact = read(event, parked.at, parked=True)
        if _target(turn, event, fact) is None:
            waiting.append(parked)
        else:
            heard.append((parked, event, fact))
    turn.order.parked = tuple(waiting)
    for parked, event, fact in heard:
        turn.open()
        turn.settle(schedule.unknown_order(parked), fact.ref, "the payment appeared")
        _hear(turn, event, fact)
