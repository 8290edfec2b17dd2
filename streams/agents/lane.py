"""One partition of requests at a connector: which are being worked on, and up to where all are done.

Requests of one order are worked on one after the other; those of different orders side by side, up to a window, so that a slow
channel holds up no more than that. An offset is committed when it and all before it are done, or taken: a request that may be sent
once only is taken, and committed, before it is sent.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiokafka import ConsumerRecord, TopicPartition

WINDOW: Final = 256


class Job:
    """One record that is being worked on. `sending`: its request may be on its way, so it must not be broken off."""

    __slots__ = ("over", "record", "sending", "task")

    def __init__(self, record: ConsumerRecord) -> None:
        self.record = record
        self.sending = False
        self.over = asyncio.Event()
        self.task: asyncio.Task[None] | None = None


class Lane:
    """The requests of one partition, from `position` on. `work` handles one job; what it raises, a bug, goes to `failed`."""

    def __init__(
        self,
        partition: TopicPartition,
        position: int,
        work: Callable[[Lane, Job], Awaitable[None]],
        failed: Callable[[BaseException], None],
    ) -> None:
        self.partition = partition
        self.committed = position
        self._next = position
        self._work = work
        self._failed = failed
        self._jobs: dict[int, Job] = {}
        self._open: dict[int, Job] = {}
        self._last_of: dict[bytes, Job] = {}
        self._progress = asyncio.Event()

    @property
    def full(self) -> bool:
        """Whether it should be given no more for now."""
        return len(self._jobs) >= WINDOW

    @property
    def roomy(self) -> bool:
        """Whether it has room again."""
        return len(self._jobs) <= WINDOW // 2

    def add(self, record: ConsumerRecord) -> None:
        """Start to work on a record; its order's earlier one goes first."""
        job = Job(record)
        self._next = record.offset + 1
        self._jobs[record.offset] = self._open[record.offset] = job
        key = record.key or b""
        job.task = asyncio.create_task(self._run(job, self._last_of.get(key)))
        job.task.add_done_callback(self._ended)
        self._last_of[key] = job

    async def _run(self, job: Job, earlier: Job | None) -> None:
        try:
            if earlier is not None:
                await earlier.over.wait()
            await self._work(self, job)
            self.take(job)
        finally:
            self._jobs.pop(job.record.offset, None)
            key = job.record.key or b""
            if self._last_of.get(key) is job:
                del self._last_of[key]
            job.over.set()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(error)

    def take(self, job: Job) -> None:
        """Done, or about to be done once only: its offset may be committed."""
        self._open.pop(job.record.offset, None)
        self._progress.set()

    def done_to(self) -> int:
        """The offset below which everything is done or taken."""
        return min(self._open, default=self._next)

    async def first(self, job: Job) -> None:
        """Wait until everything before this job is done or taken."""
        while self.done_to() < job.record.offset:
            self._progress.clear()
            await self._progress.wait()

    async def close(self, within_s: float) -> None:
        """Break off what was not sent, and let what was come to its end, within a bound."""
        jobs = list(self._jobs.values())
        for job in jobs:
            if not job.sending and job.task is not None:
                job.task.cancel()
        tasks = [job.task for job in jobs if job.task is not None]
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=within_s)
        for task in late:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
