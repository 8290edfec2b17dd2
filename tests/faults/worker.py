"""One worker process of a fault run: a topology on the real engine, with a probe that does harm between any two steps.

    python -m tests.faults.worker --topology toy '{"name": "w0", "bootstrap": "127.0.0.1:9092", "prefix": "r7", …}'

The probe's chances come from the seed, the worker's name and its incarnation. What it does is logged before it is done, so that a log
that ends tells why. A worker whose starter is gone ends itself.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog
import uvloop
from aiokafka import TopicPartition
from aiokafka import errors as kafka

from streams import log as logs
from streams.engine.config import Config
from streams.engine.membership import Worker
from tests.faults.payments import Payments
from tests.support.toy import Toy

if TYPE_CHECKING:
    from collections.abc import Callable

    from streams.engine.topology import Topology

DEAF_S: Final = 4.0
SENDS: Final = ("begun", "scrub_begun")
"""Steps right before the sends of a transaction: there its markers can be taken away."""
JUNK: Final = "junk"
"""A topic beside the own ones. It is in every transaction that loses all its markers, as the broker ends no empty transaction."""

log: Final = structlog.get_logger(__name__)


class Faults(msgspec.Struct, frozen=True, omit_defaults=True):
    """Probabilities per step; `lose` per transaction. `once` is (step, its how-manieth passing, `kill`, `stop` or `stop+deaf+error`)."""

    kill: float = 0.0
    stop: float = 0.0
    error: float = 0.0
    delay: float = 0.0
    lose: float = 0.0
    longest_delay: float = 3.0
    hold: float = 0.0
    """Seconds that every transaction is held open after its sends."""
    once: tuple[str, int, str] | None = None


class Spec(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything that a worker is told."""

    name: str
    bootstrap: str
    prefix: str
    partitions: int = 4
    due_ms: int = 4000
    seed: int = 0
    incarnation: int = 0
    state_dir: str | None = None
    loop: str = "uvloop"
    faults: Faults = Faults()
    config: dict[str, Any] = {}
    """Changes to `QUICK`."""


QUICK: Final[dict[str, Any]] = {
    "batch": 50,
    "linger": 0.01,
    "session": 6.0,
    "transaction": 15.0,
    "restore": 60.0,
    "watch": 1.0,
    "stuck": 3.0,
    "failures": 40,
}
"""Bounds of a fault run: shorter than a user's, so that a minute holds many of everything."""


def lose_markers(session: Any, partition: int, prefix: str, topics: list[str]) -> None:
    """The next sends of the session's transaction to these topics will never get a marker. Call it at one of `SENDS`."""
    session._producer._txn_manager.maybe_add_partition_to_txn(TopicPartition(f"{prefix}-{JUNK}", partition))
    session.lose_markers(topics)


def deafen(member: Any, seconds: float) -> None:
    """Cut a group member off from its coordinator, and from nobody else: it does not learn that it was expelled."""
    until, send = time.monotonic() + seconds, member._coordinator._send_req

    async def deaf(request: Any) -> Any:
        if time.monotonic() < until:
            raise kafka.GroupCoordinatorNotAvailableError
        return await send(request)

    member._coordinator._send_req = deaf


class Probe:
    """Does harm at the engine's steps, by chance."""

    def __init__(self, spec: Spec, own: tuple[str, ...]) -> None:
        self.spec = spec
        self.own = own
        self.chance = random.Random(f"{spec.seed}:{spec.name}:{spec.incarnation}")
        self.passed: Counter[str] = Counter()
        self.worker: Worker | None = None
        self.armed: dict[int, int] = {}
        """Partition -> commits to let pass before a failure: what a lost marker hides shows only when the partition opens again."""

    async def __call__(self, step: str, partition: int, session: Any) -> None:
        faults = self.spec.faults
        self.passed[step] += 1
        if faults.once is not None and faults.once[:2] == (step, self.passed[step]):
            await self.act(faults.once[2], step, partition)
        if step in SENDS and self.chance.random() < faults.lose:
            self.lose(step, partition, session)
        if step == "acked" and faults.hold:
            await asyncio.sleep(faults.hold)
        if step == "committed" and partition in self.armed:
            self.armed[partition] -= 1
            if self.armed[partition] < 0:
                del self.armed[partition]
                await self.act(self.chance.choice(("kill", "error", "error")), step, partition)
        drawn = self.chance.random()
        for what, probability in (
            ("kill", faults.kill),
            ("stop", faults.stop),
            ("error", faults.error),
            ("delay", faults.delay),
        ):
            if drawn < probability:
                await self.act(what, step, partition)
                return
            drawn -= probability

    async def act(self, what: str, step: str, partition: int) -> None:
        log.warning("fault", what=what, step=step, partition=partition)
        if what == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if what.startswith("stop"):
            os.kill(os.getpid(), signal.SIGSTOP)
            log.warning("fault is over", what=what, step=step, partition=partition)
        if "deaf" in what and self.worker is not None:
            deafen(self.worker.member, DEAF_S)
        if what.endswith("error"):
            raise kafka.RequestTimedOutError(f"injected at {step}")
        if what == "delay":
            await asyncio.sleep(self.chance.random() * self.spec.faults.longest_delay)

    def lose(self, step: str, partition: int, session: Any) -> None:
        topics = [topic for topic in self.own if self.chance.random() < 0.5]
        if topics:
            log.warning("fault", what="lose", step=step, partition=partition, topics=topics)
            lose_markers(session, partition, self.spec.prefix, topics)
            if step == "begun" and self.chance.random() < 0.7:
                self.armed[partition] = self.chance.choice((0, 0, 1, 2))


def toy(spec: Spec) -> tuple[Topology[Any, Any, Any], tuple[str, ...]]:
    """The toy, and the topics that only the engine writes."""
    names = Toy(prefix=spec.prefix, due_ms=spec.due_ms, partitions=spec.partitions)
    return names.topology(), names.own


def payments(spec: Spec) -> tuple[Topology[Any, Any, Any], tuple[str, ...]]:
    """The payment job under the shipped contracts."""
    job = Payments(prefix=spec.prefix, partitions=spec.partitions)
    return job.topology(), job.own


TOPOLOGIES: Final[dict[str, Callable[[Spec], tuple[Topology[Any, Any, Any], tuple[str, ...]]]]] = {
    "toy": toy,
    "payments": payments,
}
"""What can be run under faults, by name. The probe needs the own topics, the run needs nothing else from it."""


def configuration(spec: Spec, probe: Probe) -> Config:
    return Config(
        kafka={"bootstrap_servers": spec.bootstrap},
        state_dir=Path(spec.state_dir) if spec.state_dir else None,
        probe=probe,
        **QUICK | spec.config,
    )


async def main(name: str, spec: Spec) -> None:
    topology, own = TOPOLOGIES[name](spec)
    probe = Probe(spec, own)
    probe.worker = worker = Worker(topology, configuration(spec, probe))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
    guard = asyncio.create_task(end_with(os.getppid()))
    await worker.run()
    guard.cancel()
    log.info("stopped")


async def end_with(parent: int) -> None:
    """A driver that was killed must not leave workers behind."""
    while os.getppid() == parent:
        await asyncio.sleep(0.5)
    os._exit(9)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topology", choices=sorted(TOPOLOGIES), default="toy")
    parser.add_argument("spec", help="JSON of a Spec")
    arguments = parser.parse_args()
    told = msgspec.json.decode(arguments.spec, type=Spec)
    logs.configure(level="info")
    (uvloop.run if told.loop == "uvloop" else asyncio.run)(main(arguments.topology, told))
