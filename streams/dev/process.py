"""One server in a session of its own: it outlives the command that started it and is found again by its pid file.

A pid is believed only while its command line still holds the server's mark, so that a number used again by the system
is never signalled.
"""

from __future__ import annotations

import os
import subprocess
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
_children: dict[int, subprocess.Popen[bytes]] = {}  # what this process started, by pid, until it is reaped


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
            child = subprocess.Popen(  # noqa: S603  # our own command, no shell
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        _children[child.pid] = child
        self.pid_file.write_text(f"{child.pid}\n")
        return child.pid

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
    try:
        pid = int(pid_file.read_text().split()[0])
        if pid in _children and _children[pid].poll() is not None:
            del _children[pid]  # reaped: no zombie stays behind
        command = psutil.Process(pid).cmdline()
    except (OSError, ValueError, IndexError, psutil.Error):  # no file, an empty one, gone, or a zombie
        return None
    # A process on its way out has lost its command line, and may still hold its ports.
    return pid if not command or any(mark in part for part in command) else None


def until(condition: Callable[[], bool], seconds: float) -> bool:
    """Look at a condition until it holds or the time is over; the last look counts."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            return condition()
        time.sleep(POLL_S)
    return True
