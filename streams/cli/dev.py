"""`concord dev up|down|status`: Kafka and Postgres on this machine, in `.concord/dev` of the folder it is called in.

Exit codes: 0 done (`status`: everything runs), 1 it failed, and the message says what to do, 3 `status`: something is
down.
"""

from __future__ import annotations

import shutil
import sys
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from rich.console import Console

from streams.dev import containers, jars, services
from streams.dev.errors import ServiceError
from streams.dev.kafka import KafkaCluster
from streams.dev.postgres import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Iterator

DOWN: Final = 3
STATE: Final = Path(".concord/state")
"""Where a worker that is started here keeps its tables, unless it is told another place."""
CODES: Final = "Exit codes: 0 done, 1 it failed, and the message says what to do."


def folder(name: str) -> Path:
    """Where a service of this project lives; git ignores it."""
    return Path(".concord/dev").resolve() / name


@click.group()
def dev() -> None:
    """Kafka and Postgres on this machine, with or without Docker."""


@dev.command(epilog=CODES)
@click.option("--nodes", type=click.Choice(["1", "3"]), default="1", show_default=True, help="Kafka nodes.")
@click.option("--kafka-version", default=jars.version, help=f"Default: CONCORD_KAFKA_VERSION, or {jars.VERSION}.")
@click.option(
    "--port", type=click.IntRange(1024, 65533), help="Kafka's port (with 3 nodes, the first of 3). Default: a free one."
)
@click.option("--postgres/--no-postgres", "with_postgres", default=True, show_default=True, help="Postgres as well.")
@click.option("--postgres-port", type=click.IntRange(1024, 65535), help="Default: a free one.")
def up(nodes: str, kafka_version: str, port: int | None, with_postgres: bool, postgres_port: int | None) -> None:
    """Start Kafka and Postgres, and print their addresses. They run until `concord dev down`."""
    console = Console(stderr=True)
    with _failures():
        with _sign_of_life(console, kafka_version):
            kafka = services.kafka(
                folder("kafka"), nodes=int(nodes), version=kafka_version, port=port, keep=True, console=console
            )
        exports = {"CONCORD_KAFKA": kafka.address}
        if kafka.source != "environment":
            exports["CONCORD_REPLICATION"] = nodes
        click.echo(f"Kafka     {kafka.address}  ({_detail(kafka)})")
        if with_postgres:
            postgres = services.postgres(folder("postgres"), port=postgres_port, keep=True)
            exports["CONCORD_POSTGRES"] = postgres.address
            click.echo(f"Postgres  {postgres.address}  ({_detail(postgres)})")
        click.echo()
        for name, value in exports.items():
            click.echo(f"export {name}={value}")


def _detail(service: services.Service) -> str:
    return f"{service.detail} is set, nothing was started" if service.source == "environment" else service.detail


@dev.command(epilog=CODES)
@click.option("--wipe", is_flag=True, help=f"Remove their data as well, and the workers' tables in {STATE}.")
def down(wipe: bool) -> None:
    """Stop what `up` started. Data stay, unless --wipe."""
    with _failures():
        owned = [services.owned_kafka(folder("kafka")), services.owned_postgres(folder("postgres"))]
        for name, service in zip(("Kafka", "Postgres"), owned, strict=True):
            if service is None:
                continue
            ran = service.runs()
            (service.wipe if wipe else service.stop)()
            gone = wipe or service.source == "docker"
            click.echo(f"{name} {'removed' if gone else 'stopped' if ran else 'was not running'}")
        if not any(owned):
            click.echo("nothing was started here")
        if wipe:
            shutil.rmtree(folder(""), ignore_errors=True)
            if STATE.exists():
                shutil.rmtree(STATE)
                click.echo(f"{STATE} removed")


@dev.command(epilog="Exit codes: 0 everything runs, 1 it cannot be said, 3 something is down.")
def status() -> None:
    """Say what runs: Kafka, and a Postgres that was started before."""
    with _failures():
        kafka, postgres = services.owned_kafka(folder("kafka")), services.owned_postgres(folder("postgres"))
        fine = kafka is not None
        if kafka is None:
            click.echo("Kafka     never started here (`concord dev up`)")
        for name, service in (("Kafka", kafka), ("Postgres", postgres)):
            if service is not None:
                runs = _runs(folder(name.lower()))
                fine = fine and runs
                click.echo(f"{name:<9} {'up  ' if runs else 'down'}  {service.address}  ({service.detail})")
    if not fine:
        sys.exit(DOWN)


def _runs(where: Path) -> bool:
    """Whether all of the service in a folder runs; a Kafka must also answer, every node in sync."""
    container = containers.recorded(where)
    if container is not None:
        return containers.is_running(container)
    cluster = KafkaCluster.load(where)
    if cluster is None:
        server = PostgresServer.load(where)
        return server is not None and server.pid() is not None
    return cluster.running() == list(cluster.nodes) and cluster.unready() is None


def _sign_of_life(console: Console, kafka_version: str) -> AbstractContextManager[object]:
    """A spinner while Kafka starts; before the first download a line, as the download shows a bar of its own."""
    words = services.awaited(folder("kafka"), version=kafka_version)
    if not words:
        return nullcontext()
    if jars.recall(jars.cache_folder(), kafka_version):
        return console.status(words)
    console.print(words, highlight=False)
    return nullcontext()


@contextmanager
def _failures() -> Iterator[None]:
    """A service that cannot be had is a message and an exit code, no traceback."""
    try:
        yield
    except ServiceError as error:
        raise click.ClickException(str(error)) from error
