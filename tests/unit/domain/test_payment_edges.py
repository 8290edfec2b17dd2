"""The edges of one payment: what an authorisation leaves behind, and whose transaction we ask about."""

from __future__ import annotations

import pytest

from streams.domain.contract import Contract, Failures, Query
from streams.domain.decisions import ChannelRequest, PaymentSuccess
from streams.domain.order import due
from tests.support.worlds import World

STARTED = """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
"""
CASES: dict[str, str] = {
    "an authorisation of another amount or currency holds nothing (R-078)": f"""{STARTED}
    callback P1 AUTHORIZED e=1 t=X1 a=999           -> conflict amount-differs PAYING AMOUNT_MISMATCH:high:1:opened
    callback P1 AUTHORIZED e=2 t=X1 c=EUR           -> conflict currency-differs PAYING CURRENCY_MISMATCH:high:2:opened
    capture C1 of=P1 a=1                            -> refused over-capture - OVER_CAPTURE:info:C1:opened
    """,
    "an authorisation after the end changes nothing": f"""{STARTED}
    callback P1 SUCCESS e=1 t=X1                    -> applied success PAYING>SUCCESS announced
    callback P1 AUTHORIZED e=2 t=X1                 -> stale late-word SUCCESS
    release P1 SUCCESS e=3                          -> stale no-hold SUCCESS
    """,
    "a later word may say when the hold lapses": f"""{STARTED}
    callback P1 AUTHORIZED e=1 t=X1                 -> applied authorised PAYING>AUTHORIZED
    callback P1 AUTHORIZED e=2 t=X1 auth_expires_at=2025-03-03T11:00:00Z -> applied already-authorised AUTHORIZED
    +3599 tick                                      ->
    +1 tick                                         -> applied authorisation-lapsed AUTHORIZED>EXPIRED AUTH_RELEASED:1000
    """,
    "a failure that its channel numbers below the authorisation is of another attempt (R-075)": f"""{STARTED}
    callback P1 AUTHORIZED e=1 t=X1 sequence=5      -> applied authorised PAYING>AUTHORIZED
    callback P1 FAILED e=2 t=X1 sequence=4          -> stale late-word AUTHORIZED
    callback P1 FAILED e=3 t=X1 sequence=6          -> applied failure AUTHORIZED>VOIDED AUTH_RELEASED:1000
    """,
    "a failure from before the authorisation is of another attempt": f"""{STARTED}
    +60 callback P1 AUTHORIZED e=1 t=X1 event_time=2025-03-03T10:00:30Z -> applied authorised PAYING>AUTHORIZED
    callback P1 FAILED e=2 t=X1 event_time=2025-03-03T10:00:29Z -> stale late-word AUTHORIZED
    callback P1 FAILED e=3 t=X1 event_time=2025-03-03T10:00:30Z -> applied failure AUTHORIZED>VOIDED AUTH_RELEASED:1000
    """,
    "a word about another transaction does not become the one that paid": f"""{STARTED}
    callback P1 SUCCESS e=1 t=X1                    -> applied success PAYING>SUCCESS announced
    callback P1 PENDING e=2 t=X9                    -> stale late-word SUCCESS
    callback P1 SUCCESS e=3 t=X9                    -> conflict second-transaction SUCCESS DUPLICATE_PAYMENT:high:P1:opened
    """,
    "a success without its amount only makes us ask (R-002)": f"""{STARTED}
    callback P1 SUCCESS e=1 t=X1 a=- currency=USD   -> applied incomplete-success PAYING>UNKNOWN QUERY
    """,
    "only an error that the contract names is a refusal (R-006)": f"""{STARTED}
    submit P1 PROCESSING a=- error_class=OTHER      -> applied unknown PAYING>UNKNOWN
    retry P1                                        -> refused attempt-in-flight UNKNOWN
    submit P1 PROCESSING a=- error_class=REFUSED    -> applied attempt-refused UNKNOWN
    retry P1 command_id=again                       -> applied retry UNKNOWN SUBMIT
    """,
    "only an absence that a query found is a witness (R-050)": f"""{STARTED}
    +119 submit P1 NOT_FOUND a=-                    -> applied unknown PAYING>UNKNOWN
    +100 query P1 PROCESSING a=-                    -> applied query-due UNKNOWN QUERY | applied unknown UNKNOWN
    close P1 NOT_FOUND a=-                          -> applied unknown UNKNOWN
    retry P1                                        -> refused attempt-in-flight UNKNOWN
    query P1 NOT_FOUND a=-                          -> applied attempt-refused UNKNOWN
    """,
    "a contradiction of a paid leg does not raise again what people closed over": """
    create L1 a=300 order_total=1000                -> applied created INIT
    create L2 a=700 order_total=1000                -> applied created INIT
    start L1                                        -> applied start INIT>PAYING SUBMIT
    start L2                                        -> applied start INIT>PAYING SUBMIT
    callback L1 SUCCESS e=1 t=1 a=300               -> applied success PAYING>SUCCESS
    callback L2 FAILED e=2 t=2 a=700                -> applied failure PAYING>FAIL PARTIAL_TENDER:high:O1:opened
    decide close about=PARTIAL_TENDER               -> applied decided-close - PARTIAL_TENDER:high:O1:resolved
    callback L1 FAILED e=3 t=1 a=300                -> illegal success-stays SUCCESS ILLEGAL_TRANSITION:high:3:opened
    callback L2 FAILED e=4 t=2 a=700                -> stale ended-already FAIL
    """,
}


