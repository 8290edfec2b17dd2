"""The edges of a word about any operation: what it witnesses, what it settles, and what it contradicts."""

from __future__ import annotations

import pytest

from streams.domain.contract import Contract
from streams.domain.order import due
from tests.support.worlds import World

STARTED = """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
"""
PAID = f"""{STARTED}
    callback P1 SUCCESS e=S t=X1                    -> applied success PAYING>SUCCESS announced
"""
CASES: dict[str, str] = {
    "a failure settles what nobody could settle": f"""{STARTED}
    +86400 tick                                     -> ...
    callback P1 FAILED e=F                          -> applied failure PAYING>FAIL STUCK_UNKNOWN:high:P1:resolved
    +86400 tick                                     ->
    """,
    "a refund that left after it had failed counts as gone until people book it": f"""{PAID}
    back R1 of=P1 a=100                             -> applied refund-asked REFUNDING REFUND
    returned R1 of=P1 FAILED a=-                    -> applied failure REFUNDING>FAIL
    returned R1 of=P1 SUCCESS t=RX a=100            -> illegal late-success FAIL LATE_SUCCESS:high:R1:opened
    returned R1 of=P1 SUCCESS t=RX a=100            -> illegal late-success FAIL
    back R2 of=P1 a=901                             -> refused over-refund - OVER_REFUND:info:R2:opened
    back R3 of=P1 a=900                             -> applied refund-asked REFUNDING REFUND
    """,
    "a refund that left twice counts twice": f"""{PAID}
    back R1 of=P1 a=100                             -> applied refund-asked REFUNDING REFUND
    returned R1 of=P1 SUCCESS t=RX a=100            -> applied success REFUNDING>SUCCESS REFUND_SUCCESS:100
    returned R1 of=P1 SUCCESS t=RY a=100            -> conflict second-transaction SUCCESS CHANNEL_ONLY:high:RY:opened
    back R2 of=P1 a=801                             -> refused over-refund - OVER_REFUND:info:R2:opened
    back R3 of=P1 a=800                             -> applied refund-asked REFUNDING REFUND
    """,
    "two notices of a test are two, though neither has a name": f"""{STARTED}
    callback P1 SUCCESS livemode=no a=1             -> conflict test-mode PAYING ENVIRONMENT_MISMATCH:info:P1:opened
    callback P1 SUCCESS livemode=no a=2             -> conflict test-mode PAYING ENVIRONMENT_MISMATCH:info:P1:opened
    callback P1 SUCCESS livemode=no a=1             -> duplicate same-key-same-payload PAYING
    """,
    "where only one of two words is numbered, time tells which was first (R-075)": f"""{STARTED}
    callback P1 AUTHORIZED e=1 t=X1 sequence=5      -> applied authorised PAYING>AUTHORIZED
    callback P1 FAILED e=2 t=X1 event_time=2025-03-03T09:59:59Z -> stale late-word AUTHORIZED
    callback P1 FAILED e=3 t=X1                     -> applied failure AUTHORIZED>VOIDED AUTH_RELEASED:1000
    """,
    "a failure under the number of the authorisation is not older": f"""{STARTED}
    callback P1 AUTHORIZED e=1 t=X1 sequence=5      -> applied authorised PAYING>AUTHORIZED
    callback P1 FAILED e=2 t=X1 sequence=5          -> applied failure AUTHORIZED>VOIDED AUTH_RELEASED:1000
    """,
    "a question or a refund that was never sent leaves what it was about in doubt": f"""{PAID}
    back R1 of=P1 a=100                             -> applied refund-asked REFUNDING REFUND
    returned R1 of=P1 NOT_SENT a=-                  -> applied unknown REFUNDING>UNKNOWN
    create P2 biz_code=other                        -> applied created INIT
    start P2                                        -> applied start INIT>PAYING SUBMIT
    query P2 NOT_SENT a=-                           -> applied unknown PAYING>UNKNOWN
    callback P2 NOT_SENT e=N a=-                    -> conflict not-mapped UNKNOWN STATUS_UNMAPPED:high:N:opened
    """,
    "that it was paid already makes us ask at once, and is no doubt and no success (R-002)": f"""{STARTED}
    submit P1 ALREADY_PAID a=-                      -> applied pending PAYING QUERY
    close P1 ALREADY_PAID a=-                       -> applied pending PAYING QUERY
    """,
    "two answers that deny a success are two, the same one again is not": f"""{PAID}
    query P1 FAILED a=-                             -> illegal success-stays SUCCESS ILLEGAL_TRANSITION:high:P1:opened
    submit P1 FAILED a=-                            -> illegal success-stays SUCCESS ILLEGAL_TRANSITION:high:P1:opened
    query P1 FAILED a=-                             -> illegal success-stays SUCCESS
    """,
}


def play(text: str, contract: Contract | None = None) -> World:
    world = World({} if contract is None else {"chA": contract})
    for line in filter(str.strip, text.splitlines()):
        row, _, expected = line.partition("->")
        outcome = " | ".join(world.row(row))
        assert expected.split() in (outcome.split(), ["..."]), row
    assert world.told_all_that_it_implies()
    return world


@pytest.mark.parametrize("title", CASES)
def test_the_table_holds(title: str) -> None:
    play(CASES[title])


def test_a_failure_names_its_evidence_and_leaves_nothing_due_but_its_rest() -> None:
    world = play(f"""{STARTED}
    callback P1 FAILED e=F                          -> applied failure PAYING>FAIL
    """)
    assert world.order is not None
    [payment] = world.order.payments
    assert (payment.evidence, payment.query_at, payment.stuck_at, due(world.order)) == (
        "F",
        None,
        None,
        world.order.age_at,
    )


def test_a_refund_that_came_back_names_what_says_so() -> None:
    world = play(
        f"""{PAID}
    back R1 of=P1 a=100                             -> applied refund-asked REFUNDING REFUND
    returned R1 of=P1 SUCCESS t=RX a=100            -> applied success REFUNDING>SUCCESS REFUND_SUCCESS:100
    notice R1 of=P1 BACK e=B r=RX a=100             -> applied refund-returned SUCCESS>RETURNED REFUND_RETURNED:100
    """,
        Contract(refund_return_status="BACK"),
    )
    assert world.order is not None
    assert world.order.operations[0].evidence == "B"
