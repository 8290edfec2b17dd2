"""The demonstration's workers: real processes of `concord worker`, started, killed and asked for their metrics."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from streams.dev import ports

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

READY_S: Final = 40.0
DRAIN_S: Final = 30.0


class WorkerError(RuntimeError):
    """A worker that did not do what it was asked; the text names its log."""


@dataclass
class WorkerProcess:
    """One `concord worker`, in a session of its own."""

    name: str
    folder: Path
    env: Mapping[str, str]
    port: int = 0
    process: subprocess.Popen[bytes] | None = None
    exits: list[int] = field(default_factory=list)

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    def start(self) -> None:
        self.port = ports.free(1)[0]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603  our own command
                [sys.executable, "-m", "streams", "worker", "--port", str(self.port)],
                env={**os.environ, **self.env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def ready(self) -> bool:
        """Whether every partition that the group gave it is open."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=1) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def kill(self) -> None:
        """SIGKILL: no goodbye to the group, an open transaction left behind."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.exits.append(self.process.wait())

    def drain(self) -> int:
        """SIGTERM: finish, leave the group, end. Returns the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        try:
            self.exits.append(self.process.wait(DRAIN_S))
        except subprocess.TimeoutExpired as error:
            self.kill()
            raise WorkerError(f"{self.name} did not end within {DRAIN_S:g} s; see {self.log}") from error
        return self.exits[-1]

    def end(self) -> None:
        """Whatever happened before: leave no process behind."""
        if self.alive:
            self.kill()


def wait_ready(workers: list[WorkerProcess]) -> None:
    """Wait until all are ready. Raises `WorkerError` when one ends or does not get there."""
    deadline = time.monotonic() + READY_S
    while not all(worker.ready() for worker in workers):
        for worker in workers:
            if not worker.alive:
                code = worker.process.returncode if worker.process else None
                raise WorkerError(f"{worker.name} ended with exit code {code}; see {worker.log}")
        if time.monotonic() > deadline:
            raise WorkerError(f"the workers were not ready within {READY_S:g} s; see {workers[0].folder}")
        time.sleep(0.1)
