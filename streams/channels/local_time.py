"""Times that a channel states on its own clock, without a zone, as RFC 3339 in UTC.

What cannot be read stays as it is: the law marks such evidence and does not use its time.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from zoneinfo import ZoneInfo


@lru_cache(maxsize=256)  # notices that come together speak of the same seconds
def in_utc(text: str, form: str, zone: str) -> str:
    """`text` of the strptime `form`, on the clock of `zone` (an IANA name), in UTC."""
    try:
        moment = datetime.strptime(text, form).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
    except (ValueError, OverflowError):
        return text
    return moment.isoformat().replace("+00:00", "Z")


def local(moment: datetime, form: str, zone: str) -> str:
    """A moment as the channel writes it on its own clock."""
    return moment.astimezone(ZoneInfo(zone)).strftime(form)
