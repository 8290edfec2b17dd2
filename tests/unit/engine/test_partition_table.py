"""The two tables through one suite, and what is true of the one on disk: it is a checkpoint, whenever its process dies."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from streams.engine.failures import Stuck, Verdict, classify
from streams.engine.table import LAYOUT, META, SPAN_MS, Change, Checkpoint, MemoryTable, RocksTable, Table, opener
from tests.support.services import fresh_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

AT = Checkpoint(10, b"position", 1_700_000_000_000)


@pytest.fixture(params=["memory", "rocksdb"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Table]:
    made = opener(None if request.param == "memory" else tmp_path)(0)
    made.reach(10_000)
    yield made
    made.close()


@pytest.fixture
def on_disk(tmp_path: Path) -> Iterator[Callable[[], RocksTable]]:
    """Opens the same folder as often as asked, closing what was open."""
    opened: list[RocksTable] = []

    def again() -> RocksTable:
        for former in opened:
            former.close()
        opened[:] = [RocksTable(tmp_path / "table")]
        return opened[0]

    yield again
    for left in opened:
        left.close()


def rows(**values: str | None) -> dict[bytes, Change]:
    return {
        key.encode(): Change(None if value is None else value.encode(), None if value is None else len(value))
        for key, value in values.items()
    }


class TestBothTables:
    def test_what_was_never_stored_is_none(self, table):
        assert table.get(b"a") is None
        assert table.next_due() is None
        assert table.unconfirmed == 0

    def test_a_committed_row_is_found(self, table):
        table.apply(rows(a="one", b="two"))
        table.apply(rows(a="three"))
        assert (table.get(b"a"), table.get(b"b")) == (b"three", b"two")
        assert len(table) >= 2

    def test_a_deleted_row_is_gone_with_its_due_time(self, table):
        table.apply(rows(a="one"))
        table.apply(rows(a=None))
        assert table.get(b"a") is None
        assert table.dues == {}
        assert table.next_due() is None

    def test_deleting_what_is_not_there_is_nothing(self, table):
        table.apply(rows(a=None))
        assert table.get(b"a") is None

    def test_restored_rows_are_found_with_their_due_times(self, table):
        table.restore({b"a": Change(b"1", 50), b"b": Change(b"2", 20)})
        table.restore({b"b": Change(None, None)})
        assert (table.get(b"a"), table.get(b"b")) == (b"1", None)
        assert table.dues == {b"a": 50}

    def test_an_empty_key_and_an_empty_value_are_stored(self, table):
        table.apply({b"": Change(b"", None)})
        assert table.get(b"") == b""

    def test_keys_that_look_like_the_tables_own_are_kept_apart(self, table):
        names = [b"m", b"r", b"d", b"da", b"ra", b"\x00", b"\xff" * 3]
        table.apply({name: Change(b"v" + name, None) for name in names})
        table.mark()
        table.confirm(AT)
        assert [table.get(name) for name in names] == [b"v" + name for name in names]
        assert table.dues == {}

    def test_the_earliest_due_time_is_next_and_a_moved_one_is_not(self, table):
        table.apply({b"a": Change(b"1", 30), b"b": Change(b"2", 20)})
        assert table.next_due() == 20
        table.apply({b"b": Change(b"2", 90)})
        assert table.next_due() == 30
        table.apply({b"a": Change(b"1", None)})
        assert table.next_due() == 90

    def test_a_due_time_that_comes_back_is_due_again(self, table):
        for due in (100, 200, 100):
            table.apply({b"a": Change(b"1", due)})
            assert table.next_due() == due

    def test_the_agenda_does_not_grow_with_every_move(self, table):
        for due in range(10_000):
            table.apply({b"a": Change(b"1", due)})
        assert len(table.agenda) <= 64 + 2
        assert table.next_due() == 9999

    def test_a_rebuilt_agenda_holds_exactly_the_due_times(self, table):
        table.apply({bytes([n]): Change(b"", 100 - n) for n in range(50)})
        table.agenda.clear()
        table.rebuild_agenda()
        assert sorted(table.agenda) == sorted((due, key) for key, due in table.dues.items())
        assert table.next_due() == 51

    def test_confirming_changes_nothing_that_is_seen(self, table):
        table.apply(rows(a="one"))
        table.mark()
        table.apply(rows(b="four"))
        before = table.get(b"a"), table.get(b"b"), dict(table.dues)
        table.confirm(AT)
        assert (table.get(b"a"), table.get(b"b"), dict(table.dues)) == before


class TestMemoryTable:
    def test_it_has_no_checkpoint_whatever_was_confirmed(self):
        table = MemoryTable()
        table.apply(rows(a="one"))
        table.mark()
        table.confirm(AT)
        table.clear()
        assert table.checkpoint() is None
        assert table.unconfirmed == 0


class TestRocksTable:
    def test_a_fresh_folder_has_no_checkpoint(self, on_disk):
        assert on_disk().checkpoint() is None

    def test_only_what_was_marked_and_confirmed_survives_a_restart(self, on_disk):
        table = on_disk()
        table.apply(rows(a="one", b="two"))
        table.mark()
        table.apply(rows(a="three", c="three"))
        table.confirm(AT)
        table.apply(rows(d="four"))
        again = on_disk()
        assert [again.get(key) for key in (b"a", b"b", b"c", b"d")] == [b"one", b"two", None, None]
        again.reach(3)
        assert again.dues == {b"a": 3, b"b": 3}
        assert again.next_due() == 3
        assert again.checkpoint() == AT

    def test_what_was_marked_but_never_confirmed_is_gone(self, on_disk):
        table = on_disk()
        table.apply(rows(a="one"))
        table.mark()
        table.confirm(AT)
        table.apply(rows(a="second"))
        table.mark()
        again = on_disk()
        assert again.get(b"a") == b"one"
        assert again.checkpoint() == AT

    def test_a_confirmed_deletion_survives(self, on_disk):
        table = on_disk()
        for value in ("one", None):
            table.apply(rows(a=value))
            table.mark()
            table.confirm(AT)
        again = on_disk()
        again.reach(3)
        assert again.get(b"a") is None
        assert again.dues == {}

    def test_rows_wait_in_memory_until_they_are_confirmed(self, on_disk):
        table = on_disk()
        table.apply(rows(a="one", b="two"))
        assert table.unconfirmed == 2
        table.mark()
        table.apply(rows(b="three"))
        assert table.unconfirmed == 3
        table.confirm(AT)
        assert table.unconfirmed == 1

    def test_a_deletion_that_waits_hides_the_row_on_disk(self, on_disk):
        table = on_disk()
        table.restore(rows(a="one"))
        table.apply(rows(a=None))
        assert table.get(b"a") is None

    def test_a_confirmation_at_opening_covers_what_was_restored(self, on_disk):
        table = on_disk()
        table.restore(rows(a="one"))
        table.confirm(AT)
        again = on_disk()
        assert again.get(b"a") == b"one"
        assert again.checkpoint() == AT

    def test_cleared_is_empty_and_usable(self, on_disk):
        table = on_disk()
        table.apply(rows(a="one"))
        table.mark()
        table.confirm(AT)
        table.apply(rows(b="two"))
        table.clear()
        assert table.checkpoint() is None
        assert (table.get(b"a"), table.get(b"b"), len(table), table.unconfirmed) == (None, None, 0, 0)
        assert (table.dues, table.next_due()) == ({}, None)
        table.restore(rows(c="three"))
        assert table.get(b"c") == b"three"

    def test_far_due_times_stay_on_disk_until_the_clock_comes_near(self, on_disk):
        table = on_disk()
        table.reach(0)
        table.apply({b"%d" % n: Change(b"", n * table.horizon) for n in range(5)})
        assert list(table.dues) == [b"0"]
        table.mark()
        table.confirm(AT)
        table.apply({b"4": Change(b"", 7), b"5": Change(b"", table.horizon), b"3": Change(None, None)})
        assert table.next_due() == 0
        table.reach(table.horizon)
        assert table.dues == {b"0": 0, b"1": SPAN_MS, b"4": 7, b"5": SPAN_MS}
        table.reach(3 * SPAN_MS)
        assert sorted(due for due, _ in table.agenda) == [0, 7, SPAN_MS, SPAN_MS, 2 * SPAN_MS]

    def test_a_due_time_that_moved_leaves_nothing_behind_on_disk(self, on_disk):
        table = on_disk()
        for due in (30, 20, None, 10, 10):
            table.apply({b"a": Change(b"", due)})
            table.mark()
            table.confirm(AT)
        again = on_disk()
        again.reach(100)
        assert again.agenda == [(10, b"a")]
        again.apply({b"a": Change(None, None)})
        again.mark()
        again.confirm(AT)
        left = again._db.iter()
        left.seek_to_first()
        assert left.key() == META
        left.next()
        assert not left.valid()

    def test_a_table_is_empty_only_when_nothing_is_in_it(self, on_disk):
        table = on_disk()
        assert table.is_empty
        for value in ("one", None):
            table.apply(rows(a=value))
            assert not table.is_empty
        table.mark()
        table.confirm(AT)
        assert not on_disk().is_empty, "a checkpoint is something"

    def test_a_checkpoint_of_another_layout_is_not_used(self, on_disk):
        table = on_disk()
        table.confirm(AT)
        table._db.put(META, bytes([LAYOUT + 1]) + b"whatever")
        assert on_disk().checkpoint() is None

    def test_a_folder_in_use_is_said_and_tried_again(self, on_disk, tmp_path):
        on_disk()
        with pytest.raises(TimeoutError, match=r"in use by another process.*CONCORD_STATE_DIR") as caught:
            RocksTable(tmp_path / "table")
        assert classify(caught.value) is Verdict.RETRY

    def test_a_folder_that_cannot_be_opened_is_made_again(self, tmp_path):
        """It is only a copy of the changelog."""
        table = RocksTable(tmp_path / "table")
        table.restore(rows(a="one"))
        table.close()
        (tmp_path / "table" / "CURRENT").write_text("MANIFEST-999999\n")
        table = RocksTable(tmp_path / "table")
        assert (table.get(b"a"), table.checkpoint(), table.dues) == (None, None, {})
        table.close()

    def test_a_table_that_fails_while_it_runs_is_made_again_at_the_next_opening(self, tmp_path):
        table = RocksTable(tmp_path / "table")
        table.restore(rows(a="one"))
        table.close()  # a closed database refuses every call, as a broken disk would
        with pytest.raises(Stuck, match="made again from the changelog") as caught:
            table.get(b"a")
        assert classify(caught.value) is Verdict.RETRY
        table = RocksTable(tmp_path / "table")
        assert table.get(b"a") is None
        table.close()

    def test_partitions_have_folders_of_their_own(self, tmp_path):
        tables = [opener(tmp_path)(number) for number in (0, 1)]
        tables[0].apply(rows(a="one"))
        assert tables[1].get(b"a") is None
        for table in tables:
            table.close()

    def test_a_process_killed_without_closing_leaves_what_it_had_confirmed(self, tmp_path):
        program = f"""
