"""Holds as tables: captures, releases, voids, clearings (see tests/support/worlds.py)."""

from __future__ import annotations

import pytest

from streams.domain.contract import Contract
from tests.support.worlds import World

CONTRACTS: dict[str, dict[str, Contract]] = {
    "a category may be cleared above the hold, to the unit": {"chA": Contract(overcapture_pct={"restaurant": 20})},
}
CASES: dict[str, str] = {
    "a hold of another amount is none of ours (R-078)": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 AUTHORIZED e=1 t=X1 a=999           -> conflict amount-differs PAYING AMOUNT_MISMATCH:high:1:opened
    """,
    "a hold is taken in parts, never beyond what is there and in flight, and each part once": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 AUTHORIZED e=A t=X1                 -> applied authorised PAYING>AUTHORIZED
    callback P1 AUTHORIZED e=A2 t=X1                -> applied already-authorised AUTHORIZED
    query P1 PROCESSING a=-                         -> applied unknown AUTHORIZED
    query P1 CONTRADICTORY a=-                      -> applied unknown AUTHORIZED
    capture C1 of=P1 a=600                          -> applied capture-asked PAYING CAPTURE
    capture C2 of=P1 a=600                          -> refused over-capture - OVER_CAPTURE:info:C2:opened
    capture C1 of=P1 a=600 command_id=again         -> duplicate same-number PAYING
    capture C1 of=P1 a=5 command_id=other           -> refused number-reused PAYING
    capture C3 of=P1 a=0                            -> refused amount-not-positive - INVALID_AMOUNT:info:C3:opened
    capture C4 of=P1 a=1 c=EUR                      -> refused currency-not-ours -
    void V1 of=P1                                   -> refused hold-in-use -
    captured C1 of=P1 SUCCESS t=XC a=600            -> applied success PAYING>SUCCESS announced
    captured C1 of=P1 ALREADY_CAPTURED t=XC a=600   -> applied already-success SUCCESS
    captured C1 of=P1 SUCCESS a=600                 -> applied already-success SUCCESS
    captured C1 of=P1 FAILED t=XC a=-               -> illegal success-stays SUCCESS ILLEGAL_TRANSITION:high:C1:opened
    captured C1 of=P1 SUCCESS t=XD a=600            -> \
        conflict second-transaction SUCCESS DUPLICATE_PAYMENT:high:C1:opened ILLEGAL_TRANSITION:high:C1:opened
    callback P1 SUCCESS e=E5 t=X1                   -> applied already-success SUCCESS
    capture C5 of=P1 a=400                          -> applied capture-asked PAYING CAPTURE
    captured C5 of=P1 SUCCESS a=400                 -> applied success PAYING>SUCCESS
    release P1 SUCCESS e=R1 a=400                   -> stale no-hold SUCCESS
    """,
    "a release ends a hold once, and money after it is late (R-212)": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 AUTHORIZED e=A t=X1                 -> applied authorised PAYING>AUTHORIZED
    release P1 PENDING e=R0                         -> stale late-word AUTHORIZED
    release P1 ODD e=R9                             -> conflict not-mapped AUTHORIZED STATUS_UNMAPPED:high:R9:opened
    release P1 SUCCESS                              -> conflict no-key AUTHORIZED MISSING_DEDUP_KEY:high:P1:opened QUERY
    release P1 SUCCESS e=R1                         -> applied released AUTHORIZED>VOIDED AUTH_RELEASED:1000
    release P1 SUCCESS e=R2                         -> stale no-hold VOIDED
    callback P1 SUCCESS e=E2 t=X1                   -> illegal late-success VOIDED LATE_SUCCESS:high:E2:opened
    """,
    "a void of ours lets the hold go by the channel's word only": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 AUTHORIZED e=A t=X1                 -> applied authorised PAYING>AUTHORIZED
    void V1 of=P1                                   -> applied void-asked PAYING VOID
    voided V1 of=P1 TIMEOUT a=-                     -> applied unknown PAYING>UNKNOWN
    void V1 of=P1 command_id=x                      -> duplicate same-number UNKNOWN
    voided V1 of=P1 SUCCESS a=-                     -> applied success UNKNOWN>SUCCESS AUTH_RELEASED:1000
    voided V1 of=P1 SUCCESS a=-                     -> applied already-success SUCCESS
    voided V1 of=P1 FAILED a=-                      -> illegal success-stays SUCCESS ILLEGAL_TRANSITION:high:V1:opened
    void V2 of=P1                                   -> refused not-authorised -
    void V3 of=P9                                   -> refused payment-not-found -
    """,
    "a failure ends a hold, unless it is of another attempt": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 AUTHORIZED e=A t=X1                 -> applied authorised PAYING>AUTHORIZED
    callback P1 FAILED e=F0 t=X0                    -> stale late-word AUTHORIZED
    callback P1 CLOSED e=F t=X1                     -> applied closed AUTHORIZED>VOIDED AUTH_RELEASED:1000
    callback P1 SUCCESS e=S t=X1                    -> illegal late-success VOIDED LATE_SUCCESS:high:S:opened
    """,
    "what the payment's own word captured is not counted again by the capture's answer": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 AUTHORIZED e=A t=X1                 -> applied authorised PAYING>AUTHORIZED
    capture C1 of=P1                                -> applied capture-asked PAYING CAPTURE
    callback P1 SUCCESS e=S t=X1                    -> applied success AUTHORIZED>SUCCESS announced
    captured C1 of=P1 SUCCESS t=XC                  -> applied success PAYING>SUCCESS
    """,
    "a capture that succeeds after the release is late money": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 AUTHORIZED e=A t=X1                 -> applied authorised PAYING>AUTHORIZED
    capture C1 of=P1 a=300                          -> applied capture-asked PAYING CAPTURE
    release P1 SUCCESS e=R                          -> applied released AUTHORIZED>VOIDED AUTH_RELEASED:1000
    captured C1 of=P1 SUCCESS t=XC a=300            -> illegal late-success PAYING LATE_SUCCESS:high:C1:opened
    captured C1 of=P1 FAILED t=XC a=-               -> applied failure PAYING>FAIL LATE_SUCCESS:high:C1:opened
    """,
    "a hold lapses when the channel said so, but never under a capture that is out": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 AUTHORIZED e=A t=X1 auth_expires_at=2025-03-03T11:00:00Z -> applied authorised PAYING>AUTHORIZED
    capture C1 of=P1 a=300                          -> applied capture-asked PAYING CAPTURE
    +4000 tick                                      -> \
        applied query-due PAYING QUERY | applied query-due PAYING QUERY | applied query-due PAYING QUERY | applied query-due PAYING \
        QUERY
    captured C1 of=P1 FAILED a=-                    -> applied failure PAYING>FAIL
    +1 tick                                         -> applied authorisation-lapsed AUTHORIZED>EXPIRED AUTH_RELEASED:1000
    """,
    "the issuer's clearing takes the hold, within it": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 AUTHORIZED e=A t=X1                 -> applied authorised PAYING>AUTHORIZED
    purchase P1 e=C1 a=400                          -> applied card-cleared AUTHORIZED>SUCCESS announced
    purchase P1 e=C2 a=601                          -> conflict over-capture SUCCESS OVER_CAPTURE:high:C2:opened
    purchase P1 e=C3 a=0                            -> conflict over-capture SUCCESS OVER_CAPTURE:high:C3:opened
    purchase P1 e=C4 a=600                          -> applied card-cleared SUCCESS
    purchase P1 e=C5 a=1                            -> conflict over-capture SUCCESS OVER_CAPTURE:high:C5:opened
    """,
    "a category may be cleared above the hold, to the unit": """
    create P1 category=restaurant                   -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 AUTHORIZED e=A t=X1                 -> applied authorised PAYING>AUTHORIZED
    purchase P1 e=C1 a=1201                         -> conflict over-capture AUTHORIZED OVER_CAPTURE:high:C1:opened
    purchase P1 e=C2 a=1200                         -> applied card-cleared AUTHORIZED>SUCCESS announced
    """,
}


@pytest.mark.parametrize("title", CASES)
def test_the_table_holds(title: str) -> None:
    world = World(CONTRACTS.get(title, {}))
    for line in filter(str.strip, CASES[title].splitlines()):
        row, _, expected = line.partition("->")
        assert " | ".join(world.row(row)) == " ".join(expected.split()), row
    assert world.told_all_that_it_implies()
