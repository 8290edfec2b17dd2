"""What reconciliation reports: differences with a life, bookings once, settlement said, payouts that bounce once (R-180 to R-198)."""

from __future__ import annotations

import itertools

import pytest
from msgspec.structs import replace

from streams.domain.contract import Contract
from streams.domain.converge import converge
from streams.domain.decisions import Decision, Discrepancy, PaymentUpdate
from streams.domain.events import Answer
from streams.domain.implied import implied
from streams.domain.reporting import keyed
from streams.domain.reports import Agreement, Booking, Difference, PayoutNotice, Settled
from tests.support.worlds import START, World, event

LATER = START + 86_400_000
MISSING = Difference(
    order_id="O1", payment_no="P1", channel="chA", status="LOCAL_ONLY", ref="P1", event_id="D1", evidence="bill 20250303"
)  # fmt: skip
FEE = Booking(
    order_id="O1", payment_no="P1", channel="chA", status="FEE", ref="P1", event_id="B1", amount=6, currency="USD", evidence="20250303:1"
)  # fmt: skip
BILL = Answer(
    request="bill", order_id="O1", payment_no="P1", channel="chA", status="SUCCESS", transaction="X1", amount=1000, currency="USD"
)  # fmt: skip


def world(*script: list[str]):
    made = World({})
    for words in (["create", "P1"], ["start", "P1"], *script):
        made.tell(event(words, START))
    return made.order


PAID = (["callback", "P1", "SUCCESS", "e=E1", "t=X1"],)


def tell(order, *events, contracts=None):
    """The order after these reports, all that was said, and the rule of each."""
    said = []
    for one in events:
        order, messages = converge(order, one, LATER, contracts or {})
        said += messages
    return order, said, [one.rule for one in said if type(one) is Decision]


def entries(said):
    return [(e.dr, e.cr, e.amount, e.ref) for one in said if type(one) is Decision for e in one.ledger]


def raised(said):
    return [(one.kind, one.severity, one.ref, one.status) for one in said if type(one) is Discrepancy]


def test_a_difference_opens_once_and_moves_nothing():
    order = world(*PAID)
    after, said, rules = tell(order, MISSING, replace(MISSING, event_id="D2"), MISSING)
    assert rules == ["difference", "difference-known", "same-key-same-payload"]
    assert raised(said) == [("LOCAL_ONLY", "high", "P1", "opened")]
    assert after.payments == order.payments
    assert entries(said) == []
    assert [one.source for one in said if type(one) is Decision] == ["reconciliation"] * 3


def test_the_line_that_comes_after_all_settles_the_difference_and_its_absence_may_be_told_again():
    come = Agreement(
        order_id="O1", payment_no="P1", channel="chA", status="LOCAL_ONLY", ref="P1", event_id="A1", evidence="20250304:1"
    )  # fmt: skip
    _, said, rules = tell(world(*PAID), MISSING, come, replace(MISSING, event_id="D9"))
    assert rules == ["difference", "agreed", "difference"]
    assert [one[3] for one in raised(said)] == ["opened", "resolved", "opened"]


def test_another_amount_of_the_same_line_is_another_difference():
    one = replace(MISSING, status="AMOUNT_MISMATCH", amount=990, currency="USD")
    _, said, _ = tell(world(*PAID), one, replace(one, event_id="D2", amount=980), replace(one, event_id="D3"))
    assert len({each.id for each in said if type(each) is Discrepancy}) == 2


def test_candidates_are_named_for_a_person():
    """R-217."""
    proposal = replace(MISSING, status="AMBIGUOUS_MATCH", severity="info", candidates=("PO1", "PO2"))
    _, said, _ = tell(None, proposal)
    (one,) = [one for one in said if type(one) is Discrepancy]
    assert (one.severity, one.detail) == ("info", "bill 20250303; candidates: PO1, PO2")


def test_money_of_a_bill_joins_late_money_that_is_known_already():
    """R-193: nobody works the same money twice."""
    late = world(["callback", "P1", "FAILED", "e=E1", "t=X1"], ["callback", "P1", "SUCCESS", "e=E2", "t=X1"])
    money = replace(MISSING, status="STATUS_MISMATCH", money=True)
    _, said, rules = tell(late, money)
    assert rules == ["attached"]
    assert raised(said) == []
    assert [one.detail for one in said if type(one) is Decision] == ["LATE_SUCCESS:E2"]
    _, said, rules = tell(world(["callback", "P1", "FAILED", "e=E1", "t=X1"]), money)
    assert rules == ["difference"]
    _, said, rules = tell(late, replace(money, money=False))
    assert rules == ["difference"]


# -- a bill line for what is open


def test_a_bill_line_is_heard_like_the_answer_to_a_query():
    """R-025."""
    order, said, rules = tell(world(), BILL)
    assert (order.payments[0].state, rules) == ("SUCCESS", ["success"])
    assert [one.source for one in said if type(one) is Decision] == ["bill"]
    _, _, rules = tell(order, BILL)
    assert rules == ["already-success"]


def test_a_bill_line_of_another_amount_moves_nothing_and_is_called_by_the_operation():
    order, said, _ = tell(world(), replace(BILL, amount=990))
    assert order.payments[0].state == "PAYING"
    assert raised(said) == [("AMOUNT_MISMATCH", "high", "P1", "opened")]


def test_a_bill_line_never_moves_a_final_state():
    order, _, _ = tell(world(["callback", "P1", "FAILED", "e=E1", "t=X1"]), BILL)
    assert order.payments[0].state == "FAIL"


