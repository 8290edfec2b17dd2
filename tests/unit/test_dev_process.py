"""A detached server is signalled only while it is ours, and is gone only when it is wholly gone."""

from __future__ import annotations

import os
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


def test_a_server_that_is_killed_while_it_is_looked_at_leaves_no_zombie(server: Detached):
    for _ in range(20):
        pid = server.start(command(server))
        os.kill(pid, signal.SIGKILL)
        assert server.wait_gone(10)
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_whoever_started_a_server_ends_without_a_word_about_it(server: Detached, tmp_path: Path):
    code = (
        "import pathlib, sys; from streams.dev.process import Detached; folder = pathlib.Path(sys.argv[1])\n"
        "server = Detached('s', sys.argv[2], folder / 'pid', folder / 'log')\n"
        f"server.start([sys.executable, '-c', {SLEEP!r}, server.mark])"
    )
    starter = [sys.executable, "-X", "dev", "-W", "error", "-c", code, str(tmp_path), server.mark]
    done = subprocess.run(starter, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert server.pid() is not None
    assert os.getsid(server.pid() or 0) == server.pid()


def test_a_servers_log_holds_both_its_streams(server: Detached):
    server.start(command(server, "import sys; print('out', flush=True); print('err', file=sys.stderr)"))
    assert server.wait_gone(10)
    assert server.log_file.read_text().split() == ["out", "err"]


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
