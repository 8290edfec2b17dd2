"""Real Kafka and Postgres for tests: the same code as `concord dev`, in `.concord/tests/<pid of the run>`.

Servers outlive their starter, so a run that was killed leaves some behind: the next run ends those whose owner is gone.
"""

from __future__ import annotations

import itertools
import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from streams.dev import record, services
from streams.dev.kafka import KafkaCluster
from streams.dev.postgres import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

TESTS = Path(__file__).resolve().parents[2] / ".concord" / "tests"
_numbers = itertools.count(1)


def run_folder() -> Path:
    """The folder of this run; its name is our pid, so that a later run can tell whether its owner still lives."""
    return TESTS / str(os.getpid())


def fresh_folder(name: str) -> Path:
    """A new folder for one test's server or project."""
    folder = run_folder() / f"{name}-{next(_numbers)}"
    folder.mkdir(parents=True)
    return folder


def sweep() -> None:
    """End the servers of runs whose owner is gone, and remove their folders. Only pids that are still theirs are
    signalled.
    """
    for run in TESTS.glob("*"):
        if run.name.isdigit() and not psutil.pid_exists(int(run.name)):
            for found in run.rglob(record.NAME):
                cluster = KafkaCluster.load(found.parent)
                if cluster is not None:
                    cluster.stop(0)
            for found in run.rglob("port"):
                server = PostgresServer.load(found.parent)
                if server is not None:
                    server.stop(mode="immediate")
            shutil.rmtree(run, ignore_errors=True)


@contextmanager
def shared_kafka() -> Iterator[services.Kafka]:
    """A broker for the whole run, of the version that `CONCORD_KAFKA_VERSION` asks for, or the one of `CONCORD_KAFKA`."""
    kafka = services.kafka(run_folder() / "kafka")
    try:
        yield kafka
    finally:
        kafka.wipe()


@contextmanager
def shared_postgres() -> Iterator[services.Postgres]:
    """A Postgres for the whole run, or the one of `CONCORD_POSTGRES`."""
    postgres = services.postgres(run_folder() / "postgres")
    try:
        yield postgres
    finally:
        postgres.wipe()


@contextmanager
def cluster(
    *,
    nodes: int = 1,
    version: str | None = None,
    properties: Mapping[str, str] | None = None,
    advertised: Mapping[int, str] | None = None,
    ports: Sequence[int] = (),
    jvm: Sequence[str] | None = None,
) -> Iterator[KafkaCluster]:
    """Brokers of a test's own, running, to be killed and restarted; always local processes. They end by SIGKILL."""
    own = KafkaCluster(
        fresh_folder("cluster"),
        nodes=nodes,
        version=version,
        properties=properties,
        advertised=advertised,
        ports=ports,
        jvm=jvm,
    )
    try:
        yield own.start()
    finally:
        own.wipe()
