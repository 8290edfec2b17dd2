"""`concord demo`: the main job on a real Kafka, with a crash in the middle and a proof at the end.

Exit codes: 0 proven, 1 the proof found something wrong, 2 it could not be run, 130 stopped. It deletes its topics, and stops a Kafka that
it has started, unless it is told to keep them or found something wrong.
"""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import uvloop
from aiokafka.errors import KafkaError
from rich.console import Console

from streams.cli.exits import INTERRUPTED, quiet, unreachable
from streams.cli.printable import command, styled
from streams.demo import edge, traces
from streams.demo.loop import LoopError
from streams.demo.remembering import BooksError, remember
from streams.demo.run import Demo, DemoError, Verdict
from streams.demo.workers import WorkerError
from streams.dev import services
from streams.dev.errors import ServiceError
from streams.proof import lines
from streams.settings import Settings, SettingsError
from streams.simulator.server import hush
from streams.topics import TopicsError

if TYPE_CHECKING:
    from streams.cli.exits import FirstWords
    from streams.dev.services import Kafka

FOLDER: Final = Path(".concord/demo")
KAFKA: Final = Path(".concord/dev/kafka")
POSTGRES: Final = Path(".concord/dev/postgres")
SHOWN: Final = 20
WRONG: Final = 1
NOT_RUN: Final = 2


@dataclass
class Stage:
    """What a demonstration runs on, as far as it came, and what it is to leave there."""

    console: Console
    keep: bool
    was_running: bool = False
    kafka: Kafka | None = None
    show: Demo | None = None


def _delete(context: click.Context, _parameter: click.Parameter, prefix: str | None) -> None:
    """`--delete`: instead of a demonstration."""
    if prefix is None:
        return
    with quiet() as words:
        try:
            for name in asyncio.run(traces.remove(_near(), prefix)):
                click.echo(f"deleted {name}")
        except ValueError as error:  # SettingsError is one
            raise click.BadParameter(str(error), context, param_hint="--delete") from error
        except (traces.LeftoverError, KafkaError, OSError, TimeoutError) as error:
            sys.exit(_say(_words(error, words)))
    context.exit()


@click.command(epilog="Exit codes: 0 proven, 1 the proof found something wrong, 2 it could not be run, 130 stopped.")
@click.option(
    "--orders",
    type=click.IntRange(50, 100_000),
    default=4000,
    show_default=True,
    help="Orders; each makes about five events.",
)
@click.option("--seed", type=int, default=7, show_default=True, help="Seed of the traffic.")
@click.option("--rate", type=click.IntRange(10, 50_000), default=1000, show_default=True, help="Events a second.")
@click.option("--payments", type=click.IntRange(0, 10_000), default=120, show_default=True,
              help="Payments of the second part, over channels that play faults; 0 leaves it out.")  # fmt: skip
@click.option("--keep", is_flag=True, help="Leave Kafka running and the topics there, to look further.")
@click.option("--delete", metavar="PREFIX", callback=_delete, is_eager=True, expose_value=False,
              help="Delete the topics that a demonstration left under this prefix, and do nothing else.")  # fmt: skip
def demo(*, orders: int, seed: int, rate: int, payments: int, keep: bool) -> None:
    """Run payments through two workers, kill one, and prove that nothing was lost or doubled; then play faulty channels.

    Without CONCORD_KAFKA, a Kafka is started on this machine. The topics have a prefix of their own and are deleted at the end.
    """
    stage = Stage(Console(highlight=False, emoji=False), keep)
    with quiet() as words:
        try:
            code = _run(stage, payments, orders=orders, seed=seed, rate=rate)
        except (ServiceError, WorkerError, DemoError, LoopError, BooksError, SettingsError, TopicsError) as error:
            code = _say(str(error))
        except (KafkaError, OSError, TimeoutError) as error:
            code = _say(_words(error, words))
        except KeyboardInterrupt:
            stage.console.print("stopped")
            code = INTERRUPTED
        finally:
            _leave(stage)
    sys.exit(code)


def _run(stage: Stage, payments: int, **wanted: Any) -> int:
    Settings.from_env()  # a wrong setting is told before a Kafka is started
    stage.was_running = _is_running()
    if words := services.awaited(KAFKA.resolve()):
        stage.console.print(f"{words} …", soft_wrap=True)
    stage.kafka = services.kafka(KAFKA.resolve(), keep=True, console=stage.console)
    is_theirs = stage.kafka.source == "environment"
    stage.console.print(
        f"Kafka is at {stage.kafka.address} ({stage.kafka.detail if is_theirs else stage.kafka.source})"
    )
    stage.show = Demo(FOLDER, stage.console, None if is_theirs else stage.kafka.address, **wanted)
    verdict = uvloop.run(stage.show.run())
    _print(stage.console, verdict)
    is_wrong = bool(_wrong(verdict)) or (payments > 0 and _faulty_channels(stage, stage.show, payments))
    is_wrong = _books(stage, stage.show) or is_wrong
    stage.keep = stage.keep or is_wrong
    return WRONG if is_wrong else 0


