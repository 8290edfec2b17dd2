"""What every channel's intake shares: the window, the headers, the evidence."""

from __future__ import annotations

import base64
import hashlib

import pytest

from streams.channels.verification import (
    Malformed,
    Stale,
    check_fresh,
    evidence,
    header,
    in_utc,
    parse_headers,
    rfc3339,
    unix_seconds,
)

NOW = 1_740_996_000


@pytest.mark.parametrize("distance", [-300, -1, 0, 1, 300])
def test_a_time_inside_the_window_is_fresh(distance: int):
    check_fresh(NOW + distance, NOW, "t")


@pytest.mark.parametrize(("distance", "side"), [(-301, "behind"), (301, "ahead of"), (86_400, "ahead of")])
def test_a_time_outside_the_window_is_stale_both_ways(distance: int, side: str):
    with pytest.raises(Stale, match=f"t: the signed time is .* {side} the clock"):
        check_fresh(NOW + distance, NOW, "t")


@pytest.mark.parametrize("text", ["", " 1", "+1", "-1", "1_0", "1.0", "१२", "0x10", "9" * 13])
def test_a_time_is_decimal_digits_and_nothing_else(text: str):
    with pytest.raises(Malformed, match="Unix time in decimal digits"):
        unix_seconds(text, "t")


def test_a_header_is_found_whatever_its_case():
    assert header({"STRIPE-signature": " x "}, "Stripe-Signature") == "x"


@pytest.mark.parametrize("headers", [{}, {"X": ""}, {"X": "  "}, {"X": "v" * 9000}])
def test_an_absent_empty_or_endless_header_is_malformed(headers: dict[str, str]):
    with pytest.raises(Malformed, match=r"^X: the header is "):
        header(headers, "X")


def test_evidence_keeps_the_very_bytes_and_no_credentials():
    body = b'{"a": 1}\r\n\xff'
    raw = evidence({"Cookie": "c", "Authorization": "Basic x", "Content-Type": "application/json", "X-Id": "1"}, body)
    assert base64.b64decode(raw.body) == body
    assert raw.sha256 == hashlib.sha256(body).hexdigest()
    assert raw.headers == {"content-type": "application/json", "x-id": "1"}
    assert raw.content_type == "application/json"


def test_header_lines_are_read_as_received():
    data = b"POST /hook HTTP/1.1\r\nHost: example.org\r\nX-A: 1\r\nx-a:2\r\nX-Name: caf\xe9\r\n\r\nnot: a header"
    assert parse_headers(data) == {"host": "example.org", "x-a": "1, 2", "x-name": "café"}
    assert parse_headers(b"A: 1\nB: x:y") == {"a": "1", "b": "x:y"}
    assert parse_headers(b"") == {}


@pytest.mark.parametrize("data", [b"no colon", b": empty", b"A: 1\n folded", b"Bad : x"])
def test_what_is_no_header_line_is_malformed_and_names_its_line(data: bytes):
    with pytest.raises(Malformed, match=r"^headers, line \d"):
        parse_headers(data)


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2021-01-28T17:07:11+08:00", "2021-01-28T09:07:11Z"),
        ("2021-01-28T09:07:11Z", "2021-01-28T09:07:11Z"),
        ("2021-01-28T17:07:11", "2021-01-28T17:07:11"),
        ("yesterday", "yesterday"),
    ],
)
def test_a_time_with_a_zone_is_kept_in_utc_and_any_other_as_it_is(text: str, utc: str):
    assert in_utc(text) == utc


def test_unix_seconds_are_written_as_rfc_3339():
    assert rfc3339(1_740_996_000) == "2025-03-03T10:00:00Z"
