"""Reports in any order, told any number of times, end in the same money, the same open differences, one settlement (R-022, R-198)."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from streams.codec import dump, load
from streams.domain.converge import converge
from streams.domain.decisions import Decision, Discrepancy, PaymentUpdate
from streams.domain.events import Answer
from streams.domain.reports import Booking, Difference, PayoutNotice, Settled
from tests.support.worlds import START, World, event

ABOUT = {"order_id": "O1", "channel": "chA", "payment_no": "P1"}
REPORTS = [
    Difference(status="AMOUNT_MISMATCH", ref="P1", event_id="D1", evidence="B:1", amount=990, currency="USD", **ABOUT),
    Difference(status="AMOUNT_MISMATCH", ref="P1", event_id="D2", evidence="B:1", amount=980, currency="USD", **ABOUT),
    Difference(status="DUPLICATE_TRANSACTION", ref="X8", event_id="D3", evidence="B:2", **ABOUT),
    Booking(status="FEE", ref="P1", event_id="F1", amount=6, currency="USD", evidence="B:1", **ABOUT),
    Booking(status="FEE", ref="P1", event_id="F2", amount=6, currency="USD", evidence="S:1", **ABOUT),
    Booking(status="FEE_ROW", ref="S:3", event_id="F3", amount=30, currency="USD", evidence="S:3", order_id="O1", channel="chA"),
    Booking(status="BANK", ref="PO1", event_id="K1", amount=994, currency="USD", evidence="A1", order_id="O1", channel="chA"),
    Settled(status="SETTLED", event_id="S1", transaction="PO1", evidence="A1", **ABOUT),
    Settled(status="SETTLED", event_id="S2", transaction="PO1", evidence="A2", **ABOUT),
    Answer(
        request="bill", order_id="O1", payment_no="P1", channel="chA", status="SUCCESS", transaction="X1", amount=1000, currency="USD"
    ),
    PayoutNotice(order_id="O1", channel="chA", status="SENT", ref="PO1", event_id="N1", amount=994, currency="USD"),
    PayoutNotice(order_id="O1", channel="chA", status="FAILED", ref="PO1", event_id="N2", amount=994, currency="USD"),
]  # fmt: skip


@settings(max_examples=150)
@given(st.permutations(REPORTS), st.lists(st.sampled_from(REPORTS), max_size=6))
def test_every_order_and_every_repetition_ends_alike(first, again):
    world = World({})
    for words in (["create", "P1"], ["start", "P1"], ["callback", "P1", "SUCCESS", "e=E1", "t=X1"]):
        world.tell(event(words, START))
    order, said = world.order, []
    for report in [*first, *again]:
        order, messages = converge(load(dump(order)), report, START + 1, {})
        said += messages
    entries = sorted((e.dr, e.cr, e.amount, e.ref) for one in said if isinstance(one, Decision) for e in one.ledger)
    assert entries == [
        ("bank:main", "chan_recv:chA", 994, "PO1"),
        ("fee_expense", "chan_recv:chA", 6, "P1"),
        ("fee_expense", "chan_recv:chA", 30, "S:3"),
    ]
    assert {(one.kind, one.ref) for one in said if isinstance(one, Discrepancy)} == {
        ("AMOUNT_MISMATCH", "P1"),
        ("DUPLICATE_TRANSACTION", "X8"),
    }
    assert len({one.id for one in said if isinstance(one, Discrepancy)}) == 3
    assert sum(isinstance(one, PaymentUpdate) for one in said) == 1
    assert order.payout.state == "RETURNED"
    assert order.payments[0].state == "SUCCESS"
