"""One producer session of one partition: begin, send built batches, commit; or give up. The only user of aiokafka's private parts.

A session never aborts after a failure and never retries: after any exception the outcome is unknown, so the session is dropped and
the partition opened again. `commit` succeeds after a failed send, so every send is awaited before it. No transaction call of the
client has a deadline of its own, so each stands under ours.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.producer import sender as aiokafka_sender

from streams.engine import position
from streams.engine.failures import Stuck

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from aiokafka.producer.message_accumulator import BatchBuilder

    from streams.engine.config import Config

BATCH_BYTES: Final = 512 * 1024
REQUEST_BYTES: Final = 4 << 20
RECORD_OVERHEAD: Final = 64
"""Bytes that a record's lengths, timestamp and offset deltas may take beside its key, value and headers."""

# A transaction begun right after a commit is answered CONCURRENT_TRANSACTIONS until the markers are written: a few milliseconds on a
# healthy broker. The client would sleep 20 ms, which costs more latency than the work.
aiokafka_sender.BACKOFF_OVERRIDE = 0.002


Headers: TypeAlias = list[tuple[str, bytes]]
"""A list, because the client's batch builder takes nothing else."""
BARE: Final[Headers] = []


class Entry(NamedTuple):
    """One record to send. Only a dead letter may have no key."""

    key: bytes | None
    value: bytes | None
    headers: Headers = BARE

    def size(self) -> int:
        """Bytes on the wire, at most."""
        return (
            RECORD_OVERHEAD
            + len(self.key or b"")
            + len(self.value or b"")
            + sum(len(name.encode()) + len(value) + 10 for name, value in self.headers)
        )


Sending: TypeAlias = tuple[bytes | None, bytes | None, Headers]
"""An `Entry` without its name, where a named tuple per record would cost more than its sending."""

Ends: TypeAlias = dict[str, int]
"""Topic -> offset after the last record that was sent to it."""


class Session:
    """A transactional producer for one partition number. Use: `start`, `scrub` once, `write` many times, `drop` at the end."""

    def __init__(self, config: Config, transactional_id: str, partition: int) -> None:
        self.config = config
        self.partition = partition
        self._producer = AIOKafkaProducer(
            **config.kafka,
            transactional_id=transactional_id,
            transaction_timeout_ms=int(config.transaction * 1000),
            request_timeout_ms=int(config.request * 1000),
            acks="all",
            linger_ms=0,
            max_batch_size=BATCH_BYTES,
            max_request_size=REQUEST_BYTES,
            retry_backoff_ms=5,
        )

    async def start(self, topics: Sequence[str]) -> None:
        """Become the owner: InitProducerId fences the former one and ends its transaction. The caller holds the deadline.

        The client learns all `topics` in one request here; it would ask for each one apart at the first send.
        """
        await self._producer.start()
        await self._producer.client.set_topics(topics)
        await self._step("fenced")

    async def scrub(self, topics: Sequence[str]) -> Ends:
        """Send one tiny record to each log and abort it, which ends whatever hangs there. Returns the offset after each record.

        The abort's own markers can be lost too: the caller waits until each log's last stable offset has passed.
        """
        async with asyncio.timeout(self.config.deadline):
            await self._producer.begin_transaction()
            await self._step("scrub_begun")
            ends = await self._send({topic: [Entry(position.SCRUB, None)] for topic in topics})
            await self._producer.abort_transaction()
        await self._step("scrubbed")
        return ends

    async def write(self, records: Mapping[str, Sequence[Sending]]) -> Ends:
        """One transaction. Returns only when it is committed; any exception means that its outcome is unknown."""
        async with asyncio.timeout(self.config.deadline):
            await self._producer.begin_transaction()
            await self._step("begun")
            ends = await self._send(records)
            await self._step("acked")
            await self._commit()
        await self._step("committed")
        return ends

    async def _commit(self) -> None:
        if self.config.probe is None:
            await self._producer.commit_transaction()
            return
        commit = asyncio.ensure_future(self._producer.commit_transaction())
        commit.add_done_callback(lambda done: done.cancelled() or done.exception())  # a probe may leave it alone
        await self._step("committing")
        await commit

    async def _send(self, records: Mapping[str, Sequence[Sending]]) -> Ends:
        sent = [
            (topic, batch.record_count(), await self._producer.send_batch(batch, topic, partition=self.partition))
            for topic, entries in records.items()
            for batch in self._batches(entries)
        ]
        await self._step("sent")
        ends: Ends = {}
        for topic, count, sending in sent:
            metadata = await sending
            if metadata.offset < 0:  # "duplicate sequence": stored by an earlier try, at an offset nobody tells us
                raise Stuck(f"{topic}/{self.partition}: a batch was stored at an unknown offset")
            ends[topic] = max(ends.get(topic, 0), metadata.offset + count)
        return ends

    def _batches(self, entries: Sequence[Sending]) -> Iterator[BatchBuilder]:
        batch = self._producer.create_batch()
        for key, value, headers in entries:
            if batch.append(timestamp=None, key=key, value=value, headers=headers) is None:
                yield batch
                batch = self._producer.create_batch()
                batch.append(timestamp=None, key=key, value=value, headers=headers)
        batch.close()
        yield batch

    async def _step(self, name: str) -> None:
        if self.config.probe is not None:
            await self.config.probe(name, self.partition, self)

    def errors(self) -> Iterator[BaseException]:
        """The errors that the client keeps in its own tasks, where the real cause often is."""
        for future in (self._producer._sender.sender_task, self._producer._txn_manager._transaction_waiter):  # noqa: SLF001  no public way
            if (
                future is not None
                and future.done()
                and not future.cancelled()
                and (error := future.exception()) is not None
            ):
                yield error

    def lose_markers(self, topics: Sequence[str]) -> None:
        """For fault tests: records to these topics go in outside the transaction's list, so no marker will ever follow them.

        The broker accepts them only with `transaction.partition.verification.enable=false`.
        """
        for topic in topics:
            self._producer._txn_manager._txn_partitions.add(TopicPartition(topic, self.partition))  # noqa: SLF001  that is the fault

    async def drop(self) -> None:
        """Forget the producer without caring about its transaction: the next InitProducerId ends it. Bounded, never raises.

        Not `stop()`: it flushes into the open transaction and may hang.
        """
        producer, sender = self._producer, self._producer._sender  # noqa: SLF001  no public way to stop without flushing
        producer._closed = True  # noqa: SLF001
        task = sender.sender_task
        if task is not None:
            task.cancel()
        with contextlib.suppress(Exception):  # closing a broken connection may fail in any way; it is gone either way
            await asyncio.wait_for(producer.client.close(), 1.0)
        if task is not None and (await asyncio.wait([task], timeout=1.0))[0] and not task.cancelled():
            task.exception()  # looked at, so that the loop does not report it: the session's failure was classified before
