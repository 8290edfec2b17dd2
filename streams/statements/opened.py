"""From bytes to text: gzip by its magic, encodings strictly and in the order of the layout, a byte order mark dropped.

Everything streams. To know that an encoding fits, the whole file is decoded once before its first line is handed out; nothing is guessed
from a part of it, and bytes that fit none of the encodings refuse the file.
"""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from typing import IO, TYPE_CHECKING, Final

from streams.statements.refusal import Refused

if TYPE_CHECKING:
    from collections.abc import Sequence

GZIP: Final = b"\x1f\x8b"
BOM: Final = codecs.BOM_UTF8
CHUNK: Final = 1 << 18
LARGEST: Final = 16 << 30
"""Bytes of an unpacked file."""
BROKEN: Final = (OSError, EOFError, zlib.error)


def plain(stream: IO[bytes]) -> IO[bytes]:
    """The unpacked bytes of a seekable stream."""
    magic = stream.read(2)
    stream.seek(0)
    return gzip.open(stream, mode="rb") if magic == GZIP else stream  # type: ignore[return-value]  # it reads as one


def text(stream: IO[bytes], encodings: Sequence[str]) -> io.TextIOWrapper:
    """The text of a seekable stream, line ends as they are. Raises `Refused`."""
    for name in encodings:
        stream.seek(0)
        chosen = _fits(plain(stream), name)
        if chosen is not None:
            stream.seek(0)
            return io.TextIOWrapper(
                io.BufferedReader(_Raw(plain(stream))), encoding=chosen, errors="strict", newline=""
            )
    raise Refused(
        "encoding", f"the bytes are none of {', '.join(encodings)}; export the file again, or correct the layout"
    )


def _fits(stream: IO[bytes], name: str) -> str | None:
    """The codec under which every byte is text, or None. A byte order mark says UTF-8, whatever the layout tries first."""
    try:
        codec = codecs.lookup(name).name
        first = stream.read(CHUNK)
        if first.startswith(BOM):
            if codec not in {"utf-8", "utf-8-sig"}:
                return None
            codec = "utf-8-sig"
        decoder = codecs.getincrementaldecoder(codec)("strict")
        size = len(first)
        while first:
            decoder.decode(first)
            first = stream.read(CHUNK)
            size += len(first)
            if size > LARGEST:
                raise Refused("too_large", f"the file unpacks to more than {LARGEST} bytes")
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return None
    except LookupError as unknown:
        raise Refused("unknown_layout", f"encoding {name!r} is not known; correct the layout") from unknown
    except BROKEN as wrong:
        raise Refused("compression", f"{wrong}; the file is cut off or damaged, fetch it again") from wrong
    return codec


class _Raw(io.RawIOBase):
    """A readable stream as raw bytes, which never closes what it reads from."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        found = self._stream.read(len(buffer))
        buffer[: len(found)] = found
        return len(found)
