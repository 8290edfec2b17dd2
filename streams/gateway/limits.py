"""What one caller may take of us: bytes, seconds, and places among the requests in flight. Each router has a pool of its own."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

HEADER_BYTES: Final = 32_768
"""Request line and headers together."""


class TooLarge(Exception):  # noqa: N818  a verdict on the request
    """The body has more bytes than are read."""


class TooSlow(Exception):  # noqa: N818  a verdict on the request
    """The body did not arrive in time."""


class Gone(Exception):  # noqa: N818  what happened to the caller
    """The caller closed the connection before the body was complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Bytes and seconds of one request."""

    body_bytes: int = 262_144
    body_s: float = 10.0


class Pool:
    """Places for requests in flight. Whoever finds none is turned away at once: a queue would only make the channel wait."""

    def __init__(self, places: int) -> None:
        self.places = places
        self.taken = 0

    def enter(self) -> bool:
        """Take a place, if there is one; whoever got it calls `leave`."""
        if self.taken >= self.places:
            return False
        self.taken += 1
        return True

    def leave(self) -> None:
        self.taken -= 1


async def read_body(receive: Callable[[], Awaitable[Any]], declared: str | None, bounds: Bounds) -> bytes:
    """The whole body. `declared` is the Content-Length, if one was sent. Raises `TooLarge`, `TooSlow` or `Gone`."""
    if declared is not None and declared.isdigit() and int(declared) > bounds.body_bytes:
        raise TooLarge
    first = await _part(receive, bounds.body_s)
    if not first.get("more_body", False):
        return _within(first.get("body", b""), bounds)
    parts = [first.get("body", b"")]
    size = len(parts[0])
    try:
        async with asyncio.timeout(bounds.body_s):
            while True:
                if size > bounds.body_bytes:
                    raise TooLarge
                message = await _next(receive)
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if not message.get("more_body", False):
                    return _within(b"".join(parts), bounds)
    except TimeoutError as error:
        raise TooSlow from error


async def _part(receive: Callable[[], Awaitable[Any]], seconds: float) -> Any:
    try:
        async with asyncio.timeout(seconds):
            return await _next(receive)
    except TimeoutError as error:
        raise TooSlow from error


async def _next(receive: Callable[[], Awaitable[Any]]) -> Any:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise Gone
    return message


def _within(body: bytes, bounds: Bounds) -> bytes:
    if len(body) > bounds.body_bytes:
        raise TooLarge
    return body
