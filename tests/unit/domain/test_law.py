"""The law as tables: each line is an event and what comes of it. How to read a line: tests/support/worlds.py."""

from __future__ import annotations

import pytest

from streams.domain.contract import Contract
from streams.domain.decisions import Decision, Discrepancy
from streams.domain.order import Order
from streams.domain.turn import Turn
from tests.support.worlds import START, World

STARTED = """
create P1                               -> applied created INIT
start P1                                -> applied start INIT>PAYING SUBMIT
"""

CASES: dict[str, str] = {
    "a success is announced once however often it is told (R-079, R-139)": STARTED
    + """
    +5 callback P1 SUCCESS e=E1 t=X1        -> applied success PAYING>SUCCESS announced
    callback P1 SUCCESS e=E1 t=X1           -> duplicate same-key-same-payload SUCCESS
    callback P1 SUCCESS e=E1 t=X1 subscription=s2 -> duplicate same-key-same-payload SUCCESS
    callback P1 SUCCESS e=E2 t=X1           -> applied already-success SUCCESS
    query P1 SUCCESS t=X1                   -> applied already-success SUCCESS
    +9999 tick                              ->
    """,
    "a late failure cannot undo success (R-014)": STARTED
    + """
    +60 callback P1 SUCCESS e=E2 t=X1       -> applied success PAYING>SUCCESS announced
    +5 callback P1 FAILED e=E1 t=X1         -> illegal success-stays SUCCESS ILLEGAL_TRANSITION:high:E1:opened
    callback P1 CLOSED e=E3 t=X0            -> illegal success-stays SUCCESS ILLEGAL_TRANSITION:info:E3:opened
    callback P1 DECLINED_RETRYABLE e=E4     -> illegal success-stays SUCCESS ILLEGAL_TRANSITION:high:E4:opened
    query P1 FAILED a=-                     -> illegal success-stays SUCCESS ILLEGAL_TRANSITION:high:P1:opened
    query P1 FAILED a=-                     -> illegal success-stays SUCCESS
    """,
    "a failure older than the success is no alarm, by time": STARTED
    + """
    +60 callback P1 SUCCESS e=E1 t=X1 event_time=2025-03-03T10:00:50Z -> applied success PAYING>SUCCESS announced
    callback P1 FAILED e=E2 t=X1 event_time=2025-03-03T10:00:49Z -> illegal success-stays SUCCESS ILLEGAL_TRANSITION:info:E2:opened
    callback P1 FAILED e=E3 t=X1 event_time=2025-03-03T10:00:50Z -> illegal success-stays SUCCESS ILLEGAL_TRANSITION:high:E3:opened
    callback P1 FAILED e=E4 t=X1 event_time=yesterday -> illegal success-stays SUCCESS ILLEGAL_TRANSITION:high:E4:opened
    """,
    "a failure older than the success is no alarm, by the channel's own order (R-075)": STARTED
    + """
    callback P1 SUCCESS e=E1 t=X1 sequence=5 -> applied success PAYING>SUCCESS announced
    callback P1 FAILED e=E2 t=X1 sequence=4 -> illegal success-stays SUCCESS ILLEGAL_TRANSITION:info:E2:opened
    callback P1 FAILED e=E3 t=X1 sequence=6 event_time=2020-01-01T00:00:00Z -> \
        illegal success-stays SUCCESS ILLEGAL_TRANSITION:high:E3:opened
    """,
    "success after a failure is held for a person (R-080)": STARTED
    + """
    submit P1 FAILED a=-                    -> applied failure PAYING>FAIL
    callback P1 SUCCESS e=E1 t=X1           -> illegal late-success FAIL LATE_SUCCESS:high:E1:opened
    query P1 SUCCESS t=X1                   -> illegal late-success FAIL
    callback P1 FAILED e=E2 t=X1            -> stale ended-already FAIL LATE_SUCCESS:high:E1:opened
    callback P1 CLOSED e=E2b t=X9           -> stale ended-already FAIL LATE_SUCCESS:high:E1:opened
    callback P1 PENDING e=E3 t=X1           -> stale late-word FAIL
    callback P1 SUCCESS e=E4 t=X2           -> \
        illegal late-success FAIL DUPLICATE_PAYMENT:high:P1:opened LATE_SUCCESS:high:E4:opened \
        LATE_SUCCESS:high:E4:opened LATE_SUCCESS:high:E4:opened
    """,
    "success after our own expiry is held for a person (R-061, R-080)": """
    create P1                               -> applied created INIT
    +900 tick                               -> applied init-expired INIT>CLOSED
    start P1                                -> refused not-init CLOSED
    callback P1 SUCCESS e=E1 t=X1           -> illegal late-success CLOSED LATE_SUCCESS:high:E1:opened
    callback P1 FAILED e=E2 t=X1            -> stale ended-already CLOSED LATE_SUCCESS:high:E1:opened
    """,
    "unknown is not failure, and a closed word closes (R-005)": STARTED
    + """
    submit P1 TIMEOUT a=-                   -> applied unknown PAYING>UNKNOWN
    query P1 PROCESSING a=-                 -> applied unknown UNKNOWN
    query P1 ACCEPTED a=-                   -> applied pending UNKNOWN
    callback P1 CLOSED e=E1                 -> applied closed UNKNOWN>CLOSED
    """,
    "pending and accepted change nothing": STARTED
    + """
    submit P1 ACCEPTED a=-                  -> applied pending PAYING
    callback P1 PENDING e=E1                -> applied pending PAYING
    """,
    "a channel that contradicts itself is asked at once, but not in a tight loop": STARTED
    + """
    callback P1 CONTRADICTORY e=E1          -> applied unknown PAYING>UNKNOWN QUERY
    query P1 CONTRADICTORY a=-              -> applied unknown UNKNOWN
    callback P1 CONTRADICTORY e=E2          -> applied unknown UNKNOWN QUERY
    """,
    "only a confirmed close closes": STARTED
    + """
    close P1 FAILED a=-                     -> applied pending PAYING
    close P1 ALREADY_PAID a=-               -> applied pending PAYING QUERY
    close P1 TIMEOUT a=-                    -> applied unknown PAYING>UNKNOWN
    close P1 ODD a=-                        -> conflict not-mapped UNKNOWN STATUS_UNMAPPED:high:P1:opened
    close P1 SUCCESS a=-                    -> applied closed UNKNOWN>CLOSED
    """,
    "a word nobody has mapped can only be unknown": STARTED
    + """
    callback P1 SETTLING e=E1               -> conflict not-mapped PAYING>UNKNOWN STATUS_UNMAPPED:high:E1:opened
    callback P1 SUCCESS e=E2 t=X1           -> applied success UNKNOWN>SUCCESS announced
    callback P1 SETTLING e=E3               -> conflict not-mapped SUCCESS STATUS_UNMAPPED:high:E3:opened
    """,
    "a success that is not whole proves nothing yet (R-002)": STARTED
    + """
    callback P1 SUCCESS e=E1                -> applied incomplete-success PAYING>UNKNOWN QUERY
    query P1 SUCCESS t=X1 a=-               -> applied incomplete-success UNKNOWN
    query P1 SUCCESS t=X1                   -> applied success UNKNOWN>SUCCESS announced
    callback P1 SUCCESS e=E2                -> stale late-word SUCCESS
    """,
    "another amount or currency is not our success (R-078)": STARTED
    + """
    callback P1 SUCCESS e=E1 t=X1 a=100     -> conflict amount-differs PAYING AMOUNT_MISMATCH:high:E1:opened
    callback P1 SUCCESS e=E2 t=X1 a=-1000   -> conflict amount-differs PAYING AMOUNT_MISMATCH:high:E2:opened
    callback P1 SUCCESS e=E3 t=X1 c=JPY     -> conflict currency-differs PAYING CURRENCY_MISMATCH:high:E3:opened
    callback P1 SUCCESS e=E4 t=X1 a=- amount_text=705.50 -> conflict amount-invalid PAYING INVALID_AMOUNT:high:E4:opened
    query P1 SUCCESS t=X1 a=1001            -> conflict amount-differs PAYING AMOUNT_MISMATCH:high:P1:opened
    query P1 SUCCESS t=X1 a=1001            -> conflict amount-differs PAYING
    callback P1 SUCCESS e=E5 t=X1           -> applied success PAYING>SUCCESS announced
    callback P1 SUCCESS e=E6 t=X1 a=100     -> conflict amount-differs SUCCESS AMOUNT_MISMATCH:high:E6:opened
    """,
    "the first payload under a key stands, and one query settles it": STARTED
    + """
    callback P1 SUCCESS e=E1 t=X1 a=2100    -> conflict amount-differs PAYING AMOUNT_MISMATCH:high:E1:opened
    callback P1 SUCCESS e=E1 t=X1           -> conflict same-key-other-payload PAYING PAYLOAD_CONFLICT:high:E1:opened QUERY
    callback P1 SUCCESS e=E1 t=X1           -> conflict same-key-other-payload PAYING
    callback P1 SUCCESS e=E1 t=X1 a=2100    -> duplicate same-key-same-payload PAYING
    query P1 SUCCESS t=X1                   -> applied success PAYING>SUCCESS announced
    """,
    "without an event id the transaction, type, status and version are the key (R-072)": STARTED
    + """
    callback P1 PENDING t=X1 event_type=pay -> applied pending PAYING
    callback P1 PENDING t=X1 event_type=pay -> duplicate same-key-same-payload PAYING
    callback P1 PENDING t=X1 event_type=pay version=2 -> applied pending PAYING
    callback P1 PENDING t=X1 event_type=pay version=2 fee=1 -> conflict same-key-other-payload PAYING PAYLOAD_CONFLICT:high:X1:opened QUERY
    """,
    "without any key nothing moves, and one query is asked": STARTED
    + """
    callback P1 SUCCESS                     -> conflict no-key PAYING MISSING_DEDUP_KEY:high:P1:opened QUERY
    callback P1 SUCCESS                     -> duplicate same-key-same-payload PAYING
    callback P1 FAILED                      -> conflict no-key PAYING
    callback P1 SUCCESS e=E1 t=X1           -> applied success PAYING>SUCCESS announced
    callback P1 PENDING                     -> conflict no-key SUCCESS
    """,
    "a test notice on the live stream is no evidence, whether the payment is known or not": """
    callback P9 SUCCESS e=E0 t=X1 livemode=no -> conflict test-mode - ENVIRONMENT_MISMATCH:info:E0:opened
    create P1                               -> applied created INIT
    start P1                                -> applied start INIT>PAYING SUBMIT
    callback P1 SUCCESS e=E1 t=X1 livemode=no -> conflict test-mode PAYING ENVIRONMENT_MISMATCH:info:E1:opened
    callback P1 SUCCESS e=E2 t=X1 livemode=yes -> applied success PAYING>SUCCESS announced
    """,
    "evidence waits for its payment and is heard when it starts (R-081)": """
    callback P1 SUCCESS e=E1 t=X1           -> parked waits-for-payment -
    callback P1 SUCCESS e=E1 t=X1           -> duplicate same-key-same-payload -
    callback P1 SUCCESS e=E1 t=X1 a=1       -> conflict same-key-other-payload - PAYLOAD_CONFLICT:high:E1:opened
    +1 create P1                            -> applied created INIT
    query P1 PROCESSING a=-                 -> parked waits-for-state INIT
    start P1                                -> \
        applied start INIT>PAYING SUBMIT | applied success PAYING>SUCCESS announced | stale late-word SUCCESS
    """,
    "evidence on a payment that was never started waits, and speaks when it has expired": """
    create P1                               -> applied created INIT
    callback P1 SUCCESS e=E1 t=X1           -> parked waits-for-state INIT
    +900 tick                               -> applied init-expired INIT>CLOSED | illegal late-success CLOSED LATE_SUCCESS:high:E1:opened
    """,
    "a payment that never appears is told after the window, and clears itself when it does": """
    callback P1 SUCCESS e=E1 t=X1           -> parked waits-for-payment -
    +86399 tick                             ->
    +1 tick                                 -> applied park-window-over - UNKNOWN_ORDER:high:E1:opened
    +86400 tick                             ->
    create P1                               -> applied created INIT | applied operation-appeared - UNKNOWN_ORDER:high:E1:resolved
    start P1                                -> applied start INIT>PAYING SUBMIT | applied success PAYING>SUCCESS announced
    """,
    "a channel can only speak of a request that was made to it": STARTED
    + """
    callback P1 SUCCESS e=E1 t=X1 channel=chB -> parked waits-for-payment -
    callback P1 SUCCESS e=E1 t=X1           -> applied success PAYING>SUCCESS announced
    """,
    "the start may name another channel": """
    create P1                               -> applied created INIT
    start P1 channel=chB                    -> applied start INIT>PAYING SUBMIT
    callback P1 SUCCESS e=E1 t=X1 channel=chB -> applied success PAYING>SUCCESS announced
    create P1 command_id=again              -> duplicate same-number SUCCESS
    """,
    "two merchants may share an order number and a payment number": """
    create P1 merchant=M1                   -> applied created INIT
    create P1 merchant=M2 command_id=c2     -> applied created INIT
    start P1 merchant=M1                    -> applied start INIT>PAYING SUBMIT
    start P1 merchant=M2 command_id=s2      -> applied start INIT>PAYING SUBMIT
    callback P1 SUCCESS e=E1 t=X1 merchant=M2 -> applied success PAYING>SUCCESS announced
    callback P1 SUCCESS e=E1 t=X2 merchant=M1 -> applied success PAYING>SUCCESS announced
    callback P1 FAILED t=X3 event_type=pay merchant=M2 -> illegal success-stays SUCCESS ILLEGAL_TRANSITION:info:X3:opened
    query P1 FAILED a=- merchant=M2         -> illegal success-stays SUCCESS ILLEGAL_TRANSITION:high:M2/P1:opened
    """,
    "only the winner of INIT to PAYING submits (R-017)": STARTED
    + """
    start P1                                -> duplicate same-command PAYING
    start P1 command_id=second              -> refused not-init PAYING
    start P1 command_id=second channel=chB  -> refused command-reused PAYING
    start P9                                -> refused payment-not-found -
    """,
    "one live payment for each business code of the order (R-037)": """
    create P1                               -> applied created INIT
    create P1                               -> duplicate same-command INIT
    create P1 command_id=again              -> duplicate same-number INIT
    create P1 command_id=other a=999        -> refused number-reused INIT
    create P1 command_id=pin channel=chB    -> refused number-reused INIT
    create P1 command_id=rt channel=chB routed=yes -> duplicate same-number INIT
    create P1 command_id=rt channel=chC routed=yes -> duplicate same-command INIT
    create P1 command_id=rt channel=chC -> refused command-reused INIT
    create P1 command_id=ra a=999 routed=yes -> refused number-reused INIT
    create P2                               -> refused one-payment -
    create P3 biz_code=deposit              -> applied created INIT
    start P1                                -> applied start INIT>PAYING SUBMIT
    start P3                                -> applied start INIT>PAYING SUBMIT
    callback P1 FAILED e=E1 t=X1            -> applied failure PAYING>FAIL
    create P2 command_id=retry              -> applied created INIT
    start P2                                -> applied start INIT>PAYING SUBMIT
    callback P2 SUCCESS e=E2 t=X2           -> applied success PAYING>SUCCESS announced
    create P4                               -> refused one-payment -
    """,
    "an amount that is not positive is refused at the door (R-133)": """
    create P1 a=0                           -> refused amount-not-positive - INVALID_AMOUNT:info:P1:opened
    create P1 a=-5 command_id=again         -> refused amount-not-positive -
    create P1 command_id=good               -> applied created INIT
    """,
    "the channel is asked at 2, 10 and 30 minutes (R-058, R-059)": STARTED
    + """
    +119 tick                               ->
    +1 tick                                 -> applied query-due PAYING QUERY
    +480 tick                               -> applied query-due PAYING QUERY
    +1200 tick                              -> applied close-due PAYING QUERY CLOSE | applied query-due PAYING QUERY
    query P1 SUCCESS t=X1                   -> applied success PAYING>SUCCESS announced
    +90000 tick                             ->
    """,
    "a QR payment may stay unstarted for half an hour, or as long as its command says (R-062)": """
    create P1 qr=yes                        -> applied created INIT
    +1799 tick                              ->
    +1 tick                                 -> applied init-expired INIT>CLOSED
    """,
    "a card entry is kept and compared, and moves nothing": """
    purchase P1 e=C1                        -> parked waits-for-payment -
    create P1                               -> applied created INIT
    purchase P1 e=C1                        -> duplicate same-key-same-payload INIT
    purchase P1 e=C2 a=999                  -> parked waits-for-state INIT
    start P1                                -> applied start INIT>PAYING SUBMIT
    callback P1 SUCCESS e=E1 t=X1           -> applied success PAYING>SUCCESS announced | applied card-entry SUCCESS | \
        conflict amount-differs SUCCESS AMOUNT_MISMATCH:high:C2:opened
    purchase P1 e=C3 c=EUR event_time=2025-03-03T10:00:01Z -> conflict currency-differs SUCCESS CURRENCY_MISMATCH:high:C3:opened
    refunded P1 e=C4 a=10                   -> applied card-entry SUCCESS
    purchase e=C5                           -> applied card-entry -
    refunded e=C6                           -> conflict card-refund-unlinked - UNLINKED_REFUND:high:C6:opened
    refunded e=C7 authorization=P1          -> applied card-entry SUCCESS
    """,
    "an answer to a request that was never made is for a person": STARTED
    + """
    refund P1 SUCCESS t=R1                  -> conflict not-asked PAYING STATUS_UNMAPPED:high:P1:opened
    """,
    "a second channel transaction under one payment is a duplicate (R-040)": STARTED
    + """
    callback P1 SUCCESS e=E1 t=X1           -> applied success PAYING>SUCCESS announced
    callback P1 FAILED e=E2 t=X0            -> illegal success-stays SUCCESS ILLEGAL_TRANSITION:info:E2:opened
    callback P1 SUCCESS e=E3 t=X2           -> \
        conflict second-transaction SUCCESS DUPLICATE_PAYMENT:high:P1:opened ILLEGAL_TRANSITION:info:E2:opened
    callback P1 SUCCESS e=E4 t=X2           -> conflict second-transaction SUCCESS
    """,
}


