"""What goes to the channel with a request, and what comes back for the payer, beside any state."""

from __future__ import annotations

import pytest

from streams.domain.contract import Contract, Idempotency
from streams.domain.decisions import ChannelRequest, PayerAction
from streams.domain.events import Answer, RetryPayment, StartPayment
from tests.support.worlds import World

RESENDS = Contract(
    idempotency=Idempotency(key="key", scope="account", life_s=86_400),
    most_submits=3,
    submit_retry_window_s=3600,
    lease_s=60,
)
DETAILS = {"payment_method": "pm_1"}


@pytest.fixture
def world() -> World:
    world = World({"chA": RESENDS})
    world.row("create P1")
    world.tell(StartPayment(command_id="s", order_id="O1", payment_no="P1", details=DETAILS))
    return world


def requests(world: World, verb: str) -> list[ChannelRequest]:
    return [said for said in world.said if isinstance(said, ChannelRequest) and said.verb == verb]


def actions(world: World) -> list[str]:
    return [said.action for said in world.said if isinstance(said, PayerAction)]


def answer(**fields: str) -> Answer:
    return Answer(request="submit", order_id="O1", payment_no="P1", channel="chA", **{"status": "PENDING"} | fields)


def test_a_submit_sent_again_says_the_same_details_under_the_same_key(world):
    """R-031: a channel that checks parameters refuses a repetition that differs."""
    world.wind(600)
    submits = requests(world, "SUBMIT")
    assert len(submits) > 1
    assert {submit.idempotency_key for submit in submits} == {submits[0].idempotency_key}
    assert [submit.details for submit in submits] == [DETAILS] * len(submits)


def test_only_a_submit_carries_the_details(world):
    world.wind(600)
    assert [query.details for query in requests(world, "QUERY")][:1] == [{}]


@pytest.mark.parametrize(
    ("row", "verb", "word"),
    [
        ("back R1 of=P1 a=300", "REFUND", "SUCCESS"),
        ("capture R1 of=P1 a=300", "CAPTURE", "AUTHORIZED"),
        ("void R1 of=P1", "VOID", "AUTHORIZED"),
    ],
)
def test_a_request_of_an_operation_names_the_payment_that_it_is_of(world, row: str, verb: str, word: str):
    """Channels ask for the payment's own reference and amount beside the refund's."""
    world.row(f"callback P1 {word} e=1 t=X1")
    world.row(row)
    world.wind(600)
    for asked in (*requests(world, verb), *requests(world, "QUERY")):
        assert (asked.operation, asked.operation_no, asked.payment_no) == (verb, "R1", "P1")
        assert (asked.payment_transaction, asked.payment_amount) == ("X1", 1000)
        assert asked.transaction is None
    assert len(requests(world, verb)) == 1
    assert requests(world, "QUERY")


def test_a_request_of_a_payment_is_of_no_other(world):
    [asked] = requests(world, "SUBMIT")
    assert (asked.operation, asked.operation_no, asked.payment_transaction, asked.payment_amount) == (None,) * 4
    assert asked.not_after is not None


@pytest.mark.parametrize(("lease_s", "may_s"), [(60, 60), (899, 899), (901, 900)])
def test_no_connector_submits_after_the_lease_nor_after_the_payment_has_expired(lease_s: int, may_s: int):
    """R-064: what is not found after that was not sent."""
    world = World({"chA": Contract(lease_s=lease_s)})
    world.row("create P1")
    world.row("start P1")
    [asked] = requests(world, "SUBMIT")
    assert asked.not_after is not None
    assert (asked.not_after - asked.decided_at).total_seconds() == may_s


def test_another_attempt_has_details_of_its_own(world):
    world.tell(answer(status="REFUSED", error_class="refused"))
    world.contracts = {"chA": Contract(), "chB": Contract()}
    assert world.order is not None
    world.row("query P1 NOT_FOUND")
    retry = RetryPayment(command_id="r", order_id="O1", payment_no="P1", channel="chB", details={"token": "t"})
    world.tell(retry)
    for submit in requests(world, "SUBMIT"):
        assert submit.details == (DETAILS if submit.channel == "chA" else {"token": "t"})


def test_an_ended_payment_keeps_no_details(world):
    world.row("callback P1 SUCCESS e=1 t=X1")
    assert world.order is not None
    assert world.order.payments[0].details is None


def test_what_the_payer_needs_is_told_without_a_change_of_state(world):
    world.tell(answer(payer_action="weixin://code"))
    assert actions(world) == ["weixin://code"]
    assert world.state() == "PAYING"
    assert world.told_all_that_it_implies()


def test_an_answer_that_comes_twice_tells_the_payer_once(world):
    for _ in range(3):
        world.tell(answer(payer_action="weixin://code"))
    assert actions(world) == ["weixin://code"]


def test_each_submit_that_was_sent_again_may_tell_the_payer_once_more(world):
    """The channel may show the payer another code for the same key; the second answer is to the second sending."""
    world.wind(60)
    assert len(requests(world, "SUBMIT")) == 2
    for code in ("first", "second", "third"):
        world.tell(answer(payer_action=code))
    assert actions(world) == ["first", "second"]
    assert world.told_all_that_it_implies()


def test_a_payment_that_has_ended_asks_nothing_of_its_payer(world):
    world.row("callback P1 SUCCESS e=1 t=X1")
    world.tell(answer(payer_action="weixin://code"))
    assert actions(world) == []
    assert world.told_all_that_it_implies()
