"""The edges of the law as tables (see tests/support/worlds.py)."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec import structs

from streams.domain import balance, schedule
from streams.domain.contract import Contract, Failures, Idempotency
from streams.domain.decisions import Decision
from streams.domain.events import Raw, Release
from streams.domain.identity import discrepancy_id, event_key, said
from streams.domain.order import MAX_OPERATIONS, Operation
from streams.domain.refunds import MAX_CHANNEL_REFUNDS
from streams.domain.schedule import retry_after, retry_at
from streams.domain.why import why
from tests.support.worlds import World

REFUSES = Failures(not_accepted=("REFUSED",))
KEYED = Contract(
    idempotency=Idempotency(key="k", scope="account", life_s=None),
    most_submits=2,
    submit_retry_window_s=3600,
    lease_s=60,
)

CONTRACTS: dict[str, dict[str, Contract]] = {
    "evidence waits for the word that it follows, of refunds too": {"chA": Contract(refund_return_status="BACK")},
    "money words about a payment that failed move nothing": {"chA": Contract(payment_return_status="RETURNED")},
    "attempts are bounded": {"chA": Contract(failures=REFUSES)},
    "a refusal of an attempt after the end is late": {"chA": Contract(failures=REFUSES)},
    "each sending of an attempt needs its own refusal": {"chA": structs.replace(KEYED, failures=REFUSES)},
    "sendings are bounded": {"chA": KEYED},
    "a refused attempt is not sent again": {"chA": structs.replace(KEYED, failures=REFUSES)},
    "only an operation that the channel keeps a key for is sent again": {
        "chA": structs.replace(
            KEYED, idempotency=Idempotency(key="k", scope="account", life_s=None, operations=("refund",))
        )
    },
    "an isolated channel is sent nothing again": {"chA": structs.replace(KEYED, isolation="manual")},
}
CASES: dict[str, str] = {
    "late money that pays after all leaves no room for another payment": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 FAILED e=F                          -> applied failure PAYING>FAIL
    create P2                                       -> applied created INIT
    callback P1 SUCCESS e=S t=X1                    -> illegal late-success FAIL LATE_SUCCESS:high:S:opened
    start P2                                        -> applied start INIT>PAYING SUBMIT
    decide fulfil about=LATE_SUCCESS                -> refused another-in-flight -
    callback P2 FAILED e=F2                         -> applied failure PAYING>FAIL
    create P3                                       -> applied created INIT
    decide fulfil about=LATE_SUCCESS                -> \
        applied decided-fulfil - LATE_MONEY_FULFILLED:1000 LATE_SUCCESS:high:S:resolved
    start P3                                        -> refused already-paid INIT
    create P4                                       -> refused one-payment -
    callback P2 SUCCESS e=S2 t=X2                   -> illegal late-success FAIL LATE_SUCCESS:high:S2:opened
    decide fulfil about=LATE_SUCCESS discrepancy=discrepancy/O1/LAST revision=1 -> refused already-paid -
    """,
    "a late leg may reach the total after all": """
    create L1 a=300 order_total=1000                -> applied created INIT
    create L2 a=700 order_total=1000                -> applied created INIT
    start L1                                        -> applied start INIT>PAYING SUBMIT
    start L2                                        -> applied start INIT>PAYING SUBMIT
    callback L1 FAILED e=1 a=300                    -> applied failure PAYING>FAIL
    callback L2 SUCCESS e=2 t=2 a=700               -> applied success PAYING>SUCCESS PARTIAL_TENDER:high:O1:opened
    callback L1 SUCCESS e=3 t=1 a=300               -> illegal late-success FAIL LATE_SUCCESS:high:3:opened
    decide fulfil about=LATE_SUCCESS                -> \
        applied decided-fulfil - LATE_MONEY_FULFILLED:300 PARTIAL_TENDER:high:O1:resolved LATE_SUCCESS:high:3:resolved
    create L3 a=1 order_total=1000                  -> refused over-total -
    """,
    "what is said twice about money is kept once": """
    create P0 biz_code=other                        -> applied created INIT
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 SUCCESS e=S t=X1                    -> applied success PAYING>SUCCESS announced
    back R1 of=P1 a=100                             -> applied refund-asked REFUNDING REFUND
    back R2 of=P1 a=100                             -> applied refund-asked REFUNDING REFUND
    returned R1 of=P1 SUCCESS t=RX a=100            -> applied success REFUNDING>SUCCESS REFUND_SUCCESS:100
    returned R2 of=P1 SUCCESS t=RY a=100            -> applied success REFUNDING>SUCCESS REFUND_SUCCESS:100
    returned R2 of=P1 SUCCESS t=RX a=100            -> conflict reference-linked SUCCESS REFERENCE_ALREADY_LINKED:high:RX:opened
    returned R2 of=P1 SUCCESS t=RZ a=100            -> conflict second-transaction SUCCESS CHANNEL_ONLY:high:RZ:opened
    returned R2 of=P1 SUCCESS t=RZ a=100            -> conflict second-transaction SUCCESS
    refunded P1 e=C1 a=100 t=RX                     -> applied card-refund SUCCESS
    refunded P1 e=C2 a=100 t=RX                     -> applied card-refund SUCCESS
    refunded P1 e=C3 a=99 t=RX                      -> applied card-entry SUCCESS
    decide book about=CHANNEL_ONLY                  -> applied decided-book - CHANNEL_ONLY:high:RZ:resolved
    """,
    "evidence waits for the word that it follows, of refunds too": """
    create P0 biz_code=other                        -> applied created INIT
    start P0                                        -> applied start INIT>PAYING SUBMIT
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 FAILED e=F                          -> applied failure PAYING>FAIL
    callback P1 SUCCESS e=S t=X1                    -> illegal late-success FAIL LATE_SUCCESS:high:S:opened
    decide fulfil about=LATE_SUCCESS                -> \
        applied decided-fulfil - LATE_MONEY_FULFILLED:1000 LATE_SUCCESS:high:S:resolved
    back R1 of=P1 a=100                             -> applied refund-asked REFUNDING REFUND
    notice R1 of=P1 BACK e=B1 r=RX a=100            -> parked waits-for-state REFUNDING
    notice R1 of=P1 SUCCESS e=B2 r=RX a=100         -> \
        applied success REFUNDING>SUCCESS REFUND_SUCCESS:100 | applied refund-returned SUCCESS>RETURNED REFUND_RETURNED:100
    """,
    "captures and voids have words of their own, and keys": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 AUTHORIZED e=A t=X1                 -> applied authorised PAYING>AUTHORIZED
    capture C1 of=P1 a=300                          -> applied capture-asked PAYING CAPTURE
    callback C1 SUCCESS a=300                       -> conflict no-key PAYING MISSING_DEDUP_KEY:high:C1:opened QUERY
    captured C1 of=P1 TIMEOUT a=-                   -> applied unknown PAYING>UNKNOWN
    captured C1 of=P1 AUTHORIZED a=-                -> conflict not-mapped UNKNOWN STATUS_UNMAPPED:high:C1:opened
    callback C1 CLOSED e=K1 t=XC a=300              -> applied closed UNKNOWN>CLOSED
    capture C2 of=P1 a=300                          -> applied capture-asked PAYING CAPTURE
    callback C2 SUCCESS e=K2 t=XC2 a=300            -> applied success PAYING>SUCCESS announced
    notice C2 of=P1 SUCCESS e=K3 r=R a=300          -> parked waits-for-payment -
    dispute C2 OPEN e=K4 a=300                      -> parked waits-for-payment -
    """,
    "a void that failed may be tried again, and a hold is let go once": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 AUTHORIZED e=A t=X1                 -> applied authorised PAYING>AUTHORIZED
    void V1 of=P1                                   -> applied void-asked PAYING VOID
    callback V1 SUCCESS a=-                         -> conflict no-key PAYING MISSING_DEDUP_KEY:high:V1:opened QUERY
    voided V1 of=P1 FAILED a=-                      -> applied failure PAYING>FAIL
    voided V1 of=P1 SUCCESS a=-                     -> illegal late-success FAIL LATE_SUCCESS:high:V1:opened
    void V2 of=P1                                   -> applied void-asked PAYING VOID
    release P1 SUCCESS e=R1                         -> applied released AUTHORIZED>VOIDED AUTH_RELEASED:1000
    voided V2 of=P1 SUCCESS a=-                     -> applied success PAYING>SUCCESS
    """,
    "what was not captured may be released": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 AUTHORIZED e=A t=X1                 -> applied authorised PAYING>AUTHORIZED
    capture C1 of=P1 a=300                          -> applied capture-asked PAYING CAPTURE
    captured C1 of=P1 SUCCESS t=XC a=300            -> applied success PAYING>SUCCESS announced
    callback P1 SUCCESS e=S2 t=X1                   -> applied already-success SUCCESS
    release P1 SUCCESS e=R1                         -> applied released SUCCESS AUTH_RELEASED:700
    """,
    "a capture may pay before anybody named the payment's transaction": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 AUTHORIZED e=A                      -> applied authorised PAYING>AUTHORIZED
    capture C1 of=P1                                -> applied capture-asked PAYING CAPTURE
    captured C1 of=P1 SUCCESS a=1000                -> applied success PAYING>SUCCESS announced
    callback P1 SUCCESS e=S t=X1                    -> applied already-success SUCCESS
    callback P1 SUCCESS e=S2 t=X2                   -> conflict second-transaction SUCCESS DUPLICATE_PAYMENT:high:P1:opened
    """,
    "evidence of one kind about an operation of another waits for the right one": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 SUCCESS e=S t=X1                    -> applied success PAYING>SUCCESS announced
    back R1 of=P1 a=300                             -> applied refund-asked REFUNDING REFUND
    dispute R1 OPEN e=D                             -> parked waits-for-payment -
    release R1 SUCCESS e=D2                         -> parked waits-for-payment -
    layer P1 of=P1 card POSTED e=L                  -> parked waits-for-payment -
    notice P1 of=P1 SUCCESS e=N r=R                 -> parked waits-for-payment -
    """,
    "a refund of a hold waits, unless it says that it is the uncaptured remainder": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 AUTHORIZED e=A t=X1                 -> applied authorised PAYING>AUTHORIZED
    refunded P1 e=C1 a=300                          -> parked waits-for-state AUTHORIZED
    notice - of=P1 SUCCESS e=N1 r=RX a=50           -> parked waits-for-state AUTHORIZED
    notice - of=P1 SUCCESS e=N2 r=RY a=50 reason=uncaptured_remainder -> \
        applied released AUTHORIZED>VOIDED AUTH_RELEASED:1000 | applied card-entry VOIDED | conflict channel-refund VOIDED \
        CHANNEL_ONLY:high:RX:opened
    notice - of=P9 SUCCESS e=N3 r=RY a=50           -> parked waits-for-payment -
    """,
    "money words about a payment that failed move nothing": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 FAILED e=F                          -> applied failure PAYING>FAIL
    notice - of=P1 SUCCESS e=N1 r=RX a=50           -> conflict channel-refund FAIL CHANNEL_ONLY:high:RX:opened
    callback P1 FINISHED e=F2                       -> stale late-word FAIL
    callback P1 REFUND_TOTAL e=F3 cumulative_refunded=10 -> stale late-word FAIL
    dispute P1 OPEN e=D1 a=50                       -> conflict amount-differs FAIL AMOUNT_MISMATCH:high:D1:opened
    callback P1 RETURNED e=F4 t=X1                  -> stale late-word FAIL
    refunded P1 e=C1 a=300                          -> applied card-entry FAIL
    purchase P1 e=C2                                -> applied card-entry FAIL
    """,
    "attempts are bounded": """
    create P1 expires_at=never                      -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    submit P1 REFUSED a=-                           -> applied attempt-refused PAYING
    retry P1 command_id=r0                          -> applied retry PAYING SUBMIT
    submit P1 REFUSED a=-                           -> applied attempt-refused PAYING
    retry P1 command_id=r1                          -> applied retry PAYING SUBMIT
    submit P1 REFUSED a=-                           -> applied attempt-refused PAYING
    retry P1 command_id=r2                          -> applied retry PAYING SUBMIT
    submit P1 REFUSED a=-                           -> applied attempt-refused PAYING
    retry P1 command_id=r3                          -> applied retry PAYING SUBMIT
    submit P1 REFUSED a=-                           -> applied attempt-refused PAYING
    retry P1 command_id=r4                          -> applied retry PAYING SUBMIT
    submit P1 REFUSED a=-                           -> applied attempt-refused PAYING
    retry P1 command_id=r5                          -> applied retry PAYING SUBMIT
    submit P1 REFUSED a=-                           -> applied attempt-refused PAYING
    retry P1 command_id=r6                          -> applied retry PAYING SUBMIT
    submit P1 REFUSED a=-                           -> applied attempt-refused PAYING
    retry P1 command_id=r7                          -> refused too-many-attempts PAYING
    submit P1 REFUSED a=-                           -> applied attempt-refused PAYING
    retry P1 command_id=r8                          -> refused too-many-attempts PAYING
    """,
    "a refusal of an attempt after the end is late": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    submit P1 REFUSED a=-                           -> applied attempt-refused PAYING
    submit P1 REFUSED a=-                           -> applied attempt-refused PAYING
    callback P1 FAILED e=F                          -> applied failure PAYING>FAIL
    submit P1 REFUSED a=-                           -> stale late-word FAIL
    submit P1 X error_class=REFUSED a=-             -> stale late-word FAIL
    """,
    "each sending of an attempt needs its own refusal": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    +60 tick                                        -> applied resent PAYING SUBMIT
    submit P1 REFUSED a=-                           -> applied attempt-refused PAYING
    retry P1                                        -> refused attempt-in-flight PAYING
    submit P1 REFUSED a=-                           -> applied attempt-refused PAYING
    retry P1 command_id=r2                          -> applied retry PAYING SUBMIT
    """,
    "sendings are bounded": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    +60 tick                                        -> applied resent PAYING SUBMIT
    +60 tick                                        -> applied resend-refused PAYING | applied query-due PAYING QUERY
    +60 tick                                        ->
    """,
    "a refused attempt is not sent again": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    submit P1 REFUSED a=-                           -> applied attempt-refused PAYING
    +70 tick                                        ->
    """,
    "only an operation that the channel keeps a key for is sent again": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    +70 tick                                        -> applied resend-refused PAYING
    """,
    "an isolated channel is sent nothing again": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    +70 tick                                        -> applied resend-refused PAYING
    """,
    "a refund that left twice is booked by two people, once": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 SUCCESS e=S t=X1                    -> applied success PAYING>SUCCESS announced
    back R1 of=P1 a=300                             -> applied refund-asked REFUNDING REFUND
    returned R1 of=P1 SUCCESS t=RX a=300            -> applied success REFUNDING>SUCCESS REFUND_SUCCESS:300
    returned R1 of=P1 SUCCESS t=RY a=300            -> conflict second-transaction SUCCESS CHANNEL_ONLY:high:RY:opened
    decide book about=CHANNEL_ONLY                  -> applied decided-book - CHANNEL_ONLY:high:RY:resolved
    back R2 of=P1 a=401                             -> refused over-refund - OVER_REFUND:info:R2:opened
    callback P1 FAILED e=F t=X1                     -> illegal success-stays SUCCESS ILLEGAL_TRANSITION:high:F:opened
    decide close about=ILLEGAL_TRANSITION           -> applied decided-close - ILLEGAL_TRANSITION:high:F:resolved
    """,
    "a second transaction's money is decided about, not closed over": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 SUCCESS e=S t=X1                    -> applied success PAYING>SUCCESS announced
    callback P1 SUCCESS e=S2 t=X2                   -> conflict second-transaction SUCCESS DUPLICATE_PAYMENT:high:P1:opened
    decide close about=DUPLICATE_PAYMENT            -> refused money-waits -
    decide fulfil about=DUPLICATE_PAYMENT           -> \
        applied decided-fulfil - LATE_MONEY_FULFILLED:1000 DUPLICATE_PAYMENT:high:P1:resolved
    back R1 of=P1 a=2000                            -> applied refund-asked REFUNDING REFUND
    returned R1 of=P1 SUCCESS t=RX a=2000           -> applied success REFUNDING>SUCCESS REFUND_SUCCESS:2000
    """,
    "a discrepancy without money is closed with what explains it": """
    callback P9 SUCCESS e=E t=X                     -> parked waits-for-payment -
    +86400 tick                                     -> applied park-window-over - UNKNOWN_ORDER:high:E:opened
    decide fulfil about=UNKNOWN_ORDER               -> refused no-such-exit -
    decide close about=UNKNOWN_ORDER                -> applied decided-close - UNKNOWN_ORDER:high:E:resolved
    """,
    "money that came twice after the end is decided about twice, and goes out of suspense": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 FAILED e=F                          -> applied failure PAYING>FAIL
    callback P1 SUCCESS e=S t=X1                    -> illegal late-success FAIL LATE_SUCCESS:high:S:opened
    callback P1 SUCCESS e=S2 t=X2                   -> \
        illegal late-success FAIL DUPLICATE_PAYMENT:high:P1:opened LATE_SUCCESS:high:S2:opened
    decide refund about=LATE_SUCCESS refund_no=R1   -> applied decided-refund - REFUND LATE_SUCCESS:high:S:resolved
    decide close about=DUPLICATE_PAYMENT            -> refused money-waits -
    decide refund about=DUPLICATE_PAYMENT refund_no=R2 -> applied decided-refund - REFUND DUPLICATE_PAYMENT:high:P1:resolved
    returned R1 of=P1 FAILED a=-                    -> applied failure REFUNDING>FAIL
    back R3 of=P1                                   -> applied refund-asked REFUNDING REFUND
    returned R3 of=P1 SUCCESS t=RX3                 -> applied success REFUNDING>SUCCESS REFUND_SUCCESS:1000
    callback P1 SUCCESS e=S3 t=X1                   -> illegal late-success FAIL
    callback P1 FAILED e=F9                         -> stale ended-already FAIL LATE_SUCCESS:high:S:opened LATE_SUCCESS:high:S2:opened
    decide close about=LATE_SUCCESS                 -> refused no-such-discrepancy -
    """,
}


