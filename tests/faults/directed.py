"""Directed faults: one partition, one worker in this process, and a fault at a chosen step, so that each shows in seconds.

    python -m tests.faults.directed                  # all of them, each on a broker of its own making
    python -m tests.faults.directed changelog repair

Each scenario feeds rounds of events that touch every own log, does its harm, waits until the engine has put it right, and returns what
the oracle found wrong. Markers are lost on purpose on a broker that does not verify transactions' partitions.
"""

from __future__ import annotations

import asyncio
import secrets
import sys
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from aiokafka import errors as kafka
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from streams import log as logs
from streams.dev.kafka import KafkaCluster
from streams.engine.config import Config
from streams.engine.membership import Worker
from streams.engine.topology import Outgoing, Poison, Record, Topology
from tests.faults import oracle
from tests.faults.chaos import FOLDER, fresh
from tests.faults.plans import OLD, UNVERIFIED
from tests.faults.worker import JUNK, QUICK, lose_markers
from tests.support import toy as toys
from tests.support.toy import ORDER, PAY, Event, Output, Toy, writing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
    from pathlib import Path

    from streams.engine.failures import Exit

DEADLINE_S: Final = 25.0
"""A wait that takes longer has failed: everything here heals within a few seconds."""


ROUNDS_TOGETHER: Final[dict[str, Any]] = {"linger": 0.2, "batch": 500}
"""Several rounds in each transaction, so that each touches every own log."""


class Late(Exception):  # noqa: N818  a verdict
    """Something that must happen did not, in time."""


@dataclass(slots=True)
class Lost:
    """Lose the markers of these topics in the next transaction, or the next scrub."""

    step: str
    topics: Sequence[str]


@dataclass(slots=True)
class Script:
    """A probe that does what it is told, once each, in order: `Lost`, or (step, how many to let pass) -> an injected error."""

    toy: Toy
    todo: list[Lost | tuple[str, int]] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    touched: set[str] = field(default_factory=set)
    """The outputs that the transaction at hand will write."""
    last: str = ""

    async def __call__(self, step: str, partition: int, session: Any) -> None:
        before, self.last = self.last, step
        if step in ("fenced", "committed"):
            self.touched.clear()
        if not self.todo:
            return
        head = self.todo[0]
        if isinstance(head, Lost):
            is_full = self.touched >= set(self.toy.own[1:]) or step == "scrub_begun" or before == "recovered"
            if head.step == step and is_full:
                lose_markers(session, partition, self.toy.prefix, list(head.topics))
                self._next(f"lost at {step}")
        elif head[0] == step:
            if head[1] > 0:
                self.todo[0] = (step, head[1] - 1)
                return
            self._next(f"failed at {step}")
            raise kafka.RequestTimedOutError(f"injected at {step}")

    @property
    def has_lost(self) -> bool:
        return bool(self.done) and self.done[0].startswith("lost")

    def _next(self, what: str) -> None:
        self.todo.pop(0)
        self.done.append(what)

    def topology(self) -> Topology[Any, Any, Any]:
        """The toy's, telling which outputs a transaction touches."""

        def decode(record: Record) -> Event:
            try:
                return toys.decode(record)
            except Poison:
                self.touched.add(self.toy.dead_letters)
                raise

        def route(message: Output, cause: Record | None) -> Outgoing:
            outgoing = self.toy.route(message, cause)
            self.touched.add(outgoing.topic)
            return outgoing

        return self.toy.topology(decode=decode, route=route)


