"""`concord channel-health` as a process on a real Kafka: its windows, beside what is true; and again after a kill."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections import Counter
from datetime import UTC, datetime

import msgspec
import pytest

from stores import channel_health
from stores.channel_health import Seen
from stores.pool import connect
from streams.dev import ports
from tests.support.attempts import Attempts
from tests.support.job import Job

pytestmark = [pytest.mark.kafka, pytest.mark.postgres]
WITHIN_S = 90.0
MINUTE_MS = 60_000


class Watcher:
    """The process, in a session of its own."""

    def __init__(self, job: Job, dsn: str) -> None:
        self._job, self._env = job, {**os.environ, **job.env, "CONCORD_POSTGRES": dsn}
        self._log = job.folder / "channel-health.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        port = str(ports.free(1)[0])
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "streams", "channel-health", "--port", port],
                env=self._env, cwd=self._job.folder, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    async def published(self, truth: Counter[tuple[str, str]]) -> Counter[tuple[str, str]]:
        """What the topic says, once it is the truth, or after a deadline."""
        deadline = time.monotonic() + WITHIN_S
        while True:
            last = {bytes(one.key): one.value for one in await self._job.read("channel-health")}
            found: Counter[tuple[str, str]] = Counter()
            for value in filter(None, last.values()):
                seen = msgspec.json.decode(value, type=Seen)
                for name in ("succeeded", "failed", "unknown"):
                    found[seen.channel, name] += getattr(seen, name)
            if found == truth or time.monotonic() > deadline:
                return found
            assert self.process is not None
            assert self.process.poll() is None, self._log.read_text()[-3000:]
            await asyncio.sleep(0.5)


def wanted(played: Attempts) -> Counter[tuple[str, str]]:
    return played.truth + Counter({(name, "unknown"): count for name, count in played.stock.items()})


async def test_windows_equal_the_truth_and_come_back_after_a_kill(kafka, database, topic_prefix, tmp_path):
    """R-155: exact while nothing fails; after SIGKILL within 1 %, as no decision is counted twice."""
    job = Job(kafka.bootstrap, topic_prefix, tmp_path)
    await job.create()
    watcher, played, sent = Watcher(job, database), Attempts(7), 0
    now = int(time.time() * 1000)

    async def send(count: int) -> None:
        nonlocal sent
        for number in range(count):
            played.take(now - number % 20 * MINUTE_MS - 2 * MINUTE_MS)
        played.take(now - 45 * MINUTE_MS, counts=False)
        fresh, sent = played.decisions[sent:], len(played.decisions)
        await job.send_raw("decisions", [(one.order_id.encode(), msgspec.json.encode(one)) for one in fresh])

    try:
        await send(300)
        watcher.start()
        assert await watcher.published(wanted(played)) == wanted(played)
        await send(150)
        watcher.kill()
        watcher.start()
        found = await watcher.published(wanted(played))
        off = sum(abs(found[each] - count) for each, count in wanted(played).items())
        assert off <= 0.01 * sum(wanted(played).values()), (found, wanted(played))
        connection = await connect(database)
        seen = channel_health.by_channel(await channel_health.now(connection, datetime.now(UTC)))
        await connection.close()
        assert set(seen) == {name for name, _ in played.truth}
    finally:
        watcher.kill()
