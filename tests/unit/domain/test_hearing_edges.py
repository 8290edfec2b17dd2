"""The edges of who is heard when: what waits for a payment's own word, and what is a repetition."""

from __future__ import annotations

import pytest

from streams.domain.converge import converge, decider
from streams.domain.decisions import Decision, Discrepancy
from streams.domain.order import MAX_SEEN, due
from tests.support.worlds import START, World, event

STARTED = """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
"""
HELD = f"""{STARTED}
    callback P1 AUTHORIZED e=A t=X1                 -> applied authorised PAYING>AUTHORIZED
"""
CASES: dict[str, str] = {
    "a hold cannot be disputed before it is taken": f"""{HELD}
    dispute P1 OPEN e=D a=100                       -> parked waits-for-state AUTHORIZED
    callback P1 SUCCESS e=S t=X1                    -> \
        applied success AUTHORIZED>SUCCESS announced | applied dispute-open SUCCESS
    """,
    "a notice that could be a repetition is not kept waiting": f"""{STARTED}
    callback P1 FINISHED                            -> conflict no-key PAYING MISSING_DEDUP_KEY:high:P1:opened QUERY
    """,
    "an answer ahead of the success waits for it": f"""{STARTED}
    query P1 FINISHED a=-                           -> parked waits-for-state PAYING
    callback P1 SUCCESS e=S t=X1                    -> applied success PAYING>SUCCESS announced | applied finished SUCCESS
    """,
    "the same answer again is an answer to another question, never a repetition": f"""{HELD}
    capture C1 of=P1 a=100                          -> applied capture-asked PAYING CAPTURE
    captured C1 of=P1 PROCESSING a=-                -> applied unknown PAYING>UNKNOWN
    captured C1 of=P1 PROCESSING a=-                -> applied unknown UNKNOWN
    captured C1 of=P1 SUCCESS a=100                 -> applied success UNKNOWN>SUCCESS announced
    captured C1 of=P1 SUCCESS a=100                 -> applied already-success SUCCESS
    back R1 of=P1 a=100                             -> applied refund-asked REFUNDING REFUND
    returned R1 of=P1 PROCESSING a=-                -> applied unknown REFUNDING>UNKNOWN
    returned R1 of=P1 PROCESSING a=-                -> applied unknown UNKNOWN
    submit P1 PROCESSING a=-                        -> stale late-word SUCCESS
    submit P1 PROCESSING a=-                        -> stale late-word SUCCESS
    query P1 PROCESSING a=-                         -> stale late-word SUCCESS
    query P1 PROCESSING a=-                         -> stale late-word SUCCESS
    close P1 PROCESSING a=-                         -> stale late-word SUCCESS
    close P1 PROCESSING a=-                         -> stale late-word SUCCESS
    """,
    "nor is the same answer about a void": f"""{HELD}
    void V1 of=P1                                   -> applied void-asked PAYING VOID
    voided V1 of=P1 PROCESSING a=-                  -> applied unknown PAYING>UNKNOWN
    voided V1 of=P1 PROCESSING a=-                  -> applied unknown UNKNOWN
    """,
    "what waited is heard in the order of its arrival, from the first that can be": """
    create P1                                       -> applied created INIT
    dispute P1 OPEN e=D a=100                       -> parked waits-for-state INIT
    callback P1 SUCCESS e=S t=X1                    -> parked waits-for-state INIT
    notice - of=P1 SUCCESS e=N r=RX a=50            -> parked waits-for-state INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT | applied success PAYING>SUCCESS announced \
        | applied dispute-open SUCCESS | conflict channel-refund SUCCESS CHANNEL_ONLY:high:RX:opened
    """,
    "nobody looks for an operation that has appeared, though it cannot hear yet": """
    dispute P1 OPEN e=D a=100                       -> parked waits-for-payment -
    create P1 expires_at=never                      -> applied created INIT
    +90000 tick                                     ->
    """,
}


@pytest.mark.parametrize("title", CASES)
def test_the_table_holds(title: str) -> None:
    world = World()
    for line in filter(str.strip, CASES[title].splitlines()):
        row, _, expected = line.partition("->")
        assert " | ".join(world.row(row)) == " ".join(expected.split()), row
    assert world.told_all_that_it_implies()
    numbers = [one.seq for one in world.said if isinstance(one, Decision)]
    assert numbers == list(range(1, len(numbers) + 1))


def test_the_engines_function_is_the_law_and_its_due_event_lets_time_pass() -> None:
    world, due_event = World(), object()
    decide = decider({}, due_event)
    order, messages = decide(None, event(["create", "P1"], START), START)
    assert (order, list(messages)) == converge(None, event(["create", "P1"], START), START, {})
    world.row("create P1")
    assert order == world.order
    assert order is not None
    at = due(order)
    assert at is not None
    expired, said = decide(order, due_event, at)
    assert expired is not None
    assert (expired.payments[0].state, len(said)) == ("CLOSED", 2)


def test_repetitions_are_counted_and_contradictions_are_not() -> None:
    world = World()
    for row in ("create P1", "start P1", "callback P1 PENDING e=1 t=X1"):
        world.row(row)
    assert world.order is not None
    assert world.order.duplicates == 0
    assert world.row("start P1") == ["duplicate same-command PAYING"]
    assert world.order.duplicates == 1
    assert world.row("start P1 channel=chB") == ["refused command-reused PAYING"]
    assert world.order.duplicates == 1
    assert world.row("callback P1 PENDING e=1 t=X1") == ["duplicate same-key-same-payload PAYING"]
    assert world.order.duplicates == 2


def test_what_a_person_looked_for_is_settled_though_its_name_was_forgotten() -> None:
    """R-081."""
    world = World()
    for row in ("create P0", "start P0", "callback P0 SUCCESS e=S t=X0", "callback P1 SUCCESS e=E t=X1"):
        world.row(row)
    for number in range(MAX_SEEN):
        world.row(f"callback P0 SUCCESS e=S{number} t=X0")
    world.row("+86400 tick")
    [(kind, _, ref)] = world.items()
    assert (kind, ref != "E") == ("UNKNOWN_ORDER", True)
    world.row("create P1 biz_code=other")
    world.row("start P1")
    assert (world.items(), world.state(1)) == (set(), "SUCCESS")


def test_a_contradiction_under_one_key_names_its_payment() -> None:
    world = World()
    for row in ("create P1", "start P1", "callback P1 PENDING e=1 t=X1", "callback P1 SUCCESS e=1 t=X1"):
        world.row(row)
    assert [(one.kind, one.payment_no) for one in world.said if isinstance(one, Discrepancy)] == [
        ("PAYLOAD_CONFLICT", "P1")
    ]
