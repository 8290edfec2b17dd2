"""The list of mutants that no test can or need kill: where each stands, what it changes, and why that makes no difference."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import NamedTuple

LIST = Path(__file__).with_name("survivors.toml")


class Survivor(NamedTuple):
    """A mutant of a module of the law: the place that holds it, the changed lines before and after, and the argument."""

    module: str
    place: str
    was: str
    now: str
    because: str = ""

    @property
    def change(self) -> str:
        return f"{self.was}  ->  {self.now}"


def survivors() -> list[Survivor]:
    """What survivors.toml lists, one for each `[[survivor]]`; one argument may hold for several changes of a place."""
    entries = tomllib.loads(LIST.read_text(encoding="utf-8")).get("survivor", [])
    return [
        Survivor(entry["module"], entry["place"], was, now, entry["because"])
        for entry in entries
        for was, now in entry["changes"]
    ]
