"""A toy worker as a process, for what only a process shows: exit codes, signals, its last words.

    python -m tests.integration.engine.run_toy BOOTSTRAP PREFIX PARTITIONS [CONFIG as JSON]

`{"hang_at": "committed"}` in CONFIG sends the worker to sleep at that step, with the loop blocked as if the process were suspended, or
(`"hang": "quiet"`) not. `"until": PATH` wakes it when that file exists; it then finds its connections lost.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

from streams import log
from streams.engine.config import Config
from streams.engine.membership import Worker
from tests.integration.engine.stage import QUICK
from tests.support.toy import Toy


async def main(bootstrap: str, prefix: str, partitions: int, changes: dict[str, Any]) -> None:
    hang_at, hang, wake = (
        changes.pop("hang_at", None),
        changes.pop("hang", "loud"),
        Path(changes.pop("until", "/never")),
    )

    async def probe(step: str, _partition: int, _session: Any) -> None:
        if step == hang_at and not wake.exists():
            print("HANGS", flush=True)
            if hang == "quiet":
                await asyncio.Event().wait()
            while not wake.exists():
                time.sleep(0.02)
            raise ConnectionError("every connection was closed meanwhile")

    toy = Toy(prefix=prefix, partitions=partitions, due_ms=3_600_000)
    config = Config(kafka={"bootstrap_servers": bootstrap}, probe=probe if hang_at else None, **{**QUICK, **changes})
    worker = Worker(toy.topology(), config)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
    await worker.run()


if __name__ == "__main__":
    log.configure(level="info")
    asyncio.run(
        main(sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4] if len(sys.argv) > 4 else "{}"))
    )
