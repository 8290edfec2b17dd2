"""The proxy spoils a line as it says, and never loses or reorders what a whole line would deliver."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Self

import pytest

from tests.support.proxy import Proxy


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


@pytest.fixture
async def proxy():
    server = await asyncio.start_server(_echo, "127.0.0.1", 0)
    async with Proxy(server.sockets[0].getsockname()) as proxy:
        yield proxy
    server.close()
    await server.wait_closed()


class Client:
    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.proxy.port)
        return self

    async def __aexit__(self, *_exception: object) -> None:
        self.writer.transport.abort()

    async def ask(self, data: bytes, seconds: float = 5) -> bytes:
        self.writer.write(data)
        return await asyncio.wait_for(self.reader.readexactly(len(data)), seconds)


async def test_a_whole_line_delivers_every_byte_in_order(proxy: Proxy):
    data = b"".join(hashlib.sha256(bytes([i])).digest() for i in range(256)) * 200
    async with Client(proxy) as client:
        assert await client.ask(data) == data
    assert proxy.forwarded == 2 * len(data)
    assert proxy.connections == 1


async def test_a_slow_line_adds_its_latency_both_ways(proxy: Proxy):
    loop = asyncio.get_running_loop()
    async with Client(proxy) as client:
        proxy.slow(latency_s=0.1)
        start = loop.time()
        await client.ask(b"x")
        assert loop.time() - start >= 0.2


async def test_a_slow_line_carries_no_more_than_its_bandwidth(proxy: Proxy):
    loop = asyncio.get_running_loop()
    async with Client(proxy) as client:
        proxy.slow(bytes_per_s=100_000)
        await client.ask(b"x" * 30_000)
        start = loop.time()
        await client.ask(b"x")
        assert loop.time() - start >= 0.2


async def test_a_cut_ends_connections_and_lets_new_ones_in(proxy: Proxy):
    async with Client(proxy) as client:
        await client.ask(b"x")
        proxy.cut()
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await client.ask(b"x")
    async with Client(proxy) as client:
        assert await client.ask(b"y") == b"y"


async def test_a_refusing_cut_keeps_new_connections_out_until_it_is_restored(proxy: Proxy):
    proxy.cut(refuse=True)
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        async with Client(proxy) as client:
            await client.ask(b"x")
    proxy.restore()
    async with Client(proxy) as client:
        assert await client.ask(b"x") == b"x"


async def test_a_black_hole_is_silent_and_delivers_when_restored(proxy: Proxy):
    async with Client(proxy) as client:
        await client.ask(b"x")
        proxy.blackhole()
        with pytest.raises(TimeoutError):
            await client.ask(b"held", 0.2)
        assert not client.reader.at_eof()
        proxy.restore()
        assert await asyncio.wait_for(client.reader.readexactly(4), 5) == b"held"


async def test_a_connection_into_a_black_hole_waits_too(proxy: Proxy):
    proxy.blackhole()
    async with Client(proxy) as client:
        with pytest.raises(TimeoutError):
            await client.ask(b"x", 0.2)
        proxy.restore()
        assert await asyncio.wait_for(client.reader.readexactly(1), 5) == b"x"


async def test_a_close_passes_through(proxy: Proxy):
    async with Client(proxy) as client:
        client.writer.write(b"bye")
        client.writer.write_eof()
        assert await asyncio.wait_for(client.reader.read(), 5) == b"bye"
