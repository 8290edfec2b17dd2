"""One transaction's decisions: order, due times, bounds, poison, dead letters and what is sent."""

from __future__ import annotations

import hashlib

import pytest

from streams.engine import position
from streams.engine.config import Config
from streams.engine.failures import Refused
from streams.engine.table import MemoryTable
from streams.engine.topology import Poison
from streams.engine.transaction import Entry
from streams.engine.work import RowTooLargeError, Work, merged
from tests.unit.engine import tally
from tests.unit.engine.tally import CHANGELOG, DEAD, IN, OTHER, OUT, In, commit, state, work


def table_with(**values: str) -> MemoryTable:
    """A table in which each key has seen one committed record."""
    table = MemoryTable()
    first = work(table)
    for key, value in values.items():
        assert first.take(In(value.encode(), key.encode()))
    commit(first)
    return table


def headers(entry: tuple[object, object, list[tuple[str, bytes]]]) -> dict[str, bytes]:
    return dict(entry[2])


class TestOrder:
    def test_records_of_several_topics_are_taken_by_timestamp(self):
        fetched = {
            "a": [In(b"1", timestamp=10), In(b"4", timestamp=40)],
            "b": [In(b"2", timestamp=20, topic=OTHER), In(b"3", timestamp=30, topic=OTHER)],
            "c": [],
        }
        assert [record.value for record in merged(fetched)] == [b"1", b"2", b"3", b"4"]

    def test_a_topics_own_order_is_kept_even_against_its_timestamps(self):
        fetched = {"a": [In(b"1", timestamp=50), In(b"2", timestamp=10)], "b": [In(b"x", timestamp=20)]}
        values = [record.value for record in merged(fetched)]
        assert values.index(b"1") < values.index(b"2")

    def test_nothing_fetched_is_nothing_to_do(self):
        assert list(merged({})) == []
        assert list(merged({"a": []})) == []

    def test_the_next_offset_of_each_input_is_remembered(self):
        one = work()
        one.take(In(b"add 1", offset=7))
        one.take(In(b"add 1", offset=9))
        one.take(In(b"add 1", offset=2, topic=OTHER))
        assert one.offsets == {IN: 10, OTHER: 3}

    def test_work_is_empty_until_something_is_taken(self):
        assert not work()
        one = work()
        one.take(In(b"poison"))
        assert one


class TestOverlay:
    def test_a_second_record_of_a_key_sees_what_the_first_one_did(self):
        one = work()
        one.take(In(b"add 2"))
        one.take(In(b"add 3"))
        commit(one)
        assert state(one.table) == tally.Tally(("add 2", "add 3"), 5)

    def test_the_table_does_not_change_before_the_commit(self):
        table = table_with(k="add 1")
        one = work(table)
        one.take(In(b"add 2"))
        one.rows()
        assert state(table).total == 1

    def test_the_very_same_state_stores_nothing(self):
        table = table_with(k="add 1")
        one = work(table)
        one.take(In(b"same"))
        assert one.records == 1
        assert one.rows() == {}

    def test_a_deleted_state_becomes_a_tombstone_and_forgets_its_due_time(self):
        table = table_with(k="due 100")
        one = work(table)
        one.take(In(b"delete"))
        assert one.rows() == {b"k": (None, None)}
        commit(one)
        assert table.get(b"k") is None
        assert table.next_due() is None

    def test_deleting_what_is_not_there_stores_nothing(self):
        one = work()
        one.take(In(b"delete"))
        assert one.rows() == {}

    def test_a_key_deleted_and_made_again_in_one_transaction_starts_anew(self):
        table = table_with(k="add 1")
        one = work(table)
        one.take(In(b"delete"))
        one.take(In(b"add 2"))
        commit(one)
        assert state(table).total == 2