# -- bookings


def test_a_fee_is_posted_once_from_the_first_file_that_states_it():
    order, said, rules = tell(world(*PAID), FEE, replace(FEE, event_id="B2", evidence="S1:9"))
    assert entries(said) == [("fee_expense", "chan_recv:chA", 6, "P1")]
    assert rules == ["booked", "fee-known"]
    assert order.payments[0].fee_booked == 6


def test_a_second_fee_that_differs_is_for_a_person():
    """R-189."""
    _, said, rules = tell(world(*PAID), FEE, replace(FEE, event_id="B2", amount=7, evidence="S1:9"))
    assert rules == ["booked", "fee-differs"]
    assert raised(said) == [("FEE_MISMATCH", "high", "S1:9", "opened")]
    assert len(entries(said)) == 1


def test_a_fee_given_back_is_posted_the_other_way_round_and_none_is_no_entry():
    _, said, _ = tell(world(*PAID), replace(FEE, amount=-6))
    assert entries(said) == [("chan_recv:chA", "fee_expense", 6, "P1")]
    order, said, _ = tell(world(*PAID), replace(FEE, amount=0))
    assert entries(said) == []
    _, _, rules = tell(order, replace(FEE, event_id="B2"))
    assert rules == ["fee-differs"]


@pytest.mark.parametrize(
    ("agreed", "amount", "rule"), [(30, 30, "booked"), (30, 31, "fee-differs"), (None, 30, "fee-differs")]
)
def test_a_failed_operation_may_cost_what_the_contract_says(agreed, amount, rule):
    contracts = {"chA": Contract(failure_fee=agreed)}
    row = replace(FEE, status="FEE_ROW", ref="S1:3", evidence="S1:3", amount=amount)
    failed = world(["callback", "P1", "FAILED", "e=E1", "t=X1"])
    _, said, rules = tell(failed, row, contracts=contracts)
    assert rules == [rule]
    assert len(entries(said)) == (rule == "booked")


@pytest.mark.parametrize(
    ("status", "amount", "entry"),
    [
        ("FEE_ROW", 300, ("fee_expense", "chan_recv:chA", 300)),
        ("BANK", 9050, ("bank:main", "chan_recv:chA", 9050)),
        ("BANK", -50, ("chan_recv:chA", "bank:main", 50)),
        ("OUT", 150, ("payable", "bank:main", 150)),
        ("CHARGE", 26, ("fee_expense", "bank:main", 26)),
        ("BOUNCE", 5000, ("chan_recv:chA", "bank:main", 5000)),
    ],
)
def test_each_kind_of_booking_has_its_two_accounts(status, amount, entry):
    """The law knows the accounts; a report knows what moved. Told twice it is posted once."""
    name = keyed("recon", "bank", "A1")
    one = Booking(
        order_id=name, channel="chA", status=status, ref="PO1", event_id="E", amount=amount, currency="USD", evidence="ST1:1"
    )  # fmt: skip
    _, said, rules = tell(None, one, one)
    assert entries(said) == [(*entry, "PO1")]
    assert rules == ["booked", "same-key-same-payload"]


# -- settlement


def test_settlement_is_said_once_and_is_no_state():
    """R-134: payment result and settlement result are two things."""
    settled = Settled(
        order_id="O1", channel="chA", status="SETTLED", payment_no="P1", event_id="S1", transaction="PO1", evidence="ST1:1"
    )  # fmt: skip
    order, said, rules = tell(world(*PAID), settled, replace(settled, event_id="S2"))
    assert rules == ["settled", "settled"]
    (update,) = [one for one in said if type(one) is PaymentUpdate]
    assert (update.funds_stage, update.state, update.before) == ("SETTLED", "SUCCESS", "SUCCESS")
    assert order.payments[0].settled_by == "PO1"
    told = [("updates", one.id) for one in said if type(one) is PaymentUpdate]
    assert [one for one in implied(order) if one[1].endswith("/SETTLED")] == told, "an auditor knows it from the state"
    _, said, rules = tell(world(), settled)
    assert rules == ["not-settled"]


# -- payouts


def notice(status: str, name: str, amount: int = 5000) -> PayoutNotice:
    return PayoutNotice(
        order_id=keyed("payout", "chA", "PO1"), channel="chA", status=status, ref="PO1", event_id=name, amount=amount, currency="USD"
    )  # fmt: skip


def test_two_notices_of_one_bounce_are_one_bounce_in_every_order():
    notices = [notice("SENT", "E0"), notice("PAID", "E1"), notice("FAILED", "E2"), notice("FUNDS_RETURNED", "E3")]
    for order_told in itertools.permutations(notices):
        order, said, _ = tell(None, *order_told)
        assert order.payout.state == "RETURNED"
        assert raised(said) == []
        assert entries(said) == []


def test_a_payout_of_another_amount_and_a_word_nobody_knows():
    order, said, rules = tell(None, notice("SENT", "E1"), notice("PAID", "E2", 4999), notice("LOST", "E3"))
    assert rules == ["payout", "payout-differs", "payout-word-unknown"]
    assert raised(said) == [("AMOUNT_MISMATCH", "high", "E2", "opened")]
    assert order.payout.state == "SENT"


def test_keys_of_what_belongs_to_no_order_cannot_meet():
    assert keyed("recon", "a/b", "c") != keyed("recon", "a", "b/c")
