"""The trace that a notice belongs to: the caller's, if it is one, else a new one; and what of a name may stand in a log line."""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import Final

from streams.log import CARD_NUMBER

TRACEPARENT: Final = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
"""W3C Trace Context, with what it forbids: version ff, and ids of zeros only."""
PLAIN: Final = re.compile(r"(?=[^0-9]*[0-9])[A-Za-z0-9._:@-]{1,64}")
"""An identifier: no blanks, no letters beyond ASCII, and at least one digit. A person's name is none."""
SECRETS: Final = re.compile(r"(?i)whsec|secret|passw|token|bearer|[sr]k_(live|test)|api.?key")
"""What looks as if somebody had put a key where an id belongs."""


def traced(traceparent: str) -> str:
    """The caller's `traceparent`, or a fresh one in place of what is none."""
    if TRACEPARENT.fullmatch(traceparent):
        return traceparent
    return f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"


def trace_id(traceparent: str) -> str:
    return traceparent[3:35]


def loggable(name: str) -> str:
    """An id that came from outside, if it can be no person's name, no key and no card's number; else what it can be found again by."""
    if PLAIN.fullmatch(name) and not SECRETS.search(name) and not CARD_NUMBER.search(re.sub(r"[^0-9A-Za-z]", "", name)):
        return name
    return f"sha256:{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:16]}" if name else ""
