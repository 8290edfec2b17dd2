"""Refunds, disputes and returns as tables: each line is an event and what comes of it (see tests/support/worlds.py)."""

from __future__ import annotations

import pytest

from streams.domain.contract import Contract
from tests.support.worlds import World

CONTRACTS: dict[str, dict[str, Contract]] = {
    "a return waits for the success it can only follow, and comes once": {
        "chA": Contract(payment_return_status="RETURNED", refund_return_status="CAME_BACK")
    },
    "a return of another amount or currency is for a person": {
        "chA": Contract(payment_return_status="RETURNED", refund_return_status="CAME_BACK")
    },
    "a refund comes back by the contract's word, once": {
        "chA": Contract(payment_return_status="RETURNED", refund_return_status="CAME_BACK")
    },
    "a refund that comes back with another amount does not": {
        "chA": Contract(payment_return_status="RETURNED", refund_return_status="CAME_BACK")
    },
    "layers imply nothing, never go back, and a silent card is told once": {
        "chA": Contract(card_posting_window_s=864_000, silence_is_stuck=False, most_queries=1)
    },
    "a payee that is done after the window is told at once": {
        "chA": Contract(card_posting_window_s=864_000, silence_is_stuck=False, most_queries=1)
    },
}
CASES: dict[str, str] = {
    "a refund reserves at once, succeeds once, and its reference stands for no other": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 SUCCESS e=S t=X1                    -> applied success PAYING>SUCCESS announced
    back R0 of=P1 a=0                               -> refused amount-not-positive - INVALID_AMOUNT:info:R0:opened
    back R1 of=P1 a=300                             -> applied refund-asked REFUNDING REFUND
    back R1 of=P1 a=300 command_id=x                -> duplicate same-number REFUNDING
    back R1 of=P1 a=301 command_id=y                -> refused number-reused REFUNDING
    back P1 of=P1 a=1 command_id=z                  -> refused number-reused SUCCESS
    back R2 of=P1 a=800                             -> refused over-refund - OVER_REFUND:info:R2:opened
    back R3 of=P1 a=5 c=EUR                         -> refused currency-not-ours -
    returned R1 of=P1 PENDING t=RX a=300            -> applied pending REFUNDING
    returned R1 of=P1 SUCCESS t=RX a=299            -> conflict amount-differs REFUNDING AMOUNT_MISMATCH:high:R1:opened
    returned R1 of=P1 SUCCESS a=300                 -> applied incomplete-success REFUNDING>UNKNOWN QUERY
    returned R1 of=P1 SUCCESS t=RX a=300            -> applied success UNKNOWN>SUCCESS REFUND_SUCCESS:300
    returned R1 of=P1 SUCCESS t=RX a=300            -> applied already-success SUCCESS
    notice R1 of=P1 FAILED e=N1 r=RX a=300          -> illegal success-stays SUCCESS ILLEGAL_TRANSITION:high:N1:opened
    notice R1 of=P1 FAILED e=N2 r=RY a=300          -> illegal success-stays SUCCESS ILLEGAL_TRANSITION:info:N2:opened
    notice R1 of=P1 SUCCESS e=N3 r=RZ a=300         -> \
        conflict second-transaction SUCCESS CHANNEL_ONLY:high:RZ:opened ILLEGAL_TRANSITION:high:N1:opened \
        ILLEGAL_TRANSITION:info:N2:opened
    back R4 of=P1 a=700                             -> refused over-refund - OVER_REFUND:info:R4:opened
    back R5 of=P1 a=400                             -> applied refund-asked REFUNDING REFUND
    returned R5 of=P1 SUCCESS t=RX a=400            -> \
        conflict reference-linked REFUNDING>UNKNOWN REFERENCE_ALREADY_LINKED:high:RX:opened
    returned R5 of=P1 PENDING t=RX a=400            -> conflict reference-linked UNKNOWN
    notice R5 of=P1 ODD e=N5 r=R55 a=400            -> conflict not-mapped UNKNOWN STATUS_UNMAPPED:high:N5:opened
    notice R5 of=P1 SUCCESS a=400                   -> conflict no-key UNKNOWN MISSING_DEDUP_KEY:high:R5:opened QUERY
    notice R5 of=P1 FAILED e=N6 r=R5 a=400          -> applied failure UNKNOWN>FAIL
    notice R5 of=P1 SUCCESS e=N7 r=R5 a=400         -> illegal late-success FAIL LATE_SUCCESS:high:N7:opened
    notice R5 of=P1 FAILED e=N8 r=R5 a=400          -> stale ended-already FAIL LATE_SUCCESS:high:N7:opened
    """,
    "money that the channel gave back by itself is reserved, not posted, and known by its reference": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 SUCCESS e=S t=X1                    -> applied success PAYING>SUCCESS announced
    notice - of=P1 PENDING e=N1 r=RX a=250          -> stale late-word SUCCESS
    notice - of=P1 SUCCESS e=N2 r=RX a=250          -> conflict channel-refund SUCCESS CHANNEL_ONLY:high:RX:opened
    notice - of=P1 SUCCESS e=N3 r=RX a=250          -> conflict channel-refund SUCCESS
    notice - of=P1 SUCCESS e=N4 a=100               -> conflict channel-refund SUCCESS CHANNEL_ONLY:high:N4:opened
    notice - of=P1 SUCCESS e=N5 r=R a=100 c=EUR     -> conflict currency-differs SUCCESS CURRENCY_MISMATCH:high:N5:opened
    notice - of=P1 SUCCESS e=N6 r=R a=-             -> conflict amount-invalid SUCCESS INVALID_AMOUNT:high:N6:opened
    notice - of=P1 ODD e=N7 r=R                     -> conflict not-mapped SUCCESS STATUS_UNMAPPED:high:N7:opened
    notice - of=P1 SUCCESS                          -> conflict no-key SUCCESS MISSING_DEDUP_KEY:high:P1:opened QUERY
    back R1 of=P1 a=651                             -> refused over-refund - OVER_REFUND:info:R1:opened
    back R2 of=P1 a=250                             -> applied refund-asked REFUNDING REFUND
    returned R2 of=P1 SUCCESS t=RX a=250            -> applied success REFUNDING>SUCCESS REFUND_SUCCESS:250
    notice - of=P1 SUCCESS e=N9 r=RX a=250          -> applied already-success SUCCESS
    notice - of=P1 SUCCESS e=NA a=1 reason=uncaptured_remainder -> stale no-hold SUCCESS
    """,
    "a stated total completes the one refund that fits what is new of it": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 SUCCESS e=S t=X1                    -> applied success PAYING>SUCCESS announced
    back R1 of=P1 a=200                             -> applied refund-asked REFUNDING REFUND
    back R2 of=P1 a=300                             -> applied refund-asked REFUNDING REFUND
    callback P1 REFUND_TOTAL e=E1 t=X1 cumulative_refunded=200 -> applied total-completes SUCCESS REFUND_SUCCESS:200
    callback P1 REFUND_TOTAL e=E2 t=X1 cumulative_refunded=500 -> applied total-completes SUCCESS REFUND_SUCCESS:300
    callback P1 REFUND_TOTAL e=E3 t=X1 cumulative_refunded=500 -> stale total-known SUCCESS
    callback P1 REFUND_TOTAL e=E4 t=X1 cumulative_refunded=600 -> conflict channel-refund SUCCESS CHANNEL_ONLY:high:E4:opened
    callback P1 REFUND_TOTAL e=E5 t=X1 cumulative_refunded=700 c=EUR -> \
        conflict currency-differs SUCCESS CURRENCY_MISMATCH:high:E5:opened
    callback P1 REFUND_TOTAL e=E6 t=X1              -> stale late-word SUCCESS
    returned R1 of=P1 SUCCESS t=RX1 a=200           -> applied already-success SUCCESS
    callback P1 CLOSED e=E7 t=X1 cumulative_refunded=600 -> stale closed-by-refund SUCCESS
    callback P1 CLOSED e=E8 t=X1 cumulative_refunded=601 -> illegal success-stays SUCCESS ILLEGAL_TRANSITION:high:E8:opened
    callback P1 FINISHED e=E9 t=X1                  -> applied finished SUCCESS
    back R3 of=P1 a=1                               -> refused over-refund - OVER_REFUND:info:R3:opened
    query P1 REFUND_TOTAL a=-                       -> stale late-word SUCCESS
    """,
    "refunds, disputes and totals of an unpaid payment wait for it": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 FINISHED e=E1 t=X1                  -> parked waits-for-state PAYING
    callback P1 REFUND_TOTAL e=E2 t=X1 cumulative_refunded=100 -> parked waits-for-state PAYING
    dispute P1 OPEN e=D1 a=100                      -> parked waits-for-state PAYING
    notice - of=P1 SUCCESS e=N1 r=RX a=50           -> parked waits-for-state PAYING
    back R1 of=P1 a=10                              -> refused not-captured - NOT_CAPTURED:info:R1:opened
    callback P1 SUCCESS e=S t=X1                    -> \
        applied success PAYING>SUCCESS announced | applied finished SUCCESS | conflict channel-refund SUCCESS \
        CHANNEL_ONLY:high:E2:opened | applied dispute-open SUCCESS | conflict channel-refund SUCCESS CHANNEL_ONLY:high:RX:opened
    """,
    "a close that tells of refunds proves no failure; it waits for the success that it follows": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 CLOSED e=E1 t=X1 cumulative_refunded=100 -> parked waits-for-state PAYING
    query P1 SUCCESS t=X1                           -> applied success PAYING>SUCCESS announced | \
        illegal success-stays SUCCESS ILLEGAL_TRANSITION:high:E1:opened
    """,
    "a dispute takes what is left, wins it back once, and has one end": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 SUCCESS e=S t=X1                    -> applied success PAYING>SUCCESS announced
    dispute P1 ODD e=D0                             -> conflict not-mapped SUCCESS STATUS_UNMAPPED:high:D0:opened
    dispute P1 OPEN e=D1 a=1001                     -> conflict amount-differs SUCCESS AMOUNT_MISMATCH:high:D1:opened
    dispute P1 OPEN e=D2 a=1 c=EUR                  -> conflict currency-differs SUCCESS CURRENCY_MISMATCH:high:D2:opened
    dispute P1 OPEN a=1                             -> conflict no-key SUCCESS MISSING_DEDUP_KEY:high:P1:opened QUERY
    dispute P1 OPEN e=D3 a=600                      -> applied dispute-open SUCCESS
    dispute P1 OPEN e=D4 a=600                      -> stale late-word SUCCESS
    dispute P1 LOST e=D5 a=500                      -> conflict amount-differs SUCCESS AMOUNT_MISMATCH:high:D5:opened
    back R1 of=P1 a=500                             -> refused money-is-disputed - REFUND_AND_DISPUTE:high:R1:opened
    back R2 of=P1 a=1001                            -> refused over-refund - OVER_REFUND:info:R2:opened
    back R3 of=P1 a=400                             -> applied refund-asked REFUNDING REFUND
    dispute P1 WON e=D6 a=600                       -> applied dispute-won SUCCESS
    dispute P1 WON e=D7 a=600                       -> stale late-word SUCCESS
    dispute P1 OPEN e=D8 a=600                      -> stale late-word SUCCESS
    dispute P1 LOST e=D9 a=600                      -> illegal dispute-ended SUCCESS ILLEGAL_TRANSITION:high:D9:opened
    back R4 of=P1 a=600                             -> applied refund-asked REFUNDING REFUND
    """,
    "a dispute of refunded money posts nothing, of the rest it does": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 SUCCESS e=S t=X1                    -> applied success PAYING>SUCCESS announced
    back R1 of=P1 a=600                             -> applied refund-asked REFUNDING REFUND
    dispute P1 OPEN e=D1 a=500                      -> conflict money-was-refunded SUCCESS REFUND_AND_DISPUTE:high:D1:opened
    dispute P1 LOST e=D2 a=400                      -> applied dispute-lost SUCCESS
    """,
    "a win before its opening is an end as well": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 SUCCESS e=S t=X1                    -> applied success PAYING>SUCCESS announced
    dispute P1 WON e=D1 a=500                       -> applied dispute-won SUCCESS
    dispute P1 OPEN e=D2 a=500                      -> stale late-word SUCCESS
    """,
    "a return waits for the success it can only follow, and comes once": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 RETURNED e=E1 t=X1                  -> parked waits-for-state PAYING
    callback P1 SUCCESS e=S t=X1                    -> \
        applied success PAYING>SUCCESS announced | applied payment-returned SUCCESS PAYMENT_REVERSED:1000
    callback P1 RETURNED e=E2 t=X1                  -> stale returned-already SUCCESS
    callback P1 FAILED e=E3 t=X1                    -> illegal success-stays SUCCESS ILLEGAL_TRANSITION:high:E3:opened
    """,
    "a return of another amount or currency is for a person": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 SUCCESS e=S t=X1                    -> applied success PAYING>SUCCESS announced
    callback P1 RETURNED e=E1 t=X1 a=999            -> conflict amount-differs SUCCESS AMOUNT_MISMATCH:high:E1:opened
    callback P1 RETURNED e=E2 t=X1 c=EUR            -> conflict currency-differs SUCCESS CURRENCY_MISMATCH:high:E2:opened
    callback P1 RETURNED e=E3 t=X1 a=-              -> applied payment-returned SUCCESS PAYMENT_REVERSED:1000
    back R1 of=P1 a=1                               -> refused over-refund - OVER_REFUND:info:R1:opened
    """,
    "a refund comes back by the contract's word, once": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 SUCCESS e=S t=X1                    -> applied success PAYING>SUCCESS announced
    back R1 of=P1 a=300                             -> applied refund-asked REFUNDING REFUND
    notice R1 of=P1 CAME_BACK e=N1 r=RX a=300       -> parked waits-for-state REFUNDING
    returned R1 of=P1 SUCCESS t=RX a=300            -> \
        applied success REFUNDING>SUCCESS REFUND_SUCCESS:300 | applied refund-returned SUCCESS>RETURNED REFUND_RETURNED:300
    notice R1 of=P1 CAME_BACK e=N2 r=RX a=300       -> stale returned-already RETURNED
    notice R1 of=P1 SUCCESS e=N3 r=RX a=300         -> applied already-success RETURNED
    back R2 of=P1                                   -> applied refund-asked REFUNDING REFUND
    returned R2 of=P1 FAILED t=RY a=-               -> applied failure REFUNDING>FAIL
    notice R2 of=P1 CAME_BACK e=N5 r=RX2            -> stale late-word FAIL
    """,
    "a refund that comes back with another amount does not": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 SUCCESS e=S t=X1                    -> applied success PAYING>SUCCESS announced
    back R1 of=P1 a=300                             -> applied refund-asked REFUNDING REFUND
    returned R1 of=P1 SUCCESS t=RX a=300            -> applied success REFUNDING>SUCCESS REFUND_SUCCESS:300
    notice R1 of=P1 CAME_BACK e=N1 r=RX a=299       -> conflict amount-differs SUCCESS AMOUNT_MISMATCH:high:N1:opened
    """,
    "without a word for it in the contract nothing comes back": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 SUCCESS e=S t=X1                    -> applied success PAYING>SUCCESS announced
    callback P1 RETURNED e=E1 t=X1                  -> conflict not-mapped SUCCESS STATUS_UNMAPPED:high:E1:opened
    """,
    "layers imply nothing, never go back, and a silent card is told once": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 SUCCESS e=S t=X1                    -> applied success PAYING>SUCCESS announced
    layer R1 of=P1 merchant SUBMITTED e=L0          -> parked waits-for-payment -
    back R1 of=P1 a=300                             -> applied refund-asked REFUNDING REFUND | applied layer REFUNDING
    layer R1 of=P1 merchant COMPLETED e=L1          -> applied layer REFUNDING
    layer R1 of=P1 merchant PROCESSING e=L2         -> stale late-word REFUNDING
    layer R1 of=P1 card ODD e=L3                    -> conflict not-mapped REFUNDING STATUS_UNMAPPED:high:L3:opened
    layer R1 of=P1 card PENDING                     -> conflict no-key REFUNDING MISSING_DEDUP_KEY:high:R1:opened QUERY
    +864000 tick                                    -> \
        applied query-due REFUNDING QUERY | applied layers-apart REFUNDING STATUS_MISMATCH:high:R1:opened
    returned R1 of=P1 SUCCESS t=RX a=300            -> applied success REFUNDING>SUCCESS REFUND_SUCCESS:300
    refunded P1 e=C1 a=300 t=RX                     -> applied card-refund SUCCESS
    layer R1 of=P1 card POSTED e=L5                 -> stale late-word SUCCESS
    """,
    "a payee that is done after the window is told at once": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 SUCCESS e=S t=X1                    -> applied success PAYING>SUCCESS announced
    back R1 of=P1 a=300                             -> applied refund-asked REFUNDING REFUND
    +864001 tick                                    -> applied query-due REFUNDING QUERY
    layer R1 of=P1 merchant COMPLETED e=L1          -> applied layer REFUNDING STATUS_MISMATCH:high:R1:opened
    """,
}


@pytest.mark.parametrize("title", CASES)
def test_the_table_holds(title: str) -> None:
    world = World(CONTRACTS.get(title, {}))
    for line in filter(str.strip, CASES[title].splitlines()):
        row, _, expected = line.partition("->")
        assert " | ".join(world.row(row)) == " ".join(expected.split()), row
    assert world.told_all_that_it_implies()
