"""Attempts, legs and decisions of people as tables (see tests/support/worlds.py)."""

from __future__ import annotations

import pytest

from streams.domain.contract import Contract, Failures, Idempotency, Notice, Query
from tests.support.worlds import World

CONTRACTS: dict[str, dict[str, Contract]] = {
    "another attempt needs a witness that every earlier one was not accepted (R-050)": {
        "chA": Contract(failures=Failures(not_accepted=("REFUSED",))),
        "chB": Contract(query=Query(key="either", not_found_after_s=60)),
        "chC": Contract(isolation="manual"),
    },
    "a payment of which no attempt was accepted is given up at once": {
        "chA": Contract(failures=Failures(not_accepted=("REFUSED",)))
    },
    "a submit is sent again under its key while the channel knows it": {
        "chA": Contract(
            idempotency=Idempotency(key="k", scope="account", life_s=200),
            most_submits=3,
            submit_retry_window_s=3600,
            lease_s=60,
        )
    },
    "an answered submit is not sent again": {
        "chA": Contract(
            idempotency=Idempotency(key="k", scope="account", life_s=200),
            most_submits=3,
            submit_retry_window_s=3600,
            lease_s=60,
        )
    },
    "an isolated channel is asked nothing by itself (R-051)": {"chA": Contract(isolation="manual")},
    "a word that proves too little only makes us ask": {"chA": Contract(notice=Notice(proves_money=False))},
    "a submit that was never made leaves the way to another channel, and nothing in doubt": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    submit P1 NOT_SENT                              -> applied attempt-refused PAYING
    retry P1 channel=chB                            -> applied retry PAYING SUBMIT
    close P1 NOT_SENT                               -> applied doubt PAYING>UNKNOWN
    callback P1 NOT_SENT e=1 t=X1                   -> conflict not-mapped UNKNOWN STATUS_UNMAPPED:high:1:opened
    """,
    "nor does a failure or a hold that proves too little, and it names no transaction": {
        "chA": Contract(notice=Notice(proves_money=False))
    },
}
CASES: dict[str, str] = {
    "legs are announced by the one that reaches the total": """
    create L1 a=300 order_total=1000                -> applied created INIT
    create L2 a=700 order_total=1000                -> applied created INIT
    create L3 a=1 order_total=1000                  -> refused over-total -
    start L1                                        -> applied start INIT>PAYING SUBMIT
    start L2                                        -> applied start INIT>PAYING SUBMIT
    callback L1 SUCCESS e=1 t=1 a=300               -> applied success PAYING>SUCCESS
    callback L2 FAILED e=2 t=2 a=700                -> applied failure PAYING>FAIL PARTIAL_TENDER:high:O1:opened
    create L4 a=700 order_total=1000                -> applied created INIT
    start L4                                        -> applied start INIT>PAYING SUBMIT
    callback L4 SUCCESS e=3 t=3 a=700               -> applied success PAYING>SUCCESS announced PARTIAL_TENDER:high:O1:resolved
    callback L2 SUCCESS e=4 t=2 a=700               -> illegal late-success FAIL LATE_SUCCESS:high:4:opened
    """,
    "a leg that expires leaves the paid one alone": """
    create L1 a=300 order_total=1000                -> applied created INIT
    create L2 a=700 order_total=1000                -> applied created INIT
    start L1                                        -> applied start INIT>PAYING SUBMIT
    callback L1 SUCCESS e=1 t=1 a=300               -> applied success PAYING>SUCCESS
    +900 tick                                       -> applied init-expired INIT>CLOSED PARTIAL_TENDER:high:O1:opened
    """,
    "late money goes back by two people, as a refund of its own": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 FAILED e=F                          -> applied failure PAYING>FAIL
    callback P1 SUCCESS e=S t=X1                    -> illegal late-success FAIL LATE_SUCCESS:high:S:opened
    decide book about=LATE_SUCCESS                  -> refused no-such-exit -
    decide close about=LATE_SUCCESS                 -> refused money-waits -
    decide refund about=LATE_SUCCESS approver=ann   -> refused one-person -
    decide refund about=LATE_SUCCESS evidence=      -> refused no-evidence -
    decide refund about=LATE_SUCCESS revision=3     -> refused discrepancy-changed -
    decide refund about=LATE_SUCCESS                -> refused no-number -
    decide refund about=LATE_SUCCESS refund_no=P1   -> refused number-reused -
    decide refund about=LATE_SUCCESS refund_no=R1   -> applied decided-refund - REFUND LATE_SUCCESS:high:S:resolved
    decide refund about=LATE_SUCCESS refund_no=R2   -> refused no-such-discrepancy -
    returned R1 of=P1 SUCCESS t=RX                  -> applied success REFUNDING>SUCCESS REFUND_SUCCESS:1000
    """,
    "late money pays the order after all by two people, and may be refunded then": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 FAILED e=F                          -> applied failure PAYING>FAIL
    callback P1 SUCCESS e=S t=X1                    -> illegal late-success FAIL LATE_SUCCESS:high:S:opened
    decide fulfil about=LATE_SUCCESS                -> applied decided-fulfil - LATE_MONEY_FULFILLED:1000 LATE_SUCCESS:high:S:resolved
    back R1 of=P1 a=1000                            -> applied refund-asked REFUNDING REFUND
    returned R1 of=P1 SUCCESS t=RX                  -> applied success REFUNDING>SUCCESS REFUND_SUCCESS:1000
    """,
    "what the channel gave back may be booked, once": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 SUCCESS e=S t=X1                    -> applied success PAYING>SUCCESS announced
    notice - of=P1 SUCCESS e=N r=RX a=100           -> conflict channel-refund SUCCESS CHANNEL_ONLY:high:RX:opened
    decide book about=CHANNEL_ONLY                  -> applied decided-book - CHANNEL_ONLY:high:RX:resolved
    back R1 of=P1 a=901                             -> refused over-refund - OVER_REFUND:info:R1:opened
    """,
    "another attempt needs a witness that every earlier one was not accepted (R-050)": """
    create P1                                       -> applied created INIT
    retry P1                                        -> refused not-started INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    retry P1                                        -> duplicate same-command PAYING
    submit P1 REFUSED a=-                           -> applied attempt-refused PAYING
    submit P1 REFUSED a=-                           -> applied attempt-refused PAYING
    retry P1 channel=chB command_id=r2              -> applied retry PAYING SUBMIT
    retry P1 channel=chB command_id=r3              -> refused attempt-in-flight PAYING
    query P1 NOT_FOUND a=- channel=chB              -> applied unknown PAYING>UNKNOWN
    +119 query P1 NOT_FOUND a=- channel=chB         -> applied unknown UNKNOWN
    +1 query P1 NOT_FOUND a=- channel=chB           -> applied query-due UNKNOWN QUERY | applied attempt-refused UNKNOWN
    retry P1 channel=chC command_id=r4              -> refused channel-isolated UNKNOWN
    retry P1 channel=chA command_id=r5              -> applied retry UNKNOWN SUBMIT
    callback P1 SUCCESS e=1 t=XA                    -> applied success UNKNOWN>SUCCESS announced
    callback P1 SUCCESS e=1 t=XA channel=chD        -> parked waits-for-payment -
    """,
    "a payment that was never started is given up at once": """
    create P1                                       -> applied created INIT
    give-up P9                                      -> refused payment-not-found -
    give-up P1                                      -> applied withdrawn INIT>CLOSED
    give-up P1 command_id=x                         -> refused not-open CLOSED
    callback P1 SUCCESS e=1 t=X1                    -> illegal late-success CLOSED LATE_SUCCESS:high:1:opened
    """,
    "a payment under way is closed by its channel only": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    give-up P1                                      -> applied close-asked PAYING CLOSE
    close P1 SUCCESS a=-                            -> applied closed PAYING>CLOSED
    """,
    "a failure and then a confirmed close agree, and both stand against a late success (R-136)": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 FAILED e=F                          -> applied failure PAYING>FAIL
    close P1 SUCCESS a=-                            -> stale ended-already FAIL
    callback P1 SUCCESS e=S t=X1                    -> \
        illegal late-success FAIL LATE_SUCCESS:high:S:opened LATE_SUCCESS:high:S:opened
    """,
    "a confirmed close and then a failure agree, and both stand against a late success (R-136)": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    close P1 SUCCESS a=-                            -> applied closed PAYING>CLOSED
    callback P1 FAILED e=F                          -> stale ended-already CLOSED
    callback P1 SUCCESS e=S t=X1                    -> \
        illegal late-success CLOSED LATE_SUCCESS:high:S:opened LATE_SUCCESS:high:S:opened
    """,
    "a payment of which no attempt was accepted is given up at once": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    submit P1 REFUSED a=-                           -> applied attempt-refused PAYING
    give-up P1                                      -> applied withdrawn PAYING>CLOSED
    """,
    "a submit is sent again under its key while the channel knows it": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    +60 tick                                        -> applied resent PAYING SUBMIT
    submit P1 TIMEOUT a=-                           -> applied unknown PAYING>UNKNOWN
    +60 tick                                        -> applied resent UNKNOWN SUBMIT | applied query-due UNKNOWN QUERY
    +300 tick                                       -> applied resend-refused UNKNOWN
    """,
    "an answered submit is not sent again": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    submit P1 ACCEPTED a=-                          -> applied pending PAYING
    +60 tick                                        ->
    """,
    "an isolated channel is asked nothing by itself (R-051)": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    +90000 tick                                     -> \
        applied left-to-people PAYING | applied window-over PAYING STUCK_UNKNOWN:high:P1:opened
    """,
    "a word that proves too little only makes us ask": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 SUCCESS e=1 t=X1                    -> applied unproven PAYING>UNKNOWN QUERY
    query P1 SUCCESS t=X1                           -> applied success UNKNOWN>SUCCESS announced
    back R1 of=P1 a=1                               -> applied refund-asked REFUNDING REFUND
    notice R1 of=P1 SUCCESS e=2 r=R a=1             -> applied unproven REFUNDING>UNKNOWN QUERY
    returned R1 of=P1 SUCCESS t=R a=1               -> applied success UNKNOWN>SUCCESS REFUND_SUCCESS:1
    """,
    "nor does a failure or a hold that proves too little, and it names no transaction": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 FAILED e=1 t=FORGED                 -> applied unproven PAYING>UNKNOWN QUERY
    callback P1 AUTHORIZED e=2 t=FORGED             -> applied unproven UNKNOWN QUERY
    callback P1 PENDING e=3 t=X1                    -> applied pending UNKNOWN
    query P1 SUCCESS t=X1                           -> applied success UNKNOWN>SUCCESS announced
    """,
}


@pytest.mark.parametrize("title", CASES)
def test_the_table_holds(title: str) -> None:
    world = World(CONTRACTS.get(title, {}))
    for line in filter(str.strip, CASES[title].splitlines()):
        row, _, expected = line.partition("->")
        assert " | ".join(world.row(row)) == " ".join(expected.split()), row
    assert world.told_all_that_it_implies()
