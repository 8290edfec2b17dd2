"""The committed state of one partition: rows as bytes, and the agenda of due times. Memory and RocksDB, one interface.

Rows stay encoded: the garbage collector then has nothing to walk, and both kinds behave the same. A table lives only as long as the
producer session that feeds it; after any doubt it is thrown away and built again from the changelog.

RocksDB holds decided rows only. What was committed but not yet seen to be visible waits in memory (`pending`); `mark` sets that apart,
and `confirm`, called when the changelog's last stable offset has passed the mark, writes it together with the offset and the position
it belongs to, in one batch. So the database on disk is always a checkpoint, whenever the process dies.
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


class Table(ABC):
    """Rows and due times of one partition."""

    def __init__(self) -> None:
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
        """Number of rows (an estimate on disk)."""

    def settle(self, rows: Mapping[bytes, Change]) -> None:
        """Take over a committed transaction whose due times are on the agenda already: `Work` puts them there as it decides."""
        self.store(rows)
        dues = self.dues
        for key, (_, due) in rows.items():
            if due is None:
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
            if due is None:
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

    def next_due(self) -> int | None:
        """The earliest due time, in milliseconds."""
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


ROW: Final = b"r"
DUE: Final = b"d"
META: Final = b"m"
DAMAGED: Final = "DAMAGED"
"""A file of this name says that the database beside it must not be trusted."""
LAYOUT: Final = 1
_HEAD: Final = struct.Struct(">BqqI")
_DUE: Final = struct.Struct(">q")


class RocksTable(Table):
    """Rows in RocksDB; restarts from its checkpoint and reads only the tail of the changelog."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._pending: dict[bytes, Change] = {}
        self._marked: dict[bytes, Change] = {}
        if (folder / DAMAGED).exists():
            shutil.rmtree(folder)
        try:
            self._db = self._open()
            self.dues = {key[1:]: _DUE.unpack(value)[0] for key, value in self._scan(DUE)}
        except Stuck:  # only a copy of the changelog: made again here and now
            shutil.rmtree(folder)
            self._db = self._open()
        self.rebuild_agenda()

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

    def _scan(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        found = []
        try:
            cursor = self._db.iter()
            cursor.seek(prefix)
            while cursor.valid() and cursor.key().startswith(prefix):
                found.append((bytes(cursor.key()), bytes(cursor.value())))
                cursor.next()
            cursor.status()
        except Exception as error:
            self._db.close()
            raise self._damaged(error) from error
        return found

    def get(self, key: bytes) -> bytes | None:
        change = self._pending.get(key) or self._marked.get(key)
        if change is not None:
            return change.value
        try:
            value: bytes | None = self._db.get(ROW + key)
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
        return max(0, keys - len(self.dues)) + len(self._pending)  # due times are keys too

    @property
    def unconfirmed(self) -> int:
        return len(self._pending) + len(self._marked)

    def checkpoint(self) -> Checkpoint | None:
        value = self._db.get(META)
        if value is None or value[0] != LAYOUT:
            return None
        _, offset, written, size = _HEAD.unpack_from(value)
        return Checkpoint(offset, value[_HEAD.size : _HEAD.size + size], written)

    def mark(self) -> None:
        self._marked, self._pending = self._pending, {}

    def confirm(self, at: Checkpoint) -> None:
        batch = self._batch(self._marked)
        batch.put(META, _HEAD.pack(LAYOUT, at.offset, at.written_ms, len(at.position)) + at.position)
        self._write(batch)
        self._marked = {}

    def clear(self) -> None:
        self._db.close()
        shutil.rmtree(self._folder)
        self._db = self._open()
        self.dues, self.agenda, self._pending, self._marked = {}, [], {}, {}

    def close(self) -> None:
        self._db.close()

    @staticmethod
    def _batch(rows: Mapping[bytes, Change]) -> WriteBatch:
        batch = WriteBatch(raw_mode=True)
        for key, (value, due) in rows.items():
            if value is None:
                batch.delete(ROW + key)
            else:
                batch.put(ROW + key, value)
            if due is None or value is None:
                batch.delete(DUE + key)
            else:
                batch.put(DUE + key, _DUE.pack(due))
        return batch


def opener(state_dir: Path | None) -> Callable[[int], Table]:
    """A function from partition number to its table: in memory without a folder, else in RocksDB below it."""
    if state_dir is None:
        return lambda _partition: MemoryTable()
    return lambda partition: RocksTable(state_dir / str(partition))
