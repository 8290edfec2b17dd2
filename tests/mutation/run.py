"""Mutation testing of the law: every small change of it must make a test fail, or be listed and argued in survivors.toml.

    make mutants                                      every module of mutants.toml, or what is left of an earlier run
    python -m tests.mutation.run gate balance         some modules, from the start

cosmic-ray makes the mutants. Running them is our own: its runner writes each mutant into the checkout and starts an interpreter for
each. Here a process that has pytest loaded forks for each, and the child imports the mutant in place of the module, so the
checkout is never touched and every core works. Exits with 1 if a mutant survives that is not listed, or one is listed that does not.
"""

from __future__ import annotations

import argparse
import gc
import importlib.abc
import importlib.util
import os
import resource
import select
import signal
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import cosmic_ray.plugins
import msgspec
import parso
import pytest
from cosmic_ray.ast import ast_nodes
from cosmic_ray.mutating import mutate_code

from tests.mutation.operators import Operators
from tests.mutation.places import LAW, ROOT, place, source, squeezed
from tests.mutation.survivors import Survivor, survivors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CONFIG = ROOT / "tests" / "mutation" / "mutants.toml"
JOURNAL = ROOT / ".concord" / "mutants.jsonl"
LIMIT_S = 60.0
TEST_S = 5
PROPERTY_S = 30
MEMORY_BYTES = 3 << 30
PYTEST = ("-q", "-x", "-p", "no:cacheprovider", "--assert=plain", "--tb=no", "-W", "ignore")
OURS = {"streams", "stores", "tests"}
FAILED = {1, 2}
"""pytest's exit codes for a failed test and for a module that could not be imported."""


class Mutant(NamedTuple):
    """One change of one module: its name is the same in every run until the code changes."""

    module: str
    operator: str
    occurrence: int
    code: str
    survivor: Survivor


class Line(msgspec.Struct, frozen=True):
    """What is kept of a mutant in the journal."""

    module: str
    operator: str
    occurrence: int
    place: str
    change: str
    result: str
    seconds: float
    by: str = ""


@dataclass
class Child:
    mutant: Mutant | None
    pid: int
    out: int
    started: float


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """mutants.toml. A line of tests is a run of pytest; the one of `first` comes before the others for the mutants of its module."""

    modules: list[str]
    operators: list[str]
    tests: list[str]
    first: dict[str, str]

    def lines(self, module: str) -> list[str]:
        return [*([self.first[module]] if module in self.first else []), *self.tests]


def config() -> Config:
    return msgspec.toml.decode(CONFIG.read_bytes(), type=Config)


def _annotation(node: Any) -> bool:
    """Whether it is part of a type, or of what only types need: nothing evaluates those, so a change of one is none."""
    while node.parent is not None:
        above = node.parent
        if node.type == "if_stmt" and node.children[1].get_code().strip() == "TYPE_CHECKING":
            return True
        if above.type == "tfpdef" or (above.type == "funcdef" and above.annotation is node):
            return True
        if above.type == "annassign" and node is above.children[1]:
            return True
        node = above
    return False


def _positions(code: str, operator: Any) -> Iterator[tuple[int, bool]]:
    """The line of each occurrence of an operator in a module, and whether it is of a type."""
    for node in ast_nodes(parso.parse(code)):
        for start, _ in operator.mutation_positions(node):
            yield start[0], _annotation(node)


def _change(before: str, after: str) -> tuple[str, str]:
    """The changed lines before and after, without line breaks and indents: from the first that differs to the last."""
    was, now = before.splitlines(), after.splitlines()
    while was and now and was[0] == now[0]:
        del was[0], now[0]
    while was and now and was[-1] == now[-1]:
        del was[-1], now[-1]
    return squeezed("\n".join(was)), squeezed("\n".join(now))


