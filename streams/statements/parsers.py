"""Every reader by name and version. What a file was read with is recorded, and stays here for as long as anybody may read it again.

A version never changes what it makes of the same bytes; a better reader is a new version beside it.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple, cast

import msgspec

from streams.domain.contract import Layout
from streams.statements import camt, table
from streams.statements.refusal import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from streams.domain.lines import Line


class Parser(NamedTuple):
    """`kinds` of files that it reads; `takes_layout` where a text layout tells it how."""

    kinds: frozenset[str]
    takes_layout: bool
    read: Callable[[IO[bytes], str, Layout | None], Iterator[Line]]


def _table(stream: IO[bytes], kind: str, layout: Layout | None) -> Iterator[Line]:
    if layout is None:
        raise Refused(
            "unknown_layout", "there is no layout for this file; give one with --layout, or in the channel's contract"
        )
    return table.read(stream, layout, cast("Any", kind))


def _camt(stream: IO[bytes], kind: str, _layout: Layout | None) -> Iterator[Line]:
    return camt.read(stream, cast("Any", kind))


PARSERS: Final[dict[str, Parser]] = {
    "table/1": Parser(frozenset({"CHANNEL_BILL", "SETTLEMENT", "BANK_CSV"}), takes_layout=True, read=_table),
    "camt/1": Parser(frozenset({"CAMT052", "CAMT053", "CAMT054"}), takes_layout=False, read=_camt),
}
KINDS: Final = tuple(sorted(kind for parser in PARSERS.values() for kind in parser.kinds))


def newest(kind: str) -> str:
    """The parser that reads this kind of file today."""
    fitting = [name for name, parser in PARSERS.items() if kind in parser.kinds]
    return max(fitting, key=lambda name: int(name.rpartition("/")[2]))


def read(parser: str, stream: IO[bytes], kind: str, layout: str = "") -> Iterator[Line]:
    """The lines of a seekable stream. `layout` is JSON, as it is recorded with the batch. Raises `Refused`."""
    known = PARSERS.get(parser)
    if known is None or kind not in known.kinds:
        raise Refused("unknown_layout", f"parser {parser!r} does not read {kind}; known are {', '.join(PARSERS)}")
    stream.seek(0)
    return known.read(stream, kind, msgspec.json.decode(layout, type=Layout) if layout else None)