NAMES_REFUSALS = {
    "chA": Contract(
        failures=Failures(not_accepted=("REFUSED",)), query=Query(key="merchant_number", not_found_after_s=60)
    )
}


def play(text: str) -> World:
    world = World(NAMES_REFUSALS)
    for line in filter(str.strip, text.splitlines()):
        row, _, expected = line.partition("->")
        assert " | ".join(world.row(row)) == " ".join(expected.split()), row
    assert world.told_all_that_it_implies()
    return world


@pytest.mark.parametrize("title", CASES)
def test_the_table_holds(title: str) -> None:
    play(CASES[title])


def test_an_authorisation_names_its_evidence_and_ends_the_questions() -> None:
    world = play(f"""{STARTED}
    callback P1 AUTHORIZED e=A t=X1                 -> applied authorised PAYING>AUTHORIZED
    """)
    assert world.order is not None
    [payment] = world.order.payments
    assert payment.evidence == "A"
    assert (payment.query_at, payment.stuck_at, due(world.order)) == (None, None, None)


def test_a_question_names_the_transaction_that_the_channel_told_while_the_payment_was_open() -> None:
    world = play(f"""{STARTED}
    callback P1 PENDING e=1 t=X1                    -> applied pending PAYING
    +120 tick                                       -> applied query-due PAYING QUERY
    """)
    [*_, query] = [message for message in world.said if isinstance(message, ChannelRequest)]
    assert query.transaction == "X1"


def test_money_goes_back_through_the_channel_that_took_it() -> None:
    """R-050: the attempt that was said to be refused has succeeded after all."""
    world = World(NAMES_REFUSALS)
    for row in (
        "create P1",
        "start P1",
        "submit P1 REFUSED a=-",
        "retry P1 channel=chB",
        "callback P1 SUCCESS e=1 t=XA",
    ):
        world.row(row)
    assert world.row("back R1 of=P1") == ["applied refund-asked REFUNDING REFUND"]
    [*_, refund] = [message for message in world.said if isinstance(message, ChannelRequest)]
    assert (refund.verb, refund.channel) == ("REFUND", "chA")
    assert [message.channel for message in world.said if isinstance(message, PaymentSuccess)] == ["chA"]


def test_a_question_does_not_name_the_transaction_of_a_word_that_nobody_knows() -> None:
    world = play(f"""{STARTED}
    callback P1 ODD e=1 t=X9                        -> conflict not-mapped PAYING>UNKNOWN STATUS_UNMAPPED:high:1:opened
    +120 tick                                       -> applied query-due UNKNOWN QUERY
    """)
    [*_, query] = [message for message in world.said if isinstance(message, ChannelRequest)]
    assert query.transaction is None


def test_the_first_fee_of_a_version_stands_and_a_later_version_replaces_it() -> None:
    world = World()
    fees = []
    for row in (
        "create P1",
        "start P1",
        "callback P1 SUCCESS e=1 t=X1 version=1 fee=10",
        "callback P1 SUCCESS e=2 t=X1 version=1 fee=20",
        "callback P1 SUCCESS e=3 t=X1 version=2 fee=30",
        "callback P1 SUCCESS e=4 t=X1 version=1 fee=40",
    ):
        world.row(row)
        assert world.order is not None
        fees.append(world.order.payments[0].fee)
    assert fees == [None, None, 10, 10, 30, 30]
