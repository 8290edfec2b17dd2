"""One transaction's worth of decisions, before it is sent: pure, and thrown away if the transaction fails.

Records are handled in the order they are taken; due times at or before a record's timestamp fire before it, in due order, each seeing
its own due time. Decisions are made on an overlay: the table changes only when the transaction has been committed. The agenda is the
one exception: entries that were looked at are popped, which is harmless, as a table is discarded with the transaction that failed.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import defaultdict
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from streams.engine.failures import Refused
from streams.engine.moving import MOVED
from streams.engine.position import HEADER, RESERVED, Tag, header
from streams.engine.table import NEVER, Change, Table
from streams.engine.topology import DUE, Due, Poison, Record
from streams.engine.transaction import RECORD_OVERHEAD, Entry, Headers, Sending

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from streams.engine.config import Config
    from streams.engine.topology import Topology

ABSENT: Final = object()
REASON: Final = 500
"""Characters of a dead letter's reason that are kept."""
HEADER_NAME: Final = 48
"""Bytes allowed for a header's name and lengths."""
_by_timestamp = attrgetter("timestamp")


class RowTooLargeError(Exception):
    """A state has outgrown the changelog's largest record. The work is done again, carefully, to find which record did it."""


def merged(fetched: Mapping[Any, Sequence[Record]]) -> Iterable[Record]:
    """Records of several topics in the order of their timestamps; each topic's own order is kept."""
    batches = [records for records in fetched.values() if records]
    return batches[0] if len(batches) == 1 else heapq.merge(*batches, key=_by_timestamp)


