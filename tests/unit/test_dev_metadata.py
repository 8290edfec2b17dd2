"""A broker's answer is read as it is, and readiness is what all of them agree on."""

from __future__ import annotations

import struct
import threading
from typing import TYPE_CHECKING

import pytest

from streams.dev import metadata
from streams.dev.metadata import Partition, View, settled

if TYPE_CHECKING:
    import socket


def _text(value: str | None) -> bytes:
    return struct.pack(">h", -1) if value is None else struct.pack(">h", len(value)) + value.encode()


def _ids(*ids: int) -> bytes:
    return struct.pack(f">i{len(ids)}i", len(ids), *ids)


ANSWER = (
    struct.pack(">iii", metadata.CORRELATION, 0, 2)
    + b"".join(struct.pack(">i", i) + _text("127.0.0.1") + struct.pack(">i", 9000 + i) + _text(None) for i in (1, 2))
    + _text("cluster")
    + struct.pack(">ii", 2, 1)
    + struct.pack(">h", 0)
    + _text("payments.state")
    + struct.pack(">?i", False, 1)  # noqa: FBT003
    + struct.pack(">hii", 0, 3, 2)
    + _ids(1, 2)
    + _ids(2)
)
STATE = Partition("payments.state", 3, 2, (1, 2), (2,))


def test_an_answer_is_read_whole():
    assert metadata.parse(ANSWER) == View(frozenset({1, 2}), 2, (STATE,))


@pytest.mark.parametrize("length", range(len(ANSWER)))
def test_an_answer_cut_short_anywhere_is_an_error_and_no_view(length):
    with pytest.raises(ConnectionError):
        metadata.parse(ANSWER[:length])


def test_an_answer_to_another_question_is_refused():
    with pytest.raises(ConnectionError, match="is this a Kafka broker"):
        metadata.parse(b"HTTP/1.1 400 Bad Request")


@pytest.mark.parametrize(
    ("view", "alive", "missing"),
    [
        (View(frozenset({1, 2}), 1, ()), {1, 2}, None),
        (View(frozenset({1}), 1, ()), {1, 2}, "brokers [2] are not registered"),
        (View(frozenset({1, 2}), 1, (STATE,)), {1, 2}, "payments.state-3 lacks brokers [1] in its in-sync replicas"),
        (View(frozenset({1, 2}), 1, (STATE,)), {2}, None),
        (View(frozenset({1, 2}), 1, (STATE,)), {1}, "payments.state-3 has no living leader"),
        (View(frozenset({3}), 3, (Partition("elsewhere", 0, -1, (1,), (1,)),)), {3}, None),
        (View(frozenset({1}), 1, (Partition("t", 0, -1, (1,), (1,)),)), {1}, "t-0 has no living leader"),
    ],
)
def test_ready_means_that_the_living_serve_and_are_in_sync(view, alive, missing):
    assert settled([view], alive) == missing


def test_one_broker_that_disagrees_is_enough_to_wait():
    whole = View(frozenset({1, 2}), 1, ())
    assert settled([whole, View(frozenset({2}), 2, ())], {1, 2}) == "brokers [1] are not registered"


def test_a_broker_that_hangs_up_is_an_error(listener: socket.socket):
    def hang_up() -> None:
        connection, _ = listener.accept()
        connection.recv(100)
        connection.close()

    thread = threading.Thread(target=hang_up)
    thread.start()
    with pytest.raises(OSError, match="closed the connection"):
        metadata.ask(*listener.getsockname())
    thread.join()


def test_a_broker_that_is_silent_is_an_error_in_time(listener: socket.socket):
    with pytest.raises(TimeoutError):
        metadata.ask(*listener.getsockname(), seconds=0.05)


@pytest.fixture
def listener():
    import socket  # noqa: PLC0415

    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server