@pytest.mark.parametrize("title", CASES)
def test_the_table_holds(title: str) -> None:
    world = World()
    for line in filter(str.strip, CASES[title].splitlines()):
        row, _, expected = line.partition("->")
        assert " | ".join(world.row(row)) == " ".join(expected.split()), row
    assert world.told_all_that_it_implies()


def test_a_decline_is_final_only_where_the_contract_says_so() -> None:
    world = World({"chA": Contract(decline_is_final=False)})
    for row in ("create P1", "start P1"):
        world.row(row)
    assert world.row("callback P1 DECLINED_RETRYABLE e=E1 t=X1") == ["applied pending PAYING"]
    assert world.row("callback P1 SUCCESS e=E2 t=X2") == ["applied success PAYING>SUCCESS announced"]


def two_payments(first: str) -> World:
    """P1 in a state of another time, and P2 waiting to start: what an older release or a person's decision may leave."""
    world = World()
    for row in ("create P1", "start P1", "callback P1 FAILED e=E0", "create P2 channel=chB"):
        world.row(row)
    assert world.order is not None
    world.order.payments[0].state = first
    return world


def test_no_start_while_another_payment_is_in_flight_or_the_order_is_paid() -> None:
    """R-157: the gate stands at the start too, however the order came to be as it is."""
    assert two_payments("UNKNOWN").row("start P2") == ["refused another-in-flight INIT"]
    assert two_payments("SUCCESS").row("start P2") == ["refused already-paid INIT"]
    assert two_payments("CLOSED").row("start P2") == ["applied start INIT>PAYING SUBMIT"]


