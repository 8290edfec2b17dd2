"""Urlencoded forms: read once, and read by each who asks for themselves."""

from __future__ import annotations

import pytest

from streams.channels import forms


def test_what_a_reader_does_to_a_form_no_other_reader_sees():
    body = b"a=1&b=%26%e5%8d%95+%2B&%63=+"
    first = forms.fields_of(body)
    assert first == {"a": b"1", "b": "&单 +".encode(), "c": b" "}
    first["a"] = b"2"
    assert forms.fields_of(body)["a"] == b"1"


@pytest.mark.parametrize(
    ("value", "found"),
    [("x", ""), ("x&y=1", ""), ("total=1", ""), ("x&total=1", "note"), ("&total=", "note"), ("x&y=1&total=", "note")],
)
def test_a_trusted_field_hidden_in_another_fields_value_is_found(value: str, found: str):
    assert forms.ambiguous({"first": b"1", "note": value.encode()}, ("other", "total")) == found
