"""A detached server is signalled only while it is ours, and is gone only when it is wholly gone."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from streams.dev.errors import ServiceError
from streams.dev.process import Detached, living, until

if TYPE_CHECKING:
    from pathlib import Path

SLEEP = "import sys, time; print('up', flush=True); time.sleep(60)"


@pytest.fixture
def server(tmp_path: Path):
    mark = str(tmp_path / "server.properties")
    server = Detached("a server", mark, tmp_path / "pid", tmp_path / "log")
    yield server
    server.signal(signal.SIGKILL)
    assert server.wait_gone(10)


def command(server: Detached, code: str = SLEEP) -> list[str]:
    return [sys.executable, "-c", code, server.mark]


def test_a_server_is_found_by_its_pid_file_from_anywhere(server: Detached):
    pid = server.start(command(server))
    assert Detached("again", server.mark, server.pid_file, server.log_file).pid() == pid


def test_a_second_start_is_refused(server: Detached):
    pid = server.start(command(server))
    with pytest.raises(ServiceError, match=f"a server already runs as pid {pid}"):
        server.start(command(server))


def test_a_killed_server_leaves_no_zombie_and_can_start_again(server: Detached):
    first = server.start(command(server))
    assert server.signal(signal.SIGKILL)
    assert server.wait_gone(10)
    assert server.start(command(server)) != first


def test_a_server_that_ended_is_not_signalled(server: Detached):
    server.start(command(server, ""))
    assert server.wait_gone(10)
    assert not server.signal(signal.SIGTERM)


def test_a_pid_that_now_belongs_to_someone_else_is_never_signalled(server: Detached):
    with subprocess.Popen([sys.executable, "-c", SLEEP, "another"]) as stranger:
        server.pid_file.write_text(f"{stranger.pid}\n")
        assert server.pid() is None
        assert not server.signal(signal.SIGKILL)
        assert stranger.poll() is None
        stranger.kill()


@pytest.mark.parametrize("text", ["", "\n", "x", "-1", "99999999999"])
def test_a_broken_pid_file_names_nobody(text, tmp_path: Path):
    (tmp_path / "pid").write_text(text)
    assert living(tmp_path / "pid", "anything") is None


def test_the_tail_of_a_log_prefers_its_errors(server: Detached):
    assert server.tail() == "(no log)"
    server.log_file.write_text("one\n[main] ERROR no space left\ntwo\n")
    assert server.tail() == "  | [main] ERROR no space left"
    server.log_file.write_text("one\ntwo\n")
    assert server.tail() == "  | one\n  | two"


def test_a_condition_that_never_holds_ends_at_its_deadline():
    assert not until(lambda: False, 0.05)
    assert until(lambda: True, 0)