class TestDueTimes:
    def test_a_due_time_fires_before_a_record_of_the_same_or_a_later_moment(self):
        table = table_with(k="due 100")
        one = work(table)
        one.take(In(b"add 1", timestamp=100))
        commit(one)
        assert state(table).log == ("due 100", "@100", "add 1")

    def test_a_due_time_does_not_fire_before_an_earlier_record(self):
        table = table_with(k="due 100")
        one = work(table)
        one.take(In(b"add 1", timestamp=99))
        assert one.timers == 0

    def test_due_times_fire_in_due_order_each_seeing_its_own_time(self):
        table = table_with(a="due 30", b="due 10", c="due 20")
        one = work(table)
        one.fire(30)
        assert [value for _, value, _ in one.sends[OUT]] == [b"fired 10", b"fired 20", b"fired 30"]
        assert (one.timers, one.latest_due) == (3, 30)

    def test_a_due_time_is_checked_for_every_key_not_only_the_records_own(self):
        table = table_with(a="due 30")
        one = work(table)
        one.take(In(b"add 1", b"z", timestamp=40))
        assert [key for key, _, _ in one.sends[OUT]] == [b"a"]

    def test_a_due_time_set_by_this_transaction_fires_in_it(self):
        one = work()
        one.take(In(b"due 50", timestamp=10))
        one.take(In(b"add 1", b"z", timestamp=60))
        assert one.states[b"k"].log == ("due 50", "@50")

    def test_a_due_time_that_a_record_moved_does_not_fire_at_its_old_moment(self):
        table = table_with(k="due 100")
        one = work(table)
        one.take(In(b"due 300", timestamp=90))
        one.fire(200)
        assert one.timers == 0
        one.fire(300)
        assert one.timers == 1

    def test_a_repeating_due_time_fires_once_for_each_of_its_moments(self):
        table = table_with(k="again 50, due 100")
        one = work(table)
        one.fire(210)
        assert one.states[b"k"].log == ("again 50, due 100", "@100", "@150", "@200")
        commit(one)
        assert table.next_due() == 250

    def test_a_due_time_that_fired_and_came_back_to_the_same_moment_fires_again(self):
        table = table_with(k="due 100")
        one = work(table)
        one.fire(100)
        one.take(In(b"due 100", timestamp=150))
        commit(one)
        two = work(table)
        two.fire(200)
        assert two.timers == 1, "the second due time 100 was lost"

    def test_a_due_time_that_was_moved_away_and_back_still_fires(self):
        table = table_with(k="due 100")
        one = work(table)
        one.take(In(b"due 300", timestamp=90))
        one.take(In(b"add 1", b"z", timestamp=150))  # looks at the agenda: 100 is stale now
        one.take(In(b"due 100", timestamp=160))
        commit(one)
        two = work(table)
        two.fire(200)
        assert two.timers == 1

    def test_a_due_time_in_doubt_stops_the_clock_and_every_record_after_it(self):
        table = table_with(a="due 30", b="due 50")
        one = work(table)
        one.known = 40
        assert not one.take(In(b"add 1", timestamp=60))
        assert (one.timers, one.records, one.doubt) == (1, 0, True)
        one.known = 60
        one.doubt = False
        assert one.take(In(b"add 1", timestamp=60))
        assert one.timers == 2

    def test_a_due_time_left_where_it_was_is_refused(self):
        table = table_with(k="stay, due 100")
        with pytest.raises(Refused, match=r"due time 100 of b'k'.*bug in its decide"):
            work(table).fire(100)

    def test_a_due_time_whose_state_comes_back_unchanged_is_refused(self):
        table = table_with(k="due 100")
        one = work(table)
        one.topology = tally.topology(decide=lambda state, _event, _at: (state, []))
        with pytest.raises(Refused, match="would fire for ever"):
            one.fire(100)


class TestBounds:
    def test_what_does_not_fit_is_left_for_the_next_transaction(self):
        one = work(batch=2)
        taken = [one.take(In(b"add 1", offset=offset)) for offset in range(3)]
        assert taken == [True, True, False]
        assert one.offsets == {IN: 2}
        assert one.states[b"k"].total == 2

    def test_due_times_count_and_may_push_their_record_out(self):
        table = table_with(a="due 1", b="due 2", c="due 3")
        one = work(table, batch=2)
        assert not one.take(In(b"add 1", timestamp=10))
        assert (one.timers, one.records) == (2, 0)
        commit(one)
        two = work(table, batch=2)
        assert two.take(In(b"add 1", timestamp=10))
        assert (two.timers, two.records) == (1, 1)

    def test_a_transaction_stops_growing_past_its_bytes(self):
        one = work(batch_bytes=1000)
        assert one.take(In(b"say 2000"))
        assert one.full
        assert not one.take(In(b"add 1"))

    def test_dead_letters_count_as_bytes(self):
        one = work(batch_bytes=1000)
        assert one.take(In(b"\xff" * 2000, None))
        assert one.full