@pytest.mark.parametrize("title", CASES)
def test_the_table_holds(title: str) -> None:
    world = World(CONTRACTS.get(title, {}))
    for line in filter(str.strip, CASES[title].splitlines()):
        row, _, expected = line.replace("discrepancy/O1/LAST", last_item(world)).partition("->")
        assert " | ".join(world.row(row)) == " ".join(expected.split()), row
    assert world.told_all_that_it_implies()


def test_an_order_has_a_bounded_number_of_operations() -> None:
    world = World()
    for row in ("create P1", "start P1", "callback P1 FAILED e=F", "callback P1 SUCCESS e=S t=X1"):
        world.row(row)
    assert world.order is not None
    payment = world.order.payments[0]
    operation = Operation("x", "REFUND", "P1", None, "chA", 1, "USD", "FAIL", ("FAIL",), 0)
    world.order.operations = tuple(structs.replace(operation, number=f"x{number}") for number in range(MAX_OPERATIONS))
    assert world.row("decide refund about=LATE_SUCCESS refund_no=R1") == ["refused too-many-operations -"]
    assert world.order.payments[0] == payment


def test_money_that_the_channel_gives_back_is_counted_beyond_the_bound() -> None:
    world = World()
    for row in ("create P1 a=100000", "start P1", "callback P1 SUCCESS e=S t=X1 a=100000"):
        world.row(row)
    for number in range(MAX_CHANNEL_REFUNDS + 8):
        world.row(f"notice - of=P1 SUCCESS e=N{number} r=R{number} a=100")
    assert world.order is not None
    payment = world.order.payments[0]
    assert len(payment.money.channel_refunds) == MAX_CHANNEL_REFUNDS
    assert balance.refundable(world.order, payment) == 100_000 - 100 * (MAX_CHANNEL_REFUNDS + 8)
    assert world.row(f"decide book about=CHANNEL_ONLY discrepancy={last_item(world)} revision=1") == [
        "refused nothing-to-book -"
    ]


