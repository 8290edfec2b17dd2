"""Chance, for the properties: lives of orders, mostly with an honest channel, so that payments get somewhere."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st
from msgspec.structs import replace

from streams.domain.contract import Contract, Failures, Idempotency, Query
from streams.domain.events import (
    Answer,
    Callback,
    CapturePayment,
    CardPosting,
    ClosePayment,
    Command,
    CreatePayment,
    Dispute,
    Event,
    RefundLayer,
    RefundNotice,
    RefundPayment,
    Release,
    RetryPayment,
    StartPayment,
    VoidPayment,
)
from tests.support.worlds import START, World, event

if TYPE_CHECKING:
    from collections.abc import Mapping

WORDS: Final = ("SUCCESS", "SUCCESS", "SUCCESS", "FAILED", "DECLINED_RETRYABLE", "PENDING", "ACCEPTED", "PROCESSING", "TIMEOUT",
                "NOT_FOUND", "CLOSED", "CONTRADICTORY", "ALREADY_PAID", "SETTLING")  # fmt: skip
MORE: Final = (*WORDS, "AUTHORIZED", "AUTHORIZED", "FINISHED", "REFUND_TOTAL", "RETURNED", "REFUSED")
AMOUNTS: Final = (1000, 1000, 600, 400, 300, 0)
"""Words and amounts of lives with holds, refunds and returns."""
TRUSTED: Final = {
    "chA": Contract(
        idempotency=Idempotency(key="k", scope="account", life_s=600, operations=("submit",)), most_submits=3,
        submit_retry_window_s=300, query=Query(key="either", not_found_after_s=60), failures=Failures(not_accepted=("REFUSED",)),
        payment_return_status="RETURNED", refund_return_status="RETURNED", card_posting_window_s=3600,
    ),
    "chB": Contract(isolation="manual"),
}  # fmt: skip
"""A channel that promises everything, and one that promises nothing."""


def mostly(usual: object, *others: object) -> st.SearchStrategy[Any]:
    """The usual in most draws, else one of the others."""
    return st.sampled_from((usual,) * (3 * len(others)) + others)


@st.composite
def callbacks(
    draw: st.DrawFn, *, payment_nos: tuple[str, ...] = ("P1",), ids: int = 5, words: tuple[str, ...] = WORDS
) -> Callback:
    honest = Callback(
        order_id="O1",
        payment_no=draw(st.sampled_from(payment_nos)),
        channel="chA",
        status=draw(st.sampled_from(words)),
        event_id=f"E{draw(st.integers(0, ids))}",
        transaction=draw(mostly("X1", "X2", "X3")),
        amount=1000,
        currency="USD",
        sequence=draw(st.sampled_from((None, 1, 2))),
    )
    if draw(mostly("honest", "odd")) == "honest":
        return honest
    return replace(
        honest,
        channel=draw(mostly("chA", "chB")),
        event_id=draw(mostly(honest.event_id, None)),
        transaction=draw(mostly("X1", None)),
        amount=draw(mostly(1000, 999, None)),
        currency=draw(mostly("USD", "EUR")),
        livemode=draw(st.sampled_from((None, True, False))),
        amount_text=draw(mostly(None, "7.005")),
        version=draw(st.sampled_from((None, 1, 2))),
        event_time=draw(mostly(None, "2025-03-03T10:00:01Z", "2030-01-01T00:00:00Z", "yesterday")),
        cumulative_refunded=draw(mostly(None, 300, 1000)),
        captured_flag=False if draw(st.integers(0, 3)) == 0 else None,
        auth_expires_at=draw(mostly(None, datetime(2025, 3, 3, 11, tzinfo=UTC))),
    )


@st.composite
def answers(draw: st.DrawFn, *, payment_nos: tuple[str, ...] = ("P1",), words: tuple[str, ...] = WORDS) -> Answer:
    whole = draw(mostly("whole", "bare")) == "whole"
    return Answer(
        request=draw(mostly("query", "submit", "close", "refund")),
        order_id="O1",
        payment_no=draw(st.sampled_from(payment_nos)),
        channel="chA",
        status=draw(st.sampled_from(words)),
        transaction=draw(mostly("X1", "X2", None)),
        amount=draw(mostly(1000, 999)) if whole else None,
        currency="USD" if whole else None,
    )


@st.composite
def postings(draw: st.DrawFn, *, payment_nos: tuple[str, ...] = ("P1",)) -> CardPosting:
    return CardPosting(
        channel="issuer",
        order_id="O1",
        event_id=f"C{draw(st.integers(0, 3))}",
        amount=draw(mostly(1000, 999, -1)),
        currency=draw(st.sampled_from(("USD", "EUR"))),
        status=draw(st.sampled_from(("PURCHASE", "REFUND"))),
        payment_no=draw(st.sampled_from((*payment_nos, None))),
    )


@st.composite
def commands(draw: st.DrawFn, *, payment_nos: tuple[str, ...] = ("P1",)) -> CreatePayment | StartPayment:
    number = draw(st.sampled_from(payment_nos))
    command_id = f"{draw(st.sampled_from(('a', 'b', 'c')))}-{number}"
    if draw(st.booleans()):
        return StartPayment(command_id=f"s{command_id}", order_id="O1", payment_no=number)
    return CreatePayment(
        command_id=f"c{command_id}",
        order_id="O1",
        payment_no=number,
        biz_code="trade",
        channel="chA",
        amount=draw(mostly(1000, 0)),
        currency="USD",
        qr=draw(st.booleans()),
    )


@st.composite
def asks(draw: st.DrawFn, *, payment_nos: tuple[str, ...] = ("P1",)) -> Command:
    """What our side asks for beside a payment, or for another attempt of it."""
    number = draw(st.sampled_from(payment_nos))
    kind = draw(st.sampled_from(("capture", "void", "refund", "refund", "retry", "close")))
    fields = {"order_id": "O1", "payment_no": number, "command_id": f"{kind}-{draw(st.integers(0, 9))}"}
    money = {"amount": draw(st.sampled_from(AMOUNTS)), "currency": draw(mostly("USD", "EUR"))}
    if kind == "capture":
        return CapturePayment(**fields, **money, capture_no=draw(st.sampled_from(("C1", "C2"))))
    if kind == "refund":
        return RefundPayment(**fields, **money, refund_no=draw(st.sampled_from(("R1", "R2", "R3"))))
    if kind == "void":
        return VoidPayment(**fields, void_no=draw(st.sampled_from(("V1", "V2"))))
    return (RetryPayment if kind == "retry" else ClosePayment)(**fields)


@st.composite
def results(draw: st.DrawFn) -> Answer:
    """An answer about a capture, a void or a refund."""
    number = draw(st.sampled_from(("C1", "C2", "V1", "R1", "R1", "R2", "R3")))
    whole = draw(mostly("whole", "bare")) == "whole"
    return Answer(
        request=draw(mostly({"C": "capture", "V": "void", "R": "refund"}[number[0]], "query")),
        order_id="O1", payment_no="P1", operation_no=number, channel="chA",
        status=draw(st.sampled_from((*MORE, "ALREADY_CAPTURED"))),
        transaction=draw(mostly(f"X{number}", "XR1", None)),
        amount=draw(st.sampled_from(AMOUNTS)) if whole else None,
        currency="USD" if whole else None,
    )  # fmt: skip


@st.composite
def notices(draw: st.DrawFn) -> RefundNotice | RefundLayer | Release | Dispute:
    """What a channel says about money after its success, or about a hold."""
    common = {
        "order_id": "O1",
        "payment_no": "P1",
        "channel": "chA",
        "event_id": draw(mostly(f"N{draw(st.integers(0, 9))}", None)),
    }
    money = {"amount": draw(st.sampled_from(AMOUNTS)), "currency": draw(mostly("USD", "EUR"))}
    kind = draw(st.sampled_from(("refund", "refund", "layer", "release", "dispute")))
    if kind == "layer":
        layer, status = draw(
            st.sampled_from((("merchant", "COMPLETED"), ("card", "POSTED"), ("card", "PENDING"), ("processor", "ODD")))
        )
        return RefundLayer(**common, refund_no=draw(st.sampled_from(("R1", "R2"))), layer=layer, status=status)
    if kind == "release":
        return Release(**common, **money, status=draw(mostly("SUCCESS", "PENDING", "ODD")))
    if kind == "dispute":
        return Dispute(**common, **money, status=draw(st.sampled_from(("OPEN", "OPEN", "WON", "LOST", "ODD"))))
    return RefundNotice(
        **common, **money, refund_no=draw(st.sampled_from((None, "R1", "R2", "R3"))),
        refund_transaction=draw(mostly("XR1", "XR2", None)), status=draw(st.sampled_from(MORE)),
        reason=draw(mostly(None, "uncaptured_remainder")),
    )  # fmt: skip


def life(*, payment_nos: tuple[str, ...] = ("P1", "P2"), size: int = 20) -> st.SearchStrategy[list[tuple[int, Event]]]:
    """A life of an order: (seconds to wind, event) in order; most begin with a payment, created and started."""
    events = st.one_of(
        commands(payment_nos=payment_nos),
        callbacks(payment_nos=payment_nos),
        callbacks(payment_nos=payment_nos),
        answers(payment_nos=payment_nos),
        postings(payment_nos=payment_nos),
    )
    return _lives(events, mostly(BEGUN, BEGUN[:1], []), size)


def rich_life(*, size: int = 25) -> st.SearchStrategy[list[tuple[int, Event]]]:
    """A life with everything in it: holds, captures, refunds, disputes, returns, attempts."""
    events = st.one_of(
        commands(payment_nos=("P1", "P2")),
        callbacks(payment_nos=("P1", "P1", "P2", "C1", "R1"), words=MORE),
        answers(words=MORE),
        asks(payment_nos=("P1", "P1", "P2")),
        asks(),
        results(),
        results(),
        notices(),
        notices(),
        postings(),
    )
    paid = [*BEGUN, (0, event(["callback", "P1", "SUCCESS", "e=S", "t=X1"], START))]
    held = [*BEGUN, (0, event(["callback", "P1", "AUTHORIZED", "e=S", "t=X1"], START))]
    return _lives(events, st.sampled_from((BEGUN, paid, paid, held, held)), size)


BEGUN: Final = [(0, event(["create", "P1"], START)), (0, event(["start", "P1"], START))]


def _lives(
    events: st.SearchStrategy[Event], begin: st.SearchStrategy[list[tuple[int, Event]]], size: int
) -> st.SearchStrategy[list[tuple[int, Event]]]:
    pauses = st.sampled_from((0, 0, 0, 1, 30, 130, 1000, 2000, 90_000))
    return st.builds(lambda begun, then: begun + then, begin, st.lists(st.tuples(pauses, events), max_size=size))


def play(events: list[tuple[int, Event]], contracts: Mapping[str, Contract] | None = None) -> World:
    world = World(contracts or {})
    for seconds, one in events:
        world.wind(seconds)
        world.tell(one)
    return world
