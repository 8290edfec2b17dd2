"""The edges of what people decide and of what is asked for at the door: each decision posts once, and closes only over what is settled."""

from __future__ import annotations

from msgspec import structs

from streams.domain.contract import Contract
from streams.domain.decisions import Decision, Discrepancy, Message, OperationUpdate
from streams.domain.identity import discrepancy_id
from streams.domain.order import Conflict
from tests.support.worlds import World

LATE = ("create P1", "start P1", "callback P1 FAILED e=F", "callback P1 SUCCESS e=S t=X1")


def played(*rows: str) -> World:
    world = World()
    for row in rows:
        world.row(row)
    return world


def posted(world: World) -> list[tuple[str, str, int, str]]:
    return [(one.dr, one.cr, one.amount, one.ref) for message in world.said for one in getattr(message, "ledger", ())]


def last_item(world: World) -> str:
    assert world.order is not None
    return discrepancy_id(world.order, world.order.conflicts[-1].id)


def items(world: World, kind: str) -> list[str]:
    assert world.order is not None
    return [discrepancy_id(world.order, one.id) for one in world.order.conflicts if one.open and one.kind == kind]


def detail(messages: list[Message]) -> str:
    return next(message.detail for message in reversed(messages) if isinstance(message, Decision))


def test_late_money_is_posted_when_people_let_it_pay_and_not_before() -> None:
    world = played(*LATE)
    assert posted(world) == []
    assert world.row("decide fulfil about=LATE_SUCCESS")[0].startswith("applied decided-fulfil")
    assert posted(world) == [("chan_recv:chA", "order_clearing", 1000, "P1-late")]


def test_what_a_channel_gave_back_is_posted_when_people_book_it_and_once() -> None:
    world = played(
        "create P1",
        "start P1",
        "callback P1 SUCCESS e=S t=X1",
        "back R1 of=P1 a=100",
        "returned R1 of=P1 SUCCESS t=RX a=100",
        "returned R1 of=P1 SUCCESS t=RZ a=100",
    )
    before = posted(world)
    assert world.row("decide book about=CHANNEL_ONLY") == ["applied decided-book - CHANNEL_ONLY:high:RZ:resolved"]
    booked = [*before, ("order_clearing", "chan_recv:chA", 100, "RZ")]
    assert posted(world) == booked
    assert world.row("notice - of=P1 SUCCESS e=N r=RZ a=100") == [
        "conflict channel-refund SUCCESS CHANNEL_ONLY:high:RZ:opened"
    ]
    again = f"decide book about=CHANNEL_ONLY discrepancy={last_item(world)} revision=1"
    assert world.row(again) == ["refused nothing-to-book -"]
    assert posted(world) == booked


def test_once_the_money_is_decided_about_its_other_contradictions_may_be_closed() -> None:
    world = played(*LATE, "callback P1 FAILED e=F2")
    other = f"about=LATE_SUCCESS discrepancy={last_item(world)} revision=1"
    assert world.row(f"decide close {other}") == ["refused money-waits -"]
    world.row("decide refund about=LATE_SUCCESS refund_no=R1")
    assert world.row(f"decide close {other}") == ["applied decided-close - LATE_SUCCESS:high:S:resolved"]


def test_what_is_not_about_the_money_may_be_closed_while_it_waits() -> None:
    world = played(*LATE, "callback P1 SUCCESS e=S2 t=X1 a=999")
    assert world.row("decide close about=AMOUNT_MISMATCH") == [
        "applied decided-close - AMOUNT_MISMATCH:high:S2:resolved"
    ]


def test_an_operation_is_told_from_its_beginning() -> None:
    world = played("create P1", "start P1", "callback P1 SUCCESS e=S t=X1", "back R1 of=P1 a=100")
    updates = [message for message in world.said if isinstance(message, OperationUpdate)]
    assert [(one.before, one.state) for one in updates] == [(None, "INIT"), ("INIT", "REFUNDING")]


def test_a_refused_capture_says_what_is_left_and_never_less_than_nothing() -> None:
    world = played("create P1", "start P1", "callback P1 AUTHORIZED e=A t=X1", "capture C1 of=P1 a=600")
    world.row("capture C2 of=P1 a=401")
    assert "more than the 400 that may be captured" in detail(world.said)
    world.row("release P1 SUCCESS e=R")
    world.row("capture C3 of=P1 a=1")
    assert "more than the 0 that may be captured" in detail(world.said)
    world.row("capture C4 of=P9 a=1")
    assert "more than the 0 that may be captured" in detail(world.said)


def test_a_decision_needs_two_who_have_names() -> None:
    world = played(*LATE)
    for names in ("proposer= approver=bob", "proposer=ann approver=", "proposer=bob approver=bob"):
        assert world.row(f"decide fulfil about=LATE_SUCCESS {names}") == ["refused one-person -"]