def last_item(world: World) -> str:
    if world.order is None or not world.order.conflicts:
        return "none"
    return discrepancy_id(world.order, world.order.conflicts[-1].id)


def test_failed_handling_is_tried_again_in_an_ascending_series_and_then_no_more() -> None:
    """R-084."""
    assert [retry_after(failures) for failures in range(1, 10)] == [1, 5, 30, 300, 1800, 1800, 1800, None, None]


def test_the_retry_moment_is_counted_from_the_failure():
    assert (retry_at(1_000, 1), retry_at(1_000, 4), retry_at(1_000, 8)) == (2_000, 301_000, None)


@pytest.mark.parametrize("failures", [0, -1])
def test_a_retry_without_a_failure_is_a_bug_and_no_long_wait(failures: int):
    with pytest.raises(ValueError, match="count the one that has just happened"):
        retry_at(0, failures)


def test_the_law_itself_never_retries_by_the_series():
    """R-052: what the law sends again passes the gate within a lease, or the query schedule; so no other file may call the series."""
    law = [path for path in Path(schedule.__file__).parent.glob("*.py") if path.name != "schedule.py"]
    assert len(law) > 20
    assert not [path.name for path in law if "retry_after" in path.read_text() or "retry_at" in path.read_text()]


def test_without_an_id_the_transaction_type_and_status_are_the_key_of_a_release() -> None:
    keys = {
        event_key(Release(order_id="O1", payment_no="P1", channel="chA", status=status, transaction=transaction))
        for status in ("SUCCESS", "PENDING")
        for transaction in ("X1", "X2", None)
    }
    assert len(keys) == 5
    assert None in keys


