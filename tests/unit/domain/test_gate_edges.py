"""The edges of the resubmit gate as tables: to the second, and attempt by attempt (see tests/support/worlds.py)."""

from __future__ import annotations

import pytest

from streams.domain.contract import Contract, Failures, Idempotency
from streams.domain.decisions import Discrepancy
from tests.support.worlds import World

REFUSES = Failures(not_accepted=("REFUSED",))


def keyed(life_s: int | None, *, window_s: int = 3600) -> Contract:
    """A channel that may be sent the same submit again, every 60 s, while it knows the key."""
    key = Idempotency(key="k", scope="account", life_s=life_s)
    return Contract(idempotency=key, most_submits=5, submit_retry_window_s=window_s, lease_s=60, failures=REFUSES)


CONTRACTS: dict[str, dict[str, Contract]] = {
    "a submit is sent again until the last second of its window, and no later": {"chA": keyed(None, window_s=120)},
    "a key that is forgotten when the lease ends has not outlived it (R-051)": {"chA": keyed(120)},
    "a key that outlives the lease by a second is enough": {"chA": keyed(121)},
    "each attempt has its own sendings, window and refusal": {
        "chA": Contract(failures=REFUSES),
        "chB": keyed(None, window_s=60),
    },
    "a payment that has ended is not tried again": {"chA": Contract(failures=REFUSES)},
}
CASES: dict[str, str] = {
    "a submit is sent again until the last second of its window, and no later": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    +60 tick                                        -> applied resent PAYING SUBMIT
    +60 tick                                        -> applied resent PAYING SUBMIT | applied query-due PAYING QUERY
    +60 tick                                        -> applied resend-refused PAYING
    """,
    "a key that is forgotten when the lease ends has not outlived it (R-051)": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    +60 tick                                        -> applied resend-refused PAYING
    """,
    "a key that outlives the lease by a second is enough": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    +60 tick                                        -> applied resent PAYING SUBMIT
    +60 tick                                        -> applied resend-refused PAYING | applied query-due PAYING QUERY
    """,
    "each attempt has its own sendings, window and refusal": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    +30 submit P1 REFUSED a=-                       -> applied attempt-refused PAYING
    retry P1 channel=chB                            -> applied retry PAYING SUBMIT
    +60 tick                                        -> applied resent PAYING SUBMIT
    """,
    "not found is no witness where the channel never said that it is (R-050)": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    +100 query P1 NOT_FOUND a=-                     -> applied unknown PAYING>UNKNOWN
    retry P1                                        -> refused attempt-in-flight UNKNOWN
    """,
    "a payment that has ended is not tried again": """
    create P1                                       -> applied created INIT
    start P1                                        -> applied start INIT>PAYING SUBMIT
    submit P1 REFUSED a=-                           -> applied attempt-refused PAYING
    give-up P1                                      -> applied withdrawn PAYING>CLOSED
    retry P1                                        -> refused not-init CLOSED
    """,
}


@pytest.mark.parametrize("title", CASES)
def test_the_table_holds(title: str) -> None:
    world = World(CONTRACTS.get(title, {}))
    for line in filter(str.strip, CASES[title].splitlines()):
        row, _, expected = line.partition("->")
        assert " | ".join(world.row(row)) == " ".join(expected.split()), row
    assert world.told_all_that_it_implies()


def test_the_witness_of_a_withdrawal_is_the_refusal_of_the_last_attempt_or_the_command_itself() -> None:
    """R-001: no end without a witness; and the legs that it leaves short name the same one."""
    world = World({"chA": Contract(failures=REFUSES)})
    for row in (
        "create L1 a=300 order_total=1000", "start L1", "callback L1 SUCCESS e=1 t=1 a=300",
        "create L2 a=700 order_total=1000", "start L2", "submit L2 REFUSED t=W1 a=-",
        "retry L2", "submit L2 REFUSED t=W2 a=-", "give-up L2",
        "create P3 biz_code=other", "give-up P3",
    ):  # fmt: skip
        world.row(row)
    assert world.order is not None
    assert [one.evidence for one in world.order.payments] == ["1", "W2", "give-up-P3"]
    [told] = [one for one in world.said if isinstance(one, Discrepancy)]
    assert (told.kind, told.evidence) == ("PARTIAL_TENDER", "W2")


def test_a_withdrawal_settles_what_nobody_could_settle_and_leaves_nothing_due() -> None:
    world = World({"chA": Contract(failures=REFUSES)})
    for row in ("create P1", "start P1", "+86400 tick", "submit P1 REFUSED a=-"):
        world.row(row)
    assert world.row("give-up P1") == ["applied withdrawn PAYING>CLOSED STUCK_UNKNOWN:high:P1:resolved"]
    silent = World({"chA": Contract(failures=REFUSES)})
    for row in ("create P1", "start P1", "submit P1 REFUSED a=-", "give-up P1"):
        silent.row(row)
    assert silent.order is not None
    assert silent.order.payments[0].stuck_at is None


def test_the_first_refusal_of_an_attempt_stays_its_witness() -> None:
    world = World({"chA": Contract(failures=REFUSES)})
    for row in ("create P1", "start P1", "submit P1 REFUSED a=-"):
        world.row(row)
    assert world.order is not None
    first = world.order.payments[0].tries
    assert first[0].refused
    world.row("+1 submit P1 REFUSED a=- error_class=REFUSED")
    assert world.order.payments[0].tries == first
