"""Tags and the `@position` record."""

from __future__ import annotations

import json

import pytest

from streams.engine.position import HEADER, KEY, RESERVED, SCRUB, Position, Written, decode, encode, header, tag_of

POSITION = Position((3, 14), {"a": 15, "b": 0}, {"out": Written(92, 6), "dead": Written(0, 0)})


class TestTags:
    @pytest.mark.parametrize("tag", [(0, 0), (1, 1), (7, 10**12), (10**12, 7)])
    def test_a_tag_comes_back_from_its_header(self, tag):
        assert tag_of([header(tag)]) == tag

    def test_a_tag_is_found_among_other_headers(self):
        assert tag_of([("ce_id", b"1.2"), header((3, 4)), ("traceparent", b"00")]) == (3, 4)

    @pytest.mark.parametrize("headers", [[], [("y", b"1.2")], [("X", b"1.2")]])
    def test_a_record_without_a_tag_is_not_the_engines(self, headers):
        assert tag_of(headers) is None

    @pytest.mark.parametrize(
        "value", [b"", b"7", b"7.", b".7", b"a.b", b"-1.2", b"1.2.3", b"1_0.2", b" 1.2", b"\xff.1"]
    )
    def test_somebody_elses_header_of_that_name_is_not_a_tag(self, value):
        assert tag_of([(HEADER, value)]) is None

    def test_the_engines_tag_is_the_last_one(self):
        """It is appended to what the topology's own headers are."""
        assert tag_of([(HEADER, b"9.9"), header((1, 2))]) == (1, 2)

    def test_tags_order_by_session_then_number_as_numbers(self):
        assert max([(2, 9), (2, 10), (1, 99)]) == (2, 10)


class TestPositionRecord:
    def test_it_comes_back(self):
        assert decode(encode(POSITION)) == POSITION

    def test_it_is_the_json_that_the_design_names(self):
        assert json.loads(encode(POSITION)) == {
            "x": [3, 14],
            "in": {"a": 15, "b": 0},
            "out": {"out": [92, 6], "dead": [0, 0]},
        }

    def test_a_field_of_a_later_release_is_passed_over(self):
        later = json.loads(encode(POSITION)) | {"new": 1}
        assert decode(json.dumps(later).encode()) == POSITION

    @pytest.mark.parametrize(
        "value",
        [
            None,
            b"",
            b"{",
            b"\xff\xfe",
            b"[]",
            b"null",
            b"{}",
            b'{"x":[1],"in":{},"out":{}}',
            b'{"x":[1,2],"in":{"a":"7"},"out":{}}',
            b'{"x":[1,2],"in":{"a":1.5},"out":{}}',
            b'{"x":[1,2],"in":{},"out":{"o":[1]}}',
            b'{"x":[1,2],"in":{}}',
        ],
    )
    def test_a_damaged_one_says_what_it_is_and_who_may_have_written_it(self, value):
        with pytest.raises(ValueError, match=r"@position record cannot be read.*written by another program"):
            decode(value)

    def test_its_keys_are_reserved(self):
        assert {KEY, SCRUB} == RESERVED
