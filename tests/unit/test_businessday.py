"""Half-open days in the channel's zone, also where clocks change (R-183)."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.businessday import ZoneUnknownError, bounds, day_of

ZONES = st.sampled_from(
    ["UTC", "Asia/Shanghai", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia"]
)
CUTOFFS = st.sampled_from(["00:00", "02:30", "12:00", "23:59"])
MOMENTS = st.datetimes(datetime(2000, 1, 1), datetime(2035, 1, 1), timezones=st.just(UTC))  # fmt: skip


@given(MOMENTS, ZONES, CUTOFFS)
def test_every_moment_lies_in_its_own_day(at, tz, cutoff):
    start, end = bounds(day_of(at, tz, cutoff), tz, cutoff)
    assert start <= at < end


@pytest.mark.parametrize(
    ("at", "tz", "cutoff", "day"),
    [
        ("2025-03-03T15:59:59", "Asia/Shanghai", "00:00", "2025-03-03"),
        ("2025-03-03T16:00:00", "Asia/Shanghai", "00:00", "2025-03-04"),
        ("2025-03-03T22:59:59", "UTC", "23:00", "2025-03-02"),
        ("2025-03-03T23:00:00", "UTC", "23:00", "2025-03-03"),
    ],
)
def test_the_second_before_the_cutoff_is_the_day_before(at, tz, cutoff, day):
    assert day_of(datetime.fromisoformat(at).replace(tzinfo=UTC), tz, cutoff) == date.fromisoformat(day)


def test_the_day_of_an_autumn_clock_change_has_an_hour_more():
    start, end = bounds(date(2025, 11, 2), "America/New_York")
    assert (start.isoformat(), end - start) == ("2025-11-02T04:00:00+00:00", timedelta(hours=25))


def test_an_unknown_zone_is_refused_by_name():
    with pytest.raises(ZoneUnknownError, match="Moon/Base"):
        day_of(datetime(2025, 1, 1, tzinfo=UTC), "Moon/Base")
