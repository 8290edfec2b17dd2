"""Mutants of the engine: one rule removed at a time, to prove that the suite sees what each rule is for.

    python -m tests.faults.mutants                   # the control, then all of them
    python -m tests.faults.mutants no_scrub

A mutant is a copy of the code with a few lines replaced; a replacement that does not match is an error. It runs the scenarios that must
catch it, in one of three tries. Exits with 1 if one survives that should be caught, or if one that is held to be equivalent is caught.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tests.faults.chaos import FOLDER
from tests.faults.run import copy_code, freeze

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

LIMIT_S: Final = 240.0
TRIES: Final = 3
"""How often a mutant is tried: what a fault hits depends on how the input falls into transactions. An equivalent one is tried once."""
TRANSACTION: Final = "streams/engine/transaction.py"
PARTITION: Final = "streams/engine/partition.py"
RECOVERY: Final = "streams/engine/recovery.py"
UNCOUNTED: Final = (RECOVERY, "len(found) != count", "len(found) < 0")
"""The count of `@position` would refuse what the verification has missed: out of the way, to see the rule alone."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """What is replaced, and the command lines, module first, that must catch it."""

    patches: tuple[tuple[str, str, str], ...]
    by: tuple[tuple[str, ...], ...]
    equivalent: str = ""
    """Why it changes nothing that can be observed. Its `by` must pass."""


IN_WRITE: Final = (
    TRANSACTION,
    '            await self._step("acked")\n            await self._commit()\n',
    '            await self._step("acked")\n',
)
IN_SEND: Final = (
    TRANSACTION,
    '        await self._step("sent")\n',
    (
        '        await self._step("sent")\n'
        "        if not any(entries[0][0] == position.SCRUB for entries in records.values()):\n"
        "            await self._commit()\n"
    ),
)
LATER: Final = (PARTITION, "        self.table.settle(rows)\n", "")
EARLIER: Final = (
    PARTITION,
    "        await self.write(work.entries(",
    "        self.table.settle(rows)\n        await self.write(work.entries(",
)
MISSED: Final = "        missed = self.missed(evidence, top)\n"
CHANGELOG_ONLY: Final = (
    RECOVERY,
    MISSED,
    f"{MISSED}        missed = {{topic: found if topic == changelog else [] for topic, found in missed.items()}}\n",
)
LAST_ONLY: Final = (
    RECOVERY,
    MISSED,
    (
        f"{MISSED}        missed = {{\n"
        "            topic: [each for each in found if topic == changelog or each[0] == top] for topic, found in missed.items()\n"
        "        }\n"
    ),
)


MUTANTS: Final[dict[str, Mutant]] = {
    "control": Mutant(
        (),
        (
            ("directed", "changelog", "outputs_only", "scrub_of_changelog", "unknown_outcome", "failed_send"),
            ("zombies",),
        ),
        equivalent="nothing is replaced: what catches the others must not find anything here",
    ),
    "commit_before_acknowledgement": Mutant((IN_SEND, IN_WRITE), (("directed", "failed_send"),)),
    "apply_before_commit": Mutant(
        (LATER, EARLIER),
        (("directed", "unknown_outcome"),),
        equivalent=(
            "nobody reads a table between its change and the end of the transaction, as both happen under the partition's lock; and "
            "a transaction that fails takes the table with it: every reopening builds it again. RocksDB keeps unconfirmed rows in memory, "
            "so nothing reaches the disk either. The next mutant removes that second rule"
        ),
    ),
    "apply_before_commit_and_keep": Mutant(
        (
            LATER,
            EARLIER,
            (PARTITION, "= self.owner.open_table(self.number)", "= self.table or self.owner.open_table(self.number)"),
            (PARTITION, "        table, self.table = self.table, None\n", "        table = None\n"),
        ),
        (("directed", "unknown_outcome"),),
    ),
    "no_fencing": Mutant(
        (
            (
                PARTITION,
                'f"{self.topology.name}-{self.number}"',
                'f"{self.topology.name}-{self.number}-{time.time_ns()}"',
            ),
        ),
        (("zombies", "fenced"),),
    ),
    "no_heartbeat_before_reopening": Mutant(
        ((PARTITION, "            await self.owner.confirm_member(self)\n", "            await asyncio.sleep(0)\n"),),
        (("zombies", "humble"),),
    ),
    "no_scrub": Mutant(
        (
            (
                RECOVERY,
                "        ends = await self.scrub(session)\n",
                (
                    '        async with reading(self.config, "read_uncommitted", self.topics) as raw:\n'
                    "            ends = {tp.topic: end for tp, end in (await raw.end_offsets(self.logs)).items()}\n"
                ),
            ),
        ),
        (("directed", "hanging"),),
    ),
    "no_output_verification": Mutant((CHANGELOG_ONLY, UNCOUNTED), (("directed", "outputs_only"),)),
    "no_output_verification_but_counted": Mutant((CHANGELOG_ONLY,), (("directed", "outputs_only"),)),
    "last_transaction_only": Mutant((LAST_ONLY, UNCOUNTED), (("directed", "outputs_only"),)),
    "changelog_only_evidence": Mutant(
        (
            (
                RECOVERY,
                "        top = max(each.top() for each in evidence.values())\n",
                "        top = evidence[changelog].top()\n",
            ),
        ),
        (("directed", "changelog"),),
    ),
    "restore_to_the_last_stable_offset": Mutant(
        (
            (
                RECOVERY,
                "            if not behind:\n                return ends\n",
                "            return {topic: min(end, stable[self.tp(topic)]) for topic, end in ends.items()}\n",
            ),
        ),
        (("directed", "scrub_of_changelog"),),
    ),
    "restore_to_the_last_stable_offset_after_the_proof": Mutant(
        (
            (
                RECOVERY,
                "await self.restore(table, lows[changelog], ends[changelog])",
                (
                    "await self.restore(\n"
                    "            table, lows[changelog], min(ends[changelog], *(await self.client.end_offsets(self.logs[:1])).values())\n"
                    "        )"
                ),
            ),
        ),
        (("directed", "changelog", "hanging", "scrub_of_changelog", "unknown_outcome"),),
        equivalent=(
            "the scrub has waited until the last stable offset passed its own record in every log, and only this session can write there: "
            "the last stable offset is not below the end any more. The rule that counts is the wait, which the mutant before removes"
        ),
    ),
}


def make(name: str, original: Path) -> Path:
    """A copy of the code with the mutant's replacements."""
    folder = FOLDER / "mutants" / name
    copy_code(folder, original)
    for file, old, new in MUTANTS[name].patches:
        path = folder / file
        text = path.read_text()
        if text.count(old) != 1:
            raise SystemExit(f"mutant {name}: {file} holds {text.count(old)} times, not once:\n{old}")
        path.write_text(text.replace(old, new))
    return folder