class TestPoison:
    @pytest.mark.parametrize(
        ("record", "kind"),
        [
            (In(b"add 1", None), b"missing_key"),
            (In(b"add 1", position.KEY), b"reserved_key"),
            (In(b"add 1", position.SCRUB), b"reserved_key"),
            (In(b"poison"), b"spoiled"),
        ],
        ids=lambda value: value.decode() if isinstance(value, bytes) else "",
    )
    def test_poison_goes_to_the_dead_letters_and_changes_nothing(self, record, kind):
        one = work()
        assert one.take(record)
        assert one.rows() == {}
        assert one.offsets == {IN: 1}
        assert one.dead == 1
        assert list(one.sends) == [DEAD]
        assert headers(one.sends[DEAD][0])["dead-kind"] == kind

    def test_an_empty_key_is_a_key(self):
        one = work()
        one.take(In(b"add 1", b""))
        assert one.states[b""].total == 1

    def test_due_times_before_poison_fire_all_the_same(self):
        table = table_with(k="due 100")
        one = work(table)
        one.take(In(b"poison", timestamp=100))
        assert (one.timers, one.dead) == (1, 1)

    def test_a_mistake_of_the_topologys_own_stops_the_worker_and_says_where(self):
        with pytest.raises(Refused, match=r"in/3 at offset 0, key b'k': the topology failed with KeyError") as refused:
            work().take(In(b"no-such-command"))
        assert isinstance(refused.value.__cause__, KeyError)

    def test_poison_says_its_kind_and_reason(self):
        assert str(Poison("not_json", "send JSON")) == "not_json: send JSON"


class TestTooLarge:
    def test_a_record_with_an_output_too_large_is_buried_whole(self):
        table = table_with(k="add 1")
        one = work(table, record_bytes=1000)
        one.take(In(b"add 1, say 10, say 2000, due 5"))
        one.take(In(b"add 2"))
        about = headers(one.sends[DEAD][0])
        assert about["dead-kind"] == b"too_large"
        assert b"output to out" in about["dead-reason"]
        assert b"limit is 1000" in about["dead-reason"]
        assert OUT not in one.sends
        commit(one)
        assert state(table) == tally.Tally(("add 1", "add 2"), 3)

    def test_a_due_times_output_too_large_is_refused(self):
        table = table_with(k="due 100")
        with pytest.raises(Refused, match=r"due time of b'k'.*output to out"):
            work(table, record_bytes=50).fire(100)

    def test_the_limit_leaves_room_for_the_tag_and_the_batch(self):
        """Sent alone, a record takes a 61-byte batch header, up to 36 bytes of lengths and the tag beside its own bytes."""
        limit = 1000
        for size in range(700, 1000):
            one = work(record_bytes=limit)
            one.take(In(b"say %d" % size))
            if OUT in one.sends:
                entry = Entry(*one.entries((2**40, 2**20))[OUT][0])
                named = sum(len(name) + len(value) for name, value in entry.headers)
                assert 61 + 36 + len(entry.key) + len(entry.value) + named + 4 <= limit

    def test_a_row_too_large_is_noticed_when_the_work_is_done(self):
        one = work(record_bytes=1000)
        one.take(In(b"grow 2000"))
        with pytest.raises(RowTooLargeError):
            one.rows()

    def test_careful_work_buries_exactly_the_record_that_outgrew_the_row(self):
        table = table_with(k="grow 500")
        one = work(table, record_bytes=1000, careful=True)
        for offset, value in enumerate((b"add 1", b"grow 600", b"add 2")):
            one.take(In(value, offset=offset))
        assert [headers(entry)["dead-offset"] for entry in one.sends[DEAD]] == [b"1"]
        commit(one)
        assert state(table).log == ("grow 500", "add 1", "add 2")

    def test_careful_work_never_trips_over_a_row_again(self):
        """Both ways of measuring agree at every size around the limit."""
        for size in range(600, 1000):
            one = work(record_bytes=1000, careful=True)
            one.take(In(b"grow %d" % size))
            one.rows()

    def test_a_due_time_that_outgrows_its_row_is_refused(self):
        table = table_with(k="due 100")
        one = work(table, record_bytes=200, careful=True)
        with pytest.raises(Refused, match="state of b'k'"):
            one.fire(100)

    def test_a_deleted_row_is_never_too_large(self):
        table = table_with(k="grow 5000")
        one = work(table, record_bytes=1000, careful=True)
        one.take(In(b"delete"))
        assert one.rows() == {b"k": (None, None)}

    def test_undone_work_can_be_done_again_with_its_due_times(self):
        table = table_with(a="due 10", b="due 20", k="add 1")
        one = work(table, record_bytes=1000)
        assert one.take(In(b"grow 2000", timestamp=30))
        with pytest.raises(RowTooLargeError):
            one.rows()
        one.undo()
        two = work(table, record_bytes=1000, careful=True)
        two.take(In(b"grow 2000", timestamp=30))
        assert (two.timers, two.dead) == (2, 1)
        assert [value for _, value, _ in two.sends[OUT]] == [b"fired 10", b"fired 20"]


