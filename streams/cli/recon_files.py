"""What the commands of `concord recon` share about a file: how it is named, and by which parser and layout it is read."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import IO, TYPE_CHECKING

import msgspec
import yaml

from streams.channels import contracts
from streams.domain.contract import DEFAULT, Contract, Layout
from streams.statements import parsers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streams.domain.lines import Line

REFUSED = 3
BLOCK = 1 << 20


class WrongFileError(Exception):
    """An option, or the file's name, does not fit; the text names it and the fix."""


def contract_of(channel: str) -> Contract:
    """What the channel promises of its files; the defaults where it has no contract."""
    return contracts.shipped().get(channel, DEFAULT)


def layout_of(channel: str, path: str | None) -> str:
    """The text layout as JSON: of a YAML or JSON file, else of the contract; empty where there is none."""
    if path is None:
        layout = contract_of(channel).file
        return "" if layout is None else msgspec.json.encode(layout, order="deterministic").decode()
    try:
        raw = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        layout = msgspec.convert(raw, Layout)
    except (yaml.YAMLError, msgspec.ValidationError, UnicodeDecodeError) as wrong:
        raise WrongFileError(f"--layout {path}: {wrong}") from wrong
    return msgspec.json.encode(layout, order="deterministic").decode()


def chosen(stream: IO[bytes], kind: str | None, parser: str | None) -> parsers.Chosen:
    """By which reader, as which kind: as was said, else as the file shows itself, else as a text under a layout.

    Raises `WrongFileError` for what contradicts, and `Refused` for an archive that cannot be opened.
    """
    if parser is not None:
        known = parsers.PARSERS.get(parser)
        if known is None:
            raise WrongFileError(f"--parser {parser} is not known; known are {', '.join(parsers.PARSERS)}")
        if kind is not None and kind not in known.kinds:
            raise WrongFileError(f"--parser {parser} reads {', '.join(sorted(known.kinds))}, not {kind}")
        if kind is None and len(known.kinds) > 1:
            raise WrongFileError(f"--parser {parser} reads {', '.join(sorted(known.kinds))}; say which by --kind")
        return parsers.Chosen(parser, kind or next(iter(known.kinds)))
    seen = parsers.recognised(stream)
    if seen is None:
        kind = kind or "CHANNEL_BILL"
        if kind not in parsers.PARSERS[parsers.newest("table")].kinds:
            raise WrongFileError(f"--kind {kind}: the file does not look like one")
        return parsers.Chosen(parsers.newest("table"), kind)
    if kind is not None and kind != seen.kind:
        raise WrongFileError(f"--kind {kind}: the file shows itself as {seen.kind} ({seen.parser})")
    return seen


def takes_layout(parser: str) -> bool:
    return parsers.PARSERS[parser].takes_layout


def hashed(stream: IO[bytes]) -> tuple[bytes, int]:
    """SHA-256 and size."""
    digest, size = hashlib.sha256(), 0
    while block := stream.read(BLOCK):
        digest.update(block)
        size += len(block)
    stream.seek(0)
    return digest.digest(), size


def lines(parser: str, stream: IO[bytes], kind: str, layout: str) -> Iterator[Line]:
    return parsers.read(parser, stream, kind, layout)
