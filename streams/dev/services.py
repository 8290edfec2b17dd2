"""Where Kafka and Postgres come from: one function each, for `concord dev`, `concord demo` and the tests.

In this order: what `CONCORD_KAFKA` and `CONCORD_POSTGRES` name; a Docker engine, if one answers; the servers that come
by pip. `CONCORD_SERVICES` may insist on `docker` or `local`. What a folder has had before, it keeps.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from streams.dev import containers, jars
from streams.dev.errors import ServiceError
from streams.dev.kafka import KafkaCluster
from streams.dev.postgres import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from rich.console import Console

CHOICES: Final = ("auto", "docker", "local")


def _nothing() -> None:
    """What someone else started is not ours to end."""


def _elsewhere() -> bool:
    """What someone else started is taken to run; whoever connects will see."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A service that answers at `address`. `source` is environment, docker or local; `runs` says whether any of it runs;
    `stop` keeps data, `wipe` does not.
    """

    address: str
    source: str
    detail: str
    runs: Callable[[], bool] = _elsewhere
    stop: Callable[[], None] = _nothing
    wipe: Callable[[], None] = _nothing


S = TypeVar("S", bound="Service")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kafka(Service):
    """A Kafka to work with."""

    @property
    def bootstrap(self) -> str:
        """`host:port[,host:port]` for `CONCORD_KAFKA`."""
        return self.address


@dataclass(frozen=True, slots=True, kw_only=True)
class Postgres(Service):
    """A Postgres to work with."""

    @property
    def dsn(self) -> str:
        """`postgresql://…` for `CONCORD_POSTGRES`."""
        return self.address


def kafka(
    folder: Path,
    *,
    nodes: int = 1,
    version: str | None = None,
    port: int | None = None,
    keep: bool = False,
    env: Mapping[str, str] | None = None,
    console: Console | None = None,
) -> Kafka:
    """A Kafka that answers. Three nodes are always local processes, on `port` and the next two. `keep`: it is to
    outlive this process (local servers always do). Raises `ServiceError`.
    """
    env = os.environ if env is None else env
    ours = owned_kafka(folder)
    given = env.get("CONCORD_KAFKA")
    if given and (ours is None or given != ours.address):
        return Kafka(address=given, source="environment", detail="CONCORD_KAFKA")
    version = version or jars.version(env)
    if _docker(env, folder, possible=nodes == 1):
        container = containers.recorded(folder)
        if container is None or not containers.is_running(container):
            container = containers.kafka(folder, version=version, port=port, keep=keep)
        _require_unmoved(container, port)
        return _container(Kafka, folder, container)
    wanted = [] if port is None else list(range(port, port + nodes))
    cluster = KafkaCluster(folder, nodes=nodes, version=version, ports=wanted, console=console).start()
    return _kafka_cluster(cluster)


def postgres(
    folder: Path,
    *,
    port: int | None = None,
    keep: bool = False,
    env: Mapping[str, str] | None = None,
) -> Postgres:
    """A Postgres that answers. Raises `ServiceError`."""
    env = os.environ if env is None else env
    ours = owned_postgres(folder)
    given = env.get("CONCORD_POSTGRES")
    if given and (ours is None or given != ours.address):
        return Postgres(address=given, source="environment", detail="CONCORD_POSTGRES")
    if _docker(env, folder, possible=True):
        container = containers.recorded(folder)
        if container is None or not containers.is_running(container):
            container = containers.postgres(folder, port=port, keep=keep)
        _require_unmoved(container, port)
        return _container(Postgres, folder, container)
    return _postgres_server(PostgresServer(folder, port=port).start())


def awaited(folder: Path, *, version: str | None = None, env: Mapping[str, str] | None = None) -> str:
    """What `kafka` will have to do before it returns, in words; empty if there is nothing to wait for."""
    env = os.environ if env is None else env
    ours = owned_kafka(folder)
    given = env.get("CONCORD_KAFKA")
    if (given and (ours is None or given != ours.address)) or (ours is not None and ours.runs()):
        return ""
    if _docker(env, folder, possible=True) or jars.recall(jars.cache_folder(env), version or jars.version(env)):
        return "Kafka is starting"
    return f"Kafka is starting; its jars, about {jars.MEGABYTES} MB, come from Maven Central the first time"


def owned_kafka(folder: Path) -> Kafka | None:
    """The Kafka that a folder has, running or not."""
    container = containers.recorded(folder)
    if container is not None:
        return _container(Kafka, folder, container)
    cluster = KafkaCluster.load(folder)
    return None if cluster is None else _kafka_cluster(cluster)


def owned_postgres(folder: Path) -> Postgres | None:
    """The Postgres that a folder has, running or not."""
    container = containers.recorded(folder)
    if container is not None:
        return _container(Postgres, folder, container)
    server = PostgresServer.load(folder)
    return None if server is None else _postgres_server(server)


def _docker(env: Mapping[str, str], folder: Path, *, possible: bool) -> bool:
    choice = env.get("CONCORD_SERVICES") or "auto"
    if choice not in CHOICES:
        raise ServiceError(f"CONCORD_SERVICES={choice!r}: use one of {', '.join(CHOICES)}")
    if choice == "docker":
        if not possible:
            raise ServiceError("CONCORD_SERVICES=docker starts one Kafka node only; three need CONCORD_SERVICES=local")
        if not containers.engine_answers(env):
            raise ServiceError("CONCORD_SERVICES=docker, but no local Docker engine answers: start it, or use 'local'")
        return True
    has_local = KafkaCluster.load(folder) is not None or PostgresServer.load(folder) is not None
    return choice == "auto" and possible and not has_local and containers.engine_answers(env)


def _require_unmoved(container: containers.Container, port: int | None) -> None:
    """A container keeps its port: refuse to say that it has another."""
    known = containers.port_of(container)
    if port not in (None, known):
        raise ServiceError(
            f"{container.image} runs on port {known}, not {port}: use it there, or remove it first (`concord dev down`)"
        )


def _container(kind: type[S], folder: Path, container: containers.Container) -> S:
    def remove() -> None:
        containers.remove(folder, container)

    return kind(
        address=container.address,
        source="docker",
        detail=container.image,
        runs=lambda: containers.is_running(container),
        stop=remove,
        wipe=remove,
    )


def _kafka_cluster(cluster: KafkaCluster) -> Kafka:
    pids = ", ".join(f"node {node} pid {cluster.pid(node)}" for node in cluster.running()) or "stopped"
    return Kafka(
        address=cluster.bootstrap,
        source="local",
        detail=f"Kafka {cluster.version}, {pids}, in {cluster.folder}",
        runs=lambda: bool(cluster.running()),
        stop=cluster.stop,
        wipe=cluster.wipe,
    )


def _postgres_server(server: PostgresServer) -> Postgres:
    pid = server.pid()
    state = "stopped" if pid is None else f"pid {pid}"
    detail = f"Postgres 18, {state}, in {server.folder}"
    return Postgres(
        address=server.dsn,
        source="local",
        detail=detail,
        runs=lambda: server.pid() is not None,
        stop=server.stop,
        wipe=server.wipe,
    )
