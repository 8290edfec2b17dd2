"""What holds whatever happens, in whatever order, however often."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from streams.codec import dump, load
from streams.domain.age import settled, thin
from streams.domain.decisions import KINDS, Decision, Discrepancy, PaymentSuccess, message_id
from streams.domain.implied import implied
from streams.domain.order import due
from streams.domain.standing import standing
from streams.domain.story import story
from streams.domain.tables import MACHINE, OPEN, UNPAID
from tests.support.lives import TRUSTED, answers, callbacks, life, play, rich_life
from tests.support.worlds import World

if TYPE_CHECKING:
    from streams.domain.decisions import Message
    from streams.domain.events import Answer, Callback, Event

TERMINAL = {state for state, moves in MACHINE.items() if not moves}


def begun() -> World:
    world = World()
    world.row("create P1")
    world.row("start P1")
    return world


@given(life())
def test_what_the_state_implies_is_what_was_sent(events: list[tuple[int, Event]]):
    world = play(events)
    world.wind(401 * 86_400)
    sent = [(KINDS[type(message)], message_id(message)) for message in world.said]
    assert len(set(sent)) == len(sent), "an id was minted twice"
    assert set(sent) == set(implied(world.order)) if world.order is not None else not sent


@given(rich_life())
def test_what_a_rich_life_implies_is_what_was_sent(events: list[tuple[int, Event]]):
    world = play(events, TRUSTED)
    world.wind(401 * 86_400)
    sent = [(KINDS[type(message)], message_id(message)) for message in world.said]
    assert len(set(sent)) == len(sent), "an id was minted twice"
    assert world.order is not None
    assert set(sent) == set(implied(world.order))


@given(rich_life())
def test_the_decisions_alone_tell_how_every_operation_stands_and_every_discrepancy(events: list[tuple[int, Event]]):
    """R-101, R-118: who folds the decisions has what the state has, and what the other topics carry."""
    world = play(events, TRUSTED)
    world.wind(200_000)
    assert world.order is not None
    told = {}
    for message in world.said:
        if isinstance(message, Decision):
            told.update({(one.merchant, one.number): one for one in message.operations})
    now = [standing(world.order, target) for target in (*world.order.payments, *world.order.operations)]
    assert told == {(one.merchant, one.number): one for one in now}
    decided = [one for message in world.said if isinstance(message, Decision) for one in message.discrepancies]
    assert decided == [message for message in world.said if isinstance(message, Discrepancy)]


@given(life())
def test_every_decision_names_all_it_caused_and_none_is_skipped(events: list[tuple[int, Event]]):
    world = play(events)
    caused: list[str] = []
    seq = 0
    for message in world.said:
        if isinstance(message, Decision):
            seq += 1
            assert (message.seq, list(message.messages)) == (seq, caused)
            caused = []
        else:
            caused.append(message_id(message))
    assert not caused


@given(life())
def test_a_terminal_state_is_terminal_and_every_move_is_in_the_table(events: list[tuple[int, Event]]):
    """R-012, R-014, R-026."""
    world = play(events)
    for message in world.said:
        if isinstance(message, Decision) and message.before and message.after != message.before:
            assert message.after in MACHINE[message.before].values()
            assert message.before not in TERMINAL


@given(life())
def test_an_order_is_announced_at_most_once_and_posted_exactly_then(events: list[tuple[int, Event]]):
    """R-139, R-180."""
    world = play(events)
    announced = [message for message in world.said if isinstance(message, PaymentSuccess)]
    posted = [entry for message in world.said if isinstance(message, Decision) for entry in message.ledger]
    assert len(announced) <= 1
    assert [(entry.amount, entry.currency) for entry in posted] == [(one.amount, one.currency) for one in announced]
    for one in announced:
        assert (one.amount, one.currency, bool(one.transaction)) == (1000, "USD", True)


@given(life())
def test_at_most_one_request_to_charge_is_out(events: list[tuple[int, Event]]):
    """R-017, R-157."""
    world = World()
    for seconds, one in events:
        world.wind(seconds)
        world.tell(one)
        if world.order is not None:
            assert sum(payment.state in OPEN for payment in world.order.payments) <= 1
            assert all(payment.attempts <= 1 for payment in world.order.payments)


@given(life())
def test_a_repetition_of_everything_changes_no_payment_and_raises_nothing(events: list[tuple[int, Event]]):
    """R-072, R-079: whatever was said with a key is known the second time."""
    world = play(events)
    before = world.order
    said = len(world.said)
    for _, one in events:
        if getattr(one, "event_id", None) or getattr(one, "command_id", None):
            world.tell(one)
    if before is None or world.order is None:
        return
    assert world.order.payments == before.payments
    assert world.order.conflicts == before.conflicts
    assert all(isinstance(message, Decision) for message in world.said[said:])


@given(life(), st.integers(0, 400_000))
def test_time_ends_only_what_was_never_asked_for(events: list[tuple[int, Event]], seconds: int):
    """R-005, R-008: no time and no number of queries makes a success or a failure."""
    world = play(events)
    said = len(world.said)
    world.wind(seconds)
    for message in world.said[said:]:
        if isinstance(message, Decision) and message.after != message.before and message.source == "timer":
            assert (message.before, message.after) == ("INIT", "CLOSED")


@given(life())
def test_a_refusal_causes_nothing_but_its_own_notice(events: list[tuple[int, Event]]):
    world = World()
    for seconds, one in events:
        world.wind(seconds)
        payments = () if world.order is None else world.order.payments
        messages = world.tell(one)
        decisions = [message for message in messages if isinstance(message, Decision)]
        assert world.order is not None
        if [one.verdict for one in decisions] in (["refused"], ["duplicate"], ["stale"]):
            states = [payment.state for payment in world.order.payments]
            assert states == [payment.state for payment in payments]
            assert all(isinstance(message, Decision | Discrepancy) for message in messages)


@given(life())
def test_a_story_has_an_answer_for_every_open_payment(events: list[tuple[int, Event]]):
    world = play(events)
    if world.order is None:
        return
    told = story(world.order, world.at)
    for payment in told.payments:
        assert (payment.awaited is None) == (payment.state in TERMINAL)
    assert len(told.open) == len(world.open_conflicts())


@given(life())
def test_what_is_stored_is_read_back(events: list[tuple[int, Event]]):
    world = play(events)
    if world.order is not None:
        assert load(dump(world.order)) == world.order
        assert due(load(dump(world.order))) == due(world.order)


Evidence = st.lists(st.one_of(callbacks(ids=9), answers()), min_size=1, max_size=5)


def distinct(evidence: list[Callback | Answer]) -> list[Callback | Answer]:
    """An honest channel: one payload under one key, one fee, no channel but the asked one."""
    kept = {}
    for one in evidence:
        name = getattr(one, "event_id", None) or one
        kept.setdefault(name, one)
    return list(kept.values())


@given(Evidence)
@settings(max_examples=settings.default.max_examples // 2)
def test_every_order_of_the_same_evidence_raises_the_same_conflicts(evidence: list[Callback | Answer]):
    """The state may tell which came first; then a conflict says so. Nothing else depends on the order of arrival."""
    ends, states = set(), set()
    contested = False
    for arrangement in permutations(distinct(evidence)):
        world = begun()
        for one in arrangement:
            world.tell(one)
        assert world.order is not None
        payment = world.order.payments[0]
        ends.add((frozenset(world.open_conflicts()), frozenset(one.transaction for one in payment.paid)))
        states.add("unpaid" if payment.state in UNPAID else payment.state)
        contested |= any(kind in {"ILLEGAL_TRANSITION", "LATE_SUCCESS"} for kind, _, _ in world.items())
    assert len(ends) == 1
    assert contested or len(states) == 1


@given(Evidence, st.integers(0, 5))
def test_evidence_before_the_start_ends_where_evidence_after_it_ends(evidence: list[Callback | Answer], early: int):
    """R-081: parking is transparent."""
    late = begun()
    for one in evidence:
        late.tell(one)
    world = World()
    for one in evidence[:early]:
        world.tell(one)
    world.row("create P1")
    world.row("start P1")
    for one in evidence[early:]:
        world.tell(one)
    assert world.state() == late.state()
    assert world.open_conflicts() == late.open_conflicts()


PAID = ("create P1", "start P1", "callback P1 SUCCESS e=E1 t=X1")
HELD = (
    "create P1",
    "start P1",
    "callback P1 AUTHORIZED e=E1 t=X1",
    "capture C1 of=P1 a=300",
    "captured C1 of=P1 SUCCESS t=C a=300",
)
RESTING = (
    PAID,
    (*PAID, "back R1 of=P1 a=300", "returned R1 of=P1 SUCCESS t=RX a=300", "layer R1 of=P1 merchant PROCESSING e=E2"),
    (*PAID, "back R1 of=P1 a=300", "returned R1 of=P1 FAILED a=300", "dispute P1 OPEN e=E2", "dispute P1 WON e=E3"),
    (*PAID, "callback P1 FAILED e=E2 t=X1", "decide close about=ILLEGAL_TRANSITION", "purchase P1 e=E3"),
    (*PAID, "notice - of=P1 SUCCESS e=E2 r=RX a=300", "decide book about=CHANNEL_ONLY"),
    (*PAID, "callback P1 PENDING a=- t=", "decide close about=MISSING_DEDUP_KEY"),
    ("create P1", "start P1", "callback P1 FAILED e=E1", "create P2", "start P2", "callback P2 SUCCESS e=E2 t=X2"),
    (
        "create P1",
        "start P1",
        "callback P1 FAILED e=E1",
        "callback P1 SUCCESS e=E2 t=X1",
        "decide fulfil about=LATE_SUCCESS",
    ),
    ("create P1", "start P1", "close P1 SUCCESS a=-", "query P1 FAILED"),
    ("create P1", "+900 tick"),
    (*HELD, "release P1 SUCCESS e=E2"),
    (*HELD[:3], "void V1 of=P1", "voided V1 of=P1 SUCCESS"),
    ("start P1",),
)
"""Lives that end with nothing open."""


@given(st.sampled_from(RESTING), st.lists(st.integers(0, 8), max_size=4), rich_life())
def test_a_stub_answers_as_the_whole_order_would_have(
    rows: tuple[str, ...], again: list[int], late: list[tuple[int, Event]]
):
    """The same verdicts by the same rules, the same states, the same messages, whatever comes late and whatever comes again."""
    whole = World(TRUSTED)
    for row in rows:
        whole.row(row)
    assert whole.order is not None
    assert settled(whole.order)
    stub = World(TRUSTED, at=whole.at, order=thin(whole.order))
    known = len(whole.said)
    repeated = [row for row in rows if not row.startswith(("decide", "+"))]
    for world in (whole, stub):
        for index in again:
            world.row(repeated[index % len(repeated)])
        for seconds, one in late:
            world.at += seconds * 1000
            world.tell(one)
    assert [essence(message) for message in whole.said[known:]] == [essence(message) for message in stub.said]
    assert whole.open_conflicts() == stub.open_conflicts()


def essence(message: Message) -> object:
    if isinstance(message, Decision):
        return (
            message.id,
            message.verdict,
            message.rule,
            message.before,
            message.after,
            message.messages,
            message.ledger,
        )
    if isinstance(message, Discrepancy):
        return (message_id(message), message.kind, message.status, message.severity, message.ref)
    return message
