"""The lines of a FILE event: what is given parsed as it is, bytes through the product's readers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import structs

from streams.domain.lines import BankEntry
from streams.replay import contents
from streams.statements import camt, table
from streams.statements.refusal import Refused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streams.domain.contract import Contract
    from streams.domain.lines import Line


def read(event: dict[str, Any], contract: Contract) -> Iterator[Line]:
    """Raises `Refused` for a file that books nothing."""
    if "raw_lines" not in event:
        yield from contents.lines(event)
        return
    kind = event["file_kind"]
    if kind.startswith("CAMT"):
        for line in camt.read(contents.stream(event), kind):
            yield structs.replace(line, account=None) if isinstance(line, BankEntry) else line
        return
    if contract.file is None:
        raise Refused("unknown_layout", f"the contract of {event['channel']} has no file layout; add one")
    yield from table.read(contents.stream(event), contract.file, kind)