def test_a_second_paid_payment_of_an_order_is_neither_announced_nor_posted() -> None:
    """R-248, and the conflict is the same whichever was first."""
    conflicts = set()
    for first, second in (("P1", "P2"), ("P2", "P1")):
        world = two_payments("CLOSED")
        world.row("start P2")
        assert world.order is not None
        world.order.payments[0].state = "PAYING"
        world.order.payments[0].refusals = ()
        channels = {"P1": "chA", "P2": "chB"}
        world.row(f"callback {first} SUCCESS e=E1 t=X1 channel={channels[first]}")
        assert world.row(f"callback {second} SUCCESS e=E1 t=Y1 channel={channels[second]}") == [
            f"applied second-success PAYING>SUCCESS DUPLICATE_PAYMENT:high:{second}:opened"
        ]
        decision = world.said[-1]
        assert isinstance(decision, Decision)
        assert decision.ledger == ()
        conflicts.add(frozenset(world.open_conflicts()))
    assert len(conflicts) == 1


def test_a_lower_version_never_overwrites_the_fee() -> None:
    world = World()
    fees = []
    for row in (
        "create P1",
        "start P1",
        "callback P1 SUCCESS e=E1 t=X1 fee=10",
        "callback P1 SUCCESS e=E2 t=X1 fee=11",
        "callback P1 SUCCESS e=E3 t=X1 version=2 fee=30",
        "callback P1 SUCCESS e=E4 t=X1 version=1 fee=25",
        "callback P1 SUCCESS e=E5 t=X1 version=3",
    ):
        world.row(row)
        assert world.order is not None
        fees.append((world.order.payments[0].version, world.order.payments[0].fee))
    assert fees[2:] == [(None, 10), (None, 10), (2, 30), (2, 30), (3, 30)]


