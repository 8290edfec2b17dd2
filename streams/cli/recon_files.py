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


def parser_of(kind: str, parser: str | None) -> str:
    if parser is None:
        return parsers.newest(kind)
    if parser not in parsers.PARSERS or kind not in parsers.PARSERS[parser].kinds:
        raise WrongFileError(f"--parser {parser} does not read {kind}; known are {', '.join(parsers.PARSERS)}")
    return parser


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
