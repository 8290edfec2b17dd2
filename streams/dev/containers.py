"""Kafka and Postgres as containers, through testcontainers, where a Docker engine on this machine answers.

Containers publish their ports on loopback only. One that must outlive the command that started it is written down in
`container.json` of its folder, with testcontainers' reaper switched off; the reaper ends the others if their owner
dies.
"""

from __future__ import annotations

import importlib.util
import os
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec

from streams.dev import metadata
from streams.dev import ports as loopback
from streams.dev.errors import ServiceError
from streams.dev.process import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

NAME: Final = "container.json"
READY_S: Final = 120
PING_S: Final = 2
POSTGRES_IMAGE: Final = "postgres:18"


class Container(msgspec.Struct, frozen=True):
    """A container that this folder owns, and the address of its service."""

    id: str
    image: str
    address: str


def engine_socket(env: Mapping[str, str] | None = None) -> str:
    """The local engine's socket: `DOCKER_HOST`, if it is one, else Docker's own place. Empty for an engine elsewhere,
    whose published ports would be on a loopback of its own.
    """
    host = (os.environ if env is None else env).get("DOCKER_HOST") or "unix:///var/run/docker.sock"
    return host.removeprefix("unix://") if host.startswith("unix://") else ""


def engine_answers(env: Mapping[str, str] | None = None) -> bool:
    """Whether testcontainers is installed and a local Docker engine answers a ping within two seconds."""
    path = engine_socket(env)
    if not path or not importlib.util.find_spec("testcontainers"):
        return False
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(PING_S)
            connection.connect(path)
            connection.sendall(b"GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n")
            return b" 200 " in connection.recv(64)
    except OSError:
        return False


def kafka(folder: Path, *, version: str, port: int | None, keep: bool) -> Container:
    """A single broker of Apache's own image. `keep`: it outlives this process. Raises `ServiceError` if it fails."""
    port = port or loopback.free(1)[0]
    image = f"apache/kafka:{version}"
    started = _run(image, kafka_environment(port), {"9092/tcp": port}, keep=keep)
    container = Container(started.id, image, f"{loopback.HOST}:{port}")
    return _ready(
        folder, container, started, keep=keep, answers=lambda: bool(metadata.ask(loopback.HOST, port).brokers)
    )


def kafka_environment(port: int) -> dict[str, str]:
    """Settings of the image: clients outside are told the published port."""
    return {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_LISTENERS": "CLIENT://:9092,CONTROLLER://:9093,INSIDE://:9094",
        "KAFKA_ADVERTISED_LISTENERS": f"CLIENT://{loopback.HOST}:{port},INSIDE://localhost:9094",
        "KAFKA_INTER_BROKER_LISTENER_NAME": "INSIDE",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT,INSIDE:PLAINTEXT",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "4",
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_NUM_PARTITIONS": "8",
        "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR": "1",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
    }


def postgres(folder: Path, *, port: int | None, keep: bool) -> Container:
    """A Postgres 18 with the database `concord` and no password. Raises `ServiceError` if it fails."""
    port = port or loopback.free(1)[0]
    settings = {"POSTGRES_HOST_AUTH_METHOD": "trust", "POSTGRES_DB": "concord", "TZ": "UTC"}
    started = _run(POSTGRES_IMAGE, settings, {"5432/tcp": port}, keep=keep)
    container = Container(started.id, POSTGRES_IMAGE, f"postgresql://postgres@{loopback.HOST}:{port}/concord")
    # While the image prepares its data, its server listens on no TCP port.
    command = ["pg_isready", "-h", "127.0.0.1", "-d", "concord"]
    return _ready(folder, container, started, keep=keep, answers=lambda: started.exec_run(command).exit_code == 0)


def port_of(container: Container) -> int:
    """The port on loopback at which its service answers."""
    return int(container.address.removesuffix("/concord").rpartition(":")[2])


def recorded(folder: Path) -> Container | None:
    """The container that a folder remembers, running or not."""
    try:
        return msgspec.json.decode((folder / NAME).read_bytes(), type=Container)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def is_running(container: Container) -> bool:
    """Whether the engine answers and runs it."""
    with _found(container) as found:
        return found is not None and found.status == "running"


def remove(folder: Path, container: Container) -> None:
    """End and remove it with its data, and forget it. Raises `ServiceError` while no engine answers: it may still run."""
    if not engine_answers():
        raise ServiceError(
            f"{container.image} is a container ({container.id[:12]}), but no local Docker engine answers"
        )
    with _found(container) as found:
        if found is not None:
            found.remove(force=True, v=True)
    (folder / NAME).unlink(missing_ok=True)


@contextmanager
def _found(container: Container) -> Iterator[Any | None]:
    if not engine_answers():
        yield None
        return
    import docker  # type: ignore[import-untyped]  # noqa: PLC0415  # comes with testcontainers, which is optional
    import docker.errors  # type: ignore[import-untyped]  # noqa: PLC0415

    client = docker.from_env()
    try:
        try:
            found = client.containers.get(container.id)
        except docker.errors.NotFound:
            found = None
        yield found
    finally:
        client.close()


def _run(image: str, environment: Mapping[str, str], published: Mapping[str, int], *, keep: bool) -> Any:
    import docker.errors  # noqa: PLC0415
    from testcontainers.core.config import testcontainers_config  # noqa: PLC0415
    from testcontainers.core.container import DockerContainer  # noqa: PLC0415

    if keep:
        testcontainers_config.ryuk_disabled = True
    container = DockerContainer(image, env=dict(environment))
    container.ports.update({inner: (loopback.HOST, outer) for inner, outer in published.items()})
    try:
        return container.start().get_wrapped_container()
    except (docker.errors.DockerException, OSError) as error:
        raise ServiceError(
            f"Docker could not start {image}: {error}\n"
            "  Fix the engine, or do without it: CONCORD_SERVICES=local starts the servers that come by pip."
        ) from error


def _ready(folder: Path, container: Container, started: Any, *, keep: bool, answers: Callable[[], bool]) -> Container:
    def ready() -> bool:
        try:
            return answers()
        except OSError:
            return False

    if not until(ready, READY_S):
        said = started.logs(tail=20).decode(errors="replace")
        started.remove(force=True, v=True)
        raise ServiceError(f"{container.image} is not ready after {READY_S} s:\n{said}")
    if keep:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / NAME).write_bytes(msgspec.json.encode(container))
    return container