def attempt(folder: Path, words: Sequence[str]) -> tuple[bool, str]:
    """Run one command on a mutant. True: it found something; with what it said."""
    command = [sys.executable, "-m", f"tests.faults.{words[0]}", *words[1:]]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            said, _ = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)  # it ends its workers and its broker on the way out
            said, _ = process.communicate(timeout=60)
            return True, f"{said}\nnot finished within {LIMIT_S:.0f} s"
    return process.returncode != 0, said


def judge(name: str, original: Path) -> bool:
    """Run a mutant and print its row. True: it is as it must be."""
    mutant, folder = MUTANTS[name], make(name, original)
    for words in mutant.by * (1 if mutant.equivalent else TRIES):
        began = time.monotonic()
        is_caught, said = attempt(folder, words)
        if is_caught:
            why = next((line for line in said.splitlines() if ", ok" not in line and line.strip()), "(it said nothing)")
            print(f"{name}: CAUGHT by {' '.join(words)} in {time.monotonic() - began:.0f} s: {why[:400]}", flush=True)
            return not mutant.equivalent
    print(f"{name}: {'equivalent: ' + mutant.equivalent if mutant.equivalent else 'SURVIVED'}", flush=True)
    return bool(mutant.equivalent)


def main(names: Sequence[str]) -> int:
    original = freeze()
    print(f"mutants of {original.name}", flush=True)
    for name in names or MUTANTS:
        make(name, original)  # a replacement that does not match is found at once
    wrong = [name for name in names or MUTANTS if not judge(name, original)]
    print(f"{len(names or MUTANTS) - len(wrong)} as they must be, {len(wrong)} not {wrong or ''}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
