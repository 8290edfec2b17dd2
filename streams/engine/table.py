"""The committed state of one partition: rows as bytes, and the agenda of due times. Memory and RocksDB, one interface.

Rows stay encoded: the garbage collector then has nothing to walk, and both kinds behave the same. A table lives only as long as the
producer session that feeds it; after any doubt it is thrown away and built again from the changelog.

RocksDB holds decided rows only. What was committed but not yet seen to be visible waits in memory (`pending`); `mark` sets that apart,
and `confirm`, called when the changelog's last stable offset has passed the mark, writes it together with the offset and the position
it belongs to, in one batch. So the database on disk is always a checkpoint, whenever the process dies.

Most due times are far away: an order that has ended is only looked at again to be forgotten. RocksDB keeps an index of them, and the
agenda holds those before a `horizon` that moves with the clock. An entry of the index is only a hint, the row itself says when it is
due: so nothing has to be read to write one, and those that a row left behind are dropped when the horizon comes to them.
"""

from __future__ import annotations

import heapq
import shutil
import struct
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final, NamedTuple

from rocksdict import AccessType, Options, Rdict, WriteBatch

from streams.engine.failures import Stuck

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


class Change(NamedTuple):
    """The new value of a row (None: gone) and its next due time in milliseconds."""

    value: bytes | None
    due: int | None


class Checkpoint(NamedTuple):
    """What a table on disk contains: the changelog below `offset`, and the `@position` record that was the last one there."""

    offset: int
    position: bytes
    written_ms: int


NEVER: Final = 1 << 63
"""Later than any due time."""


class Table(ABC):
    """Rows and due times of one partition."""

    def __init__(self, horizon: int = NEVER) -> None:
        self.horizon = horizon
        """Milliseconds: the due times before it are in `dues`."""
        self.dues: dict[bytes, int] = {}
        self.agenda: list[tuple[int, bytes]] = []
        """A heap of (due, key). Entries that `dues` does not confirm are stale and skipped."""

    @abstractmethod
    def get(self, key: bytes) -> bytes | None:
        """The committed value of a row."""

    @abstractmethod
    def store(self, rows: Mapping[bytes, Change]) -> None:
        """Take over the rows of a committed transaction."""

    @abstractmethod
    def restore(self, rows: Mapping[bytes, Change]) -> None:
        """Take over decided rows of the changelog."""

    @abstractmethod
    def __len__(self) -> int:
        """Number of rows (an estimate on disk, for people to look at)."""

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether there is nothing at all, exactly."""

    def settle(self, rows: Mapping[bytes, Change]) -> None:
        """Take over a committed transaction whose due times are on the agenda already: `Work` puts them there as it decides."""
        self.store(rows)
        dues, horizon = self.dues, self.horizon
        for key, (_, due) in rows.items():
            if due is None or due >= horizon:
                dues.pop(key, None)
            else:
                dues[key] = due
        self.trim_agenda()

    def apply(self, rows: Mapping[bytes, Change]) -> None:
        """Take over a committed transaction, and put its due times on the agenda."""
        self.store(rows)
        self.schedule(rows)

    def schedule(self, rows: Mapping[bytes, Change]) -> None:
        """Put the due times of rows that came from the changelog on the agenda."""
        for key, (_, due) in rows.items():
            if due is None or due >= self.horizon:
                self.dues.pop(key, None)
            elif self.dues.get(key) != due:
                self.dues[key] = due
                heapq.heappush(self.agenda, (due, key))
        self.trim_agenda()

    def trim_agenda(self) -> None:
        if len(self.agenda) > 64 + 2 * len(self.dues):
            self.rebuild_agenda()

    def rebuild_agenda(self) -> None:
        self.agenda = [(due, key) for key, due in self.dues.items()]
        heapq.heapify(self.agenda)

    def reach(self, until: int) -> None:
        """Have all due times up to `until` (milliseconds) on the agenda."""

    def next_due(self) -> int | None:
        """The earliest due time before the horizon, in milliseconds."""
        while self.agenda:
            due, key = self.agenda[0]
            if self.dues.get(key) == due:
                return due
            heapq.heappop(self.agenda)
        return None

    @property
    def unconfirmed(self) -> int:
        """Rows that wait in memory for `mark` and `confirm`."""
        return 0

    def checkpoint(self) -> Checkpoint | None:
        """What survived the last run, if anything did."""
        return None

    def mark(self) -> None:
        """Set apart what is applied now: the next `confirm` is about it."""

    def confirm(self, at: Checkpoint) -> None:
        """What was set apart by `mark` (at opening: everything restored) is decided and visible."""

    def clear(self) -> None:
        """Forget a checkpoint that cannot be used."""

    def close(self) -> None:
        """Let go of files."""


class MemoryTable(Table):
    """Rows in a dictionary; restarts from the whole changelog."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: dict[bytes, bytes] = {}

    def get(self, key: bytes) -> bytes | None:
        return self._rows.get(key)

    def store(self, rows: Mapping[bytes, Change]) -> None:
        for key, (value, _) in rows.items():
            if value is None:
                self._rows.pop(key, None)
            else:
                self._rows[key] = value

    def restore(self, rows: Mapping[bytes, Change]) -> None:
        self.apply(rows)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def is_empty(self) -> bool:
        return not self._rows


