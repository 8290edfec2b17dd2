"""Orders from a file instead of a broker: scenarios, or recorded events of the product, one JSON object a line.

A recorded line is `{"at": "2025-03-03T10:00:00Z", "event": {"type": "callback", ...}}`, in order of time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from streams.domain.converge import converge
from streams.domain.events import Event  # noqa: TC001  msgspec reads the annotation
from streams.domain.moment import parsed
from streams.domain.order import Order, due
from streams.replay.run import Run
from streams.replay.shapes import NotUnderstoodError

if TYPE_CHECKING:
    from pathlib import Path

    from streams.domain.contract import Contracts


class Line(msgspec.Struct):
    """What is read of a line of either kind."""

    id: str | None = None
    given: Any = None
    events: list[Any] | None = None
    at: str | None = None
    event: Event | None = None


class Found(NamedTuple):
    """An order as the file leaves it, and the last moment the file knows."""

    order: Order
    at: int


_decode: Final = msgspec.json.Decoder(Line).decode


def find(path: Path, order_id: str, contracts: Contracts, *, scenario: str | None = None) -> Found | None:
    """The order at the end of the file; in a file of scenarios the first that has it, or the one named `scenario`."""
    order: Order | None = None
    at = 0
    for number, text in enumerate(path.read_bytes().splitlines(), 1):
        line = _read(text, number)
        if line is None:
            continue
        if line.events is not None:
            if scenario in {None, line.id}:
                run = Run(line.given, line.events).play()
                if order_id in run.orders:
                    return Found(run.orders[order_id], run.at)
            continue
        at = max(at, _moment(line, number))
        if line.event is None or line.event.order_id != order_id:
            order = _wind(order, at, contracts)
            continue
        order, _ = converge(_wind(order, at, contracts), line.event, at, contracts)
    return None if order is None else Found(order, at)


def _read(text: bytes, number: int) -> Line | None:
    if not text.strip():
        return None
    try:
        return _decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as wrong:
        raise NotUnderstoodError(f"line {number}: {wrong}") from wrong


def _moment(line: Line, number: int) -> int:
    at = parsed(line.at or "")
    if at is None:
        raise NotUnderstoodError(
            f"line {number}: at is {line.at!r}; write YYYY-MM-DDTHH:MM:SSZ, or events of a scenario"
        )
    return at


def _wind(order: Order | None, at: int, contracts: Contracts) -> Order | None:
    """Let what falls due up to `at` fire."""
    while order is not None and (moment := due(order)) is not None and moment <= at:
        order, _ = converge(order, None, moment, contracts)
    return order
