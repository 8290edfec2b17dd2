"""From bytes to text: gzip by its magic, encodings strictly and in the order of the layout, a byte order mark dropped.

Everything streams. To know that an encoding fits, the whole file is decoded once before its first line is handed out; nothing is guessed
from a part of it, and bytes that fit none of the encodings refuse the file.
"""

from __future__ import annotations

import codecs
import gzip
import io
import struct
import tempfile
import zipfile
import zlib
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Final

from streams.statements.refusal import Refused

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

GZIP: Final = b"\x1f\x8b"
BOM: Final = codecs.BOM_UTF8
CHUNK: Final = 1 << 18
ZIP: Final = b"PK\x03\x04"
MEMBERS: Final = 100
RATIO: Final = 200
SPOOLED: Final = 16 << 20
LARGEST: Final = 16 << 30
"""Bytes of an unpacked file."""
BROKEN: Final = (OSError, EOFError, zlib.error)
DAMAGED: Final = (
    zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, OverflowError, KeyError, IndexError, struct.error, *BROKEN,
)  # fmt: skip
"""What the reader of archives raises for bytes that are none."""


def plain(stream: IO[bytes]) -> IO[bytes]:
    """The unpacked bytes of a seekable stream."""
    magic = stream.read(2)
    stream.seek(0)
    return gzip.open(stream, mode="rb") if magic == GZIP else stream  # type: ignore[return-value]  # it reads as one


@contextmanager
def member(stream: IO[bytes], named: str) -> Iterator[IO[bytes]]:
    """The one file of a ZIP whose name has this word in it, for the length of a block; a stream that is no ZIP as it is.

    Names are only compared, never used as paths. Names of GBK without the UTF-8 flag are read as such. Raises `Refused`.
    """
    magic = stream.read(4)
    stream.seek(0)
    if magic != ZIP:
        yield stream
        return
    with tempfile.SpooledTemporaryFile(max_size=SPOOLED) as copy:
        try:
            with zipfile.ZipFile(stream, metadata_encoding="gbk") as archive:
                _unpack(archive, _named(archive, named), copy)
        except DAMAGED as wrong:
            raise Refused("compression", f"{wrong}; the archive is damaged or encrypted, fetch it again") from wrong
        yield copy


def _named(archive: zipfile.ZipFile, named: str) -> zipfile.ZipInfo:
    """The member that is meant; summaries stand beside it."""
    files = [one for one in archive.infolist() if not one.is_dir()]
    if not 0 < len(files) <= MEMBERS:
        raise Refused("compression", f"the archive has {len(files)} files; a bill has a few")
    fitting = [one for one in files if named in one.filename and "汇总" not in one.filename] or files
    return min(fitting, key=lambda one: (len(one.filename), one.filename))


def _unpack(archive: zipfile.ZipFile, one: zipfile.ZipInfo, copy: IO[bytes]) -> None:
    """A seekable copy, bounded by what the archive says of it and by what it is."""
    if one.file_size > LARGEST or one.file_size > RATIO * max(one.compress_size, 1024):
        raise Refused("too_large", f"the file in the archive unpacks to {one.file_size} bytes")
    size = 0
    with archive.open(one) as packed:
        while chunk := packed.read(CHUNK):
            size += len(chunk)
            if size > one.file_size:
                raise Refused("too_large", "the file in the archive is larger than it says")
            copy.write(chunk)
    copy.seek(0)


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
