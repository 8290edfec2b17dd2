"""What a producer session has committed to its own logs, and how far that is known to be visible. Pure.

A mark is an end that was committed some time ago. When the last stable offset has passed it, everything below is decided, and the base
moves up: `@position` then counts from there. The newest end is no mark, because EndTxn answers before the markers are written.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, NamedTuple

from streams.engine import position as positions
from streams.engine.position import Position, Tag, Written

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Mark(NamedTuple):
    """An end of one log, how many records the session had sent it by then, and when it was marked (monotonic seconds)."""

    end: int
    records: int
    since: float


class Horizon:
    """The books of one session over its logs: the changelog first, then the outputs."""

    def __init__(
        self, session: int, logs: Sequence[str], ends: Mapping[str, int], found: Position | None, partitions: int
    ) -> None:
        self.tag: Tag = (session, 0)
        self.changelog, *self.outputs = logs
        self.ends = dict(ends)
        self.bases = dict(ends)
        self.records = dict.fromkeys(logs, 0)
        self.below = dict.fromkeys(logs, 0)
        """Records of this session below the base."""
        self.marks: dict[str, Mark] = {}
        self.log = (found.log if found else "") or secrets.token_hex(8)
        self.partitions = partitions
        self.written = positions.encode(found) if found else b""
        """The last `@position` that was found or written; empty until there is one."""

    def position(self, tag: Tag, counts: Mapping[str, int], offsets: Mapping[str, int]) -> Position:
        """The `@position` of a transaction that sends so many records to each log and has read the inputs up to `offsets`."""
        outputs = {
            log: Written(self.bases[log], self.records[log] + counts.get(log, 0) - self.below[log])
            for log in self.outputs
        }
        return Position(tag, dict(offsets), outputs, self.log, self.partitions)

    def commit(self, position: Position, encoded: bytes, counts: Mapping[str, int], ends: Mapping[str, int]) -> None:
        """A transaction has been committed."""
        self.tag, self.written = position.tag, encoded
        for log, count in counts.items():
            self.records[log] += count
        for log, end in ends.items():
            self.ends[log] = max(self.ends[log], end)

    def dirty(self) -> list[str]:
        """Logs with commits that are not known to be visible."""
        return [log for log, end in self.ends.items() if end > self.bases[log]]

    def mark(self, log: str, now: float) -> bool:
        """Mark the end of a log, if none is marked. True: this one is new."""
        if log in self.marks:
            return False
        self.marks[log] = Mark(self.ends[log], self.records[log], now)
        return True

    def passed(self, log: str, stable: int) -> bool:
        """Whether a last stable offset has passed the log's mark; the base then moves up to it, and the mark is gone."""
        mark = self.marks[log]
        if stable < mark.end:
            return False
        self.bases[log], self.below[log] = mark.end, mark.records
        del self.marks[log]
        return True
