"""Ports on loopback: free ones that stay free, and a plain word about one that is taken.

Free ports are picked below the range that the system hands to outgoing connections. Inside it, a client that keeps
calling a broker that was killed can be given that very port as its own, connect to itself, and keep the broker from
coming back.
"""

from __future__ import annotations

import secrets
import socket
from typing import TYPE_CHECKING, Final

import psutil  # type: ignore[import-untyped]

from streams.dev.errors import ServiceError
from streams.dev.process import until

if TYPE_CHECKING:
    from collections.abc import Collection

HOST: Final = "127.0.0.1"
LOW, HIGH = 15_000, 32_000


def is_free(port: int) -> bool:
    """Whether a server could listen on the port now, as a server would: ports of ended connections count as free."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def free(count: int, taken: Collection[int] = ()) -> list[int]:
    """Distinct free ports, none of them in `taken`."""
    found: list[int] = []
    for _ in range(10_000):
        if len(found) == count:
            return found
        port = LOW + secrets.randbelow(HIGH - LOW)
        if port not in found and port not in taken and is_free(port):
            found.append(port)
    raise ServiceError(f"found no {count} free ports on {HOST} between {LOW} and {HIGH}: stop what holds them")


def require(port: int, what: str, fix: str, *, patience_s: float = 2.0) -> None:
    """Refuse a taken port: names it, who holds it, and what to do. A server that was just killed has a moment to let
    go.
    """
    if not until(lambda: is_free(port), patience_s):
        raise ServiceError(f"port {port} on {HOST} is taken by {holder(port)}, so {what} cannot listen there: {fix}")


def holder(port: int) -> str:
    """Who listens on a port, as far as this user may know."""
    try:
        pids = {
            c.pid
            for c in psutil.net_connections("tcp")
            if c.laddr and c.laddr.port == port and c.status == psutil.CONN_LISTEN
        }
        for pid in pids - {None}:
            return f"pid {pid} ({' '.join(psutil.Process(pid).cmdline())[:80]})"
    except psutil.Error:  # macOS shows this to root only
        pass
    return "another process"
