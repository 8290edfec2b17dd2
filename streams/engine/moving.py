"""Records that lie in a partition where their key does not live are moved to the one where it does, before they count as read.

A producer with another partitioner splits the records of one key over two partitions, and so over two workers, each of which would
hold half of its state. A record is moved by a plain idempotent producer, acknowledged by every replica, and only then does the
transaction commit that passes it. It is not part of that transaction: an input is another worker's to read, and a marker that is lost
there nobody would heal. A crash in between moves it again; the topology must take a repetition for one, as it does of any producer.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from aiokafka import AIOKafkaProducer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from streams.engine.config import Config
    from streams.engine.topology import Record

MOVED: Final = "moved-from"
"""Header of a moved record: `topic/partition/offset` of the one that it repeats."""
CLOSE_S: Final = 5.0


class Mover:
    """Sends records to their place. Its producer is started by the first one."""

    def __init__(self, config: Config, place: Callable[[bytes, int], int], partitions: int) -> None:
        self.config = config
        self.place = place
        self.partitions = partitions
        self._producer: AIOKafkaProducer | None = None

    async def move(self, records: Sequence[Record]) -> None:
        """Returns when every record is stored. After an exception some may be: move all of them again."""
        async with asyncio.timeout(self.config.deadline):
            if self._producer is None:
                producer = AIOKafkaProducer(
                    **self.config.kafka,
                    acks="all",
                    enable_idempotence=True,
                    request_timeout_ms=int(self.config.request * 1000),
                    max_request_size=16 << 20,
                )
                await producer.start()
                self._producer = producer
            sent = [await self._send(self._producer, record) for record in records]
            await asyncio.gather(*sent)

    async def _send(self, producer: AIOKafkaProducer, record: Record) -> asyncio.Future[object]:
        assert record.key is not None
        origin = f"{record.topic}/{record.partition}/{record.offset}".encode()
        sent: asyncio.Future[object] = await producer.send(
            record.topic,
            record.value,
            key=record.key,
            partition=self.place(record.key, self.partitions),
            headers=[*record.headers, (MOVED, origin)],
        )
        return sent

    async def stop(self) -> None:
        """Let the producer go, within a bound; what it had not stored is moved again by whoever reads it next."""
        producer, self._producer = self._producer, None
        if producer is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_S):
                    await producer.stop()