def test_booking_one_refund_of_a_channel_leaves_the_others_as_they_are() -> None:
    world = played("create P1", "start P1", "callback P1 SUCCESS e=S t=X1")
    for ref in ("RA", "RB", "RC"):
        world.row(f"notice - of=P1 SUCCESS e={ref} r={ref} a=100")
    world.row("decide book about=CHANNEL_ONLY")
    assert world.order is not None
    kept = world.order.payments[0].money.channel_refunds
    assert [(one.ref, one.amount, one.booked) for one in kept] == [
        ("RA", 100, True),
        ("RB", 100, False),
        ("RC", 100, False),
    ]


def test_money_that_came_three_times_goes_back_twice_and_no_more() -> None:
    """R-040: three contradictions between three successes, two sums too much."""
    world = played("create P1", "start P1", *(f"callback P1 SUCCESS e={name} t={name}" for name in ("X1", "X2", "X3")))
    assert world.order is not None
    names = [discrepancy_id(world.order, one.id) for one in world.order.conflicts]
    assert len(names) == 3
    rules = [
        world.row(
            f"decide refund about=DUPLICATE_PAYMENT discrepancy={name} revision=1 refund_no=R{number} command_id=D{number}"
        )[0].split()[1]
        for number, name in enumerate(names)
    ]
    assert rules == ["decided-refund", "decided-refund", "no-late-money"]
    assert posted(world)[1:] == [("chan_recv:chA", "suspense", 1000, "P1-late")] * 2


def test_a_second_paid_leg_is_taken_in_at_what_it_brought() -> None:
    """A tolerated clearing above one leg's hold reached the total by itself."""
    world = World({"chA": Contract(overcapture_pct={"restaurant": 100})})
    for row in (
        "create L1 a=500 order_total=1000 category=restaurant",
        "create L2 a=500 order_total=1000",
        "start L1",
        "start L2",
        "callback L1 AUTHORIZED e=A t=X1 a=500",
        "purchase L1 e=C1 a=1000",
    ):
        world.row(row)
    assert world.row("callback L2 SUCCESS e=S t=X2 a=500") == [
        "applied second-success PAYING>SUCCESS DUPLICATE_PAYMENT:high:L2:opened"
    ]
    assert posted(world) == [("chan_recv:chA", "order_clearing", 1000, "L1")]
    assert world.row("decide fulfil about=DUPLICATE_PAYMENT") == ["refused over-total -"]
    assert world.row("decide refund about=DUPLICATE_PAYMENT refund_no=R1")[0].startswith("applied decided-refund")
    assert world.order is not None
    money = world.order.payments[1].money
    assert (money.captured, money.late, money.duplicate) == (500, 500, False)
    assert posted(world)[1:] == [("chan_recv:chA", "suspense", 500, "L2-late")]


def test_late_money_goes_back_to_the_payer_of_its_own_merchant_where_two_gave_their_payments_one_number() -> None:
    """A number is a merchant's own, and an order may be sold by several."""
    world = World()
    for merchant, words in (("m1", ("FAILED", "SUCCESS")), ("m2", ("FAILED", "SUCCESS"))):
        for command in ("create", "start"):
            world.row(f"{command} P1 merchant={merchant} command_id={command}-{merchant}")
        for word in words:
            world.row(f"callback P1 {word} merchant={merchant} e={merchant}-{word} t=X-{merchant}")
    first, second = items(world, "LATE_SUCCESS")
    for item, number in ((second, "R2"), (first, "R1")):
        outcome = world.row(f"decide refund about=LATE_SUCCESS discrepancy={item} revision=1 refund_no={number}")
        assert outcome[0].startswith("applied decided-refund")
    assert world.order is not None
    assert [one.key for one in world.order.operations] == ["m2/R2", "m1/R1"]
    assert [one.money.late for one in world.order.payments] == [1000, 1000]


def test_two_merchants_refunds_of_one_number_are_told_apart() -> None:
    world = World()
    for merchant in ("m1", "m2"):
        for row in ("create P1", "start P1", "back R1 of=P1 a=100"):
            world.row(f"{row} merchant={merchant} command_id={row[:2]}-{merchant}")
            if row.startswith("start"):
                world.row(f"callback P1 SUCCESS merchant={merchant} e=S-{merchant} t=X-{merchant}")
        world.row(f"returned R1 of=P1 FAILED merchant={merchant} a=-")
    world.row("returned R1 of=P1 SUCCESS merchant=m2 t=RX a=100")
    [item] = items(world, "LATE_SUCCESS")
    assert world.order is not None
    assert [len(one.money.channel_refunds) for one in world.order.payments] == [0, 1]
    assert item == last_item(world)


def test_what_an_older_release_opened_is_still_settled_by_its_number() -> None:
    world = played(*(f"{row} merchant=m1" for row in LATE))
    assert world.order is not None
    [late] = world.order.conflicts
    world.order.conflicts = (Conflict(*structs.astuple(late)[:7]),)
    assert world.row("+60 decide refund about=LATE_SUCCESS refund_no=R1")[0].startswith("applied decided-refund")
    told = [one for one in world.said if isinstance(one, Discrepancy)][-1]
    assert (told.deadline - told.decided_at).total_seconds() == 4 * 3600