class Work:
    """Collects the decisions of one transaction. `careful` measures each row as it changes, which is slower.

    No due time later than `known` (milliseconds) fires: an older record may not have been read yet. `doubt` says that one had to wait.
    """

    def __init__(
        self,
        topology: Topology[Any, Any, Any],
        config: Config,
        table: Table,
        partition: int,
        *,
        partitions: int = 1,
        careful: bool = False,
        known: int = NEVER,
    ) -> None:
        self.topology = topology
        self.config = config
        self.table = table
        self.partition = partition
        self.partitions = partitions
        self.careful = careful
        self.known = known
        self.doubt = False
        self.states: dict[bytes, Any] = {}
        self.dues: dict[bytes, int | None] = {}
        """Next due time of each changed state; its keys are the changed rows, in the order of their first change."""
        self.sends: defaultdict[str, list[Sending]] = defaultdict(list)
        self.labels: defaultdict[str, int] = defaultdict(int)
        self.offsets: dict[str, int] = {}
        self.misplaced: list[Record] = []
        """Records of keys that live in another partition: to be moved there before this transaction is sent."""
        self.records = 0
        self.timers = 0
        self.dead = 0
        self.bytes = 0
        self.latest_due = 0
        self._rows: dict[bytes, Change] | None = None
        self._popped: list[tuple[int, bytes]] = []

    def __bool__(self) -> bool:
        return bool(self.records or self.timers)

    @property
    def full(self) -> bool:
        return self.records + self.timers >= self.config.batch or self.bytes >= self.config.batch_bytes

    def take(self, record: Record) -> bool:
        """Handle a record, and what is due before it. False: no room was left, or a due time in doubt; take it in another transaction."""
        self.fire(record.timestamp)
        if self.full or self.doubt:
            return False
        self.records += 1
        self.offsets[record.topic] = record.offset + 1
        try:
            key = self._key(record)
            if self._elsewhere(key, record):
                self.misplaced.append(record)
            else:
                self._decide(key, self.topology.decode(record), record.timestamp, record)
        except Poison as poison:
            self._bury(record, poison)
        except Exception as error:
            where = f"{record.topic}/{record.partition} at offset {record.offset}, key {record.key!r}"
            raise Refused(f"{where}: the topology failed with {error!r}; nothing was consumed") from error
        return True

    @staticmethod
    def _key(record: Record) -> bytes:
        key = record.key
        if key is None:
            raise Poison("missing_key", "the record has no key; produce it with the key of the state it belongs to")
        if key in RESERVED:
            raise Poison("reserved_key", f"{key.decode()} is a key of the engine's own; no state can have it")
        return key

    def _elsewhere(self, key: bytes, record: Record) -> bool:
        """Whether the key lives in another partition: handled here, its state would be split in two. Asked once per key, of news only."""
        place = self.topology.place
        if place is None or key in self.states or self.table.get(key) is not None:
            return False
        home = place(key, self.partitions)
        if home == self.partition:
            return False
        if any(name == MOVED for name, _ in record.headers):
            raise Poison(
                "wrong_partition", f"it was moved here, but its key lives in partition {home}; has the topic grown?"
            )
        return True

    def fire(self, until: int) -> None:
        """Fire what is due at or before `until` (milliseconds), as far as it is known and there is room."""
        self.table.reach(until)
        while (due := self._next_due()) is not None and due <= until and not self.full:
            if due > self.known:
                self.doubt = True
                return
            due, key = heapq.heappop(self.table.agenda)
            self._popped.append((due, key))
            self.timers += 1
            self.latest_due = due
            self._decide(key, DUE, due, None)
            if self.dues.get(key, self.table.dues.get(key)) == due:
                raise Refused(
                    f"the topology left the due time {due} of {key!r} where it was: it would fire for ever; this is a bug in its decide()"
                )

    def _next_due(self) -> int | None:
        agenda = self.table.agenda
        while agenda:
            due, key = agenda[0]
            if (self.dues[key] if key in self.dues else self.table.dues.get(key)) == due:
                return due
            self._popped.append(heapq.heappop(agenda))
        return None

    def _decide(self, key: bytes, event: Any | Due, at: int, cause: Record | None) -> None:
        topology = self.topology
        state = self.states.get(key, ABSENT)
        if state is ABSENT:
            row = self.table.get(key)
            state = self.states[key] = None if row is None else topology.load(row)
            self.bytes += len(row or b"")
        after, messages = topology.decide(state, event, at)
        sends = [topology.route(message, cause) for message in messages]
        size = self._measure(key, sends, cause)
        if self.careful and after is not state and after is not None:
            self._measure_row(key, topology.dump(after), cause)
        for topic, value, headers, label in sends:
            self.sends[topic].append((key, value, headers if type(headers) is list else [*headers]))
            if label:
                self.labels[label] += 1
        self.bytes += size
        if after is not state:
            self.states[key] = after
            is_known = (
                key not in self.dues and key in self.table.dues
            )  # else its entry may have been popped by this very work
            self.dues[key] = due = None if after is None else topology.due(after)
            if due is not None and not (is_known and self.table.dues[key] == due):
                heapq.heappush(self.table.agenda, (due, key))

    def _measure(self, key: bytes, sends: Sequence[Any], cause: Record | None) -> int:
        total = 0
        for topic, value, headers, _ in sends:
            size = RECORD_OVERHEAD + len(key) + len(value) + sum([len(text) + HEADER_NAME for _, text in headers])
            if size + RECORD_OVERHEAD > self.config.record_bytes:  # the tag, and the header of a batch of one
                self._too_large(
                    f"its output to {topic} would take {size} bytes, the limit is {self.config.record_bytes}",
                    key,
                    cause,
                )
            total += size
        return total

    def _measure_row(self, key: bytes, row: bytes, cause: Record | None) -> None:
        if len(row) + len(key) + 2 * RECORD_OVERHEAD > self.config.record_bytes:
            self._too_large(
                f"the state of {key!r} would take {len(row)} bytes, the limit is {self.config.record_bytes}", key, cause
            )

    def _too_large(self, what: str, key: bytes, cause: Record | None) -> None:
        if cause is not None:
            raise Poison("too_large", f"{what}; the record was not applied")
        raise Refused(
            f"a due time of {key!r} cannot be handled: {what}; raise max.message.bytes of the topic and CONCORD's record limit together"
        )

    def _bury(self, record: Record, poison: Poison) -> None:
        """Keep a record that cannot be handled: its bytes as they were, and where, what and why as headers."""
        self.dead += 1
        about: list[tuple[str, bytes]] = [
            ("dead-topic", record.topic.encode()),
            ("dead-partition", b"%d" % record.partition),
            ("dead-offset", b"%d" % record.offset),
            ("dead-timestamp", b"%d" % record.timestamp),
            ("dead-kind", poison.kind.encode()),
            ("dead-reason", poison.reason[:REASON].encode()),
        ]
        kept = [(name, value) for name, value in record.headers if name != HEADER and not name.startswith("dead-")]
        entry = Entry(record.key, record.value, [*kept, *about])
        if entry.size() + RECORD_OVERHEAD > self.config.dead_letter_bytes:
            entry = self._cut(record, about)
        self.sends[self.topology.dead_letters].append((entry.key, entry.value, entry.headers))
        self.bytes += entry.size()

    def _cut(self, record: Record, about: Headers) -> Entry:
        """A record too large even for the dead letters: its beginning, its size and its hash; the whole stays in the input topic."""
        value = record.value or b""
        room = max(0, self.config.dead_letter_bytes // 2)
        more = (
            ("dead-cut-from-bytes", b"%d" % len(value)),
            ("dead-sha256", hashlib.sha256(value).hexdigest().encode()),
        )
        return Entry((record.key or b"")[:1024], value[:room], [*about, *more])

    def rows(self) -> dict[bytes, Change]:
        """The changed rows, encoded. Raises `RowTooLargeError` for one that would not fit the changelog."""
        if self._rows is None:
            dump = self.topology.dump
            self._rows = {
                key: Change(None if (state := self.states[key]) is None else dump(state), due)
                for key, due in self.dues.items()
            }
            limit = self.config.record_bytes - 2 * RECORD_OVERHEAD
            for key, (value, _) in self._rows.items():
                if value is not None and len(value) + len(key) > limit:
                    raise RowTooLargeError(key)
        return self._rows

    def entries(self, tag: Tag) -> dict[str, list[Sending]]:
        """What to send, all tagged: outputs and dead letters by topic, and the changelog's rows. To be called once."""
        mark = header(tag)
        for sendings in self.sends.values():
            for _, _, headers in sendings:
                headers.append(mark)
        only = [mark]
        rows: list[Sending] = [(key, value, only) for key, (value, _) in self.rows().items()]
        return {**self.sends, self.topology.changelog: rows}

    def undo(self) -> None:
        """Put looked-at agenda entries back, so that the same records can be taken again."""
        for entry in self._popped:
            heapq.heappush(self.table.agenda, entry)
