"""A topology in one thread, without a broker: records in, logs out, time moved by hand.

The engine's own `Work` decides; a transaction that the engine would commit is appended to the logs here. Reads of the logs look like
records of the client.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from streams.engine.config import Config
from streams.engine.table import MemoryTable
from streams.engine.work import Work

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streams.engine.topology import Topology


class Logged(NamedTuple):
    """One record as a reader of partition 0 sees it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]


class Driver:
    """One partition of a topology in memory. `logs` holds everything that went in and came out."""

    def __init__(self, topology: Topology[Any, Any, Any], *, batch: int = 7) -> None:
        self.topology = topology
        self.config = Config(kafka={}, batch=batch)
        self.table = MemoryTable()
        self.logs: defaultdict[str, list[Logged]] = defaultdict(list)
        self.number = 0

    def append(
        self, topic: str, key: bytes | None, value: bytes | None, at: int, headers: Iterable[Any] = ()
    ) -> Logged:
        record = Logged(topic, 0, len(self.logs[topic]), at, key, value, list(headers))
        self.logs[topic].append(record)
        return record

    def feed(self, records: Iterable[Logged]) -> None:
        """Handle records, a transaction at a time."""
        todo = list(records)
        while todo:
            work = Work(self.topology, self.config, self.table, 0)
            while todo and work.take(todo[0]):
                todo.pop(0)
            self.commit(work)

    def wind(self, until: int) -> None:
        """Let time pass, in milliseconds: everything due fires."""
        while (due := self.table.next_due()) is not None and due <= until:
            work = Work(self.topology, self.config, self.table, 0)
            work.fire(until)
            self.commit(work)

    def commit(self, work: Work) -> None:
        self.number += 1
        rows = work.rows()
        for topic, sendings in work.entries((1, self.number)).items():
            for key, value, headers in sendings:
                self.append(topic, key, value, 0, headers)
        self.table.settle(rows)
