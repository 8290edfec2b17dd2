"""One server in a session of its own: it outlives the command that started it and is found again by its pid file.

A pid is believed only while its command line still holds the server's mark, so that a number used again by the system
is never signalled.
"""

from __future__ import annotations

import os
import signal as signals
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil  # type: ignore[import-untyped]

from streams.dev.errors import ServiceError

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Sequence
    from pathlib import Path

POLL_S = 0.02
OWN_SIGNALS = (signals.SIGPIPE, signals.SIGXFSZ)  # Python ignores them, and a child would inherit that
_children: set[int] = set()  # what this process started, by pid, until it is reaped


@dataclass(slots=True)
class Detached:
    """A server: its name, the text that only its command line holds, and where its pid and its log are."""

    name: str
    mark: str
    pid_file: Path
    log_file: Path

    def start(self, command: Sequence[str]) -> int:
        """Start it and write its pid down. Refuses if it runs already. `mark` must be a part of the command."""
        pid = self.pid()
        if pid is not None:
            raise ServiceError(f"{self.name} already runs as pid {pid}; stop it first")
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        with self.log_file.open("ab") as log:
            # No Popen: it would complain, when this process ends, about a server that is meant to outlive it.
            pid = os.posix_spawnp(
                command[0],
                list(command),
                os.environ,
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, log.fileno(), 1),
                    (os.POSIX_SPAWN_DUP2, log.fileno(), 2),
                ],
                setsid=True,
                setsigdef=OWN_SIGNALS,
            )
        _children.add(pid)
        self.pid_file.write_text(f"{pid}\n")
        return pid

    def pid(self) -> int | None:
        """Its process id while it runs and is still ours."""
        return living(self.pid_file, self.mark)

    def signal(self, number: signal.Signals) -> bool:
        """Send a signal, if it runs. True if there was someone to send it to."""
        pid = self.pid()
        if pid is None:
            return False
        try:
            os.kill(pid, number)
        except ProcessLookupError:  # it ended in between
            return False
        return True

    def wait_gone(self, seconds: float) -> bool:
        """Wait for its end. False if it still runs after `seconds`."""
        return until(lambda: self.pid() is None, seconds)

    def tail(self, lines: int = 12) -> str:
        """The end of its log, errors first: what to show when it did not come up."""
        try:
            text = self.log_file.read_text(errors="replace").splitlines()[-400:]
        except FileNotFoundError:
            return "(no log)"
        errors = [line for line in text if " ERROR " in line or " FATAL" in line or "Exception" in line]
        return "\n".join(f"  | {line[:300]}" for line in (errors or text)[-lines:])


def living(pid_file: Path, mark: str) -> int | None:
    """The pid in a file, if a process with that number runs now and `mark` is a part of its command line."""
    pid = _written(pid_file)
    if pid is None:
        return None
    _reap(pid)
    try:
        command = psutil.Process(pid).cmdline()
    except (ValueError, psutil.Error):  # no possible pid, gone, or a zombie since the line above
        _reap(pid)
        return None
    # A process on its way out has lost its command line, and may still hold its ports.
    return pid if not command or any(mark in part for part in command) else None


def _written(pid_file: Path) -> int | None:
    try:
        return int(pid_file.read_text().split()[0])
    except (OSError, ValueError, IndexError):  # no file, or nothing in it
        return None


def _reap(pid: int) -> None:
    """Leave no zombie behind: take the exit code of a child of ours that has ended."""
    if pid not in _children:
        return
    try:
        reaped, _ = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:  # whoever waits for any child was faster
        reaped = pid
    if reaped:
        _children.discard(pid)


def until(condition: Callable[[], bool], seconds: float) -> bool:
    """Look at a condition until it holds or the time is over; the last look counts."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            return condition()
        time.sleep(POLL_S)
    return True
