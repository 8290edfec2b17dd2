"""The simulated account obeys its contract, and its seed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from streams.channels.contracts import shipped
from streams.simulator.dialect import Asked
from streams.simulator.faults import Chance, FaultsError, Rates, rates
from streams.simulator.world import World

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
CONTRACT = shipped()["simulator"]


def world(contract=CONTRACT, seed=1, **faults):
    return World("simulator", contract, Chance(seed, Rates(**faults)))


def submit(key="k1", number="P1", amount=1099, **more):
    return Asked(verb="submit", order_id="O1", payment_no=number, amount=amount, currency="USD", key=key, **more)


def of(verb, number=None, amount=None, key=None):
    return Asked(verb=verb, payment_no="P1", operation_no=number, amount=amount, currency="USD", key=key or number)


def with_idempotency(**changes):
    return replace(CONTRACT, idempotency=replace(CONTRACT.idempotency, **changes))


def test_the_same_key_charges_once_and_is_told_so():
    one = world()
    first, again = one.take(submit(), NOW), one.take(submit(), NOW)
    assert (first.word, again.word, again.duplicate) == ("SUCCESS", "SUCCESS", True)
    assert first.fact.transaction == again.fact.transaction
    assert len(list(one.ledger())) == 1


def test_another_key_charges_again_and_the_ledger_tells():
    one = world()
    one.take(submit("k1"), NOW)
    one.take(submit("k2"), NOW)
    assert len({charge.transaction for charge in one.ledger()}) == 2


def test_without_a_promise_every_submit_is_a_charge():
    one = world(replace(CONTRACT, idempotency=None))
    for _ in range(3):
        one.take(submit(), NOW)
    assert len(list(one.ledger())) == 3


def test_a_key_is_forgotten_at_the_end_of_its_life():
    one = world(with_idempotency(life_s=60))
    one.take(submit(), NOW)
    one.take(submit(), NOW + timedelta(seconds=59))
    assert len(list(one.ledger())) == 1
    one.take(submit(), NOW + timedelta(seconds=60))
    assert len(list(one.ledger())) == 2


def test_the_same_key_with_other_parameters_is_refused_where_they_are_compared():
    one = world()
    one.take(submit(), NOW)
    assert one.take(submit(amount=5), NOW).word == "REFUSED"
    lax = world(with_idempotency(checks_parameters=False))
    lax.take(submit(), NOW)
    assert lax.take(submit(amount=5), NOW).word == "SUCCESS"


def test_a_key_of_an_endpoint_is_free_at_another_one():
    one = world(with_idempotency(scope="endpoint"))
    one.take(submit("k"), NOW)
    assert one.take(of("refund", "R1", 5, key="k"), NOW).duplicate is False


def test_the_first_answer_is_repeated_where_the_contract_says_first():
    one = world(with_idempotency(duplicate_answer="first"), slow=1.0)
    assert one.take(submit(), NOW).word == "PROCESSING"
    later = NOW + timedelta(seconds=5)
    assert one.take(submit(), later).word == "PROCESSING"
    assert one.take(of("query"), later).word == "SUCCESS"
    now = world(slow=1.0)
    now.take(submit(), NOW)
    assert now.take(submit(), later).word == "SUCCESS"


def test_an_eventual_query_sees_late_and_a_strong_one_at_once():
    eventual = world(replace(CONTRACT, query=replace(CONTRACT.query, consistency="eventual")))
    for one, word in ((world(), "SUCCESS"), (eventual, "NOT_FOUND")):
        one.take(submit(), NOW)
        assert one.take(of("query"), NOW).word == word
        assert one.take(of("query"), NOW + timedelta(seconds=1)).word == "SUCCESS"


def test_a_close_stops_what_is_open_and_nothing_else():
    one = world(slow=1.0)
    one.take(submit(), NOW)
    assert one.take(of("close"), NOW).word == "CLOSED"
    one.settle(NOW + timedelta(hours=1))
    assert list(one.ledger()) == []
    paid = world()
    paid.take(submit(), NOW)
    assert paid.take(of("close"), NOW).word == "SUCCESS"
    assert paid.take(Asked(verb="close", payment_no="nobody"), NOW).word == "NOT_FOUND"


def test_a_hold_is_captured_in_parts_up_to_what_is_held_and_then_not_voided():
    one = world(authorize=1.0)
    assert one.take(submit(), NOW).word == "AUTHORIZED"
    assert one.take(of("capture", "C1", 99), NOW).word == "SUCCESS"
    assert one.take(of("capture", "C2", 1001), NOW).word == "REFUSED"
    assert one.take(of("capture", "C3", 1000), NOW).word == "SUCCESS"
    assert one.take(of("void", "V1"), NOW).word == "REFUSED"


def test_a_void_lets_the_hold_go_once():
    one = world(authorize=1.0)
    one.take(submit(), NOW)
    assert one.take(of("void", "V1"), NOW).word == "SUCCESS"
    assert one.take(of("query"), NOW).word == "CLOSED"
    assert list(one.ledger()) == []


def test_refunds_never_exceed_the_payment():
    one = world()
    one.take(submit(), NOW)
    assert one.take(of("refund", "R1", 1000), NOW).word == "SUCCESS"
    assert one.take(of("refund", "R2", 100), NOW).word == "REFUSED"
    assert one.take(of("refund", "R1", 1000), NOW).duplicate is True
    assert one.take(of("refund", "R3", 99), NOW).word == "SUCCESS"


def test_every_final_word_is_news_once():
    one = world(slow=1.0)
    one.take(submit(), NOW)
    assert one.news == []
    one.settle(NOW + timedelta(seconds=2))
    one.settle(NOW + timedelta(seconds=3))
    assert [(fact.word, fact.sequence) for fact in one.news] == [("SUCCESS", 1)]


def test_a_contradiction_is_said_and_is_not_true():
    one = world(contradict=1.0)
    one.take(submit(), NOW)
    assert [fact.word for fact in one.news] == ["SUCCESS", "FAILED"]
    assert len({fact.event_id for fact in one.news}) == 2
    assert one.take(of("query"), NOW).word == "SUCCESS"


def test_a_wrong_signature_moves_nothing():
    one = world()
    assert one.take(submit(signed=False), NOW).word == "REFUSED"
    assert list(one.ledger()) == []


def test_the_fate_of_a_payment_does_not_depend_on_the_order_of_arrival():
    numbers = [f"P{number}" for number in range(40)]
    ends = []
    for order in (numbers, numbers[::-1]):
        one = world(fail=0.3, slow=0.3, authorize=0.3)
        words = {number: one.take(submit(f"k{number}", number), NOW).word for number in order}
        ends.append([words[number] for number in numbers])
    assert ends[0] == ends[1]
    assert len(set(ends[0])) == 4


def test_chances_follow_their_rates_and_another_seed_has_others():
    one, other = Chance(1, Rates(drop=0.25)), Chance(2, Rates(drop=0.25))
    struck = [one.strikes("drop", number) for number in range(4000)]
    assert 800 < sum(struck) < 1200
    assert struck != [other.strikes("drop", number) for number in range(4000)]


@pytest.mark.parametrize(
    ("text", "says"), [("dorp=1", "dorp"), ("drop=x", "number"), ("drop=2", "between 0 and 1"), ("drop", "number")]
)
def test_rates_that_cannot_be_read_say_what_is_wrong(text, says):
    with pytest.raises(FaultsError, match=says):
        rates(text)


def test_rates_are_written_as_a_list():
    assert rates("drop=0.05, lose=0.1") == Rates(drop=0.05, lose=0.1)
    assert rates("") == Rates()
