"""What the books find of two orders: one discrepancy for each transaction, whatever is found of it, and no money moves."""

from __future__ import annotations

from msgspec.structs import replace

from streams.domain.converge import converge
from streams.domain.decisions import Decision, Discrepancy
from streams.domain.events import Finding, Undelivered
from tests.support.worlds import START, World, event

FOUND = Finding(
    order_id="O1", payment_no="P1", channel="chA", status="TRANSACTION_ON_TWO_ORDERS", event_id="F1", transaction="X1", other_order="O2"
)  # fmt: skip


def paid() -> World:
    world = World({})
    for words in (["create", "P1"], ["start", "P1"], ["callback", "P1", "SUCCESS", "e=E1", "t=X1"]):
        world.tell(event(words, START))
    return world


def test_a_transaction_on_two_orders_is_told_to_a_person_and_moves_nothing():
    """R-040."""
    world = paid()
    order, said = converge(world.order, FOUND, world.at, {})
    raised = [one for one in said if type(one) is Discrepancy]
    assert [(one.kind, one.status, one.severity, one.ref, one.payment_no) for one in raised] == [
        ("TRANSACTION_ON_TWO_ORDERS", "opened", "high", "X1", "P1")
    ]
    assert "order O2" in raised[0].detail
    assert order is not None
    assert order.payments == world.order.payments
    decision = said[-1]
    assert type(decision) is Decision
    assert (decision.verdict, decision.rule, decision.source) == ("conflict", "transaction-on-two-orders", "finding")
    assert decision.said is not None
    assert (decision.said.transaction, decision.said.reason) == ("X1", "O2")


def test_the_same_finding_again_is_a_repetition_and_a_third_order_raises_nothing_new():
    world = paid()
    order, _ = converge(world.order, FOUND, world.at, {})
    _, again = converge(order, FOUND, world.at, {})
    assert [one.verdict for one in again if type(one) is Decision] == ["duplicate"]
    _, third = converge(order, replace(FOUND, event_id="F2", other_order="O3"), world.at, {})
    assert [type(one) for one in third] == [Decision]


def test_another_transaction_of_the_order_is_a_discrepancy_of_its_own():
    world = paid()
    order, first = converge(world.order, FOUND, world.at, {})
    _, second = converge(order, replace(FOUND, event_id="F2", transaction="X2"), world.at, {})
    ids = [one.id for said in (first, second) for one in said if type(one) is Discrepancy]
    assert len(set(ids)) == 2


def test_a_notice_that_its_merchant_never_heard_opens_one_discrepancy_and_moves_nothing():
    """R-084, R-086."""
    given_up = Undelivered(command_id="U1", order_id="O1", payment_no="P1", ref="notice-1", detail="eight tries")
    world = paid()
    order, raised, decided = world.order, [], []
    for one in (given_up, replace(given_up, command_id="U2"), replace(given_up, command_id="U3", payment_no="P2")):
        order, said = converge(order, one, world.at, {})
        raised += [each for each in said if type(each) is Discrepancy]
        decided += [(each.verdict, each.rule, f"{each.source} {each.word}") for each in said if type(each) is Decision]
    assert [(one.kind, one.ref, one.owner, one.payment_no) for one in raised] == [
        ("NOTIFICATION_UNDELIVERED", "notice-1", "trade", "P1")
    ]
    assert decided == [
        ("applied", "notice-undelivered", "finding undelivered"),
        ("duplicate", "notice-undelivered", "finding undelivered"),
        ("refused", "payment-not-found", "finding undelivered"),
    ]
    assert order is not None
    assert order.payments == world.order.payments
