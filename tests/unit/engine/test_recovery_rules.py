"""What an opening concludes from what it read, without a broker: what was missed, where to begin, what cannot be explained."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from streams.engine import position as positions
from streams.engine.config import Config
from streams.engine.failures import Refused
from streams.engine.position import NEVER, Position, Tag, Written, header
from streams.engine.recovery import TOMBSTONES_LIVE_MS, Evidence, Opened, Recovery
from streams.engine.table import Change, Checkpoint, MemoryTable, RocksTable
from streams.engine.transaction import Entry
from tests.unit.engine import tally
from tests.unit.engine.tally import CHANGELOG, DEAD, OUT, In

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RECOVERY = Recovery(tally.topology(), Config(kafka={}), 3)


def at(tag: Tag, **out: tuple[int, int]) -> Position:
    return Position(
        tag, {"in": 5}, {OUT: Written(0, 0), DEAD: Written(0, 0)} | {k: Written(*v) for k, v in out.items()}
    )


def record(tag: Tag, offset: int, key: bytes = b"k", value: bytes | None = b"v") -> tuple[Tag, Any]:
    return tag, In(value, key, offset=offset, headers=(("ce_id", b"1"), header(tag)))


def explained(
    position: Position | None,
    top: Tag,
    visible: dict[str, list[tuple[Tag, int]]] | None = None,
    hidden: dict[str, list[tuple[Tag, Any]]] | None = None,
    **lows: int,
) -> None:
    evidence = {
        topic: Evidence((visible or {}).get(topic, []), (hidden or {}).get(topic, []))
        for topic in (CHANGELOG, OUT, DEAD)
    }
    RECOVERY.require_explained(
        evidence, RECOVERY.missed(evidence, top), position, top, {CHANGELOG: 0, OUT: 0, DEAD: 0} | lows
    )


class TestWhatIsMissed:
    def test_invisible_records_of_the_top_session_up_to_the_top_were_committed(self):
        hidden = [record((4, 1), 1), record((4, 2), 2), record((4, 3), 3)]
        evidence = {OUT: Evidence([], hidden), CHANGELOG: Evidence([((4, 2), 9)], [])}
        assert RECOVERY.missed(evidence, (4, 2)) == {OUT: hidden[:2], CHANGELOG: []}

    def test_invisible_records_of_another_session_were_not(self):
        """An earlier session was settled by the opening after it; a later one has nothing visible, so it committed nothing."""
        evidence = {OUT: Evidence([], [record((3, 1), 1), record((5, 1), 2)])}
        assert RECOVERY.missed(evidence, (4, 7)) == {OUT: []}

    def test_nothing_visible_proves_nothing(self):
        evidence = {OUT: Evidence([], [record((1, 1), 1)])}
        assert RECOVERY.missed(evidence, NEVER) == {OUT: []}

    def test_the_top_is_the_highest_visible_tag_as_numbers(self):
        assert Evidence([((2, 9), 0), ((2, 10), 1), ((1, 99), 2)]).top() == (2, 10)
        assert Evidence().top() == NEVER

    def test_the_last_missed_position_is_where_the_partition_stands(self):
        missed = [
            record((4, 2), 1, positions.KEY, positions.encode(at((4, 2)))),
            record((4, 3), 2, b"row"),
            record((4, 3), 3, positions.KEY, positions.encode(at((4, 3)))),
        ]
        assert RECOVERY.roll_forward(missed, at((4, 1))) == at((4, 3))
        assert RECOVERY.roll_forward([], at((4, 1))) == at((4, 1))

    def test_what_is_written_again_loses_its_old_tag_and_keeps_its_other_headers(self):
        _, missed = record((4, 2), 1)
        assert RECOVERY.entry(missed) == Entry(b"k", b"v", [("ce_id", b"1")])


class TestBase:
    def test_outputs_are_read_from_where_everything_was_known_to_be_visible(self):
        assert RECOVERY.base(OUT, at((1, 1), out=(50, 3)), 0) == 50

    def test_what_the_retention_deleted_is_not_asked_for(self):
        assert RECOVERY.base(OUT, at((1, 1), out=(50, 3)), 70) == 70

    @pytest.mark.parametrize("position", [None, Position((1, 1), {}, {})])
    def test_a_log_that_no_position_knows_is_read_from_its_beginning(self, position):
        assert RECOVERY.base(OUT, position, 7) == 7


class TestRefusals:
    def test_a_fresh_partition_is_explained(self):
        explained(None, NEVER)

    def test_outputs_that_agree_with_the_position_are_explained(self):
        explained(at((4, 2), out=(10, 2)), (4, 2), {OUT: [((4, 1), 10), ((4, 2), 12)]})

    def test_missed_outputs_count_as_there(self):
        explained(at((4, 2), out=(10, 2)), (4, 2), {OUT: [((4, 1), 10)]}, {OUT: [record((4, 2), 12)]})

    def test_outputs_newer_than_the_changelog_mean_that_the_changelog_lost_data(self):
        with pytest.raises(Refused, match=r"outputs prove transaction \(4, 3\), but changelog ends with \(4, 2\)"):
            explained(at((4, 2)), (4, 3), {OUT: [((4, 3), 10)]})

    def test_outputs_without_any_position_mean_that_the_changelog_lost_everything(self):
        with pytest.raises(Refused, match=r"changelog ends with nothing.*restore it from a replica or a backup"):
            explained(None, (4, 3), {OUT: [((4, 3), 10)]})

    def test_an_output_that_is_neither_visible_nor_hidden_was_lost(self):
        with pytest.raises(Refused, match="out/3 has 1 of the 2 records that were committed since offset 10"):
            explained(at((4, 2), out=(10, 2)), (4, 2), {OUT: [((4, 1), 10)]})

    def test_an_output_too_many_is_refused_as_well(self):
        with pytest.raises(Refused, match="out/3 has 2 of the 1 records"):
            explained(at((4, 2), out=(10, 1)), (4, 2), {OUT: [((4, 1), 10), ((4, 2), 12)]})

    def test_a_lost_dead_letter_is_refused(self):
        with pytest.raises(Refused, match="dead/3 has 0 of the 1"):
            explained(at((4, 2), dead=(0, 1)), (4, 2))

    def test_records_of_earlier_sessions_are_not_counted(self):
        explained(at((4, 1), out=(10, 1)), (4, 1), {OUT: [((3, 9), 10), ((4, 1), 11)]})

    def test_records_below_the_base_are_not_counted(self):
        explained(at((4, 2), out=(10, 1)), (4, 2), {OUT: [((4, 1), 9), ((4, 2), 10)]})

    def test_a_log_whose_beginning_was_deleted_past_the_base_is_not_counted(self):
        explained(at((4, 2), out=(10, 2)), (4, 2), {OUT: [((4, 2), 12)]}, out=11)

    def test_a_log_that_is_no_output_any_more_is_not_counted(self):
        explained(at((4, 2), former=(10, 2)), (4, 2))

    def test_a_position_that_cannot_be_read_is_refused_with_the_topic(self):
        with pytest.raises(Refused, match=r"changelog/3: .*@position"):
            RECOVERY.read_position(b"nonsense")


class TestResuming:
    """Which checkpoint of a table on disk may be used."""

    NOW = int(time.time() * 1000)

    @pytest.fixture
    def table(self, tmp_path: Path) -> Iterator[RocksTable]:
        made = RocksTable(tmp_path / "0")
        made.restore({b"k": Change(b"v", 9)})
        yield made
        made.close()

    def test_a_memory_table_begins_at_the_beginning(self):
        assert RECOVERY.resume(MemoryTable(), 7, 100) == (7, None)

    def test_a_checkpoint_inside_the_log_is_used(self, table):
        table.confirm(Checkpoint(50, positions.encode(at((4, 2))), self.NOW))
        assert RECOVERY.resume(table, 7, 100) == (49, at((4, 2))), "its own position is read again"
        assert table.get(b"k") == b"v"

    @pytest.mark.parametrize("offset", [8, 100])
    def test_a_checkpoint_at_the_very_ends_of_the_log_is_used(self, table, offset):
        table.confirm(Checkpoint(offset, positions.encode(at((4, 2))), self.NOW))
        assert RECOVERY.resume(table, 7, 100)[0] == offset - 1

    @pytest.mark.parametrize(
        ("offset", "age_ms"),
        [(7, 0), (101, 0), (50, TOMBSTONES_LIVE_MS + 1000)],
        ids=["before the log", "past the log", "older than tombstones live"],
    )
    def test_a_checkpoint_that_the_log_cannot_continue_is_cleared(self, table, offset, age_ms):
        table.confirm(Checkpoint(offset, positions.encode(at((4, 2))), self.NOW - age_ms))
        assert RECOVERY.resume(table, 7, 100) == (7, None)
        assert table.get(b"k") is None
        assert table.next_due() is None

    def test_rows_without_a_checkpoint_are_cleared(self, table):
        """A first restore that was cut short: what was deleted since would stay for ever."""
        assert RECOVERY.resume(table, 7, 100) == (7, None)
        assert table.get(b"k") is None

    def test_a_damaged_checkpoint_is_refused(self, table):
        table.confirm(Checkpoint(50, b"damaged", self.NOW))
        with pytest.raises(Refused, match="@position"):
            RECOVERY.resume(table, 7, 100)

    def test_a_restored_table_is_a_checkpoint_only_if_nothing_must_be_rolled_forward_into_it(self):
        ends = {CHANGELOG: 60, OUT: 9}
        opened = Opened(position=at((4, 2)), session=5, ends=ends, stop=55, missed={}, after=(4, 2))
        assert RECOVERY.checkpoint(opened)[:2] == (55, positions.encode(at((4, 2))))
        opened.missed = {OUT: [Entry(b"k", b"v")]}
        assert RECOVERY.checkpoint(opened) is not None
        opened.missed = {CHANGELOG: [Entry(b"k", b"v")]}
        assert RECOVERY.checkpoint(opened) is None
        opened.position, opened.missed = None, {}
        assert RECOVERY.checkpoint(opened) is None
