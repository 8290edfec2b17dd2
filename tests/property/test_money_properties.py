"""Money, over whole lives: it is conserved, it never goes back twice, and the books say where it is."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from streams.domain import balance
from streams.domain.decisions import Decision, Movement, PaymentSuccess
from streams.domain.events import Resolve
from streams.domain.identity import discrepancy_id
from streams.domain.story import story
from streams.domain.tables import MACHINES, RESERVED, SUCCESS
from streams.domain.why import why
from tests.support.lives import TRUSTED, play, rich_life
from tests.support.worlds import World

if TYPE_CHECKING:
    from streams.domain.events import Event
    from streams.domain.order import Order, Payment

TERMINAL = {kind: {state for state, moves in machine.items() if not moves} for kind, machine in MACHINES.items()}


def books(world: World) -> Counter[str]:
    """Debits less credits of every account."""
    accounts: Counter[str] = Counter()
    for message in world.said:
        if isinstance(message, Decision):
            for entry in message.ledger:
                assert entry.amount > 0
                accounts[entry.dr] += entry.amount
                accounts[entry.cr] -= entry.amount
    return accounts


def owed(order: Order, payment: Payment) -> int:
    """What the channel owes us for a payment, from its state alone."""
    funds = payment.money
    if funds.duplicate:
        return 0
    returned = sum(one.amount for one in balance.refunds(order, payment) if one.state == SUCCESS)
    taken = funds.disputed if funds.dispute in {"OPEN", "LOST"} and funds.dispute_posted else 0
    booked = sum(one.amount for one in funds.channel_refunds if one.booked)
    return funds.captured - returned - funds.returned - taken - booked


@given(rich_life())
def test_the_books_hold_what_the_state_says_the_channels_owe(events: list[tuple[int, Event]]):
    """R-180: the ledger and the state are two accounts of the same money."""
    world = play(events, TRUSTED)
    assert world.order is not None
    accounts = books(world)
    assert sum(accounts.values()) == 0
    receivable = sum(amount for account, amount in accounts.items() if account.startswith("chan_recv:"))
    assert receivable == sum(owed(world.order, payment) for payment in world.order.payments)


@given(rich_life(), st.lists(st.sampled_from(("refund", "fulfil", "book", "close")), min_size=1, max_size=20))
def test_whatever_two_people_decide_the_books_hold(events: list[tuple[int, Event]], actions: list[str]):
    """R-197: decisions post, each once, and never edit what happened."""
    world = play(events, TRUSTED)
    assert world.order is not None
    states = [one.state for one in world.order.payments]
    for number, action in enumerate(actions):
        open_ = [one for one in world.order.conflicts if one.open]
        if not open_:
            break
        one = open_[number % len(open_)]
        world.tell(
            Resolve(
                command_id=f"d{number}",
                order_id="O1",
                discrepancy=discrepancy_id(world.order, one.id),
                revision=one.revision,
                action=action,
                evidence="ticket",
                proposer="ann",
                approver="bob",
                refund_no=f"L{number}",
            )
        )
        if action == "refund":
            world.row(f"returned L{number} of=P1 {('SUCCESS', 'FAILED')[number % 2]} t=XL{number}")
    assert [one.state for one in world.order.payments] == states
    assert world.told_all_that_it_implies()
    accounts = books(world)
    receivable = sum(amount for account, amount in accounts.items() if account.startswith("chan_recv:"))
    assert receivable == sum(owed(world.order, payment) for payment in world.order.payments)


@given(rich_life())
def test_our_refunds_never_exceed_what_was_captured(events: list[tuple[int, Event]]):
    """R-015: at no moment, however requests, answers and disputes race."""
    world = World(TRUSTED)
    for seconds, one in events:
        world.wind(seconds)
        world.tell(one)
        assert world.order is not None
        for payment in world.order.payments:
            ours = sum(one.amount for one in balance.refunds(world.order, payment) if one.state in RESERVED)
            assert ours <= payment.money.captured
            assert payment.money.hold >= 0
            assert payment.money.captured + payment.money.hold <= max(payment.money.authorized, payment.amount)


@given(rich_life())
def test_every_operation_moves_along_its_table_and_ends_once(events: list[tuple[int, Event]]):
    """R-012, R-014, R-026."""
    world = play(events, TRUSTED)
    assert world.order is not None
    for target in (*world.order.payments, *world.order.operations):
        machine = MACHINES[target.kind]
        for before, after in zip(target.path, target.path[1:], strict=False):
            assert after in machine[before].values()
        assert target.path[-1] == target.state
        assert not TERMINAL[target.kind] & set(target.path[:-1])


@given(rich_life())
def test_each_kind_of_movement_is_told_once_for_an_operation(events: list[tuple[int, Event]]):
    """R-139."""
    world = play(events, TRUSTED)
    moved = Counter(message.id for message in world.said if isinstance(message, Movement))
    assert set(moved.values()) <= {1}
    assert sum(isinstance(message, PaymentSuccess) for message in world.said) <= 1


@given(rich_life())
def test_a_refusal_leaves_every_operation_untouched(events: list[tuple[int, Event]]):
    world = World(TRUSTED)
    for seconds, one in events:
        world.wind(seconds)
        before = world.order
        decisions = [message for message in world.tell(one) if isinstance(message, Decision)]
        if before is None or [one.verdict for one in decisions] != ["refused"]:
            continue
        assert world.order is not None
        assert world.order.payments == before.payments
        assert world.order.operations == before.operations
        assert not decisions[0].ledger


@given(rich_life())
def test_time_ends_only_what_was_never_asked_for_and_a_stated_lapse(events: list[tuple[int, Event]]):
    """R-005, R-008."""
    world = play(events, TRUSTED)
    said = len(world.said)
    world.wind(400_000)
    ends = {
        (message.before, message.after)
        for message in world.said[said:]
        if isinstance(message, Decision) and message.source == "timer" and message.after != message.before
    }
    assert ends <= {("INIT", "CLOSED"), ("AUTHORIZED", "EXPIRED")}


@given(rich_life())
def test_whatever_is_open_has_an_answer_and_whatever_ended_a_witness(events: list[tuple[int, Event]]):
    """No verdict without a witness: only what nothing was ever asked of, and a stated lapse, ends without a word."""
    world = play(events, TRUSTED)
    assert world.order is not None
    told, open_ = why(world.order, world.at), story(world.order, world.at)
    for item in told.open:
        assert item.what
        assert item.whom
    ended = {one.about: one for one in told.ended}
    for target in (*open_.payments, *open_.operations):
        final = target.state in TERMINAL[getattr(target, "kind", "PAY")] or target.state == SUCCESS
        assert (target.awaited is None) == final
    assert all(one.because and one.witness for one in ended.values())
    for payment in world.order.payments:
        if payment.state in TERMINAL["PAY"] and payment.evidence is None:
            assert payment.path == ("INIT", "CLOSED")