class TestDeadLetters:
    def test_a_dead_letter_keeps_the_bytes_and_says_where_what_and_why(self):
        record = In(b"poison", b"key", 1234, 56, OTHER, 3, (("ce_id", b"e1"), ("x", b"9.9"), ("dead-kind", b"old")))
        one = work()
        one.take(record)
        key, value, about = one.sends[DEAD][0]
        assert (key, value) == (b"key", b"poison")
        assert about == [
            ("ce_id", b"e1"),
            ("dead-topic", b"other"),
            ("dead-partition", b"3"),
            ("dead-offset", b"56"),
            ("dead-timestamp", b"1234"),
            ("dead-kind", b"spoiled"),
            ("dead-reason", b"the value is spoiled; send another"),
        ]

    def test_a_tombstone_without_a_key_is_kept_as_it_is(self):
        one = work()
        one.take(In(None, None))
        assert one.sends[DEAD][0][:2] == (None, None)

    def test_what_is_too_large_for_the_dead_letters_is_cut_and_hashed(self):
        value = bytes(range(256)) * 100
        one = work(dead_letter_bytes=5000)
        one.take(In(value, None, headers=(("ballast", b"." * 9000),)))
        key, kept, _ = one.sends[DEAD][0]
        about = headers(one.sends[DEAD][0])
        assert (key, kept) == (b"", value[:2500])
        assert about["dead-cut-from-bytes"] == b"25600"
        assert about["dead-sha256"] == hashlib.sha256(value).hexdigest().encode()
        assert about["dead-kind"] == b"missing_key"
        assert "ballast" not in about

    def test_a_huge_key_is_cut_too(self):
        one = work(dead_letter_bytes=8000)
        one.take(In(b"poison", b"k" * 20_000))
        entry = Entry(*one.entries((1, 1))[DEAD][0])
        assert entry.key == b"k" * 1024
        assert entry.size() <= 8000

    def test_a_long_reason_is_cut(self):
        def decode(_record):
            raise Poison("wordy", "ü" * 5000)

        one = work()
        one.topology = tally.topology(decode=decode)
        one.take(In(b"any"))
        assert len(headers(one.sends[DEAD][0])["dead-reason"]) <= 2000


class TestWhatIsSent:
    def test_everything_that_is_sent_carries_the_tag(self):
        one = work()
        one.take(In(b"add 1, label paid", b"a"))
        one.take(In(b"poison", b"b"))
        entries = one.entries((7, 42))
        assert set(entries) == {OUT, DEAD, CHANGELOG}
        for sent in entries.values():
            for entry in sent:
                assert position.tag_of(entry[2]) == (7, 42)
        assert entries[OUT][0][2][0] == ("from", b"add 1, label paid")
        assert [key for key, _, _ in entries[CHANGELOG]] == [b"a"]

    def test_an_output_has_the_key_of_the_state_that_caused_it(self):
        one = work()
        one.take(In(b"say 1", b"a"))
        assert one.sends[OUT][0][0] == b"a"

    def test_labels_are_counted(self):
        one = work()
        one.take(In(b"label paid, label paid, label late, say 1"))
        assert dict(one.labels) == {"paid": 2, "late": 1}

    def test_only_the_last_state_of_a_key_is_stored_in_the_order_of_first_change(self):
        one = work()
        for key in (b"b", b"a", b"b"):
            one.take(In(b"add 1", key))
        assert list(one.rows()) == [b"b", b"a"]
        assert tally.load(one.rows()[b"b"].value).total == 2


class TestPlace:
    """A key lives in one partition; what lies elsewhere is handled there or not at all."""

    def work(self, table: MemoryTable | None = None) -> Work:
        topology = tally.topology(place=lambda key, count: int(key) % count)
        return Work(topology, Config(kafka={}), MemoryTable() if table is None else table, 3, partitions=8)

    def test_a_record_of_a_key_that_lives_elsewhere_is_read_and_not_handled(self):
        one = self.work()
        stray, own = In(b"add 1", b"12", offset=4), In(b"add 1", b"11", offset=5)
        assert one.take(stray)
        assert one.take(own)
        assert one.misplaced == [stray]
        assert list(one.rows()) == [b"11"]
        assert one.offsets == {IN: 6}

    def test_what_was_moved_and_still_does_not_fit_is_a_dead_letter_and_no_loop(self):
        one = self.work()
        one.take(In(b"add 1", b"12", headers=[("moved-from", b"in/5/0")]))
        assert one.misplaced == []
        [letter] = one.sends[DEAD]
        assert headers(letter)["dead-kind"] == b"wrong_partition"

    def test_a_key_that_already_has_its_state_here_is_not_torn_from_it(self):
        table = MemoryTable()
        first = work(table)
        first.take(In(b"add 1", b"12"))
        commit(first)
        one = self.work(table)
        one.take(In(b"add 1", b"12"))
        assert one.misplaced == []

    def test_without_a_place_keys_live_where_they_lie(self):
        one = work()
        one.take(In(b"add 1", b"12"))
        assert one.misplaced == []
