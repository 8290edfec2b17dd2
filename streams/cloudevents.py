"""CloudEvents attributes in binary mode, as the headers of a record that is produced beside the worker (`docs/topics.md`)."""

from __future__ import annotations


def attributes(name: str, kind: str, source: str, time: str) -> list[tuple[str, bytes]]:
    """The headers of one JSON event: its id, its type, who says it, and when (RFC 3339, UTC)."""
    return [
        ("ce_specversion", b"1.0"),
        ("ce_id", name.encode()),
        ("ce_type", kind.encode()),
        ("ce_source", source.encode()),
        ("ce_time", time.encode()),
        ("content-type", b"application/json"),
    ]
