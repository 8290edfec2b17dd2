"""A worker of one scenario: the payment job under the scenario's contracts and clock, doing what its driver tells it, when told.

    python -m tests.faults.case_worker --topology case '{"name": "i1", "folder": "/some/folder", …}'

What it is told lies in `<name>.told` in the folder, and is taken from there. The scenario's clock lies in `clock`: its inputs carry the
scenario's times, so the engine's idle partitions must not ask today's clock what is due. Nothing here is in the product: harm is done
at the steps that the engine shows to a probe.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog
import uvloop
from aiokafka import errors as kafka

from streams import log as logs
from streams.agents import payments
from streams.engine import partition as engine_partition
from streams.engine.config import Config
from streams.engine.membership import Worker
from streams.engine.table import Change
from streams.replay import given
from streams.topics import Topics, partition_of
from tests.faults.worker import QUICK, Spec, end_with

if TYPE_CHECKING:
    from streams.engine.topology import Record, Topology

SLOW: Final = "slow"
"""Header of a record whose handling takes so many seconds."""
POLL_S: Final = 0.05

log: Final = structlog.get_logger(__name__)


class Told(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a driver tells a worker: to do something once at a step, or to write rows in so many transactions, one after the other."""

    step: str = ""
    what: str = ""
    rows: tuple[dict[str, bytes | None], ...] = ()
    """Order id -> stored order; None deletes it."""


class CaseSpec(Spec, frozen=True, omit_defaults=True, kw_only=True):
    """Everything that the worker of a scenario is told at its start. `given` is the scenario's, for its contracts."""

    folder: str
    given: dict[str, Any]


def names(prefix: str, partitions: int) -> Topics:
    return Topics.load(prefix=f"{prefix}-", partitions=partitions, replication=1)


class Clock:
    """The module `time` as the engine's partitions see it: the driver winds the wall clock, everything else runs."""

    monotonic = staticmethod(time.monotonic)

    def __init__(self, file: Path) -> None:
        self._file = file

    def time(self) -> float:
        return int(self._file.read_text()) / 1000


class Probe:
    """Does what was told, once, at the first partition that comes to the step; and is as slow as a record says."""

    def __init__(self) -> None:
        self.changelog = ""
        self.armed: Told | None = None
        self.slow: dict[int, float] = {}

    async def __call__(self, step: str, partition: int, session: Any) -> None:
        if step == "begun" and partition in self.slow:
            await asyncio.sleep(self.slow.pop(partition))
        told = self.armed
        if told is not None and told.step == step:
            self.armed = None
            log.warning("told", what=told.what, step=step, partition=partition)
            getattr(self, told.what)(session)

    def kill(self, _session: Any = None) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def sleep(self, _session: Any) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)

    def die_after_the_rows(self, session: Any) -> None:
        """The rows reach the changelog, the outputs are never sent."""
        send = session._send

        async def only_rows(records: dict[str, Any]) -> None:
            await send({self.changelog: records[self.changelog]})
            self.kill()

        session._send = only_rows

    def fail_a_send(self, session: Any) -> None:
        """The next output is refused by the client, and is not in the log."""
        send = session._producer.send_batch

        async def refuse(batch: Any, topic: str, *, partition: int) -> Any:
            session._producer.send_batch = send
            failed: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            failed.set_exception(kafka.RequestTimedOutError(f"told to fail at {topic}"))
            return failed

        session._producer.send_batch = refuse

    def watched(self, topology: Topology[Any, Any, Any]) -> Topology[Any, Any, Any]:
        self.changelog = topology.changelog

        def decode(record: Record) -> Any:
            for name, value in record.headers:
                if name == SLOW:
                    self.slow[record.partition] = float(value)
            return topology.decode(record)

        return replace(topology, decode=decode)


async def write_rows(worker: Worker, rows: dict[str, bytes | None]) -> None:
    """Store orders, or delete them, as the engine stores them: under the partition's lock, in a tagged transaction with its position."""
    topology = worker.topology
    for number, partition in worker.partitions.items():
        mine = {
            name.encode(): row
            for name, row in rows.items()
            if partition_of(name.encode(), worker.partition_count) == number
        }
        if not mine:
            continue
        async with partition.lock:
            assert partition.table is not None
            await partition.write(
                {topology.changelog: [(key, row, []) for key, row in mine.items()]}, partition.offsets
            )
            partition.table.apply(
                {
                    key: Change(row, None if row is None else topology.due(topology.load(row)))
                    for key, row in mine.items()
                }
            )


async def listen(worker: Worker, probe: Probe, file: Path) -> None:
    """Take what the driver tells. It is gone from the folder once it is armed, or done."""
    while True:
        await asyncio.sleep(POLL_S)
        if not file.exists() or not worker.ready:
            continue
        told = msgspec.json.decode(file.read_bytes(), type=Told)
        for rows in told.rows:
            await write_rows(worker, rows)
        if told.what:
            probe.armed = told
        file.unlink()


async def main(spec: CaseSpec) -> None:
    folder = Path(spec.folder)
    engine_partition.time = Clock(folder / "clock")  # type: ignore[assignment]
    contracts = given.Contracts(given.contracts(given.read(spec.given)))
    probe = Probe()
    topology = probe.watched(payments.topology(names(spec.prefix, spec.partitions), spec.prefix, contracts))
    config = Config(kafka={"bootstrap_servers": spec.bootstrap}, probe=probe, **QUICK | spec.config)
    worker = Worker(topology, config)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
    tasks = [
        asyncio.create_task(end_with(os.getppid())),
        asyncio.create_task(listen(worker, probe, folder / f"{spec.name}.told")),
    ]
    await worker.run()
    for task in tasks:
        task.cancel()
    log.info("stopped")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topology", default="case")
    parser.add_argument("spec", help="JSON of a CaseSpec")
    told_at_start = msgspec.json.decode(parser.parse_args().spec, type=CaseSpec)
    logs.configure(level="info")
    uvloop.run(main(told_at_start))
