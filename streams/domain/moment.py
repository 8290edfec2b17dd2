"""Moments: integer milliseconds of the UTC epoch inside, RFC 3339 outside."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def moment(at: int) -> datetime:
    """Milliseconds as an aware time in UTC."""
    return EPOCH + timedelta(milliseconds=at)


def milliseconds(time: datetime) -> int:
    """An aware time as milliseconds; what is finer is dropped."""
    return (time - EPOCH) // _MILLISECOND


def parsed(text: str) -> int | None:
    """An RFC 3339 time with its offset, as milliseconds; None if it is not one."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if time.tzinfo is None else milliseconds(time)