def test_how_a_release_travelled_is_no_part_of_what_it_says() -> None:
    plain = Release(order_id="O1", payment_no="P1", channel="chA", status="SUCCESS", event_id="E1")
    travelled = structs.replace(plain, raw=Raw(body="", sha256=""), received_at=datetime(2025, 3, 3, tzinfo=UTC))
    assert said(plain) == said(travelled)


def test_a_leg_is_not_started_past_the_total() -> None:
    """However the legs came to be there: the gate stands at the start, too."""
    world = World()
    for row in ("create L1 a=300 order_total=1000", "create L2 a=700 order_total=1000"):
        world.row(row)
    assert world.order is not None
    world.order.payments[0].amount = 400
    assert world.row("start L2") == ["refused over-total INIT"]


def test_what_was_refused_everywhere_awaits_the_trade_domain() -> None:
    world = World({"chA": Contract(failures=REFUSES)})
    for row in ("create P1", "start P1", "submit P1 REFUSED a=-"):
        world.row(row)
    assert world.order is not None
    assert [one.whom for one in why(world.order, world.at).open] == ["trade domain"]


def test_why_tells_open_operations_and_ended_ones_apart() -> None:
    world = World()
    for row in ("create P1", "start P1", "callback P1 SUCCESS e=S t=X1", "back R1 of=P1 a=1", "back R2 of=P1 a=1"):
        world.row(row)
    world.row("returned R1 of=P1 SUCCESS t=RX a=1")
    assert world.order is not None
    told = why(world.order, world.at)
    assert [one.about for one in told.open] == ["refund R2 is REFUNDING"]
    assert [(one.about, one.witness) for one in told.ended] == [("payment P1", "S"), ("refund R1", "RX")]