def mutants(modules: Sequence[str], operators: Sequence[str]) -> Iterator[Mutant]:
    """Every change of the modules, in their order; two that come to the same code are one."""
    cosmic_ray.plugins.OPERATOR_PROVIDERS["law"] = Operators()
    for module in modules:
        code = source(module)
        seen = {code}
        for name in operators:
            operator = cosmic_ray.plugins.get_operator(name)()
            for occurrence, (line, typed) in enumerate(_positions(code, operator)):
                changed = None if typed else mutate_code(code, operator, occurrence)
                if changed is None or changed in seen:
                    continue
                seen.add(changed)
                was, now = _change(code, changed)
                yield Mutant(module, name, occurrence, changed, Survivor(module, place(code, line), was, now))


class _Instead(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Imports the mutant's code where its module is asked for."""

    def __init__(self, mutant: Mutant) -> None:
        self.name, self.code = f"streams.domain.{mutant.module}", mutant.code
        self.path = str(LAW / f"{mutant.module}.py")

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        return importlib.util.spec_from_loader(name, self, origin=self.path) if name == self.name else None

    def get_source(self, fullname: str) -> str:
        return self.code

    def exec_module(self, module: Any) -> None:
        module.__file__ = self.path
        exec(compile(self.code, self.path, "exec"), module.__dict__)


def asked(room: str) -> list[str]:
    """pytest's arguments. Many a mutant never ends, so no test may take long; a property is many tests."""
    return [*PYTEST, f"--timeout={PROPERTY_S if 'property' in room else TEST_S}", *room.split()]


def _be(mutant: Mutant | None, tests: Sequence[str], out: int) -> None:
    """The child: become the mutant, run the tests, exit as pytest does."""
    os.setsid()
    os.dup2(out, 1)
    os.dup2(out, 2)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    os.environ["HYPOTHESIS_PROFILE"] = "mutants"
    if mutant is not None:
        sys.meta_path.insert(0, _Instead(mutant))
    code = 3
    try:
        code = next((code for room in tests if (code := int(pytest.main(asked(room))))), 0)
    finally:
        sys.stdout.flush()
        os._exit(code)


def warm(tests: Sequence[str]) -> None:
    """Import what the tests import, and forget what is ours, so that a child imports only that."""
    pytest.main([*PYTEST, "-qq", "--collect-only", *(path for room in tests for path in room.split())])
    for name in [
        name for name in sys.modules if name.partition(".")[0] in OURS and not name.startswith("tests.mutation")
    ]:
        del sys.modules[name]
    gc.freeze()


def start(mutant: Mutant | None, tests: Sequence[str]) -> Child:
    out = os.memfd_create("tests")
    pid = os.fork()
    if pid == 0:
        _be(mutant, tests, out)
    return Child(mutant, pid, out, time.monotonic())


def finished(child: Child) -> tuple[str, str] | None:
    """None while it runs; else `killed`, `survived` or `timeout`, and the test that killed it."""
    pid, status = os.waitpid(child.pid, os.WNOHANG)
    late = time.monotonic() - child.started > LIMIT_S
    if pid == 0 and not late:
        return None
    if pid == 0:
        os.killpg(child.pid, signal.SIGKILL)
        os.waitpid(child.pid, 0)
    size = os.lseek(child.out, 0, os.SEEK_END)
    said = os.pread(child.out, size, 0).decode(errors="replace")
    os.close(child.out)
    code = os.waitstatus_to_exitcode(status) if pid else None
    by = next((line.split(" ")[1] for line in said.splitlines() if line.startswith(("FAILED ", "ERROR "))), "")
    if code is None or code < 0:
        return "timeout", by
    if (
        "INTERNALERROR" in said and by == ""
    ):  # a mutant under a test's own trace can break pytest's report of the failure
        return "killed", "pytest's report"
    if code not in {0, *FAILED}:
        raise SystemExit(f"the tests could not be run (exit code {code}):\n{said[-2000:]}")
    return ("survived" if code == 0 else "killed"), by


def _play(waiting: Iterator[Mutant], given: Config, workers: int) -> Iterator[tuple[Mutant, str, str, float]]:
    running: list[Child] = []
    while True:
        while len(running) < workers and (mutant := next(waiting, None)) is not None:
            running.append(start(mutant, given.lines(mutant.module)))
        if not running:
            return
        select.select([], [], [], 0.01)
        for child in list(running):
            ended = finished(child)
            if ended is not None and child.mutant is not None:
                running.remove(child)
                yield child.mutant, *ended, time.monotonic() - child.started


def control(tests: Sequence[str]) -> float:
    """The law as it is passes, or no mutant would mean anything. Returns the seconds it took."""
    child = start(None, tests)
    while (ended := finished(child)) is None:
        select.select([], [], [], 0.01)
    if ended[0] != "survived":
        raise SystemExit(f"the law itself does not pass: {ended}; run `python -m pytest {' '.join(tests)}`")
    return time.monotonic() - child.started


def journal() -> list[Line]:
    text = JOURNAL.read_bytes() if JOURNAL.is_file() else b""
    return [msgspec.json.decode(line, type=Line) for line in text.splitlines()]


def report(lines: Sequence[Line], modules: Sequence[str]) -> int:
    """Print the count of each module and what is not as listed; 1 if anything is not."""
    print(f"\n{'module':12} {'mutants':>8} {'killed':>8} {'survived':>8} {'s each':>8}")
    for module in modules:
        own = [line for line in lines if line.module == module]
        alive = sum(line.result == "survived" for line in own)
        seconds = sum(line.seconds for line in own) / max(len(own), 1)
        print(f"{module:12} {len(own):8} {len(own) - alive:8} {alive:8} {seconds:8.2f}")
    found = {(line.module, line.place, line.change) for line in lines if line.result == "survived"}
    listed = {(one.module, one.place, one.change) for one in survivors() if one.module in modules}
    for title, differing in (
        ("survived and is not listed", found - listed),
        ("is listed and did not survive", listed - found),
    ):
        for module, where, change in sorted(differing):
            print(f"{title}: {module}.{where}: {change}")
    return int(found != listed)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation.run")
    parser.add_argument("modules", nargs="*", help="modules of streams/domain; all of mutants.toml if none is named")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="mutants at a time")
    parser.add_argument(
        "--resume", action="store_true", help="go on with a run that was stopped, of the same code and tests"
    )
    parser.add_argument(
        "--survivors", action="store_true", help="only those that survived the last run of the same code"
    )
    asked = parser.parse_args(arguments)
    given = config()
    modules = asked.modules or given.modules
    os.chdir(ROOT)
    JOURNAL.parent.mkdir(exist_ok=True)
    before = [line for line in journal() if line.module in modules]
    kept = [line for line in before if asked.resume or (asked.survivors and line.result != "survived")]
    others = [line for line in journal() if line.module not in modules]
    JOURNAL.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in [*others, *kept]))
    done = {(line.module, line.operator, line.occurrence) for line in kept}
    known = {(line.module, line.operator, line.occurrence) for line in before}
    warm(given.tests)
    print(f"control: {control(given.tests):.1f} s", flush=True)
    todo = (
        one
        for one in mutants(modules, given.operators)
        if (key := (one.module, one.operator, one.occurrence)) not in done and (not asked.survivors or key in known)
    )
    with JOURNAL.open("ab", buffering=0) as out:
        for mutant, result, by, seconds in _play(todo, given, asked.workers):
            where, change = mutant.survivor.place, mutant.survivor.change
            line = Line(mutant.module, mutant.operator, mutant.occurrence, where, change, result, round(seconds, 2), by)
            out.write(msgspec.json.encode(line) + b"\n")
            if result != "killed":
                print(f"{result} {mutant.module}.{where} [{mutant.operator}] {change}", flush=True)
    return report([line for line in journal() if line.module in modules], modules)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
