"""Minutes of a channel account, amount band and part of the stream, and the half hour that they add up to.

A row of a minute remembers the place of the last decision that it counts, so that one which is read again after a crash is not
counted twice. Rows are lists, as the tables keep JSON.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stores.channel_health import Seen

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from streams.agents.channel_hearing import Outcome

MINUTE_S: Final = 60
WINDOW_S: Final = 30 * MINUTE_S
"""How long the success rate looks back (R-155)."""
MOST_FAILURES: Final = 32
"""Error classes of one minute that are told apart; the others are `other`."""


class Row(NamedTuple):
    """One minute. `mark` is the place of the last decision in it."""

    succeeded: int = 0
    failed: int = 0
    latency_ms: int = 0
    mark: int = -1
    failures: dict[str, int] = {}  # noqa: RUF012  never changed


def key(channel: str, band: str, part: int) -> str:
    return f"{part} {band} {channel}"


def split(name: str) -> tuple[str, str, int]:
    part, band, channel = name.split(" ", 2)
    return channel, band, int(part)


def counted(row: Row, outcome: Outcome, mark: int) -> Row | None:
    """The row with the outcome of the decision at `mark`; None if that is in it already."""
    if mark <= row.mark:
        return None
    if outcome.succeeded:
        latency = row.latency_ms + (outcome.latency_ms or 0)
        return row._replace(succeeded=row.succeeded + 1, latency_ms=latency, mark=mark)
    known = outcome.failure in row.failures or len(row.failures) < MOST_FAILURES
    name = outcome.failure if known else "other"
    failures = {**row.failures, name: row.failures.get(name, 0) + 1}
    return row._replace(failed=row.failed + 1, mark=mark, failures=failures)


def half_hours(
    minutes: Iterable[tuple[str, float, Row]], unknown: dict[tuple[str, str], int], *, part: int, at: datetime
) -> list[Seen]:
    """Every account and band, over the minutes that began in the half hour before `at`, with the stock of unknown results.

    `minutes` are name, start in seconds UTC and row; `part` is the name under which the sums of these parts are published.
    """
    since = at.timestamp() // MINUTE_S * MINUTE_S - WINDOW_S
    sums: dict[tuple[str, str], list[Any]] = {pair: [0, 0, 0, {}] for pair in unknown}
    for name, start, row in minutes:
        if start <= since:
            continue
        channel, band, _ = split(name)
        total = sums.setdefault((channel, band), [0, 0, 0, {}])
        total[0] += row.succeeded
        total[1] += row.failed
        total[2] += row.latency_ms
        for failure, times in row.failures.items():
            total[3][failure] = total[3].get(failure, 0) + times
    return [
        Seen(
            channel=channel, band=band, part=part, as_of=at, succeeded=succeeded, failed=failed,
            unknown=unknown.get((channel, band), 0), latency_ms_total=latency, failures=failures,
        )
        for (channel, band), (succeeded, failed, latency, failures) in sorted(sums.items())
    ]  # fmt: skip
