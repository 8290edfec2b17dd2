"""What others wrote, on a terminal: ids and words of channels can hold escape sequences, line ends and marks that reverse the text.

Whatever is not printable is shown by its number, so that no id can move the cursor, colour a verdict or forge a line.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import msgspec
from rich.text import Text

LATIN_END = 0x100
BASIC_END = 0x10000


def printable(text: str) -> str:
    r"""The text on one line, with every character that is not printable as `\x1b`, `\u202e` or `\U000e0001`."""
    return text if text.isprintable() else "".join(char if char.isprintable() else _shown(ord(char)) for char in text)


def styled(*parts: str | tuple[str, str]) -> Text:
    """A line for rich, of words and (word, style); nothing in them is read as markup."""
    return Text.assemble(
        *[printable(part) if isinstance(part, str) else (printable(part[0]), part[1]) for part in parts]
    )


def json_text(value: object, *, indent: int = -1) -> str:
    r"""One JSON value, with every character that is not printable as `\u001b`: as JSON, it means the same. `indent` below 0: one line."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=indent).decode()
    return "".join(char if char.isprintable() or char == "\n" else _units(char) for char in text)


def command() -> str:
    """How this program was called, to be pasted: `.venv/bin/concord` where `concord` alone would not be found."""
    called = Path(sys.argv[0])
    return str(called) if called.name == "concord" and shutil.which("concord") is None else "concord"


def _shown(code: int) -> str:
    if code < LATIN_END:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < BASIC_END else f"\\U{code:08x}"


def _units(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
