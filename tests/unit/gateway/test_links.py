"""Which numbers lead to an order, and that a number which leads to two leads to none (R-217)."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from streams.channels.adapter import AUTHORIZATION, PAYMENT, TRANSACTION, Mapped, Reference
from streams.domain.decisions import OperationUpdate, PaymentUpdate
from streams.domain.events import CardPosting
from streams.gateway.links import Link, Links, of_notice, of_update

AT = datetime(2026, 1, 1, tzinfo=UTC)
COMMON = {
    "id": "u1", "order_id": "o1", "payment_no": "p1", "merchant": "m1", "channel": "stripe:acct_1", "amount": 100,
    "currency": "USD", "state": "SUCCESS", "before": "PAYING", "decision": "d1", "decided_at": AT,
}  # fmt: skip


def payment(transaction: str | None = "pi_1") -> bytes:
    return msgspec.json.encode(PaymentUpdate(biz_code="b", transaction=transaction, **COMMON))


def operation(kind: str, transaction: str | None = "re_1") -> bytes:
    return msgspec.json.encode(OperationUpdate(kind=kind, operation_no="op1", transaction=transaction, **COMMON))


def test_an_update_of_a_payment_teaches_its_number_and_its_transaction():
    link = Link("o1", "p1", "m1")
    assert dict(of_update(payment())) == {"payment//p1": link, "transaction/stripe:acct_1/pi_1": link}
    assert dict(of_update(payment(None))) == {"payment//p1": link}


def test_an_update_of_a_refund_teaches_the_refunds_numbers():
    link = Link("o1", "p1", "m1", "op1")
    assert dict(of_update(operation("REFUND"))) == {
        "refund//op1": link,
        "refund_transaction/stripe:acct_1/re_1": link,
    }


def test_an_update_of_a_capture_teaches_its_transaction_only():
    assert dict(of_update(operation("CAPTURE"))) == {"transaction/stripe:acct_1/re_1": Link("o1", "p1", "m1")}
    assert dict(of_update(operation("VOID", None))) == {}


def test_what_another_release_wrote_teaches_nothing():
    assert list(of_update(b'{"type":"of_tomorrow"}')) == []
    assert list(of_update(b"no json")) == []


def test_a_notice_that_names_its_order_teaches_the_numbers_that_issuers_share():
    posting = CardPosting(
        channel="lithic:a", order_id="o1", event_id="e1", amount=1, currency="USD", status="PURCHASE", payment_no="p1"
    )
    references = (Reference(AUTHORIZATION, "auth1", "lithic:a"), Reference(PAYMENT, "p1"))
    assert dict(of_notice(Mapped(posting, references))) == {"authorization/lithic:a/auth1": Link("o1", "p1")}
    assert list(of_notice(Mapped(msgspec.structs.replace(posting, order_id=""), references))) == []


def known(**links: Link) -> Links:
    table = Links()
    for key, link in links.items():
        table.take(f"payment//{key}", msgspec.json.encode(link))
    return table


def test_the_first_reference_that_is_known_counts():
    table = known(p1=Link("o1"), p2=Link("o2"))
    references = [Reference(TRANSACTION, "x", "a"), Reference(PAYMENT, "p2"), Reference(PAYMENT, "p1")]
    assert table.find(references) == Link("o2")
    assert table.find([Reference(PAYMENT, "p3")]) is None


def test_a_number_that_leads_to_two_orders_leads_to_none_for_good():
    table = known(p1=Link("o1"))
    nowhere = table.new("payment//p1", Link("o2"))
    table.take("payment//p1", nowhere)
    assert table.find([Reference(PAYMENT, "p1")]) is None
    assert table.new("payment//p1", Link("o1")) is None


def test_what_the_table_says_already_is_not_written_again():
    table = known(p1=Link("o1", "p1", "m1"))
    assert table.new("payment//p1", Link("o1", "p1", "m1")) is None
    assert table.new("payment//p1", Link("o1")) is None
    assert table.new("payment//p1", Link("o1", refund_no="r1")) == msgspec.json.encode(Link("o1", "p1", "m1", "r1"))


def test_a_removed_link_leads_nowhere_and_an_unreadable_one_changes_nothing():
    table = known(p1=Link("o1"), p2=Link("o2"))
    table.take("payment//p1", None)
    table.take("payment//p2", b"{")
    assert table.find([Reference(PAYMENT, "p1")]) is None
    assert table.find([Reference(PAYMENT, "p2")]) == Link("o2")


def test_only_what_somebody_waits_for_is_news():
    table = Links()
    table.watched = {"payment//p2"}
    for key in ("p1", "p2"):
        table.take(f"payment//{key}", msgspec.json.encode(Link("o")))
    assert list(table.news) == ["payment//p2"]
