"""Does what a plan says to a cluster and its workers, and waits for the end: one run, from an empty folder to the judge's facts."""

from __future__ import annotations

import asyncio
import json
import random
import re
import shutil
import time
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from streams.dev.kafka import KafkaCluster
from tests.faults import oracle, subjects
from tests.faults.crew import ROOT, Crew
from tests.faults.worker import JUNK, Spec
from tests.support.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.faults.plans import Plan

FOLDER: Final = ROOT / ".concord" / "faults"
SETTLE_S: Final = 90.0
EXPECTED_EXITS: Final = frozenset({"0", "3", "8", "-9", "-15"})
"""Drained, fenced, too slow to stop while its broker was down, killed, told to stop before it had begun. Any other end is a violation."""
ROLLED: Final = "rolling forward records that lost their transaction marker"


@dataclass(slots=True)
class Result:
    """What a run ended with."""

    plan: Plan
    topology: str
    facts: oracle.Facts
    seconds: float = 0.0
    events: Counter[str] = field(default_factory=Counter)
    exits: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    """What the workers' own logs say: faults done, openings, reopenings, records rolled forward."""

    @property
    def violations(self) -> list[str]:
        return self.facts.violations

    def line(self) -> str:
        def show(counter: Mapping[str, int]) -> str:
            return " ".join(f"{name}={number}" for name, number in sorted(counter.items()) if number)

        return (
            f"seed={self.plan.seed} {self.topology} [{self.plan}] {self.seconds:.0f}s | {show(self.events)} | exits {show(self.exits)}"
            f" | {show(self.counts)} | {show(self.facts.numbers)} | violations={len(self.violations)}"
        )


def fresh(folder: Path) -> None:
    """An empty folder; brokers that a killed driver left in it are ended first."""
    if (left := KafkaCluster.load(folder / "kafka")) is not None:
        left.stop(0)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