class Lab:
    """A toy of one partition, its worker in this process, and its script."""

    def __init__(self, bootstrap: str, state_dir: Path | None = None, **config: Any) -> None:
        self.bootstrap = bootstrap
        self.toy = Toy(prefix=f"d{secrets.token_hex(4)}", partitions=1, due_ms=1500)
        self.script = Script(self.toy)
        self.config = Config(
            kafka={"bootstrap_servers": bootstrap},
            state_dir=state_dir,
            probe=self.script,
            **QUICK | ROUNDS_TOGETHER | config,
        )
        self.ends: list[tuple[Exit, str]] = []
        self.worker: Worker | None = None
        self.rolled_forward = 0
        self.reopened = 0
        self._rounds = 0
        self._fed = 0
        self._produced: set[str] = set()

    def ended(self, code: Exit, why: str) -> None:
        """In the place of an end of the process."""
        self.ends.append((code, why))
        if self.worker is not None:
            self.worker.stop()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The worker, for the length of the block, then drained."""
        self.worker = Worker(self.script.topology(), self.config, end=self.ended)
        task = asyncio.create_task(self.worker.run())
        try:
            await self.until(lambda: self.worker is not None and self.worker.ready, "the partition opens")
            yield
        finally:
            for partition in self.worker.partitions.values():
                self.rolled_forward += partition.stats.rolled_forward
                self.reopened += partition.stats.reopened
            self.worker.stop()
            await asyncio.wait_for(task, 40)

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            if self.ends:
                raise Late(f"{what}: the worker ended instead: {self.ends[0][0].name}, {self.ends[0][1]}")
            if time.monotonic() > deadline:
                raise Late(f"{what}: not within {DEADLINE_S:.0f} s; done so far: {self.script.done}")
            await asyncio.sleep(0.02)

    async def produce(self) -> int:
        """One round: a success, a mismatch, a poison record, and an order that will run out of time."""
        self._rounds += 1
        name = f"o{self._rounds}"
        events = [
            Event(f"{name}a:1", f"{name}a", ORDER, 5), Event(f"{name}a:2", f"{name}a", PAY, 5),
            Event(f"{name}b:1", f"{name}b", ORDER, 5), Event(f"{name}b:2", f"{name}b", PAY, 6),
            Event(f"{name}c:1", f"{name}c", ORDER, 5), Event(f"{name}a:1", f"{name}a", ORDER, 5),
        ]  # fmt: skip
        await self.toy.produce(self.bootstrap, events)
        async with writing(self.bootstrap) as producer:
            await producer.send_and_wait(self.toy.payments, b"{", key=b"poison")
        self._produced |= {event.id for event in events}
        return len(events) + 1

    async def echo(self) -> int:
        """A round that changes nothing: its transaction touches the changelog alone.

        A marker of the same session would end what hangs in a log, so the logs that lost one must stay untouched until the reopening.
        """
        await self.toy.produce(self.bootstrap, [Event("o1a:1", "o1a", ORDER, 5)])
        return 1

    async def rounds(self, condition: Callable[[], bool], what: str) -> None:
        """One round after another, each handled before the next, until a condition holds."""
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            self._fed += await (self.echo() if self.script.has_lost else self.produce())
            while self.handled < self._fed and not condition() and time.monotonic() < deadline and not self.ends:
                await asyncio.sleep(0.01)
            if time.monotonic() > deadline or self.ends:
                await self.until(condition, what)

    @property
    def handled(self) -> int:
        """Input records in committed transactions."""
        return sum(partition.stats.records for partition in self.worker.partitions.values()) if self.worker else 0

    async def play(self, *todo: Lost | tuple[str, int]) -> None:
        """Give the script, and feed rounds until all of it was done and the partition is open again."""
        self.script.todo = list(todo)
        await self.rounds(lambda: not self.script.todo, f"the script {todo}")
        await self.until(lambda: self.worker is not None and self.worker.ready, "the partition opens again")
        await self.produce()

    async def rest(self) -> None:
        left = await oracle.settle(self.bootstrap, self.toy, DEADLINE_S)
        if left or self.ends:
            raise Late(f"no rest: {left or self.ends}")

    async def verdict(self) -> list[str]:
        """What the oracle finds wrong."""
        return (await oracle.judge(self.bootstrap, self.toy, self._produced)).violations


async def healed(lab: Lab, *todo: Lost | tuple[str, int]) -> list[str]:
    """Play a script to its end, rest, stop, judge."""
    await lab.toy.create(lab.bootstrap, more=[JUNK])
    try:
        async with lab.running():
            await lab.rounds(lambda: _transactions(lab) >= 3, "the first transactions")
            await lab.play(*todo)
            await lab.rest()
    except Late as late:
        return [str(late)]
    return await lab.verdict()


def _transactions(lab: Lab) -> int:
    return sum(partition.stats.transactions for partition in lab.worker.partitions.values()) if lab.worker else 0


def outputs(lab: Lab) -> tuple[str, ...]:
    return lab.toy.own[1:]


async def changelog(lab: Lab) -> list[str]:
    """The changelog alone loses the marker; the outputs prove the transaction."""
    return await healed(lab, Lost("begun", [lab.toy.changelog]), ("acked", 1))


async def hanging(lab: Lab) -> list[str]:
    """As above, with no transaction open at the reopening: fencing then writes no marker at all, and only a scrub ends what hangs."""
    return await healed(lab, Lost("begun", [lab.toy.changelog]), ("committed", 0))


async def outputs_only(lab: Lab) -> list[str]:
    """The outputs lose the marker, two more transactions commit, then one fails: what was lost is not in the last of them."""
    return await healed(lab, Lost("begun", outputs(lab)), ("acked", 2))


async def both(lab: Lab) -> list[str]:
    """Every own log loses the marker; only the next transaction proves that it was committed."""
    return await healed(lab, Lost("begun", lab.toy.own), ("acked", 2))


async def noticed(lab: Lab) -> list[str]:
    """Nothing fails: the watch notices by itself that a commit stays invisible."""
    return await healed(lab, Lost("begun", outputs(lab)[:1]), ("fenced", 0))


async def scrub(lab: Lab) -> list[str]:
    """The changelog loses a marker, and the scrub that should end what hangs there loses its own."""
    return await healed(lab, Lost("begun", [lab.toy.changelog]), ("acked", 1), Lost("scrub_begun", lab.toy.own))


async def scrub_of_changelog(lab: Lab) -> list[str]:
    """As above, in the changelog alone."""
    return await healed(
        lab,
        Lost("begun", [lab.toy.changelog]),
        ("committed", 0),
        Lost("scrub_begun", [lab.toy.changelog]),
        ("fenced", 0),
    )


async def repair(lab: Lab) -> list[str]:
    """The transaction that rolls forward loses its markers in the changelog."""
    return await healed(
        lab, Lost("begun", outputs(lab)), ("acked", 2), Lost("begun", [lab.toy.changelog]), ("committed", 0)
    )


async def repair_of_outputs(lab: Lab) -> list[str]:
    """The transaction that rolls forward loses its markers in the outputs."""
    return await healed(lab, Lost("begun", outputs(lab)), ("acked", 2), Lost("begun", outputs(lab)), ("committed", 0))


async def repair_of_both(lab: Lab) -> list[str]:
    """The transaction that rolls forward loses all its markers: the evidence of the former session must still be found."""
    return await healed(lab, Lost("begun", outputs(lab)), ("acked", 2), Lost("begun", lab.toy.own), ("committed", 0))


async def unknown_outcome(lab: Lab) -> list[str]:
    """No marker is lost; transactions fail before the commit, during it, and right after it."""
    return await healed(
        lab, ("acked", 0), ("begun", 1), ("committing", 1), ("sent", 1), ("committed", 1), ("scrubbed", 0), ("recovered", 0)
    )  # fmt: skip


async def failed_send(lab: Lab) -> list[str]:
    """An output is refused by its topic: nothing of its transaction may be committed. Mended, the work goes on where it was."""
    await lab.toy.create(lab.bootstrap, more=[JUNK])
    await set_limit(lab, 90)
    try:
        with suppress(Late):
            async with lab.running():
                await lab.rounds(lambda: bool(lab.ends), "the refused send ends the worker")
        if not lab.ends:
            return ["the worker went on after a send that failed"]
        await set_limit(lab, 1 << 20)
        lab.ends.clear()
        async with lab.running():
            await lab.produce()
            await lab.rest()
    except Late as late:
        return [str(late)]
    return await lab.verdict()


async def set_limit(lab: Lab, size: int) -> None:
    """The largest batch that the topic of successes takes."""
    admin = AIOKafkaAdminClient(bootstrap_servers=lab.bootstrap)
    await admin.start()
    try:
        topic = ConfigResource(ConfigResourceType.TOPIC, lab.toy.success, configs={"max.message.bytes": str(size)})
        await admin.alter_configs([topic])
    finally:
        await admin.close()


LOSSES: Final = {
    scenario.__name__: scenario
    for scenario in (
        changelog, hanging, outputs_only, both, noticed, scrub, scrub_of_changelog, repair, repair_of_outputs, repair_of_both,
    )
}  # fmt: skip
"""Scenarios in which something must be rolled forward."""
SCENARIOS: Final[dict[str, Callable[[Lab], Coroutine[Any, Any, list[str]]]]] = {
    **LOSSES,
    "unknown_outcome": unknown_outcome,
    "failed_send": failed_send,
}


async def perform(names: Sequence[str], bootstrap: str) -> int:
    """Run scenarios one after another and print what each found. Returns how many failed."""
    failed = 0
    for name in names:
        began, lab = time.monotonic(), Lab(bootstrap)
        violations = await SCENARIOS[name](lab)
        failed += bool(violations)
        print(
            f"{name}: {time.monotonic() - began:.1f} s, reopened {lab.reopened}, rolled forward {lab.rolled_forward},"
            f" {'ok' if not violations else violations[:3]}",
            flush=True,
        )
    return failed


def main(names: Sequence[str]) -> int:
    logs.configure(level="critical")
    folder = FOLDER / "directed"
    fresh(folder)
    with KafkaCluster(folder / "kafka", version=OLD, properties=UNVERIFIED) as cluster:
        return 1 if asyncio.run(perform(names or list(SCENARIOS), cluster.bootstrap)) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
