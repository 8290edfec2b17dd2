"""What starts a fallback and what it asks for (R-050, R-156)."""

from __future__ import annotations

import pytest
from msgspec import structs

from streams.domain.contract import Contract, Failures, Idempotency
from streams.domain.decisions import Decision
from streams.domain.events import Answer, ClosePayment, RetryPayment
from streams.domain.fallback import LATEST_MS, Refusal, command, fallback, lawful, refusal
from streams.domain.routing import Ask
from streams.domain.score import Book, Limit, Offer
from tests.support.worlds import World

CONTRACTS = {"chA": Contract(failures=Failures(not_accepted=("REFUSED",))), "chM": Contract(isolation="manual")}
BOOK = Book(offers=tuple(Offer(channel=name, limits={"USD": Limit()}) for name in ("chA", "chB", "chM")))


def world(*rows: str) -> World:
    found = World(CONTRACTS)
    for row in ("create P1 channel=chA expires_at=never", "start P1", *rows):
        found.row(row)
    return found


def last(found: World) -> Decision:
    return next(one for one in reversed(found.said) if isinstance(one, Decision))


def refused(error: str | None = None) -> Refusal:
    found = world()
    found.tell(
        Answer(request="submit", order_id="O1", payment_no="P1", channel="chA", status="REFUSED", error_class=error)
    )
    one = refusal(last(found))
    assert one is not None
    return one


def test_a_refusal_of_the_channel_is_one_and_says_its_error():
    one = refused("over_limit")
    assert (one.order_id, one.payment_no, one.attempt, one.channel, one.error) == ("O1", "P1", 1, "chA", "over_limit")
    assert refused().error == "REFUSED"


@pytest.mark.parametrize(
    "row",
    [
        "submit P1 TIMEOUT",
        "submit P1 SUCCESS t=X1",
        "submit P1 FAILED",
        "query P1 NOT_FOUND",
        "give-up P1",
        "start P1 command_id=again",
    ],
)
def test_nothing_else_starts_a_fallback(row: str):
    """R-050: never on any exception, and never on what ended the payment."""
    assert refusal(last(world(row))) is None


def test_only_the_ruling_itself_about_this_very_payment_starts_one():
    """Not a repetition of it, nor what it changed beside."""
    found = world("submit P1 REFUSED")
    told, (payment,) = last(found), last(found).operations
    assert refusal(told) is not None
    assert refusal(structs.replace(told, verdict="duplicate")) is None
    assert refusal(structs.replace(told, rule="failure")) is None
    for beside in ({"kind": "CAPTURE"}, {"number": "P2"}, {"asked": None}, {"state": "CLOSED"}):
        other = structs.replace(payment, **beside)
        assert refusal(structs.replace(told, operations=(other,))) is None
        assert refusal(structs.replace(told, operations=(other, payment))) == refusal(told)


def test_a_payer_waits_two_minutes():
    assert LATEST_MS == 2 * 60 * 1000


def test_one_of_two_sendings_that_was_refused_is_no_refusal():
    """The other may have been accepted."""
    contract = Contract(
        failures=Failures(not_accepted=("REFUSED",)), idempotency=Idempotency(key="k", scope="account", life_s=600),
        most_submits=4, submit_retry_window_s=300, lease_s=30,
    )  # fmt: skip
    found = World({"chA": contract})
    for row in ("create P1 channel=chA expires_at=never", "start P1", "submit P1 TIMEOUT", "+40 tick"):
        found.row(row)
    assert found.order is not None
    assert found.order.payments[0].made[-1].sends == 2
    found.row("submit P1 REFUSED request_id=r1")
    assert (last(found).rule, refusal(last(found))) == ("attempt-refused", None)
    found.row("submit P1 REFUSED request_id=r2")
    assert refusal(last(found)) is not None


def test_a_command_is_named_by_the_payment_and_the_attempt_alone():
    one = refused()
    assert one.command_id == structs.replace(one, at=7, error="x", channel="chZ").command_id
    others = [
        structs.replace(one, **{name: value})
        for name, value in (("attempt", 2), ("payment_no", "P2"), ("merchant", "m"))
    ]
    assert len({one.command_id, *(each.command_id for each in others)}) == 4


def test_accounts_whose_contract_leaves_it_to_people_are_left_out():
    assert lawful(None, CONTRACTS, BOOK) == ("chA", "chB")
    assert lawful(("chM", "chB"), CONTRACTS, BOOK) == ("chB",)


@pytest.mark.parametrize(
    ("late", "kind"), [(0, RetryPayment), (LATEST_MS, RetryPayment), (LATEST_MS + 1, ClosePayment)]
)
def test_the_next_channel_is_asked_for_until_the_payer_has_gone(late: int, kind: type):
    one = refused()
    ask = Ask(amount=1000, currency="USD", at=one.at + late, minute=0, tried=("chA",))
    asked = command(one, fallback(one, ask, BOOK, {}, ()))
    assert type(asked) is kind
    assert asked.command_id == one.command_id
    if isinstance(asked, RetryPayment):
        assert asked.channel == "chB"