def test_a_decision_about_an_operation_whose_payment_is_not_there_is_refused() -> None:
    world = World()
    world.row("callback P9 PENDING e=E")
    assert world.order is not None
    world.order.operations = (Operation("R1", "REFUND", "P1", None, "chA", 1, "USD", "FAIL", ("FAIL",), 0),)
    world.row("returned R1 of=P1 SUCCESS t=RX a=1")
    assert world.row("decide refund about=LATE_SUCCESS refund_no=R2") == ["refused payment-not-found -"]


def test_late_money_fulfils_an_order_once() -> None:
    world = World()
    for row in (
        "create P1",
        "start P1",
        "callback P1 FAILED e=F",
        "callback P1 SUCCESS e=S t=X1",
        "callback P1 SUCCESS e=S2 t=X2",
    ):
        world.row(row)
    assert world.row("decide fulfil about=LATE_SUCCESS")[0].startswith("applied decided-fulfil")
    assert world.row("decide fulfil about=DUPLICATE_PAYMENT") == ["refused fulfilled-before -"]
    assert world.row("decide refund about=DUPLICATE_PAYMENT refund_no=R1")[0].startswith("applied decided-refund")
    assert world.row(f"decide refund about=LATE_SUCCESS discrepancy={last_item(world)} revision=1 refund_no=R2") == [
        "refused no-late-money -"
    ]


