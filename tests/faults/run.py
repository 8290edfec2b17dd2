"""The fault suite: seeded runs of real workers on real brokers under real faults, judged by an independent reader.

    python -m tests.faults.run                       # 24 runs, or --runs
    python -m tests.faults.run --seeds "7 11"        # these again
    python -m tests.faults.run --short               # two quick ones, as in CI
    python -m tests.faults.run --natural             # brokers that lose markers by themselves

Exits with 1 if anything was violated. Logs are in .concord/faults/<seed>. A seed fixes the plan, the input and the order of events;
what the operating system makes of it differs from run to run, so a rare failure may need its seed more than once.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import logging
import os
import random
import shutil
import sys
import time
from typing import TYPE_CHECKING, Final

from tests.faults.chaos import FOLDER, Result, Run
from tests.faults.crew import ROOT
from tests.faults.plans import KINDS, draw

if TYPE_CHECKING:
    from pathlib import Path

SHORT: Final = (("payments", "workers", 3), ("toy", "markers", 2))
"""Topologies, kinds and numbers of events of the short suite."""
BETWEEN: Final = ("toy", "payments")
PARTS: Final = ("streams", "tests/faults", "tests/support")
SINGLES: Final = ("tests/__init__.py", "topics.yaml")


def freeze() -> Path:
    """A copy of the code under test, so that an edit during the suite changes nothing. Its name tells its contents."""
    digest = hashlib.sha256()
    parts = [path for part in PARTS for path in (ROOT / part).rglob("*") if path.suffix in {".py", ".yaml"}]
    for path in sorted([*parts, *(ROOT / single for single in SINGLES)]):
        digest.update(path.read_bytes())
    frozen = FOLDER / f"code-{digest.hexdigest()[:10]}"
    if not frozen.exists():  # else another suite may be running it
        copy_code(frozen)
    return frozen


def copy_code(target: Path, source: Path = ROOT) -> None:
    """Copy the code, whole or not at all."""
    draft = target.with_name(f"{target.name}.draft-{os.getpid()}")
    shutil.rmtree(draft, ignore_errors=True)
    for part in PARTS:
        shutil.copytree(source / part, draft / part, ignore=shutil.ignore_patterns("__pycache__"))
    for single in SINGLES:
        shutil.copy(source / single, draft / single)
    shutil.rmtree(target, ignore_errors=True)
    draft.rename(target)


def seeds_of(arguments: argparse.Namespace) -> list[int]:
    if arguments.seeds:
        return [int(seed) for seed in arguments.seeds.replace(",", " ").split()]
    first = random.SystemRandom().randrange(1, 100_000)
    return list(range(first, first + (2 if arguments.short else arguments.runs)))


def topology_of(seed: int) -> str:
    """Consecutive seeds alternate, and so do the seeds of one kind."""
    return BETWEEN[(seed + seed // len(KINDS)) % len(BETWEEN)]


def command(seed: int, arguments: argparse.Namespace) -> str:
    more = "".join(
        f" --{name} {value}" for name in ("kafka_version", "kind", "topology") if (value := getattr(arguments, name))
    )
    return f'python -m tests.faults.run --seeds "{seed}"{more.replace("_", "-")}{" --short" if arguments.short else ""}'


async def one(seed: int, arguments: argparse.Namespace, code: Path) -> Result:
    short, kind, events = SHORT[seed % len(SHORT)] if arguments.short else (topology_of(seed), arguments.kind, None)
    plan = draw(seed, version=arguments.kafka_version, name=kind, count=events)
    return await Run(plan, FOLDER / str(seed), code=code, topology=arguments.topology or short).run()


def suite(arguments: argparse.Namespace) -> int:
    seeds, code, began = seeds_of(arguments), freeze(), time.monotonic()
    print(f"seeds {' '.join(map(str, seeds))} on {code.name}", flush=True)
    bad: list[int] = []
    for seed in seeds:
        result = asyncio.run(one(seed, arguments, code))
        print(result.line(), flush=True)
        for violation in result.violations[:10]:
            print(f"  VIOLATION {violation}", flush=True)
        if result.violations:
            bad.append(seed)
            print(f"  again: {command(seed, arguments)}   logs: {FOLDER / str(seed)}", flush=True)
    print(f"{len(seeds)} runs in {time.monotonic() - began:.0f} s, {len(bad)} with violations {bad or ''}", flush=True)
    return 1 if bad else 0


def parse(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="", help="repeat these")
    parser.add_argument("--runs", type=int, default=24, help="how many, if no seeds are given")
    parser.add_argument("--short", action="store_true", help="two quick runs")
    parser.add_argument("--kind", help="one kind of run only, see plans.py")
    parser.add_argument("--kafka-version", help="this version only")
    parser.add_argument("--topology", choices=BETWEEN, help="what the workers run; seeds alternate if it is not said")
    parser.add_argument("--natural", action="store_true", help="wait for a broker that loses markers by itself")
    return parser.parse_args(words)


def main() -> int:
    arguments = parse()
    logging.getLogger("aiokafka").setLevel(
        logging.CRITICAL
    )  # the driver's own clients see every fault, and say so at length
    if arguments.natural:
        from tests.faults import natural  # noqa: PLC0415  it imports the suite

        return natural.main()
    return suite(arguments)


if __name__ == "__main__":
    sys.exit(main())
