"""Any order and any duplication of the same evidence ends in the same position and raises the same conflicts.

The state may tell which came first; then a conflict says so. Nothing else depends on the order of arrival.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from streams.domain.decisions import PaymentSuccess
from streams.domain.events import Answer, Callback, RefundNotice
from streams.domain.identity import event_key
from streams.domain.tables import UNPAID
from tests.support.lives import answers, callbacks, mostly
from tests.support.naive import Clerk
from tests.support.worlds import World

if TYPE_CHECKING:
    from streams.domain.order import Operation, Payment

CONTRADICTIONS = {"ILLEGAL_TRANSITION", "LATE_SUCCESS"}
Evidence = st.lists(st.one_of(callbacks(ids=12), answers()), min_size=1, max_size=7)


@st.composite
def of_refund(draw: st.DrawFn) -> RefundNotice | Answer:
    word = draw(st.sampled_from(("SUCCESS", "SUCCESS", "FAILED", "CLOSED", "PENDING", "PROCESSING", "TIMEOUT", "ODD")))
    reference = draw(mostly("RX", "RY"))
    if draw(st.booleans()):
        return Answer(
            request="refund", order_id="O1", payment_no="P1", operation_no="R1", channel="chA", status=word, transaction=reference,
            amount=300, currency="USD",
        )  # fmt: skip
    return RefundNotice(
        order_id="O1", payment_no="P1", refund_no="R1", channel="chA", status=word, event_id=f"N{draw(st.integers(0, 12))}",
        refund_transaction=reference, amount=draw(mostly(300, 299)), currency="USD",
    )  # fmt: skip


def close_answer(word: str) -> Answer:
    return Answer(request="close", order_id="O1", payment_no="P1", channel="chA", status=word)


def distinct(evidence: list[Any]) -> list[Any]:
    """An honest channel: one payload under one key."""
    kept: dict[Any, Any] = {}
    for one in evidence:
        key = None if isinstance(one, Answer) else event_key(one)
        kept.setdefault(key or one, one)
    return list(kept.values())


@st.composite
def two_orders(draw: st.DrawFn, evidence: st.SearchStrategy[list[Any]]) -> tuple[list[Any], list[Any]]:
    """The same evidence twice: in one order, and in another with pieces of it repeated."""
    pieces = distinct(draw(evidence))
    again = list(draw(st.permutations(pieces)))
    for one in draw(st.lists(st.sampled_from(pieces), max_size=3)):
        if getattr(one, "event_id", None):
            again.insert(draw(st.integers(0, len(again))), one)
    return pieces, again


def heard(rows: tuple[str, ...], evidence: list[Any]) -> World:
    world = World()
    for row in rows:
        world.row(row)
    for one in evidence:
        world.tell(one)
    return world


def position(world: World, target: Payment | Operation) -> tuple[object, ...]:
    """What the evidence says, whatever the state: conflicts, transactions that succeeded."""
    return frozenset(world.open_conflicts()), frozenset(one.transaction for one in target.paid)


def agree(one: World, other: World, number: str) -> None:
    targets = []
    for world in (one, other):
        assert world.order is not None
        targets.append(next(t for t in (*world.order.payments, *world.order.operations) if t.number == number))
    assert position(one, targets[0]) == position(other, targets[1])
    states = {"unpaid" if target.state in UNPAID else target.state for target in targets}
    contested = any(kind in CONTRADICTIONS for kind, _, _ in one.items() | other.items())
    assert contested or len(states) == 1


BEGUN = ("create P1", "start P1")


@given(two_orders(Evidence))
def test_up_to_seven_pieces_about_a_payment(orders: tuple[list[Any], list[Any]]):
    agree(heard(BEGUN, orders[0]), heard(BEGUN, orders[1]), "P1")


@given(two_orders(st.lists(of_refund(), min_size=1, max_size=7)))
def test_up_to_seven_pieces_about_a_refund(orders: tuple[list[Any], list[Any]]):
    rows = (*BEGUN, "callback P1 SUCCESS e=S t=X1", "back R1 of=P1 a=300")
    agree(heard(rows, orders[0]), heard(rows, orders[1]), "R1")


@given(
    two_orders(
        st.lists(
            callbacks(ids=12, words=("SUCCESS", "AUTHORIZED", "PENDING", "PROCESSING", "ACCEPTED")),
            min_size=1,
            max_size=7,
        )
    )
)
def test_up_to_seven_pieces_about_a_hold(orders: tuple[list[Any], list[Any]]):
    agree(heard(BEGUN, orders[0]), heard(BEGUN, orders[1]), "P1")


@given(
    two_orders(
        st.lists(
            st.one_of(
                callbacks(ids=12, words=("FAILED", "CLOSED", "DECLINED_RETRYABLE", "PENDING", "TIMEOUT")),
                st.builds(close_answer, st.sampled_from(("SUCCESS", "CLOSED", "PENDING"))),
            ),
            min_size=1,
            max_size=7,
        )
    )
)
def test_failures_and_closes_agree_and_a_later_success_is_contested_against_each(orders: tuple[list[Any], list[Any]]):
    """R-136: FAIL and CLOSED are one conclusion; which of them stands is all that the order of arrival may tell."""
    ends = [heard(BEGUN, pieces) for pieces in orders]
    for world in ends:
        assert not any(kind in CONTRADICTIONS for kind, _, _ in world.items())
    facts = []
    for world in ends:
        assert world.order is not None
        payment = world.order.payments[0]
        facts.append((payment.state in UNPAID or payment.state, {refusal.fact for refusal in payment.refusals}))
        world.row("callback P1 SUCCESS e=LATE t=X9")
    assert facts[0] == facts[1]
    assert ends[0].open_conflicts() == ends[1].open_conflicts()


def named(number: str, index: int, word: str, transaction: str) -> Callback:
    return Callback(
        order_id="O1", payment_no=number, channel="chA", status=word, event_id=f"{number}-{index}", transaction=transaction,
        amount=1000, currency="USD",
    )  # fmt: skip


@given(
    two_orders(
        st.lists(
            st.builds(
                named,
                st.sampled_from(("P1", "P2")),
                st.integers(0, 9),
                st.sampled_from(("SUCCESS", "SUCCESS", "FAILED", "CLOSED", "PENDING", "TIMEOUT")),
                st.sampled_from(("X1", "X1", "X2")),
            ),
            min_size=1,
            max_size=7,
        )
    )
)
def test_up_to_seven_pieces_about_two_payments_that_share_transactions(orders: tuple[list[Any], list[Any]]):
    """R-040, R-105: one transaction is contested once, whichever payment had it first, and pays at most one of them."""
    begun = ("create P1 biz_code=goods", "start P1", "create P2 biz_code=freight", "start P2")
    one, other = heard(begun, orders[0]), heard(begun, orders[1])
    assert one.open_conflicts() == other.open_conflicts()
    for world in (one, other):
        paid_by = [message.transaction for message in world.said if isinstance(message, PaymentSuccess)]
        assert len(paid_by) == len(set(paid_by))
    if not one.items():
        assert [one.state(n) in UNPAID or one.state(n) for n in (0, 1)] == [
            other.state(n) in UNPAID or other.state(n) for n in (0, 1)
        ]


@given(st.lists(st.one_of(callbacks(ids=12), answers()), max_size=7))
def test_the_law_agrees_with_a_clerk_who_reads_the_requirements(evidence: list[Callback | Answer]):
    """Apart from what waits for another channel, and what has no key or is a test, which the clerk is not shown."""
    world, clerk = heard(BEGUN, []), Clerk()
    for one in evidence:
        if isinstance(one, Callback):
            odd = one.channel != "chA" or not one.event_id or not one.transaction or one.livemode is False
            if odd or one.amount_text or one.cumulative_refunded or one.amount is None or one.version is not None:
                continue
            if one.event_id in clerk.heard and clerk.heard[one.event_id] != said(one):
                continue  # the law and the clerk both keep the first
            clerk.callback(one.event_id, one.status, one.transaction, one.amount, str(one.currency))
        elif one.request in {"query", "submit"}:
            clerk.answer(one.status, one.transaction, one.amount, one.currency)
        else:
            continue
        world.tell(one)
    assert world.state() == clerk.state
    assert any(kind in CONTRADICTIONS for kind, _, _ in world.items()) == clerk.contradicted
    assert world.order is not None
    if clerk.state == "SUCCESS":
        assert world.order.payments[0].transaction == clerk.transaction


def said(one: Callback) -> tuple[str, ...]:
    return (one.status, str(one.transaction), str(one.amount), str(one.currency))
