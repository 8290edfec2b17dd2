"""The demonstration from beginning to end: topics, two workers, traffic, a crash in the middle, and the proof."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from aiokafka import AIOKafkaProducer
from rich.live import Live

from streams.agents import payments
from streams.app import engine_config
from streams.demo import traces
from streams.demo.show import Counts, Reader, draw, settled
from streams.demo.traffic import Traffic, traffic
from streams.demo.workers import WorkerProcess, wait_ready
from streams.engine.audit import Audit, Report
from streams.proof import Proof, compare, read
from streams.settings import Settings
from streams.topics import Topics, check, create

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

SESSION_S: Final = 6
DRAIN_S: Final = 60.0
BURST: Final = 50
LOOK_S: Final = 0.002


class DemoError(RuntimeError):
    """The demonstration could not go on; the text says why and where to look."""


@dataclass
class Verdict:
    """What the independent readers found at the end."""

    proof: Proof
    report: Report
    counts: Counts
    seconds: float
    wrong: list[str] = field(default_factory=list)


@dataclass
class Demo:
    """One demonstration on one broker, under topics of its own. `started`: the address of a Kafka that was started for us; without
    one it is the environment's Kafka, with its TLS and SASL settings.
    """

    folder: Path
    console: Console
    started: str | None = None
    orders: int = 4000
    seed: int = 7
    rate: int = 1000
    prefix: str = field(default_factory=traces.prefix)
    has_topics: bool = False

    def __post_init__(self) -> None:
        env = {
            "CONCORD_TOPIC_PREFIX": self.prefix,
            "CONCORD_GROUP": f"{self.prefix}concord",
            "CONCORD_REPLICATION": os.environ.get("CONCORD_REPLICATION") or "1",
            "CONCORD_SESSION_SECONDS": str(SESSION_S),
            "CONCORD_TABLE": "memory",
        }
        self.kafka = {"CONCORD_REPLICATION": env["CONCORD_REPLICATION"]}
        if self.started:
            self.kafka = {
                "CONCORD_KAFKA": self.started,
                "CONCORD_KAFKA_SECURITY": "PLAINTEXT",
                "CONCORD_REPLICATION": "1",
            }
        env |= self.kafka
        self.settings = Settings.from_env({**os.environ, **env})
        self.topics = Topics.load(prefix=self.prefix, replication=self.settings.replication)
        self.config = engine_config(self.settings, self.topics)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.workers = [WorkerProcess(name, self.folder, env) for name in ("worker-1", "worker-2")]

    async def run(self) -> Verdict:
        began = time.monotonic()
        made = traffic(self.orders, self.seed)
        await check(self.settings.kafka, self.topics)  # whether anyone answers, before anything is made
        self.has_topics = True
        await create(self.settings.kafka, self.topics)
        try:
            counts = await self.drive(made)
            codes = await asyncio.to_thread(lambda: [worker.drain() for worker in self.workers])
            counts.note(f"both workers drained, exit codes {codes}")
            return await self.judge(made, counts, began)
        finally:
            for worker in self.workers:
                worker.end()

    async def drive(self, made: Traffic) -> Counts:
        """Workers, traffic, crash; returns when everything was handled."""
        for worker in self.workers:
            worker.start()
        await asyncio.to_thread(wait_ready, self.workers)
        counts = Counts(total=len(made.records))
        counts.note("two workers ready")
        reader = asyncio.create_task(Reader(self.topics, self.config, counts).run())
        crash = asyncio.create_task(self.crash(counts))
        with Live(console=self.console, refresh_per_second=8, get_renderable=lambda: draw(counts, self.workers)):
            await self.produce(made, counts)
            await crash
            is_settled = await settled(counts, DRAIN_S)
        if not self.console.is_terminal:
            self.console.line()  # on a terminal, the display ends its last line by itself
        reader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reader
        if not is_settled:
            raise DemoError(
                f"{counts.lag} events were not handled within {DRAIN_S:g} s; see the workers' logs in {self.folder}"
            )
        return counts

    async def produce(self, made: Traffic, counts: Counts) -> None:
        """Send the traffic at its rate, as an idempotent producer does."""
        producer = AIOKafkaProducer(**self.settings.kafka, enable_idempotence=True, linger_ms=5)
        try:
            await producer.start()
            began = time.monotonic()
            for number, record in enumerate(made.records):
                await producer.send(self.topics[record.topic], record.value, key=record.key)
                counts.produced = number + 1
                ahead = number / self.rate - (time.monotonic() - began)
                if number % BURST == 0 and ahead > 0:
                    await asyncio.sleep(ahead)
            await producer.flush()
        finally:
            await producer.stop()

    async def crash(self, counts: Counts) -> None:
        """SIGKILL the first worker in the middle, and bring it back a little later."""
        await self.middle(counts)
        victim, in_flight = self.workers[0], counts.lag
        await asyncio.to_thread(victim.kill)
        counts.note(f"[red]SIGKILL[/] {victim.name}, {in_flight} events in flight")
        await asyncio.sleep(2.0)
        victim.start()
        await asyncio.to_thread(wait_ready, [victim])
        counts.note(f"{victim.name} is back and ready")

    async def middle(self, counts: Counts) -> None:
        """Wait for a moment in the middle of the traffic in which some events were handled and some are in flight."""
        goal, deadline = counts.total * 2 // 5, 0.0
        while not (counts.produced >= goal and counts.handled and counts.lag) and not counts.done:
            if counts.produced >= goal:
                deadline = deadline or time.monotonic() + DRAIN_S
                if time.monotonic() > deadline:
                    raise DemoError(f"nothing was handled within {DRAIN_S:g} s; see the workers' logs in {self.folder}")
            await asyncio.sleep(LOOK_S)

    async def judge(self, made: Traffic, counts: Counts, began: float) -> Verdict:
        """Three readers that know nothing of the workers: replay, state audit, and the traffic's own knowledge of who paid."""
        topology = payments.topology(self.topics, self.settings.group)
        names = [*topology.inputs, *topology.outputs, topology.dead_letters, topology.changelog]
        found = await read(self.config, names, self.topics.partitions)
        proof = compare(topology, found, self.topics["decisions"])
        audit = Audit(topology, self.config)
        async with audit.reading():
            report = await audit.once(settle=3.0)
        successes = Counter(record.key.decode() for record in found[self.topics["success"]])
        wrong = [
            f"{order} was paid and has {successes[order]} successes" for order in made.paid if successes[order] != 1
        ]
        wrong += [f"{order} has a success and was not paid" for order in successes if order not in made.paid]
        if proof.dead != made.broken:
            wrong.append(f"{made.broken} broken records went in, {proof.dead} dead letters came out")
        return Verdict(proof, report, counts, time.monotonic() - began, wrong)
