"""A merchant's web site of a test's own: it keeps what it was told, and answers as the test says."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
LOST = b"HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n"
MOVED = b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/secret\r\ncontent-length: 0\r\n\r\n"


@dataclass
class Told:
    """One request."""

    target: str
    headers: dict[str, str]
    body: str

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]


@dataclass
class Site:
    """`answer(number)` gives the bytes of the answer to the request of this number, from 1; `drip_s` waits before each of its bytes."""

    answer: Callable[[int], bytes] = lambda _: OK
    drip_s: float = 0.0
    told: list[Told] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?token=hidden"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            first, *lines = head.strip().split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
            body = await reader.readexactly(int(headers["content-length"]))
            self.told.append(Told(first.split(" ")[1], headers, body.decode()))
            for byte in self.answer(len(self.told)) if self.drip_s else ():
                await asyncio.sleep(self.drip_s)
                writer.write(bytes([byte]))
                await writer.drain()
            if not self.drip_s:
                writer.write(self.answer(len(self.told)))
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()


@asynccontextmanager
async def site(answer: Callable[[int], bytes] = lambda _: OK, *, drip_s: float = 0.0) -> AsyncIterator[Site]:
    """A site on loopback."""
    made = Site(answer, drip_s)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