def test_the_severity_of_a_contradiction_only_rises() -> None:
    """The channel's clock ran ahead: at first the refusal looks older than the success."""
    world = World()
    for row in ("create P1", "start P1", "callback P1 SUCCESS e=E1 t=X1 event_time=2025-03-03T10:03:20Z"):
        world.row(row)
    illegal = "illegal success-stays SUCCESS"
    assert world.row("query P1 FAILED t=X1") == [f"{illegal} ILLEGAL_TRANSITION:info:P1:opened"]
    assert world.row("+300 query P1 FAILED t=X1") == [f"{illegal} ILLEGAL_TRANSITION:high:P1:updated"]
    assert world.row("query P1 FAILED t=X1") == [illegal]


def test_what_had_waited_is_remembered_once_in_its_place_with_what_came_of_it() -> None:
    """Also what has no key, beside an answer, which has none either; and beside what waits on."""
    world = World()
    for row in (
        "create P0",
        "start P0",
        "submit P0 PENDING a=-",
        "callback P9 PENDING e=9",
        "callback P1 PENDING",
        "callback P1 SUCCESS e=2 t=X1",
        "callback P1 FAILED e=3",
        "create P1 biz_code=other",
        "start P1",
    ):
        world.row(row)
    assert world.order is not None
    assert [(seen.ref, seen.word, seen.verdict, seen.rule) for seen in world.order.seen][2:] == [
        ("P0", "PENDING", "applied", "pending"),
        ("9", "PENDING", "parked", "waits-for-payment"),
        ("P1", "PENDING", "conflict", "no-key"),
        ("2", "SUCCESS", "applied", "success"),
        ("3", "FAILED", "illegal", "success-stays"),
        ("create-P1", "create", "applied", "created"),
        ("start-P1", "start", "applied", "start"),
    ]


