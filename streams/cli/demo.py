"""`concord demo`: the main job on a real Kafka, with a crash in the middle and a proof at the end.

Exit codes: 0 proven, 1 the proof found something wrong, 2 the services could not be started.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import uvloop
from rich.console import Console

from streams import log
from streams.demo.run import Demo, DemoError, Verdict
from streams.demo.workers import WorkerError
from streams.dev import services
from streams.dev.errors import ServiceError
from streams.proof import lines

if TYPE_CHECKING:
    from streams.dev.services import Kafka

FOLDER: Final = Path(".concord/demo")


@click.command()
@click.option(
    "--orders",
    type=click.IntRange(50, 100_000),
    default=4000,
    show_default=True,
    help="Orders; each makes about five events.",
)
@click.option("--seed", type=int, default=7, show_default=True, help="Seed of the traffic.")
@click.option("--rate", type=click.IntRange(10, 50_000), default=1000, show_default=True, help="Events a second.")
@click.option("--keep", is_flag=True, help="Leave Kafka running, to look further (`concord dev down` ends it).")
def demo(orders: int, seed: int, rate: int, keep: bool) -> None:
    """Run payments through two workers, kill one, and prove that nothing was lost or doubled."""
    console = Console()
    log.configure(level="error")
    kafka: Kafka | None = None
    was_running = _running()
    try:
        console.print("Kafka is starting (the first time it is downloaded, about 130 MB) …")
        kafka = services.kafka(Path(".concord/dev/kafka").resolve(), keep=True, console=console)
        console.print(f"Kafka is at {kafka.address} ({kafka.source})")
        show = Demo(kafka.address, FOLDER, console, orders=orders, seed=seed, rate=rate)
        verdict = uvloop.run(show.run())
        _print(console, show, verdict, stays=keep or was_running or kafka.source == "environment")
        sys.exit(1 if _wrong(verdict) else 0)
    except (ServiceError, WorkerError, DemoError) as error:
        console.print(f"[red]{error}[/]")
        sys.exit(2)
    finally:
        if kafka is not None and not keep and not was_running:
            asyncio.run(asyncio.to_thread(kafka.stop))


def _running() -> bool:
    found = services.owned_kafka(Path(".concord/dev/kafka").resolve())
    return found is not None and "pid" in found.detail


def _wrong(verdict: Verdict) -> int:
    return len(verdict.proof.wrong) + len(verdict.report.differences) + len(verdict.wrong)


def _print(console: Console, show: Demo, verdict: Verdict, *, stays: bool) -> None:
    console.rule("the proof, by readers that know nothing of the workers")
    for note in verdict.counts.notes:
        console.print(note, highlight=False)
    for line in lines(verdict.proof):
        console.print(line, highlight=False)
    for line in verdict.wrong[:20]:
        console.print(f"[red]{line}[/]")
    for difference in verdict.report.differences[:20]:
        console.print(f"[red]{difference.kind}: {difference.topic}/{difference.partition} {difference.id}[/]")
    paid = verdict.counts.successes
    mark = "[green]✔[/]" if not _wrong(verdict) else "[red]✘[/]"
    console.print(f"{mark} every paid order has exactly one success ({paid:,}), none is missing, none is doubled")
    console.print(f"{mark} the state topic equals a plain replay of the inputs ({verdict.proof.orders:,} orders)")
    console.print(
        f"{mark} the outputs equal what the state topic implies ({sum(verdict.report.outputs.values()):,} records)"
    )
    console.print(f"in {verdict.seconds:.0f} s; the workers' logs are in {show.folder}")
    if stays:
        console.print("Look further:", highlight=False)
        console.print(
            f"  export CONCORD_KAFKA={show.kafka} CONCORD_TOPIC_PREFIX={show.prefix} CONCORD_REPLICATION=1",
            highlight=False,
        )
        console.print("  concord explain ORD-000042        concord audit stream", highlight=False)
    else:
        console.print(
            "`concord demo --keep` leaves Kafka running, for `concord explain ORD-000042` and `concord audit stream`."
        )
