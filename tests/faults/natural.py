"""A broker that loses markers by itself (KAFKA-20734), and an engine that puts it right.

    python -m tests.faults.run --natural

Kafka 4.4.0 on one node forgets to write a transaction's marker into a partition that has no leader at that moment, as after a start. So:
hold a transaction open in each of twelve partitions, kill workers and broker at once, start the broker again, and count the logs in which
something hangs for longer than any transaction may. Until that has happened once; then clean workers open everything, and the oracle
judges. What no marker ends is either aborted by a scrub, or proven to be committed and rolled forward.
"""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

from aiokafka import AIOKafkaConsumer, TopicPartition

from streams import log as logs
from streams.dev.kafka import KafkaCluster
from tests.faults import oracle
from tests.faults.chaos import FOLDER, fresh, read_logs
from tests.faults.crew import Crew
from tests.faults.feed import Feeder
from tests.faults.plans import NEW
from tests.faults.worker import JUNK, Faults, Spec
from tests.support.toy import Toy

if TYPE_CHECKING:
    from pathlib import Path

PARTITIONS: Final = 12
TRIES: Final = 12
PROPERTIES: Final = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "2000"}
TRANSACTION_S: Final = 9.0
HOLD_S: Final = 1.5
"""Each transaction is held open for this long after its sends, so that a kill finds most of them open."""


async def hanging(bootstrap: str, toy: Toy) -> list[str]:
    """Own logs whose last stable offset is below their end."""
    tps = [TopicPartition(topic, number) for topic in toy.own for number in range(toy.partitions)]
    ends = {}
    for isolation in ("read_committed", "read_uncommitted"):
        client = AIOKafkaConsumer(bootstrap_servers=bootstrap, isolation_level=isolation)
        await client.start()
        ends[isolation] = await client.end_offsets(tps)
        await client.stop()
    stable, high = ends.values()
    return [f"{tp.topic}/{tp.partition}" for tp in tps if stable[tp] < high[tp]]


class Hunt:
    """One cluster, one toy, as many kills as it takes."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.chance = random.Random(seed)
        self.toy = Toy(prefix=f"n{seed}", partitions=PARTITIONS)
        self.cluster = KafkaCluster(folder / "kafka", version=NEW, properties=PROPERTIES)
        self.crew = Crew(folder, self.chance, lambda _what: None)
        self.seed = seed

    def enter(self, name: str, hold: float) -> None:
        self.crew.add(
            Spec(
                name,
                self.cluster.bootstrap,
                self.toy.prefix,
                partitions=PARTITIONS,
                faults=Faults(hold=hold),
                config={"transaction": TRANSACTION_S},
            )
        )

    async def kill_once(self, number: int) -> list[str]:
        """Workers with open transactions and the broker die together. Returns what hangs when all timeouts are over."""
        for half in range(2):
            self.enter(f"w{number}-{half}", HOLD_S)
        before = self.crew.logs().count('"opened"')
        await self.opened(before + PARTITIONS)
        await asyncio.sleep(self.chance.uniform(2.0, 4.0))  # into the middle of what is held open, each time elsewhere
        await asyncio.to_thread(self.cluster.kill)
        self.leave()
        await asyncio.sleep(self.chance.uniform(0.0, 8.0))
        await asyncio.to_thread(self.cluster.restart)
        await asyncio.sleep(
            TRANSACTION_S + 6.0
        )  # the broker's own timeout and its sweep: what hangs now hangs for ever
        return await hanging(self.cluster.bootstrap, self.toy)

    async def opened(self, count: int) -> None:
        deadline = time.monotonic() + 60
        while self.crew.logs().count('"opened"') < count and time.monotonic() < deadline:
            await asyncio.sleep(0.1)

    def leave(self) -> None:
        self.crew.abandon()
        self.crew.members.clear()

    async def heal(self) -> oracle.Facts:
        """Clean workers, until everything is handled and nothing hangs."""
        for half in range(2):
            self.enter(f"w-clean-{half}", 0.0)
        left = await oracle.settle(self.cluster.bootstrap, self.toy, 120.0)
        await self.crew.end_all()
        facts = await oracle.judge(self.cluster.bootstrap, self.toy, self.stored)
        if left:
            facts.say(f"no rest: {left}")
        return facts

    async def run(self) -> int:
        """Returns 0 if markers were lost and everything is right again."""
        fresh(self.folder)
        found: list[str] = []
        async with AsyncExitStack() as stack:
            stack.callback(self.cluster.stop, 0)
            await asyncio.to_thread(self.cluster.start)
            stack.callback(self.crew.abandon)
            await self.toy.create(self.cluster.bootstrap, more=[JUNK])
            feeder = Feeder(self.toy, self.cluster.bootstrap, self.seed, per_second=100)
            self.stored = feeder.stored
            feeding = asyncio.create_task(feeder.run())
            for number in range(1, TRIES + 1):
                found = await self.kill_once(number)
                print(f"try {number}: {len(found)} of {4 * PARTITIONS} own logs hang: {found[:6]}", flush=True)
                if found:
                    break
            feeder.stop.set()
            await feeding
            facts = await self.heal()
        counts = read_logs(self.crew.logs())
        print(
            f"{len(found)} logs had lost a marker; {dict(counts)}; {dict(facts.numbers)}; violations={len(facts.violations)}"
        )
        for violation in facts.violations[:10]:
            print(f"  VIOLATION {violation}")
        if not found:
            print(f"the broker lost no marker in {TRIES} tries: nothing is proven")
        return 1 if facts.violations or not found else 0


def main(seed: int | None = None) -> int:
    logs.configure(level="critical")
    seed = seed or random.SystemRandom().randrange(1, 100_000)
    print(f"seed {seed}, Kafka {NEW}, {PARTITIONS} partitions", flush=True)
    return asyncio.run(Hunt(FOLDER / f"natural-{seed}", seed).run())
