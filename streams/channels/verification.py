"""What every channel's intake shares: how a notice is refused, when it is fresh, and what is kept of it as evidence.

Only three things refuse a notice (R-070): headers that cannot be read, a signature that no live key made, and a time
outside the window. Whatever passes is kept, mapped or not, so that it can be acknowledged. A refusal names the field
and the fix and never shows a key, a signature or the body.
"""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from streams.domain.events import Raw

if TYPE_CHECKING:
    from collections.abc import Mapping

WINDOW_S: Final = 300
HEADER_LIMIT: Final = 8192
NOT_EVIDENCE: Final = frozenset({"authorization", "cookie", "proxy-authorization", "set-cookie", "x-api-key"})


class Refused(Exception):  # noqa: N818  it is a verdict on the notice, not an error of ours
    """A notice that must not be acknowledged: `Malformed`, `BadSignature` or `Stale`, in this precedence."""

    def __init__(self, field: str, problem: str, fix: str) -> None:
        super().__init__(f"{field}: {problem}; {fix}")
        self.field = field
        self.problem = problem
        self.fix = fix


class Malformed(Refused):
    """A header that verification needs is absent or cannot be read."""


class BadSignature(Refused):
    """No live key made this signature over these bytes."""


class Stale(Refused):
    """Authentic, but its signed time is too far from now, in either direction."""


def header(headers: Mapping[str, str], name: str) -> str:
    """The value of a header, whatever its case. Raises `Malformed` when it is absent, empty or absurdly long."""
    value = optional_header(headers, name)
    if not value:
        raise Malformed(name, "the header is absent or empty", "pass the request's headers as they were received")
    if len(value) > HEADER_LIMIT:
        raise Malformed(name, f"the header is longer than {HEADER_LIMIT} characters", "pass the request's own header")
    return value


def optional_header(headers: Mapping[str, str], name: str) -> str:
    """The value of a header without surrounding blanks, or empty text."""
    wanted = name.lower()
    return next((value.strip() for key, value in headers.items() if key.lower() == wanted), "")


def unix_seconds(text: str, field: str) -> int:
    """A signed time: decimal digits only, so that what is compared is what was signed."""
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        raise Malformed(field, "the time is not a number of seconds", "it must be Unix time in decimal digits")
    return int(text)


def check_fresh(signed_s: int, now_s: int, field: str, window_s: int = WINDOW_S) -> None:
    """Raise `Stale` outside the window, both ways: a notice dated far ahead could be replayed for long."""
    distance = signed_s - now_s
    if abs(distance) > window_s:
        side = "ahead of" if distance > 0 else "behind"
        raise Stale(
            field,
            f"the signed time is {abs(distance)} s {side} the clock, more than {window_s} s",
            "check the clock, or ask the channel to send the notice again",
        )


def evidence(headers: Mapping[str, str], body: bytes) -> Raw:
    """The notice as received: its body, the body's SHA-256, its headers in lower case without credentials (R-072)."""
    kept = {name.lower(): value for name, value in headers.items() if name.lower() not in NOT_EVIDENCE}
    return Raw(
        body=base64.b64encode(body).decode("ascii"),
        headers=kept,
        sha256=hashlib.sha256(body).hexdigest(),
        content_type=optional_header(headers, "content-type"),
    )


def rfc3339(seconds: int) -> str:
    """Unix seconds as RFC 3339 in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def in_utc(text: str) -> str:
    """An RFC 3339 time with any offset, in UTC. What cannot be read stays as it is: the law marks it (R18)."""
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            return text
        return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError):  # in UTC it may lie before the year 1
        return text


def parse_headers(data: bytes) -> dict[str, str]:
    """HTTP header lines as received: names in lower case, a repeated header joined by commas, up to the first empty line.

    A request line in front is skipped. Raises `Malformed` for anything else.
    """
    headers: dict[str, str] = {}
    for number, line in enumerate(data.decode("latin-1").replace("\r\n", "\n").split("\n"), 1):
        name, colon, value = line.partition(":")
        if not line.strip():
            break
        if number == 1 and line.rpartition(" ")[2].startswith("HTTP/"):
            continue
        if not colon or not name or name != name.strip():
            raise Malformed(f"headers, line {number}", "it is not `Name: value`", "pass the header lines as received")
        name, value = name.lower(), value.strip()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers
