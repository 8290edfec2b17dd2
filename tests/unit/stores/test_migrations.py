"""The migrations as files: numbered, named, and each in one place."""

from __future__ import annotations

import re

import pytest

from stores import schema
from stores.schema import Migration, SchemaError


def test_every_shipped_migration_has_a_number_and_a_name_of_its_own():
    shipped = schema.shipped()
    assert [one.number for one in shipped] == sorted({one.number for one in shipped})
    assert shipped[0].file == "0001_books.sql"


def test_no_amount_is_anything_but_whole_minor_units():
    """R-103: money is BIGINT."""
    for one in schema.shipped():
        columns = re.findall(
            r"^    (\w*(?:amount|fee|captured|held|returned|disputed|total)) +(\w+)", one.sql, re.MULTILINE
        )
        assert {kind for name, kind in columns if name != "total"} <= {"bigint"}, one.file


def test_no_time_is_without_its_zone():
    """R-106: UTC, converted before writing."""
    for one in schema.shipped():
        assert not re.search(r"\btimestamp\b(?!\s+with time zone)", one.sql.replace("timestamptz", "")), one.file


def test_a_file_with_another_kind_of_name_is_refused():
    with pytest.raises(SchemaError, match="name it NNNN_what_it_makes"):
        schema._read("1_books.sql", "")


def test_a_schema_that_is_not_ours_is_refused():
    with pytest.raises(SchemaError, match="schema is 'elsewhere'"):
        schema._read("0001_books.sql", "-- schema: elsewhere\n")


def test_a_checksum_changes_with_every_letter():
    assert Migration(1, "a", "SELECT 1").checksum != Migration(1, "a", "SELECT 2").checksum
