"""Why a file is refused as a whole: a value with a name, a place and the fix. A bad file books nothing."""

from __future__ import annotations

from typing import Literal, TypeAlias

Reason: TypeAlias = Literal[
    "unknown_layout", "encoding", "compression", "header", "empty", "xml", "structure", "too_large"
]


class Refused(Exception):  # noqa: N818  an outcome with a name, not an error of ours
    """The file cannot be read under this layout. `place` is the line, byte or element, where there is one."""

    def __init__(self, reason: Reason, detail: str, place: str = "") -> None:
        self.reason, self.detail, self.place = reason, detail, place
        super().__init__(f"{reason}{f' at {place}' if place else ''}: {detail}")