class Run:
    """One run of a plan. Everything it writes is in `folder`; it leaves no process behind."""

    def __init__(self, plan: Plan, folder: Path, *, code: Path = ROOT, topology: str = "toy") -> None:
        self.plan = plan
        self.topology = topology
        self.folder = folder
        self.chance = random.Random(f"chaos {plan.seed}")
        self.subject = subjects.SUBJECTS[topology]
        self.job = self.subject.job(prefix=f"r{plan.seed}", partitions=4)
        self.began = time.monotonic()
        self.done: Counter[str] = Counter()
        self.crew = Crew(folder, self.chance, self.say, code=code, topology=topology, asleep=plan.kind.asleep)
        self.cluster: KafkaCluster
        self.proxies: list[Proxy] = []
        self._driver = folder / "driver.log"

    def say(self, what: str) -> None:
        with self._driver.open("a") as log:
            log.write(f"{time.monotonic() - self.began:6.1f} {what}\n")

    async def run(self) -> Result:
        fresh(self.folder)
        self.say(f"seed {self.plan.seed}: {self.topology}, {self.plan}: {self.plan.events}")
        async with AsyncExitStack() as stack:
            await self.set_up(stack)
            facts = await self.play()
        self._drop_data()
        counts = read_logs(self.crew.logs())
        counts["resumed"] = self.crew.resumed
        for code in set(self.crew.exits) - EXPECTED_EXITS:
            facts.say(f"{self.crew.exits[code]} workers ended with {code}", last_words(self.crew.logs()))
        return Result(
            self.plan, self.topology, facts, time.monotonic() - self.began, self.done, self.crew.exits, counts
        )

    def _drop_data(self) -> None:
        for data in self.folder.glob("kafka/*/data"):
            shutil.rmtree(data, ignore_errors=True)
        for state in self.folder.glob("state-*"):
            shutil.rmtree(state, ignore_errors=True)

    async def set_up(self, stack: AsyncExitStack) -> None:
        kind = self.plan.kind
        advertised = {}
        if kind.proxied:
            self.proxies = [await stack.enter_async_context(Proxy()) for _ in range(kind.nodes)]
            advertised = {number: proxy.address for number, proxy in enumerate(self.proxies, 1)}
        self.cluster = KafkaCluster(
            self.folder / "kafka", nodes=kind.nodes, version=self.plan.version, properties=kind.properties, advertised=advertised
        )  # fmt: skip
        stack.callback(self.cluster.stop, 0)
        await asyncio.to_thread(self.cluster.start)
        for number, proxy in enumerate(self.proxies, 1):
            proxy.target = ("127.0.0.1", self.cluster.port(number))
        await self.job.create(self.cluster.inside, replication=kind.nodes, compaction=kind.compaction, more=[JUNK])
        stack.callback(self.crew.abandon)

    def spec(self, number: int) -> Spec:
        plan = self.plan
        return Spec(
            name=f"w{number}",
            bootstrap=self.cluster.bootstrap,
            prefix=self.job.prefix,
            partitions=self.job.partitions,
            due_ms=self.job.due_ms,
            seed=plan.seed,
            state_dir=str(self.folder / f"state-w{number}") if plan.table == "rocksdb" else None,
            loop=plan.loop,
            faults=plan.kind.faults,
            config={**plan.kind.config, "warm": plan.warm},
        )

    async def play(self) -> oracle.Facts:
        """Feed and harm, then calm down, drain, stop and judge."""
        feeder = self.subject.feeder(self.job, self.cluster.inside, self.plan.seed)
        async with asyncio.TaskGroup() as group:
            watch = group.create_task(self.crew.watch())
            for number in range(self.plan.workers):
                self.crew.add(self.spec(number))
            feeding = group.create_task(feeder.run())
            await self.until(lambda: self.crew.logs().count('"opened"') >= self.job.partitions, 40)
            for event in self.plan.events:
                self.done[event] += 1
                self.say(event)
                await getattr(self, event)()
                await asyncio.sleep(self.chance.uniform(1.5, 4.0))
            feeder.stop.set()
            await feeding
            self.say(f"{len(feeder.stored)} events stored; calming down")
            await self.crew.calm()
            left = await oracle.settle(self.cluster.inside, self.job, SETTLE_S, self.subject.pending)
            self.say(f"settled {left}")
            watch.cancel()
            await self.crew.end_all()
        facts = await self.subject.judge(self.cluster.inside, self.job, feeder.stored)
        if left:
            facts.say(f"no rest after {SETTLE_S:.0f} s: {left}")
        return facts

    @staticmethod
    async def until(condition: Any, seconds: float) -> None:
        """Wait on a condition; a run that misses it goes on, and the judge decides."""
        deadline = time.monotonic() + seconds
        while not condition() and time.monotonic() < deadline:
            await asyncio.sleep(0.1)

    # ------------------------------------------------------------------ events

    async def pause(self) -> None:
        """Nothing but the workers' own faults, for a while."""
        await asyncio.sleep(3)

    async def kill_worker(self) -> None:
        if (member := self.crew.pick()) is not None:
            self.say(f"kill {member.name}")
            self.crew.kill(member)

    async def suspend_worker(self) -> None:
        """SIGSTOP past the session timeout; the crew resumes it. The next event comes only after it woke."""
        if (member := self.crew.pick()) is not None:
            self.say(f"suspend {member.name}")
            self.crew.suspend(member)
            await self.until(lambda: not member.suspended, 30)

    async def join_and_leave(self) -> None:
        number = self.done["join_and_leave"] + self.plan.workers
        self.crew.add(self.spec(number))
        self.say(f"w{number} joins")
        await asyncio.sleep(self.chance.uniform(4, 6))
        if len(self.crew.members) > 1 and (member := self.crew.pick()) is not None:
            self.say(f"{member.name} leaves")
            await self.crew.end(member)

    async def kill_broker(self) -> None:
        await asyncio.to_thread(self.cluster.kill)
        await asyncio.sleep(self.chance.uniform(0, 4))
        await asyncio.to_thread(self.cluster.restart)

    async def end_broker(self) -> None:
        await asyncio.to_thread(self.cluster.terminate)
        await asyncio.sleep(self.chance.uniform(0, 4))
        await asyncio.to_thread(self.cluster.restart)

    async def roll_kill(self) -> None:
        await self._roll(self.cluster.kill)

    async def roll_end(self) -> None:
        await self._roll(self.cluster.terminate)

    async def _roll(self, stop: Any) -> None:
        """Two nodes, one after the other, each back in sync before the next."""
        for node in self.chance.sample(sorted(self.cluster.nodes), 2):
            await asyncio.to_thread(stop, node)
            await asyncio.sleep(self.chance.uniform(0.5, 4))
            await asyncio.to_thread(self.cluster.restart, node)
            self.say(f"node {node} is back in sync")

    async def power_loss(self) -> None:
        await asyncio.to_thread(self.cluster.power_loss)
        await asyncio.sleep(self.chance.uniform(0, 4))
        await asyncio.to_thread(self.cluster.power_on)
        self.say("power is back")

    async def cut(self) -> None:
        for _ in range(4):
            for proxy in self.proxies:
                proxy.cut()
            await asyncio.sleep(self.chance.uniform(0.1, 1.0))

    async def cut_and_refuse(self) -> None:
        await self._spoil(lambda proxy: proxy.cut(refuse=True), (1, 5))

    async def slow(self) -> None:
        await self._spoil(
            lambda proxy: proxy.slow(latency_s=self.chance.choice((0.1, 0.4, 1.5)), bytes_per_s=60_000), (4, 8)
        )

    async def silence(self) -> None:
        await self._spoil(lambda proxy: proxy.blackhole(), (2, 12))

    async def _spoil(self, how: Any, seconds: tuple[float, float]) -> None:
        for proxy in self.proxies:
            how(proxy)
        await asyncio.sleep(self.chance.uniform(*seconds))
        for proxy in self.proxies:
            proxy.restore()


def lines(log: str) -> Iterator[dict[str, Any]]:
    """The JSON lines of a log; a line that a kill cut short is no line."""
    for line in re.findall(r"^\{.*\}$", log, re.MULTILINE):
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            continue


def read_logs(log: str) -> Counter[str]:
    """Faults, openings and repairs, as the workers' logs tell them."""
    counts: Counter[str] = Counter()
    for line in lines(log):
        event = line.get("event")
        if event == "fault":
            counts[f"self_{line['what']}"] += 1
        elif event in ("opened", "reopening"):
            counts[event] += 1
        elif event == ROLLED:
            counts["rolled_forward"] += sum(line["records"].values())
        if "a marker was lost" in str(line.get("error", "")):
            counts["stuck_commit"] += 1
        if "the scrub is not visible" in str(line.get("error", "")):
            counts["stuck_scrub"] += 1
    return counts


def last_words(log: str) -> list[str]:
    """Why workers ended, by their own account; tracebacks included."""
    words = [f"{line['name']} {line['why']}" for line in lines(log) if line.get("event") == "exit"]
    return words + re.findall(r"^\w+(?:\.\w+)*(?:Error|Exception): .*$", log, re.MULTILINE)
