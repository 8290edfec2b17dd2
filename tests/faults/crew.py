"""The workers of a fault run as processes: started, killed, suspended, resumed, ended, and started again when they fall.

Each is a child of ours in a session of its own, so that nothing but its own process is ever signalled.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from tests.faults.worker import Faults, Spec

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

ROOT: Final = Path(__file__).resolve().parents[2]
DRAIN_S: Final = 30.0
"""A SIGTERM must have led to an end by then: the engine's own deadline is shorter."""


@dataclass(slots=True)
class Member:
    """One worker: what it is told, and its present process."""

    spec: Spec
    log_file: Path
    code: Path = ROOT
    topology: str = "toy"
    module: str = "tests.faults.worker"
    process: subprocess.Popen[bytes] | None = None
    wanted: bool = True
    died: float = 0.0
    resume_at: float = 0.0
    suspensions: int = 0

    @property
    def name(self) -> str:
        return self.spec.name

    def start(self) -> None:
        """A new incarnation, from the code of `code`."""
        self.spec = msgspec.structs.replace(self.spec, incarnation=self.spec.incarnation + 1)
        told = msgspec.json.encode(self.spec).decode()
        command = [sys.executable, "-m", self.module, "--topology", self.topology, told]
        environment = {**os.environ, "PYTHONPATH": str(self.code)}
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                command, cwd=self.code, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        self.resume_at = 0.0

    def signal(self, number: signal.Signals) -> bool:
        """Send a signal, if it runs. Our own child's pid cannot be another's before we have asked for its exit code."""
        if self.process is None or self.process.poll() is not None:
            return False
        self.process.send_signal(number)
        return True

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def suspended(self) -> bool:
        if self.process is None or self.process.poll() is not None:
            return False
        try:
            status = Path(f"/proc/{self.process.pid}/stat").read_text()
        except OSError:
            return False
        return status.rpartition(")")[2].split()[0] == "T"

    def log(self) -> str:
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""


@dataclass(slots=True)
class Crew:
    """All workers of a run. `watch` must run beside the run."""

    folder: Path
    chance: random.Random
    say: Callable[[str], None]
    code: Path = ROOT
    topology: str = "toy"
    asleep: tuple[float, ...] = (7.5, 9.0, 17.0)
    """How long a suspended worker sleeps: past the session timeout, inside and outside the transaction timeout."""
    members: list[Member] = field(default_factory=list)
    exits: Counter[str] = field(default_factory=Counter)
    resumed: int = 0

    def add(self, spec: Spec) -> Member:
        member = Member(spec, self.folder / f"{spec.name}.log", self.code, self.topology)
        self.members.append(member)
        member.start()
        return member

    def pick(self) -> Member | None:
        """A running worker that is not suspended."""
        awake = [member for member in self.members if member.running and not member.suspended]
        return self.chance.choice(awake) if awake else None

    async def watch(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(0.1)

    def look(self) -> None:
        """Count exits, start the fallen again, and resume the suspended when their time has come."""
        now = time.monotonic()
        for member in self.members:
            if member.running:
                self._tend(member, now)
            elif member.process is not None:
                self.count(member)
                member.process, member.died = None, now
            elif member.wanted and now - member.died > 0.3:
                member.start()

    def _tend(self, member: Member, now: float) -> None:
        if not member.suspended:
            member.resume_at = 0.0
        elif not member.resume_at:
            member.resume_at = now + self.chance.choice(self.asleep)
            member.suspensions += 1
            self.say(f"{member.name} sleeps for {member.resume_at - now:.0f} s")
        elif now > member.resume_at:
            member.signal(signal.SIGCONT)
            member.resume_at = 0.0
            self.resumed += 1
            self.say(f"{member.name} wakes")

    def count(self, member: Member) -> None:
        assert member.process is not None
        code = member.process.returncode
        self.exits[str(code)] += 1
        self.say(f"{member.name} ended with {code}")

    async def end(self, member: Member, seconds: float = DRAIN_S) -> None:
        """SIGTERM, and wait: it must drain and leave. A worker that hangs is killed and counted as `hung`."""
        member.wanted = False
        member.signal(signal.SIGCONT)
        if member.signal(signal.SIGTERM):
            deadline = time.monotonic() + seconds
            while member.running and time.monotonic() < deadline:
                await asyncio.sleep(0.05)
            if member.running:
                self.exits["hung"] += 1
                self.say(f"{member.name} hangs after SIGTERM")
                self.kill(member)
        if member in self.members:
            self.members.remove(member)
        if member.process is not None:
            self.count(member)

    async def end_all(self) -> None:
        await asyncio.gather(*(self.end(member) for member in list(self.members)))

    async def calm(self) -> None:
        """Replace every worker by one that does no harm to itself."""
        for member in list(self.members):
            member.spec = msgspec.structs.replace(member.spec, faults=Faults())
            self.kill(member)

    def suspend(self, member: Member) -> None:
        """SIGSTOP; `watch` resumes it after one of `asleep`."""
        if member.signal(signal.SIGSTOP):
            deadline = time.monotonic() + 2
            while not member.suspended and member.running and time.monotonic() < deadline:
                time.sleep(0.01)

    @staticmethod
    def kill(member: Member) -> None:
        if member.signal(signal.SIGKILL) and member.process is not None:
            member.process.wait(10)

    def abandon(self) -> None:
        """End everything at once: the run is over, whatever its end was."""
        for member in self.members:
            member.wanted = False
            self.kill(member)

    def logs(self) -> str:
        return "".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("w*.log")))