def _faulty_channels(stage: Stage, show: Demo, payments: int) -> bool:
    """The second part. Whether anything was wrong."""
    stage.console.print()
    stage.console.rule("the whole loop: channels that lose, repeat and contradict")
    part = edge.Edge({**os.environ, **show.kafka}, f"{show.prefix}loop.", FOLDER / "loop", stage.console)
    hush()
    seen = uvloop.run(part.run(payments))
    stage.console.print(edge.table(seen))
    for line in seen.verdict.wrong[:SHOWN]:
        stage.console.print(styled((line, "red")), soft_wrap=True)
    found = edge.claims(seen)
    for broken, claim in found:
        stage.console.print(f"{'[red]✘[/]' if broken else '[green]✔[/]'} {claim}", soft_wrap=True)
    stage.console.print(f"in {seen.seconds:.0f} s; the logs are in {FOLDER / 'loop'}")
    return any(broken for broken, _ in found)


def _books(stage: Stage, show: Demo) -> bool:
    """The last part: the same orders, out of Postgres. Whether anything was wrong."""
    stage.console.print()
    stage.console.rule("the books: the same orders, out of Postgres")
    found = services.owned_postgres(POSTGRES.resolve())
    was_running = found is not None and found.runs()
    postgres = services.postgres(POSTGRES.resolve(), keep=True)
    try:
        env = {**show.kafka, "CONCORD_TOPIC_PREFIX": show.prefix, "CONCORD_GROUP": show.settings.group}
        name = show.prefix.rstrip(".").replace("-", "_")
        seen = asyncio.run(remember(env, postgres.dsn, name, FOLDER))
    finally:
        if not was_running and postgres.source != "environment":
            postgres.stop()
    stage.console.print(", ".join(f"{count:,} {table}" for table, count in seen.rows.items()))
    for line in seen.said[:SHOWN]:
        stage.console.print(styled((line, "red") if seen.code else line), soft_wrap=True)
    mark = "[red]✘[/]" if seen.code else "[green]✔[/]"
    stage.console.print(
        f"{mark} the books are what the state topic says, and what they say of themselves agrees", soft_wrap=True
    )
    stage.console.print(f"in {seen.seconds:.0f} s")
    return bool(seen.code)


def _near() -> dict[str, Any]:
    """How to reach the Kafka of the environment; without one, that which runs here."""
    found = services.owned_kafka(KAFKA.resolve())
    kafka = Settings.from_env().kafka
    if os.environ.get("CONCORD_KAFKA") or found is None or not found.runs():
        return kafka
    return kafka | {"bootstrap_servers": found.address}


def _is_running() -> bool:
    found = services.owned_kafka(KAFKA.resolve())
    return found is not None and found.runs()


def _wrong(verdict: Verdict) -> int:
    return len(verdict.proof.wrong) + len(verdict.report.differences) + len(verdict.wrong)


def _print(console: Console, verdict: Verdict) -> None:
    console.rule("the proof, by readers that know nothing of the workers")
    console.print(verdict.counts.notes[-1])
    for line in lines(verdict.proof):
        console.print(styled(line), soft_wrap=True)
    differences = [f"{each.kind}: {each.topic}/{each.partition} {each.id}" for each in verdict.report.differences]
    for line in [*verdict.wrong[:SHOWN], *differences[:SHOWN]]:
        console.print(styled((line, "red")), soft_wrap=True)
    written = sum(verdict.report.outputs.values())
    for wrong, claim in (
        (
            verdict.wrong,
            f"every paid order has exactly one success ({verdict.counts.successes:,}): none missing, none doubled",
        ),
        (verdict.proof.wrong, f"the state topic equals a plain replay of the inputs ({verdict.proof.orders:,} orders)"),
        (differences, f"the outputs equal what the state topic implies ({written:,} records)"),
    ):
        console.print(f"{'[red]✘[/]' if wrong else '[green]✔[/]'} {claim}", soft_wrap=True)
    console.print(f"in {verdict.seconds:.0f} s; the workers' logs are in {FOLDER}")


def _leave(stage: Stage) -> None:
    """Delete the topics, unless they are kept; then say how to look further, and stop the Kafka that was started."""
    show, call = stage.show, command()
    if show is not None and show.has_topics and stage.keep:
        _look_further(stage.console, show, call)
    elif show is not None and show.has_topics:
        try:
            uvloop.run(traces.remove(show.settings.kafka, show.prefix))
            told = f"Its topics are deleted; `{call} demo --keep` leaves them, to look further."
        except (traces.LeftoverError, KafkaError, OSError, TimeoutError) as error:
            told = f"Its topics could not be deleted ({_words(error)}): {call} demo --delete {show.prefix}"
        stage.console.print(styled(told), soft_wrap=True)
    if stage.kafka is not None and not stage.keep and not stage.was_running:
        stage.kafka.stop()


def _look_further(console: Console, show: Demo, call: str) -> None:
    console.print("Look further:")
    exports = {
        "CONCORD_KAFKA": show.settings.kafka["bootstrap_servers"],
        "CONCORD_TOPIC_PREFIX": show.prefix,
        "CONCORD_REPLICATION": show.settings.replication,
    }
    for name, value in exports.items():
        console.print(f"  export {name}={value}", soft_wrap=True)
    for rest in ("explain ORD-000042", "audit stream"):
        console.print(f"  {call} {rest}", soft_wrap=True)
    console.print("and delete its topics:")
    console.print(f"  {call} demo --delete {show.prefix}", soft_wrap=True)
    if show.started:
        console.print(f"or all of this Kafka:\n  {call} dev down --wipe", soft_wrap=True)


def _words(error: Exception, words: FirstWords | None = None) -> str:
    return str(error) if isinstance(error, traces.LeftoverError) else unreachable(error, words.last if words else "")


def _say(problem: str) -> int:
    click.echo(f"concord demo: {problem}", err=True)
    return NOT_RUN
