"""The HTTP server: uvicorn, with bounds on headers and connections, and a stop that finishes what is in flight."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from streams.gateway.limits import HEADER_BYTES
from streams.log import Hush

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator

    from litestar import Litestar

CONNECTIONS: Final = 8192
KEEP_ALIVE_S: Final = 75
TOO_LONG: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class Protocol(HttpToolsProtocol):
    """Bounds what comes before a body: its bytes, and how long it may take. The library bounds neither."""

    header_s: float = 10.0

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._unread = 0
        self._refused = False
        self._in_headers = False
        self._clock: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as the library narrows it
        super().connection_made(transport)
        self._wait()

    def on_message_begin(self) -> None:
        self._stop_waiting()
        self._in_headers = True
        super().on_message_begin()

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        if self._in_headers:
            self._unread += len(data)
        super().data_received(data)
        if not self._in_headers:
            return
        if self._unread > HEADER_BYTES:
            self._refuse()
        elif self._clock is None:  # most headers come whole, and need no clock
            self._wait()

    def on_headers_complete(self) -> None:
        self._in_headers = False
        self._stop_waiting()
        if sum(len(name) + len(value) + 4 for name, value in self.headers) + len(self.url) > HEADER_BYTES:
            self._refuse()
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._refused:
            super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._stop_waiting()
        self._clock = self.loop.call_later(self.header_s, self._give_up)

    def _stop_waiting(self) -> None:
        self._unread = 0
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _refuse(self) -> None:
        self._refused = True
        self._stop_waiting()
        if not self.transport.is_closing():
            self.transport.write(TOO_LONG)
            self.transport.close()

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()


class Server(uvicorn.Server):
    """Leaves the signals to whoever runs it: after a stop there is still something to flush."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def server(app: Litestar, *, host: str, port: int, header_s: float, stop_s: float) -> Server:
    """A server that is not started; `await .serve([socket])`, and `.should_exit = True` from anywhere stops it."""
    logging.getLogger("uvicorn.error").addFilter(Hush("uvicorn"))
    bounded = type("Bounded", (Protocol,), {"header_s": header_s})
    return Server(
        uvicorn.Config(
            app,
            host=host,
            port=port,
            http=bounded,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=CONNECTIONS,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=max(1, round(stop_s)),
        )
    )
