"""A worker that sleeps while another takes over, and wakes: it must be fenced, and it must not fence.

    python -m tests.faults.zombies [fenced] [humble]

Two worker processes, one partition. The first suspends itself at a chosen step, the second takes over after the session timeout and goes
on with what is still being produced; then the first is woken.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import signal
import sys
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

from streams import log as logs
from streams.dev.kafka import KafkaCluster
from streams.engine.failures import Exit
from tests.faults import oracle
from tests.faults.chaos import FOLDER, fresh
from tests.faults.crew import ROOT, Crew, Member
from tests.faults.feed import Feeder
from tests.faults.plans import OLD, UNVERIFIED
from tests.faults.worker import JUNK, Faults, Spec
from tests.support.toy import Toy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

TAKEOVER_S: Final = 30.0
AFTER: Final = 20
"""Transactions before it falls asleep."""
ENDLESS_TRANSACTION: Final = {"transaction": 60.0}
"""So that the broker's own timeout cannot do what the fencing must do."""


class Stage:
    """The cast and the topics of one scenario."""

    def __init__(self, bootstrap: str, folder: Path, code: Path = ROOT) -> None:
        self.bootstrap = bootstrap
        self.folder = folder
        self.toy = Toy(prefix=f"z{secrets.token_hex(4)}", partitions=1)
        self.crew = Crew(folder, random.Random(1), lambda _what: None, code=code, asleep=(3600.0,))
        self.feeder = Feeder(self.toy, bootstrap, 1, per_second=80)
        self.violations: list[str] = []

    def enter(self, name: str, faults: Faults) -> Member:
        spec = Spec(name, self.bootstrap, self.toy.prefix, partitions=1, faults=faults, config=ENDLESS_TRANSACTION)
        return self.crew.add(spec)

    async def until(self, condition: Callable[[], bool], what: str, seconds: float = TAKEOVER_S) -> bool:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                self.violations.append(f"{what}: not within {seconds:.0f} s")
                return False
            await asyncio.sleep(0.05)
        return True

    async def play(self, sleep: str, wake: Callable[[Stage, Member, Member], Awaitable[None]]) -> list[str]:
        """`sleep` is what the first worker does to itself; `wake` waits for what must follow its waking."""
        self.folder.mkdir(parents=True, exist_ok=True)
        await self.toy.create(self.bootstrap, more=[JUNK])
        async with AsyncExitStack() as stack:
            stack.callback(self.crew.abandon)
            group = await stack.enter_async_context(asyncio.TaskGroup())
            step, what = sleep.split(":")
            zombie = self.enter("w-zombie", Faults(once=(step, AFTER, what)))
            zombie.wanted = False
            feeding = group.create_task(self.feeder.run())
            if await self.until(lambda: zombie.suspended, "the zombie falls asleep"):
                owner = self.enter("w-owner", Faults())
                owner.wanted = False
                if await self.until(lambda: '"opened"' in owner.log(), "the owner takes over"):
                    await self.next_commits()
                    zombie.signal(signal.SIGCONT)
                    await wake(self, zombie, owner)
            self.feeder.stop.set()
            await feeding
            await self.finish()
        return self.violations

    async def next_commits(self) -> None:
        """Wait until the owner has handled everything that was there when we asked, and more has come."""
        before = len(self.feeder.stored)
        await self.until(lambda: len(self.feeder.stored) > before + 100, "more is fed")

    async def finish(self) -> None:
        """One worker without faults handles the rest; then the oracle judges."""
        for member in self.crew.members:
            self.crew.kill(member)
        self.enter("w-last", Faults())
        if left := await oracle.settle(self.bootstrap, self.toy, TAKEOVER_S):
            self.violations.append(f"no rest: {left}")
        await self.crew.end_all()
        self.violations += (await oracle.judge(self.bootstrap, self.toy, self.feeder.stored)).violations


def code_of(member: Member) -> int | None:
    return member.process.poll() if member.process is not None else None


async def fenced(stage: Stage) -> list[str]:
    """Asleep with a decided batch in hand: what it sends on waking must not be committed, and it must end as fenced."""

    async def wake(stage: Stage, zombie: Member, _owner: Member) -> None:
        if await stage.until(lambda: not zombie.running, "the zombie is fenced") and code_of(zombie) != Exit.FENCED:
            stage.violations.append(f"the zombie ended with {code_of(zombie)}, not {int(Exit.FENCED)}")

    return await stage.play("begun:stop", wake)


async def humble(stage: Stage) -> list[str]:
    """Asleep between transactions, and woken into a failure that makes it open again: it must ask the group first.

    Its coordinator is out of reach for a while. Else the group's own rejoining, which holds the partition, would mostly win the race.
    """

    async def wake(stage: Stage, zombie: Member, owner: Member) -> None:
        assigned = zombie.log().count('"assigned"')
        await stage.until(
            lambda: zombie.log().count('"assigned"') > assigned or not zombie.running, "the zombie joins again"
        )
        await stage.next_commits()
        if code_of(owner) is not None:
            stage.violations.append(f"the rightful owner ended with {code_of(owner)}: the zombie has fenced it")

    return await stage.play("committed:stop+deaf+error", wake)


SCENARIOS: Final[dict[str, Callable[[Stage], Awaitable[list[str]]]]] = {"fenced": fenced, "humble": humble}


async def perform(names: Sequence[str], bootstrap: str, folder: Path) -> int:
    """Run scenarios one after another and print what each found. Returns how many failed."""
    failed = 0
    for name in names:
        began = time.monotonic()
        violations = await SCENARIOS[name](Stage(bootstrap, folder / name))
        failed += bool(violations)
        print(
            f"zombie {name}: {time.monotonic() - began:.1f} s, {'ok' if not violations else violations[:3]}", flush=True
        )
    return failed


def main(names: Sequence[str]) -> int:
    logs.configure(level="critical")
    folder = FOLDER / "zombies"
    fresh(folder)
    with KafkaCluster(folder / "kafka", version=OLD, properties=UNVERIFIED) as cluster:
        return 1 if asyncio.run(perform(names or list(SCENARIOS), cluster.bootstrap, folder)) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
