"""What decisions tell of channels, without Kafka: outcomes, doubts, and minutes that count each decision once."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

from stores.channel_health import Seen
from streams.agents.channel_hearing import LONGEST, Opened, Outcome, news, payments, shown
from streams.agents.channel_meters import ChannelCollector
from streams.agents.channel_windows import MOST_FAILURES, Row, counted, half_hours, key
from streams.domain.moment import milliseconds
from tests.support.attempts import LATENCY_MS, Attempts

AT = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)


def heard(played: Attempts) -> tuple[list[Outcome], dict[str, Opened]]:
    open_: dict[str, Opened] = {}
    outcomes = []
    for decision in played.decisions:
        for name, standing in payments(decision):
            told = news(decision, name, standing, open_.pop(name, None))
            if told.opened is not None:
                open_[name] = told.opened
            if told.outcome is not None:
                outcomes.append(told.outcome)
    return outcomes, open_


def test_outcomes_are_those_of_the_channel_and_unknown_is_neither():
    """R-155, R-158."""
    played = Attempts(3)
    for number in range(200):
        played.take(milliseconds(AT) + number)
    outcomes, open_ = heard(played)
    found = Counter((one.channel, "succeeded" if one.succeeded else "failed") for one in outcomes)
    assert found == played.truth
    assert Counter(one.channel for one in open_.values() if one.unknown) == played.stock
    assert {one.latency_ms for one in outcomes if one.succeeded} == {LATENCY_MS}
    assert {one.failure for one in outcomes if not one.succeeded} == {"declined"}
    assert {one.band for one in outcomes} == {"CNY:3", "CNY:5"}


def test_a_decision_that_is_read_again_is_not_counted_again():
    good = Outcome("a", "CNY:3", 0, succeeded=True, latency_ms=7)
    bad = Outcome("a", "CNY:3", 0, succeeded=False, failure="x")
    row = counted(Row(), good, 5)
    assert row == Row(succeeded=1, latency_ms=7, mark=5)
    assert counted(row, good, 5) is None
    assert counted(row, bad, 4) is None
    assert counted(row, bad, 6) == Row(succeeded=1, failed=1, latency_ms=7, mark=6, failures={"x": 1})


def test_what_others_wrote_can_be_kept_by_postgres():
    assert shown("de\0clined") == "de\ufffdclined"
    assert len(shown("x" * 999)) == LONGEST


def test_the_gauges_add_the_bands_of_an_account():
    collector = ChannelCollector()
    both = {"channel": "a", "part": 0, "as_of": AT}
    collector.seen = [
        Seen(band="CNY:3", succeeded=2, latency_ms_total=3000, failures={"x": 1}, failed=1, **both),
        Seen(band="CNY:4", unknown=4, failures={"x": 2}, failed=2, **both),
    ]
    found = {
        (one.name, *sorted(one.labels.values())): one.value for family in collector.collect() for one in family.samples
    }
    assert found == {
        ("concord_channel_results", "a", "succeeded"): 2,
        ("concord_channel_results", "a", "failed"): 3,
        ("concord_channel_unknown", "a"): 4,
        ("concord_channel_failures", "a", "x"): 3,
        ("concord_channel_latency_seconds", "a"): 1.5,
    }


def test_failures_of_a_minute_are_bounded():
    row = Row()
    for number in range(MOST_FAILURES + 9):
        row = counted(row, Outcome("a", "b", 0, succeeded=False, failure=f"e{number}"), number) or row
    assert len(row.failures) == MOST_FAILURES + 1
    assert row.failures["other"] == 9


def test_the_half_hour_is_thirty_minutes_and_the_parts_are_added():
    minute = AT.timestamp()
    rows = [
        (key("sim:a b", "CNY:3", 0), minute - 30 * 60, Row(succeeded=100)),
        (key("sim:a b", "CNY:3", 0), minute - 29 * 60, Row(succeeded=1, latency_ms=5)),
        (key("sim:a b", "CNY:3", 1), minute, Row(failed=2, failures={"x": 2})),
    ]
    (seen,) = half_hours(rows, {("sim:a b", "CNY:3"): 4}, part=0, at=AT)
    assert (seen.channel, seen.succeeded, seen.failed, seen.unknown, seen.latency_ms_total) == ("sim:a b", 1, 2, 4, 5)
    assert seen.failures == {"x": 2}
