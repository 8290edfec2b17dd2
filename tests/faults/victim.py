"""A `concord` command that kills itself at one statement: `VICTIM_AT` is its number, `VICTIM_WHEN` before or after it is answered.

Statements are counted in the client library, so every step of a batch can be the last one: the move of the offsets, each copy and
each table, the commit that is sent and not answered, and the one that is answered and not heard of.
"""

from __future__ import annotations

import os
import signal
from typing import Any

import asyncpg

from streams.__main__ import main

AT = int(os.environ["VICTIM_AT"])
WHEN = os.environ["VICTIM_WHEN"]
WATCHED = ("execute", "fetch", "copy_records_to_table")


class Count:
    """Statements so far, of all connections."""

    made = 0


def watched(name: str) -> Any:
    """The library's method, and the end of the process at its time."""
    real = getattr(asyncpg.Connection, name)

    async def call(self: Any, *arguments: Any, **more: Any) -> Any:
        Count.made += 1
        last = Count.made == AT
        if last and WHEN == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        answer = await real(self, *arguments, **more)
        if last:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    return call


if __name__ == "__main__":
    for method in WATCHED:
        setattr(asyncpg.Connection, method, watched(method))
    main()
