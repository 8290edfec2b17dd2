"""A TCP proxy to stand in front of a broker and spoil the line: slow, cut, or silent, and whole again.

Put it between clients and a broker by having the broker advertise the proxy's address:

    async with Proxy() as proxy:
        cluster = kafka_cluster(advertised={1: proxy.address})
        proxy.target = ("127.0.0.1", cluster.port(1))

Like TCP, it never loses or reorders what it has taken: a silent line delivers after `restore`, a cut one does not.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from streams.dev import ports

if TYPE_CHECKING:
    from typing import Self

CHUNK = 64 * 1024
QUEUED = 256  # chunks on their way in one direction; past that the sender feels it


class Proxy:
    """Forwards every connection to `target`. `connections` counts all ever made, `forwarded` the bytes, both ways."""

    def __init__(self, target: tuple[str, int] | None = None, *, port: int | None = None) -> None:
        self.target = target
        self.port = port or ports.free(1)[0]
        self.connections = 0
        self.forwarded = 0
        self._latency_s = 0.0
        self._bytes_per_s: float | None = None
        self._refusing = False
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._lines: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def address(self) -> str:
        """`host:port` for clients, and for the broker to advertise."""
        return f"{ports.HOST}:{self.port}"

    def slow(self, *, latency_s: float = 0.0, bytes_per_s: float | None = None) -> None:
        """Deliver each piece `latency_s` later, one way, and no more than `bytes_per_s` per direction of a connection."""
        self._latency_s, self._bytes_per_s = latency_s, bytes_per_s

    def cut(self, *, refuse: bool = False) -> None:
        """Reset all connections now; what was on its way is lost. With `refuse`, new ones too, until `restore`."""
        self._refusing = refuse
        for writer in self._writers:
            writer.transport.abort()

    def blackhole(self) -> None:
        """Forward nothing and close nothing. New connections are accepted into the same silence."""
        self._flowing.clear()

    def restore(self) -> None:
        """A whole line again; what waited in the silence is delivered."""
        self._latency_s, self._bytes_per_s, self._refusing = 0.0, None, False
        self._flowing.set()

    async def start(self) -> Self:
        """Listen."""
        self._server = await asyncio.start_server(self._accept, ports.HOST, self.port)
        return self

    async def stop(self) -> None:
        """Stop listening and end every connection."""
        if self._server is not None:
            self._server.close()
        self.cut()
        for line in self._lines:
            line.cancel()
        await asyncio.gather(*self._lines, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_exception: object) -> None:
        await self.stop()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = asyncio.current_task()
        assert line is not None
        self._lines.add(line)
        self._writers.add(writer)
        self.connections += 1
        try:
            await self._serve(reader, writer)
        except (OSError, asyncio.CancelledError):  # either end is gone, or we stop; both end the line
            pass
        finally:
            writer.transport.abort()
            self._writers.discard(writer)
            self._lines.discard(line)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refusing or self.target is None:
            return
        await self._flowing.wait()
        far_reader, far_writer = await asyncio.open_connection(*self.target)
        self._writers.add(far_writer)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, far_writer))
                group.create_task(self._pump(far_reader, writer))
        except* OSError:  # a reset on one side is one on the other
            pass
        finally:
            far_writer.transport.abort()
            self._writers.discard(far_writer)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One direction, as a delay line: reading goes on while earlier pieces wait for their time."""
        queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(QUEUED)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._deliver(queue, writer))
            while True:
                await self._flowing.wait()
                data = await reader.read(CHUNK)
                await queue.put((asyncio.get_running_loop().time() + self._latency_s, data))
                if not data:
                    return

    async def _deliver(self, queue: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due, data = await queue.get()
            await asyncio.sleep(max(0.0, due - loop.time()))
            await self._flowing.wait()
            if not data:
                with suppress(OSError):  # the other end may be gone already
                    writer.write_eof()
                return
            writer.write(data)
            await writer.drain()
            self.forwarded += len(data)
            if self._bytes_per_s:
                await asyncio.sleep(len(data) / self._bytes_per_s)
