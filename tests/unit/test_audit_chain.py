"""The seals of the audit log: what was changed, dropped, slipped in, reordered, cut or rewritten shows (R-197)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from msgspec import structs

from stores.audit import START, Chain, Entry, Head, act, seal

AT = datetime(2026, 5, 1, 12, 0, 0, 123456, tzinfo=UTC)


def log(length: int = 5, first: str = "ann") -> list[Entry]:
    entries: list[Entry] = []
    before = START
    for seq in range(1, length + 1):
        done = act(AT + timedelta(seconds=seq), first if seq == 1 else "bob", "comment", "d1", text=f"word {seq}")
        entries.append(Entry(seq, done, before, seal(before, seq, done)))
        before = entries[-1].hash
    return entries


def broken(entries: list[Entry], kept: Head | None = None) -> tuple[str, ...]:
    chain = Chain(kept)
    for entry in entries:
        chain.take(entry)
    return chain.end().broken


def test_a_log_that_nobody_touched_holds():
    entries = log()
    chain = Chain(Head(3, entries[2].hash))
    for entry in entries:
        chain.take(entry)
    assert chain.end() == (Head(5, entries[4].hash), ())


def test_an_empty_log_holds_and_has_no_head():
    assert Chain().end() == (Head(0, START), ())


@pytest.mark.parametrize("field", ["at", "actor", "act", "subject", "detail"])
def test_a_change_of_any_field_shows(field: str):
    entries = log()
    changed = AT if field == "at" else "changed"
    entries[2] = structs.replace(entries[2], done=entries[2].done._replace(**{field: changed}))
    assert broken(entries) == ("entry 3 is not what was sealed",)


def test_a_changed_entry_that_is_sealed_again_breaks_the_next():
    entries = log()
    done = entries[2].done._replace(actor="eve")
    entries[2] = Entry(3, done, entries[2].previous, seal(entries[2].previous, 3, done))
    assert broken(entries) == ("entry 4 was sealed over another entry than 3",)


def test_an_entry_that_is_missing_or_out_of_order_shows():
    entries = log()
    assert broken([*entries[:1], *entries[2:]]) == ("entry 2 is missing: after 1 comes 3",)
    assert broken(entries[1:]) == ("entry 1 is missing: after 0 comes 2",)
    assert broken([entries[1], entries[0], *entries[2:]])


def test_a_log_that_was_cut_shows_only_beside_a_head_that_was_kept():
    entries = log()
    kept = Head(5, entries[4].hash)
    assert broken(entries[:3]) == ()
    assert broken(entries[:3], kept) == ("the log ends at 3; it was kept that it had reached 5",)


def test_a_log_that_was_written_anew_shows_only_beside_a_head_that_was_kept():
    anew = log(first="eve")
    assert broken(anew) == ()
    assert broken(anew, Head(3, log()[2].hash)) == ("entry 3 is not the one whose seal was kept",)


def test_a_seal_depends_on_the_moment_and_not_on_its_time_zone():
    there = AT.astimezone(timezone(timedelta(hours=8)))
    assert seal(START, 1, act(there, "ann", "claim", "d1")) == seal(START, 1, act(AT, "ann", "claim", "d1"))


def test_no_two_ways_to_split_the_same_letters_have_one_seal():
    assert seal(START, 1, act(AT, "ab", "c", "d")) != seal(START, 1, act(AT, "a", "bc", "d"))
    assert act(AT, "a", "b", "c", x="1", y="2") == act(AT, "a", "b", "c", y="2", x="1")