ROW: Final = b"r"
"""With a key: its due time and its value."""
WHEN: Final = b"t"
"""With a due time and a key: an entry of the index, in the order of the due times."""
META: Final = b"m"
SPAN_MS: Final = 30 * 60 * 1000
"""How much further than asked the horizon goes, so that it moves twice an hour."""
DAMAGED: Final = "DAMAGED"
"""A file of this name says that the database beside it must not be trusted."""
LAYOUT: Final = 2
_HEAD: Final = struct.Struct(">BqqqI")
"""Layout, offset, time of writing, entries of the index, size of the position."""
NO_DUE: Final = -1
_DUE: Final = struct.Struct(">q")


class RocksTable(Table):
    """Rows in RocksDB; restarts from its checkpoint and reads only the tail of the changelog."""

    def __init__(self, folder: Path, span_ms: int = SPAN_MS) -> None:
        super().__init__(horizon=0)
        self._folder = folder
        self._span = span_ms
        self._filed: dict[bytes, int] = {}
        """The due times on disk that lie before the horizon."""
        self._pending: dict[bytes, Change] = {}
        self._marked: dict[bytes, Change] = {}
        if (folder / DAMAGED).exists():
            shutil.rmtree(folder)
        try:
            self._db = self._open()
            self._indexed = self._meta()[3]
        except Stuck:  # only a copy of the changelog: made again here and now
            shutil.rmtree(folder)
            self._db = self._open()
            self._indexed = 0

    def _open(self) -> Rdict:
        self._folder.mkdir(parents=True, exist_ok=True)
        options = Options(raw_mode=True)
        options.create_if_missing(True)  # noqa: FBT003  the binding's own signature
        options.set_write_buffer_size(16 << 20)
        options.set_max_write_buffer_number(2)
        options.set_keep_log_file_num(2)
        try:
            return Rdict(str(self._folder), options=options, access_type=AccessType.read_write())
        except Exception as error:
            if "lock" in str(error).lower():
                raise TimeoutError(
                    f"{self._folder}: in use by another process; give each worker a CONCORD_STATE_DIR of its own, "
                    "or wait for the old one to end"
                ) from error
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> Stuck:
        """The binding raises bare Exception for whatever the disk did. The next opening makes the table again."""
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / DAMAGED).touch()
        return Stuck(f"{self._folder}: the table on disk cannot be used ({error}); it is made again from the changelog")

    def _meta(self) -> tuple[int, int, int, int, bytes]:
        """Layout, offset, time of writing, entries of the index and position; zeros if there is nothing of this layout."""
        value = self._read(META)
        if value is None or value[0] != LAYOUT:
            return 0, 0, 0, 0, b""
        layout, offset, written, indexed, size = _HEAD.unpack_from(value)
        return layout, offset, written, indexed, value[_HEAD.size : _HEAD.size + size]

    def reach(self, until: int) -> None:
        if until < self.horizon:
            return
        begin, self.horizon = self.horizon, until + self._span
        waiting = {**self._marked, **self._pending}
        filed = self._confirmed(self._between(begin, self.horizon))
        self._filed.update(filed)
        found = {key: due for key, due in filed.items() if key not in waiting}
        found |= {key: due for key, (_, due) in waiting.items() if due is not None and begin <= due < self.horizon}
        self.dues.update(found)
        for key, due in found.items():
            heapq.heappush(self.agenda, (due, key))

    def _confirmed(self, entries: list[tuple[int, bytes]]) -> dict[bytes, int]:
        """Those entries of the index that their rows confirm; the others are dropped."""
        try:
            rows = self._db.get([ROW + key for _, key in entries]) if entries else []
        except Exception as error:
            raise self._damaged(error) from error
        found, left = {}, WriteBatch(raw_mode=True)
        for (due, key), row in zip(entries, rows, strict=True):
            if row is not None and _DUE.unpack_from(row)[0] == due:
                found[key] = due
            else:
                left.delete(WHEN + _DUE.pack(due) + key)
                self._indexed -= 1
        self._write(left)
        return found

    def _between(self, begin: int, end: int) -> list[tuple[int, bytes]]:
        """The entries of the index from `begin` on and before `end`."""
        found, last = [], WHEN + _DUE.pack(end)
        try:
            cursor = self._db.iter()
            cursor.seek(WHEN + _DUE.pack(begin))
            while cursor.valid() and (at := bytes(cursor.key())) < last:
                found.append((_DUE.unpack_from(at, 1)[0], at[1 + _DUE.size :]))
                cursor.next()
            cursor.status()
        except Exception as error:
            raise self._damaged(error) from error
        return found

    def get(self, key: bytes) -> bytes | None:
        change = self._pending.get(key) or self._marked.get(key)
        if change is not None:
            return change.value
        row = self._read(ROW + key)
        return None if row is None else row[_DUE.size :]

    def _read(self, key: bytes) -> bytes | None:
        try:
            value: bytes | None = self._db.get(key)
        except Exception as error:
            raise self._damaged(error) from error
        return value

    def _write(self, batch: WriteBatch) -> None:
        try:
            self._db.write(batch)
        except Exception as error:
            raise self._damaged(error) from error

    def store(self, rows: Mapping[bytes, Change]) -> None:
        self._pending.update(rows)

    def restore(self, rows: Mapping[bytes, Change]) -> None:
        self.schedule(rows)
        self._write(self._batch(rows))

    def __len__(self) -> int:
        keys = int(self._db.property_int_value("rocksdb.estimate-num-keys") or 0)
        return max(0, keys - self._indexed) + len(self._pending)

    @property
    def is_empty(self) -> bool:
        if self._pending or self._marked:
            return False
        cursor = self._db.iter()
        cursor.seek_to_first()
        return not cursor.valid()

    @property
    def unconfirmed(self) -> int:
        return len(self._pending) + len(self._marked)

    def checkpoint(self) -> Checkpoint | None:
        layout, offset, written, _, position = self._meta()
        return Checkpoint(offset, position, written) if layout else None

    def mark(self) -> None:
        self._marked, self._pending = self._pending, {}

    def confirm(self, at: Checkpoint) -> None:
        batch = self._batch(self._marked)
        head = _HEAD.pack(LAYOUT, at.offset, at.written_ms, self._indexed, len(at.position))
        batch.put(META, head + at.position)
        self._write(batch)
        self._marked = {}

    def clear(self) -> None:
        self._db.close()
        shutil.rmtree(self._folder)
        self._db = self._open()
        self.dues, self.agenda, self._pending, self._marked, self._filed, self._indexed = {}, [], {}, {}, {}, 0

    def close(self) -> None:
        self._db.close()

    def _batch(self, rows: Mapping[bytes, Change]) -> WriteBatch:
        batch, filed = WriteBatch(raw_mode=True), self._filed
        for key, (value, at) in rows.items():
            due = NO_DUE if at is None or value is None else at
            if value is None:
                batch.delete(ROW + key)
            else:
                batch.put(ROW + key, _DUE.pack(due) + value)
            was = filed.pop(key, NO_DUE)
            if was not in (due, NO_DUE):
                batch.delete(WHEN + _DUE.pack(was) + key)
                self._indexed -= 1
            if due not in (was, NO_DUE):
                batch.put(WHEN + _DUE.pack(due) + key, b"")
                self._indexed += 1
            if NO_DUE < due < self.horizon:
                filed[key] = due
        return batch


def opener(state_dir: Path | None) -> Callable[[int], Table]:
    """A function from partition number to its table: in memory without a folder, else in RocksDB below it."""
    if state_dir is None:
        return lambda _partition: MemoryTable()
    return lambda partition: RocksTable(state_dir / str(partition))
