"""The edges of refunds, captures, disputes and returns as tables: what counts once, what holds, whose reference it is."""

from __future__ import annotations

import pytest

from streams.domain.contract import Contract
from streams.domain.refunds import MAX_CHANNEL_REFUNDS
from tests.support.worlds import World

PAID = """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 SUCCESS e=S t=X1                    -> applied success PAYING>SUCCESS announced
"""
CONTRACTS: dict[str, dict[str, Contract]] = {
    "an answer to a query may say that money came back, one to our wish to close cannot": {
        "chA": Contract(payment_return_status="CLOSED")
    },
    "the smallest payment that came back is told of": {"chA": Contract(payment_return_status="BACK")},
    "a payment that came back whole cannot be disputed": {"chA": Contract(payment_return_status="BACK")},
    "the card is watched from the moment the payee is done, not before": {"chA": Contract(card_posting_window_s=3600)},
    "a card that should show a refund at once is looked at at once": {"chA": Contract(card_posting_window_s=0)},
    "a word of failure that means a return after a success has its own meaning before it (R-021)": {
        "chA": Contract(refund_return_status="FAILED", payment_return_status="CLOSED")
    },
}
CASES: dict[str, str] = {
    "an answer to a query may say that money came back, one to our wish to close cannot": f"""{PAID}
    close P1 CLOSED a=-                             -> illegal success-stays SUCCESS ILLEGAL_TRANSITION:high:P1:opened
    query P1 CLOSED a=-                             -> applied payment-returned SUCCESS PAYMENT_REVERSED:1000
    """,
    "a word of failure that means a return after a success has its own meaning before it (R-021)": f"""
    create P0                                       -> applied created INIT
    start P0                                        -> applied start INIT>PAYING SUBMIT
    callback P0 CLOSED e=C t=X0                     -> applied closed PAYING>CLOSED
    {PAID.strip()}
    back R1 of=P1 a=100                             -> applied refund-asked REFUNDING REFUND
    returned R1 of=P1 FAILED a=-                    -> applied failure REFUNDING>FAIL
    back R2 of=P1 a=100                             -> applied refund-asked REFUNDING REFUND
    returned R2 of=P1 SUCCESS t=RX a=100            -> applied success REFUNDING>SUCCESS REFUND_SUCCESS:100
    returned R2 of=P1 FAILED a=-                    -> applied refund-returned SUCCESS>RETURNED REFUND_RETURNED:100
    returned R2 of=P1 FAILED a=-                    -> stale returned-already RETURNED
    callback P1 CLOSED e=D t=X1                     -> applied payment-returned SUCCESS PAYMENT_REVERSED:1000
    """,
    "a paid leg waits for legs that nobody has created yet": """
    create L1 a=300 order_total=1000                -> applied created INIT
    start L1                                        -> applied start INIT>PAYING SUBMIT
    callback L1 SUCCESS e=1 t=1 a=300               -> applied success PAYING>SUCCESS
    """,
    "the chain and the wallet have layers with an order of their own (R-210)": f"""{PAID}
    back R1 of=P1 a=100                             -> applied refund-asked REFUNDING REFUND
    layer R1 of=P1 processor APPROVED e=1           -> applied layer REFUNDING
    layer R1 of=P1 processor RECEIVED e=2           -> stale late-word REFUNDING
    layer R1 of=P1 processor SETTLED e=3            -> applied layer REFUNDING
    layer R1 of=P1 processor REVERSED e=4           -> applied layer REFUNDING
    layer R1 of=P1 processor POSTED e=5             -> conflict not-mapped REFUNDING STATUS_UNMAPPED:high:5:opened
    layer R1 of=P1 wallet CREDITED e=6              -> applied layer REFUNDING
    layer R1 of=P1 wallet PENDING e=7               -> stale late-word REFUNDING
    layer R1 of=P1 wallet APPROVED e=8              -> conflict not-mapped REFUNDING STATUS_UNMAPPED:high:8:opened
    """,
    "the reference of a refund's success is the one that stands": f"""{PAID}
    back R1 of=P1 a=100                             -> applied refund-asked REFUNDING REFUND
    returned R1 of=P1 PENDING t=RA a=-              -> applied pending REFUNDING
    returned R1 of=P1 SUCCESS t=RB a=100            -> applied success REFUNDING>SUCCESS REFUND_SUCCESS:100
    returned R1 of=P1 SUCCESS t=RB a=100            -> applied already-success SUCCESS
    """,
    "a refund that was told of without its number is not counted twice": f"""{PAID}
    back R1 of=P1 a=100                             -> applied refund-asked REFUNDING REFUND
    notice - of=P1 SUCCESS e=N r=RX a=100           -> conflict channel-refund SUCCESS CHANNEL_ONLY:high:RX:opened
    notice - of=P1 SUCCESS e=O r=RO a=50            -> conflict channel-refund SUCCESS CHANNEL_ONLY:high:RO:opened
    returned R1 of=P1 SUCCESS t=RX a=100            -> applied success REFUNDING>SUCCESS REFUND_SUCCESS:100
    back R2 of=P1 a=851                             -> refused over-refund - OVER_REFUND:info:R2:opened
    back R3 of=P1 a=850                             -> applied refund-asked REFUNDING REFUND
    """,
    "a total of what was never captured is the release of a hold": f"""{PAID}
    callback P1 REFUND_TOTAL e=1 captured_flag=no cumulative_refunded=300 -> stale no-hold SUCCESS
    callback P1 REFUND_TOTAL e=2 captured_flag=yes cumulative_refunded=300 -> \
        conflict channel-refund SUCCESS CHANNEL_ONLY:high:2:opened
    """,
    "the card is watched from the moment the payee is done, not before": f"""{PAID}
    back R1 of=P1 a=100                             -> applied refund-asked REFUNDING REFUND
    layer R1 of=P1 merchant PROCESSING e=1          -> applied layer REFUNDING
    returned R1 of=P1 SUCCESS t=RX a=100            -> applied success REFUNDING>SUCCESS REFUND_SUCCESS:100
    +3599 layer R1 of=P1 processor RECEIVED e=2     -> applied layer SUCCESS
    +1 tick                                         ->
    layer R1 of=P1 merchant COMPLETED e=3           -> applied layer SUCCESS STATUS_MISMATCH:high:R1:opened
    """,
    "a card that should show a refund at once is looked at at once": f"""{PAID}
    back R1 of=P1 a=100                             -> applied refund-asked REFUNDING REFUND
    layer R1 of=P1 merchant COMPLETED e=3           -> applied layer REFUNDING STATUS_MISMATCH:high:R1:opened
    """,
    "a refund's success without its amount only makes us ask (R-002)": f"""{PAID}
    back R1 of=P1 a=100                             -> applied refund-asked REFUNDING REFUND
    returned R1 of=P1 SUCCESS t=RX a=- currency=USD -> applied incomplete-success REFUNDING>UNKNOWN QUERY
    """,
    "a refund total of a hold is its release": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 AUTHORIZED e=A t=X1                 -> applied authorised PAYING>AUTHORIZED
    callback P1 REFUND_TOTAL e=1 cumulative_refunded=1000 -> applied released AUTHORIZED>VOIDED AUTH_RELEASED:1000
    """,
    "only a close beside what went back is explained by it": f"""{PAID}
    callback P1 CLOSED e=1 cumulative_refunded=0    -> illegal success-stays SUCCESS ILLEGAL_TRANSITION:high:1:opened
    back R1 of=P1                                   -> applied refund-asked REFUNDING REFUND
    returned R1 of=P1 SUCCESS t=RX                  -> applied success REFUNDING>SUCCESS REFUND_SUCCESS:1000
    callback P1 FAILED e=2 cumulative_refunded=1000 -> illegal success-stays SUCCESS ILLEGAL_TRANSITION:high:2:opened
    callback P1 CLOSED e=3 cumulative_refunded=1000 -> stale closed-by-refund SUCCESS
    """,
    "the smallest amount that a channel gives back counts, and nothing does not": f"""{PAID}
    notice - of=P1 SUCCESS e=1 r=R0 a=0             -> conflict amount-invalid SUCCESS INVALID_AMOUNT:high:1:opened
    notice - of=P1 SUCCESS e=2 r=R1 a=1             -> conflict channel-refund SUCCESS CHANNEL_ONLY:high:R1:opened
    callback P1 REFUND_TOTAL e=3 cumulative_refunded=1 -> stale total-known SUCCESS
    callback P1 REFUND_TOTAL e=4 cumulative_refunded=2 -> conflict channel-refund SUCCESS CHANNEL_ONLY:high:4:opened
    back R2 of=P1 a=999                             -> refused over-refund - OVER_REFUND:info:R2:opened
    back R3 of=P1 a=998                             -> applied refund-asked REFUNDING REFUND
    """,
    "the smallest dispute counts, and nothing is none": f"""{PAID}
    dispute P1 OPEN e=1 a=0                         -> conflict amount-differs SUCCESS AMOUNT_MISMATCH:high:1:opened
    dispute P1 OPEN e=2 a=1001                      -> conflict amount-differs SUCCESS AMOUNT_MISMATCH:high:2:opened
    dispute P1 OPEN e=3 a=1                         -> applied dispute-open SUCCESS
    """,
    "a dispute leaves what the channel gave back, and what came back, alone": f"""{PAID}
    notice - of=P1 SUCCESS e=N r=RX a=300           -> conflict channel-refund SUCCESS CHANNEL_ONLY:high:RX:opened
    dispute P1 OPEN e=1 a=701                       -> conflict money-was-refunded SUCCESS REFUND_AND_DISPUTE:high:1:opened
    dispute P1 OPEN e=2 a=700                       -> applied dispute-open SUCCESS
    """,
    "the smallest payment that came back is told of": """
    create P1 a=1                                   -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    callback P1 SUCCESS e=S t=X1 a=1                -> applied success PAYING>SUCCESS announced
    callback P1 BACK e=B t=X1 a=1                   -> applied payment-returned SUCCESS PAYMENT_REVERSED:1
    """,
    "a payment that came back whole cannot be disputed": f"""{PAID}
    callback P1 BACK e=B t=X1                       -> applied payment-returned SUCCESS PAYMENT_REVERSED:1000
    dispute P1 OPEN e=1 a=1                         -> conflict money-was-refunded SUCCESS REFUND_AND_DISPUTE:high:1:opened
    """,
}


@pytest.mark.parametrize("title", CASES)
def test_the_table_holds(title: str) -> None:
    world = World(CONTRACTS.get(title, {}))
    for line in filter(str.strip, CASES[title].splitlines()):
        row, _, expected = line.partition("->")
        assert " | ".join(world.row(row)) == " ".join(expected.split()), row
    assert world.told_all_that_it_implies()


@pytest.mark.parametrize("field", ["channel=chB", "merchant=M2"])
def test_equal_references_at_two_accounts_stand_for_two_refunds(field: str) -> None:
    """Each channel counts its refunds by itself."""
    world = World()
    for number, more in ((1, ""), (2, field)):
        merchant = more if "merchant" in more else ""
        for row in (
            f"create P{number} biz_code=b{number} {more}",
            f"start P{number} {more}",
            f"callback P{number} SUCCESS e=S{number} t=X{number} {more}",
            f"back R{number} of=P{number} a=100 {merchant}",
        ):
            world.row(row)
        [outcome] = world.row(f"returned R{number} of=P{number} SUCCESS t=7 a=100 {more}")
        assert outcome == "applied success REFUNDING>SUCCESS REFUND_SUCCESS:100"
    assert not world.items()


@pytest.mark.parametrize(("first", "second"), [("R1", "R2"), ("R2", "R1")])
def test_two_refunds_at_one_account_have_two_references(first: str, second: str) -> None:
    world = World()
    for row in ("create P1", "start P1", "callback P1 SUCCESS e=S t=X1", "back R1 of=P1 a=100", "back R2 of=P1 a=100"):
        world.row(row)
    world.row(f"returned {first} of=P1 SUCCESS t=7 a=100")
    assert world.row(f"returned {second} of=P1 SUCCESS t=7 a=100") == [
        "conflict reference-linked REFUNDING>UNKNOWN REFERENCE_ALREADY_LINKED:high:7:opened"
    ]


def test_beyond_the_bound_the_last_refund_of_a_channel_grows() -> None:
    world = World()
    for row in ("create P1", "start P1", "callback P1 SUCCESS e=S t=X1"):
        world.row(row)
    for number in range(MAX_CHANNEL_REFUNDS + 2):
        world.row(f"notice - of=P1 SUCCESS e=N{number} r=R{number} a={number + 1}")
    assert world.order is not None
    kept = world.order.payments[0].money.channel_refunds
    assert [one.ref for one in kept] == [f"R{number}" for number in range(MAX_CHANNEL_REFUNDS)]
    last = MAX_CHANNEL_REFUNDS
    assert [one.amount for one in kept] == [*range(1, last), last + last + 1 + last + 2]


@pytest.mark.parametrize(
    ("words", "entries"),
    [
        (["OPEN", "LOST"], [("dispute_loss", "chan_recv:chA", 600)]),
        (["LOST"], [("dispute_loss", "chan_recv:chA", 600)]),
        (["OPEN", "WON"], [("dispute_loss", "chan_recv:chA", 600), ("chan_recv:chA", "dispute_loss", 600)]),
        (["WON"], []),
    ],
)
def test_a_dispute_takes_the_money_once_and_only_a_win_brings_it_back(
    words: list[str], entries: list[tuple[str, str, int]]
) -> None:
    world = World()
    for row in ("create P1", "start P1", "callback P1 SUCCESS e=S t=X1"):
        world.row(row)
    for word in words:
        world.row(f"dispute P1 {word} e={word} a=600")
    posted = [one for message in world.said for one in getattr(message, "ledger", ())]
    assert [(one.dr, one.cr, one.amount) for one in posted][1:] == entries


@pytest.mark.parametrize("shown", ["", "PENDING"])
def test_the_cards_own_entry_posts_what_it_showed_as_pending_or_not_at_all(shown: str) -> None:
    """R-211: by its reference, and only until the card says more."""
    world = World()
    for row in (
        "create P1", "start P1", "callback P1 SUCCESS e=S t=X1", "back R1 of=P1 a=100", "returned R1 of=P1 SUCCESS t=RX a=100",
        *([f"layer R1 of=P1 card {shown} e=1"] if shown else []), "refunded P1 e=C t=RX a=100",
    ):  # fmt: skip
        world.row(row)
    assert world.order is not None
    [refund] = world.order.operations
    assert refund.layers is not None
    assert refund.layers.card == "POSTED"


@pytest.mark.parametrize(("second", "merchant"), [("P2", ""), ("P1", "merchant=m2")])
def test_what_goes_back_of_one_payment_is_not_taken_from_another(second: str, merchant: str) -> None:
    """R-015: nor from one of another merchant under the same number."""
    world = World()
    for number, more in (("P1", ""), (second, merchant)):
        name = f"{number}{more[-2:]}"
        for row in (
            f"create {number} command_id=c-{name} biz_code={name} {more}", f"start {number} command_id=s-{name} {more}",
            f"callback {number} SUCCESS e={name} t=X-{name} {more}",
        ):  # fmt: skip
            world.row(row)
    for number, of, more in (("R1", "P1", ""), ("R2", second, merchant)):
        assert world.row(f"back {number} of={of} {more}") == ["applied refund-asked REFUNDING REFUND"]
        assert world.row(f"back more-{number} of={of} a=1 {more}")[0].startswith("refused over-refund")
