"""What one broker believes about the cluster: a Metadata request (version 4) over a plain socket.

A Kafka client asks any broker it likes. Whether a restarted broker is back can only be told by that broker itself and
by each of the others, so the question goes to one address and the answer is read as it is.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

METADATA: Final = 3
VERSION: Final = 4
CORRELATION: Final = 7


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition as a broker sees it; `leader` is -1 where there is none."""

    topic: str
    number: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class View:
    """The brokers that a broker counts as alive, the controller it knows, and all partitions."""

    brokers: frozenset[int]
    controller: int
    partitions: tuple[Partition, ...]


def settled(views: Iterable[View], alive: Collection[int]) -> str | None:
    """Nothing if every view agrees that all of `alive` serve and are in sync; else what is still missing."""
    wanted = set(alive)
    for view in views:
        if missing := wanted - view.brokers:
            return f"brokers {sorted(missing)} are not registered"
        for partition in view.partitions:
            here = wanted & set(partition.replicas)
            name = f"{partition.topic}-{partition.number}"
            if here and partition.leader not in wanted:
                return f"{name} has no living leader"
            if behind := here - set(partition.isr):
                return f"{name} lacks brokers {sorted(behind)} in its in-sync replicas"
    return None


def ask(host: str, port: int, *, seconds: float = 2.0) -> View:
    """Ask one broker. Raises `OSError` if it does not answer in time."""
    with socket.create_connection((host, port), timeout=seconds) as connection:
        connection.sendall(request())
        (size,) = struct.unpack(">i", _exactly(connection, 4))
        return parse(_exactly(connection, size))


def request() -> bytes:
    """All topics, none created."""
    client = b"concord-dev"
    body = struct.pack(">hhih", METADATA, VERSION, CORRELATION, len(client)) + client + struct.pack(">i?", -1, False)  # noqa: FBT003
    return struct.pack(">i", len(body)) + body


def parse(answer: bytes) -> View:
    """Read the answer's bytes, without their length. Raises `OSError` for one that is not ours."""
    read = _Reader(answer)
    if read.take("i") != CORRELATION:
        raise ConnectionError("the answer belongs to another request; is this a Kafka broker?")
    read.take("i")  # throttle time
    brokers: list[int] = []
    for _ in range(read.take("i")):
        brokers.append(read.take("i"))
        read.text()
        read.take("i")
        read.text()
    read.text()  # cluster id
    controller = read.take("i")
    partitions: list[Partition] = []
    for _ in range(read.take("i")):
        read.take("h")
        topic = read.text()
        read.take("?")
        partitions.extend(_partition(read, topic) for _ in range(read.take("i")))
    return View(frozenset(brokers), controller, tuple(partitions))


def _partition(read: _Reader, topic: str) -> Partition:
    read.take("h")  # an error here is a leader of -1 below
    number, leader = read.take("i"), read.take("i")
    replicas, isr = (tuple(read.take("i") for _ in range(read.take("i"))) for _ in range(2))
    return Partition(topic, number, leader, replicas, isr)


class _Reader:
    """Kafka's big-endian fields, one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, code: str) -> int:
        try:
            (value,) = struct.unpack_from(f">{code}", self._data, self._at)
        except struct.error as error:
            raise ConnectionError("the answer is cut short") from error
        self._at += struct.calcsize(f">{code}")
        return int(value)

    def text(self) -> str:
        length = max(self.take("h"), 0)  # -1 is null
        self._at += length
        return self._data[self._at - length : self._at].decode()


def _exactly(connection: socket.socket, size: int) -> bytes:
    parts: list[bytes] = []
    while size > 0:
        part = connection.recv(min(size, 65536))
        if not part:
            raise ConnectionError("the broker closed the connection")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