def test_a_discrepancy_is_never_played_down() -> None:
    turn = Turn(Order("O1"), START, {})
    facts = {"ref": "E1", "payment_no": "P1", "merchant": None, "evidence": "E1", "detail": ""}
    assert turn.contest("ILLEGAL_TRANSITION", b"facts", severity="high", **facts)
    assert not turn.contest("ILLEGAL_TRANSITION", b"facts", severity="info", **facts)
    assert [one.severity for one in turn.order.conflicts] == ["high"]


def test_a_settled_discrepancy_may_open_again_under_its_id() -> None:
    turn = Turn(Order("O1"), START, {})
    facts = {"ref": "E1", "payment_no": "P1", "merchant": None, "evidence": "E1", "detail": ""}
    assert turn.contest("UNKNOWN_ORDER", b"facts", **facts)
    turn.settle(b"facts", "E2", "")
    turn.settle(b"facts", "E2", "")
    assert turn.contest("UNKNOWN_ORDER", b"facts", **facts)
    told = [(one.revision, one.status) for one in turn.says if isinstance(one, Discrepancy)]
    assert told == [(1, "opened"), (2, "resolved"), (3, "opened")]


def test_an_unreadable_or_far_clock_is_marked_and_not_used() -> None:
    """R-075: the mark is on the decision; the evidence counts all the same."""
    world = World()
    marks = []
    times = ("2025-03-03T10:05:00Z", "2025-03-03T10:05:01Z", "2025-03-03T10:00:00", "soon", "2025-03-03T18:00:00+08:00")
    for number, time in enumerate(times):
        world.row(f"callback P1 PENDING e=E{number} event_time={time}")
        decision = world.said[-1]
        assert isinstance(decision, Decision)
        marks.append(decision.marks)
    suspect = ("CLOCK_SUSPECT",)
    assert marks == [(), suspect, suspect, suspect, ()]
