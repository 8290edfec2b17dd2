"""One log line for each notice, whatever became of it: the same fields as every other line, at a tenth of their cost.

A line is made once by msgspec, and the lines of one turn of the event loop are written together, so that thousands of notices a second
can each have theirs. What came from outside is shown as `streams.log` shows it: nothing that may be a card's number. On a terminal
the lines go the way of all others, in colour.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from streams.log import naming_accounts, without_cards

if TYPE_CHECKING:
    from typing import TextIO

EVENT: Final = "notice"
INFO, WARNING, ERROR = logging.INFO, logging.WARNING, logging.ERROR
LEVELS: Final = {INFO: "info", WARNING: "warning", ERROR: "error"}

_encode: Final = msgspec.json.Encoder().encode


class Line(msgspec.Struct, omit_defaults=True, gc=False):
    """What is told of a notice. `outcome`, `fix` and `field` are words of ours, `orders` ids that may stand in a log."""

    outcome: str
    channel: str | None = None
    account: str | None = None
    trace: str | None = None
    orders: list[str] | None = None
    events: int | None = None
    field: str | None = None
    why: str | None = None
    fix: str | None = None
    event: str = ""
    level: str = ""
    logger: str = ""
    timestamp: datetime | None = None


class Journal:
    """Writes lines to a stream, by default standard error, from the event loop's thread only."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream
        self._lines: list[bytes] = []
        self._level = logging.getLogger(__name__)
        self._pretty = structlog.get_logger(__name__)

    def tell(self, level: int, line: Line) -> None:
        """Note a line that was not told before; it is written before the loop waits for anything again."""
        if not self._level.isEnabledFor(level):
            return
        if self._target.isatty():
            said = {name: value for name, value in msgspec.structs.asdict(line).items() if value not in (None, "")}
            self._pretty.log(level, EVENT, **said)
            return
        line.event, line.level, line.logger, line.timestamp = EVENT, LEVELS[level], __name__, datetime.now(UTC)
        if line.account is not None:
            line.account = naming_accounts(line.account)
        for name in ("trace", "why"):
            if (value := getattr(line, name)) is not None:
                setattr(line, name, without_cards(value))
        if line.orders:
            line.orders = [without_cards(order) for order in line.orders]
        if not self._lines:
            asyncio.get_running_loop().call_soon(self.flush)
        self._lines.append(_encode(line))

    def flush(self) -> None:
        """Write what was noted."""
        lines, self._lines = self._lines, []
        if lines:
            target = self._target
            target.write(b"\n".join([*lines, b""]).decode())
            target.flush()

    @property
    def _target(self) -> TextIO:
        return self._stream or sys.stderr
