"""The payment job's topology: contracts by channel, and the headers of what goes out."""

from __future__ import annotations

import msgspec
import pytest

from streams.agents import payments
from streams.domain.events import Callback, CreatePayment, StartPayment
from streams.topics import Topics
from tests.support.driver import Driver

TOPICS = Topics.load()
TRACE = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
def driver():
    return Driver(payments.topology(TOPICS, "test"))


def begun(channel: str):
    about = {"order_id": "O1", "payment_no": "P1"}
    money = {"channel": channel, "amount": 1099, "currency": "USD"}
    return [CreatePayment(command_id="c", biz_code="SHOP", **about, **money), StartPayment(command_id="s", **about)]


def word(channel: str, status: str, event: str) -> Callback:
    about = {
        "order_id": "O1",
        "payment_no": "P1",
        "channel": channel,
        "transaction": "T1",
        "amount": 1099,
        "currency": "USD",
    }
    return Callback(status=status, event_id=event, **about)


def feed(driver, topic, events, headers=()):
    driver.feed(
        [
            driver.append(TOPICS[topic], b"O1", msgspec.json.encode(event), 1_700_000_000_000, headers)
            for event in events
        ]
    )


def test_a_declined_card_followed_by_a_paid_one_is_announced_where_the_contract_says_that_declines_are_not_final(
    driver,
):
    """R-003, R-006: the ordinary path of a Stripe intent whose first card was declined."""
    channel = "stripe:acct_1"
    feed(driver, "commands", begun(channel))
    feed(driver, "channel-callbacks", [word(channel, "DECLINED_RETRYABLE", "E1"), word(channel, "SUCCESS", "E2")])
    assert len(driver.logs[TOPICS["success"]]) == 1


def test_a_declined_card_is_final_where_the_contract_says_so():
    driver = Driver(payments.topology(TOPICS, "test", contracts={}))
    feed(driver, "commands", begun("shop:1"))
    feed(driver, "channel-callbacks", [word("shop:1", "DECLINED_RETRYABLE", "E1"), word("shop:1", "SUCCESS", "E2")])
    assert driver.logs[TOPICS["success"]] == []
    assert len(driver.logs[TOPICS["discrepancies"]]) == 1


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        ([("traceparent", TRACE)], [TRACE]),
        ([("traceparent", TRACE), ("traceparent", TRACE)], [TRACE]),
        ([("traceparent", b"x" * 900)], []),
        ([("traceparent", TRACE + b"\n")], []),
        ([("tracestate", b"a=b")], []),
    ],
)
def test_only_one_sound_traceparent_is_passed_on(driver, given, passed):
    feed(driver, "commands", begun("stripe:acct_1"), given)
    for topic in ("decisions", "updates", "channel-requests"):
        for record in driver.logs[TOPICS[topic]]:
            assert [value for name, value in record.headers if name == "traceparent"] == passed


def test_a_decision_names_the_record_that_caused_it(driver):
    feed(driver, "commands", begun("stripe:acct_1"))
    causes = [dict(record.headers)["cause"] for record in driver.logs[TOPICS["decisions"]]]
    assert causes == [b"payments.commands/0/0", b"payments.commands/0/1"]
