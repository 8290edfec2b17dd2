"""What is committed and what is visible: marks, bases and the `@position` that counts from them."""

from __future__ import annotations

import pytest

from streams.engine import position as positions
from streams.engine.horizon import Horizon
from streams.engine.position import Position, Written

LOGS = ["log", "out"]


@pytest.fixture
def horizon():
    return Horizon(3, LOGS, {"log": 10, "out": 20}, None, 8)


def write(horizon, number: int, out: int, ends: dict[str, int]) -> Position:
    counts = {"log": 1, "out": out}
    position = horizon.position((3, number), counts, {"in": number})
    horizon.commit(position, positions.encode(position), counts, ends)
    return position


def test_a_session_begins_where_everything_is_decided(horizon):
    assert horizon.dirty() == []
    assert horizon.tag == (3, 0)
    assert horizon.written == b""


def test_a_position_counts_what_the_session_has_sent_since_the_base(horizon):
    assert write(horizon, 1, 4, {"log": 12, "out": 24}).outputs == {"out": Written(20, 4)}
    assert write(horizon, 2, 1, {"log": 14, "out": 25}).outputs == {"out": Written(20, 5)}


def test_a_position_that_was_not_committed_changes_nothing(horizon):
    write(horizon, 1, 4, {"log": 12, "out": 24})
    horizon.position((3, 2), {"log": 1, "out": 9}, {"in": 2})
    assert horizon.tag == (3, 1)
    assert write(horizon, 2, 1, {"log": 14, "out": 25}).outputs == {"out": Written(20, 5)}


def test_the_base_moves_to_the_mark_that_was_passed_not_to_the_end(horizon):
    write(horizon, 1, 4, {"log": 12, "out": 24})
    assert horizon.mark("out", 5.0)
    write(horizon, 2, 3, {"log": 14, "out": 28})
    assert not horizon.passed("out", 23)
    assert horizon.passed("out", 24)
    assert horizon.dirty() == ["log", "out"]
    assert write(horizon, 3, 2, {"log": 16, "out": 30}).outputs == {"out": Written(24, 5)}


def test_a_mark_keeps_its_time_until_it_is_passed(horizon):
    write(horizon, 1, 4, {"log": 12, "out": 24})
    assert horizon.mark("log", 5.0)
    assert not horizon.mark("log", 9.0)
    assert horizon.marks["log"].since == 5.0
    assert horizon.passed("log", 12)
    assert horizon.mark("log", 11.0)


def test_the_logs_own_name_stays_for_ever(horizon):
    first = write(horizon, 1, 1, {"log": 12, "out": 21})
    later = Horizon(4, LOGS, {"log": 30, "out": 40}, first, 8)
    assert len(first.log) == 16
    assert later.position((4, 1), {"log": 1}, {}).log == first.log
    assert Horizon(1, LOGS, {"log": 0, "out": 0}, None, 8).log != first.log