import os, signal, pathlib
from streams.engine.table import Change, Checkpoint, RocksTable
table = RocksTable(pathlib.Path({str(tmp_path / "table")!r}))
table.apply({{b"a": Change(b"confirmed", 7)}})
table.mark()
table.confirm(Checkpoint(10, b"position", 1))
table.apply({{b"a": Change(b"pending", 8), b"b": Change(b"pending", None)}})
table.mark()
table.apply({{b"c": Change(b"pending", None)}})
os.kill(os.getpid(), signal.SIGKILL)
"""
        assert subprocess.run([sys.executable, "-c", program], check=False, timeout=30).returncode == -9
        table = RocksTable(tmp_path / "table")
        assert [table.get(key) for key in (b"a", b"b", b"c")] == [b"confirmed", None, None]
        table.reach(7)
        assert table.dues == {b"a": 7}
        assert table.checkpoint() == Checkpoint(10, b"position", 1)
        table.close()


KEYS = st.sampled_from([b"a", b"b", b"ca", b""])
CHANGES = st.one_of(
    st.just(Change(None, None)),
    st.builds(Change, st.binary(max_size=3), st.one_of(st.none(), st.integers(0, 5))),
)


class TablesAgree(RuleBasedStateMachine):
    """The table on disk and the one in memory under the same calls; a restart keeps exactly what was confirmed."""

    @initialize()
    def start(self) -> None:
        self.folder = fresh_folder("model")
        self.rocks = RocksTable(self.folder / "0", span_ms=1)
        self.memory = MemoryTable()
        self.live: dict[bytes, Change] = {}
        self.confirmed: dict[bytes, Change] = {}
        self.marked: dict[bytes, Change] | None = None
        self.checkpoint: Checkpoint | None = None
        self.offset = 0
        self.kills = 0

    @rule(changes=st.dictionaries(KEYS, CHANGES, min_size=1))
    def apply(self, changes: Mapping[bytes, Change]) -> None:
        self.rocks.apply(changes)
        self.memory.apply(changes)
        self.live = {**self.live, **changes}

    @precondition(lambda self: self.marked is None)
    @rule()
    def mark(self) -> None:
        self.rocks.mark()
        self.marked = dict(self.live)

    @precondition(lambda self: self.marked is not None)
    @rule()
    def confirm(self) -> None:
        self.offset += 1
        self.checkpoint = Checkpoint(self.offset, b"p%d" % self.offset, self.offset)
        self.rocks.confirm(self.checkpoint)
        self.confirmed, self.marked = self.marked or {}, None

    @rule(until=st.integers(0, 6))
    def reach(self, until: int) -> None:
        for table in (self.rocks, self.memory):
            table.reach(until)
        assert self.rocks.horizon > until

    @rule()
    def restart(self) -> None:
        self.rocks.close()
        self._opened(RocksTable(self.rocks._folder, span_ms=1))

    @rule()
    def kill(self) -> None:
        """What is on disk now is what a killed process leaves."""
        self.kills += 1
        copy = self.folder / f"killed-{self.kills}"
        shutil.copytree(self.rocks._folder, copy)
        self.rocks.close()
        self._opened(RocksTable(copy, span_ms=1))

    @rule()
    def clear(self) -> None:
        self.rocks.clear()
        self.memory, self.live, self.confirmed, self.marked, self.checkpoint = MemoryTable(), {}, {}, None, None

    def _opened(self, table: RocksTable) -> None:
        self.rocks, self.memory = table, MemoryTable()
        self.live, self.marked = dict(self.confirmed), None
        self.memory.restore(self.confirmed)

    @invariant()
    def agree(self) -> None:
        for key in (b"a", b"b", b"ca", b""):
            expected = self.live[key].value if key in self.live else None
            assert self.rocks.get(key) == self.memory.get(key) == expected
        near = {key: due for key, due in self.memory.dues.items() if due < self.rocks.horizon}
        assert self.rocks.dues == near
        assert self.rocks.next_due() == min(near.values(), default=None)
        assert self.memory.next_due() == min(self.memory.dues.values(), default=None)
        assert self.rocks.checkpoint() == self.checkpoint

    def teardown(self) -> None:
        if hasattr(self, "rocks"):
            self.rocks.close()
            shutil.rmtree(self.folder)


TestTablesAgree = TablesAgree.TestCase
TestTablesAgree.settings = settings(max_examples=20, stateful_step_count=15, deadline=None)
