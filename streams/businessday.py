"""The business day of a channel: half-open, from its local cut-off to the next one, in its own zone (R-183).

The zone's rules decide how long a day is: 23 or 25 hours where clocks change. Times are UTC.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError


class ZoneUnknownError(ValueError):
    """There is no such IANA zone."""


@lru_cache(maxsize=256)
def zone(name: str) -> ZoneInfo:
    """Raises `ZoneUnknownError`."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as wrong:
        raise ZoneUnknownError(f"zone {name!r} is not known; write an IANA name such as Asia/Shanghai") from wrong


def bounds(day: date, tz: str, cutoff: str = "00:00") -> tuple[datetime, datetime]:
    """The first moment of the day and the first one after it, UTC. `cutoff` is HH:MM, local."""
    return _start(day, tz, cutoff), _start(day + timedelta(days=1), tz, cutoff)


def day_of(at: datetime, tz: str, cutoff: str = "00:00") -> date:
    """The business day that a moment belongs to."""
    day = at.astimezone(zone(tz)).date()
    while at < _start(day, tz, cutoff):
        day -= timedelta(days=1)
    while at >= _start(day + timedelta(days=1), tz, cutoff):
        day += timedelta(days=1)
    return day


@lru_cache(maxsize=4096)
def _start(day: date, tz: str, cutoff: str) -> datetime:
    return datetime.combine(day, time.fromisoformat(cutoff), tzinfo=zone(tz)).astimezone(UTC)
