"""One decision as it lies in its topic: what the law said, and what its record adds: the record that caused it, and its trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from streams.domain.decisions import Decision  # noqa: TC001  msgspec reads the annotation

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Row: TypeAlias = "Sequence[Any]"
"""The values of one row, in the order of its statement's columns."""


class Told(Struct, frozen=True, gc=False):
    """`cause` is topic/partition/offset of the input, None for a due time; `trace` the W3C traceparent that came with it."""

    decision: Decision
    cause: str | None = None
    trace: str | None = None


class DecisionLostError(Exception):
    """The books would have a hole: a decision of an order came before the one that must stand in front of it."""


def columns(rows: Iterable[Row]) -> list[Sequence[Any]]:
    """Rows turned into one list for each column, as `unnest` takes them."""
    return list(zip(*rows, strict=True))
