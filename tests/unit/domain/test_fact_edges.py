"""How an event is read: what it is called, when it happened, and what is not believed of that."""

from __future__ import annotations

import pytest

from streams.domain.contract import Contract, Failures
from streams.domain.decisions import Decision
from streams.domain.moment import moment
from tests.support.worlds import START, World


def test_a_decision_names_what_was_asked_and_suspects_no_clock_of_ours() -> None:
    """R-075, R-101: an answer and a command state no time."""
    world = World({"chA": Contract(failures=Failures(not_accepted=("REFUSED",)))})
    said = {
        "create P1": "create", "start P1": "start", "submit P1 REFUSED a=-": "REFUSED", "retry P1": "retry", "give-up P1": "close",
        "callback P1 AUTHORIZED e=A t=X1": "AUTHORIZED", "capture C1 of=P1 a=100": "capture", "void V1 of=P1": "void",
        "back R1 of=P1 a=100": "refund", "callback P1 SUCCESS e=S t=X1 a=1": "SUCCESS",
        "decide close about=AMOUNT_MISMATCH": "resolve",
    }  # fmt: skip
    for row in said:
        world.row(row)
    told = [one for one in world.said if isinstance(one, Decision)]
    assert [one.word for one in told] == list(said.values())
    assert {one.marks for one in told} == {()}
    assert [one.source for one in told if one.source == "person"] == ["person"]


@pytest.mark.parametrize(("stated", "used"), [("10:05:00", 300_000), ("10:05:00.001", 0), ("09:00:00", -3_600_000)])
def test_a_time_far_ahead_of_its_arrival_is_not_when_it_happened(stated: str, used: int) -> None:
    """R-075: five minutes are a clock that goes wrong; an hour ago is a notice that came late."""
    world = World()
    for row in ("create P1", "start P1", f"callback P1 SUCCESS e=S t=X1 event_time=2025-03-03T{stated}Z"):
        world.row(row)
    heard = world.said[-1]
    assert isinstance(heard, Decision)
    assert [one.success_at for one in heard.operations] == [moment(START + used)]


@pytest.mark.parametrize(
    ("row", "name"),
    [
        ("notice - of=P1 SUCCESS r=RX t=X1 a=100", "RX"),
        ("notice - of=P1 SUCCESS r=RX a=100", "RX"),
        ("notice - of=P1 PENDING t=X1 a=100", "X1"),
        ("notice - of=P1 SUCCESS e=E r=RX a=100", "E"),
    ],
)
def test_a_refund_notice_is_called_by_its_id_or_its_own_reference_before_its_payments(row: str, name: str) -> None:
    """R-072."""
    world = World()
    for one in ("create P1", "start P1", "callback P1 SUCCESS e=S t=X1", row):
        world.row(one)
    heard = world.said[-1]
    assert isinstance(heard, Decision)
    assert heard.evidence == name


@pytest.mark.parametrize(
    ("row", "source"),
    [
        ("release P1 EXPIRED e=R1", "release"),
        ("dispute P1 OPENED e=D1 a=100", "dispute"),
        ("callback P1 PENDING e=C1", "callback"),
    ],
)
def test_a_decision_says_what_kind_of_evidence_it_heard(row: str, source: str) -> None:
    """R-107."""
    world = World()
    for one in ("create P1", "start P1", "callback P1 AUTHORIZED e=A t=X1", row):
        world.row(one)
    heard = [one for one in world.said if isinstance(one, Decision)]
    assert heard[-1].source == source
