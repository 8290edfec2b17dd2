"""One HTTP call to a channel, bounded in every way, and told apart by what it proves: a reply, or why there is none.

A request is not begun past its last moment, not even on a connection that took long to make: the channel's contract counts from
there. "Not sent" is said only when no byte of the request can have left.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import httpx

from streams.channels.requests import Reply

if TYPE_CHECKING:
    from collections.abc import Callable

    from streams.channels.requests import Call, Nothing

CONNECT_S: Final = 5.0
READ_S: Final = 20.0
TOTAL_S: Final = 30.0
MOST_BYTES: Final = 1 << 20


class TooLateError(Exception):
    """The last moment passed before anything was sent."""


def client(concurrency: int, *, read_s: float = READ_S) -> httpx.AsyncClient:
    """The HTTP client of one account. It follows no redirects and heeds no proxy variables: requests carry secrets."""
    limits = httpx.Limits(max_connections=concurrency, max_keepalive_connections=concurrency)
    timeout = httpx.Timeout(read_s, connect=CONNECT_S, pool=CONNECT_S)
    return httpx.AsyncClient(limits=limits, timeout=timeout, follow_redirects=False, trust_env=False)


class _Watch:
    """Learns from the transport when the first byte is about to leave, and stops it when that is too late."""

    def __init__(self, may_send: Callable[[], bool]) -> None:
        self.began = False
        self._may_send = may_send

    async def __call__(self, step: str, _info: Any) -> None:
        if step.endswith(".send_request_headers.started"):
            if not self._may_send():
                raise TooLateError
            self.began = True


async def call(
    http: httpx.AsyncClient, wanted: Call, may_send: Callable[[], bool], *, total_s: float = TOTAL_S
) -> Reply | Nothing:
    """Make the call. Raises `TooLateError` when `may_send` says no at the last moment; everything else is a reply or the lack of one."""
    watch = _Watch(may_send)
    try:
        async with asyncio.timeout(total_s):
            return await _exchange(http, wanted, watch)
    except (TimeoutError, httpx.TimeoutException):
        return "timeout" if watch.began else "not_sent"
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError):
        return "reset" if watch.began else "not_sent"


async def _exchange(http: httpx.AsyncClient, wanted: Call, watch: _Watch) -> Reply | Nothing:
    try:
        request = http.build_request(
            wanted.method, wanted.url, headers=wanted.headers, content=wanted.body or None, extensions={"trace": watch}
        )
    except ValueError:  # an address or a header that HTTP cannot carry
        return "not_sent"
    reply = await http.send(request, stream=True)
    try:
        body = bytearray()
        async for part in reply.aiter_bytes():
            body += part
            if len(body) > MOST_BYTES:
                return "too_large"
    finally:
        await reply.aclose()
    headers = {name.lower(): value for name, value in reply.headers.items()}
    return Reply(status=reply.status_code, headers=headers, body=bytes(body))