def postings(world: World) -> list[tuple[str, str, int, str]]:
    decisions = [message for message in world.said if isinstance(message, Decision)]
    return [(entry.dr, entry.cr, entry.amount, entry.ref) for one in decisions for entry in one.ledger]


def test_late_money_that_did_not_go_back_goes_out_of_suspense_the_next_time_and_other_money_does_not() -> None:
    world = World()
    for row in ("create P1", "start P1", "callback P1 SUCCESS e=S t=X1", "callback P1 SUCCESS e=S2 t=X2"):
        world.row(row)
    for row in (
        "decide refund about=DUPLICATE_PAYMENT refund_no=R1",
        "back R2 of=P1 a=400",
        "returned R2 of=P1 SUCCESS t=RX2 a=400",
        "returned R1 of=P1 FAILED t=RX1 a=-",
        "back R3 of=P1 a=1000",
        "returned R3 of=P1 SUCCESS t=RX3",
        "back R4 of=P1 a=600",
        "returned R4 of=P1 SUCCESS t=RX4 a=600",
        "back R5 of=P1 a=1",
    ):
        world.row(row)
    assert postings(world) == [
        ("chan_recv:chA", "order_clearing", 1000, "P1"),
        ("chan_recv:chA", "suspense", 1000, "P1-late"),
        ("order_clearing", "chan_recv:chA", 400, "R2"),
        ("suspense", "chan_recv:chA", 1000, "R3"),
        ("order_clearing", "chan_recv:chA", 600, "R4"),
    ]
