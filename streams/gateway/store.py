"""Where notices become durable: one idempotent producer, acks of all replicas, shared by all requests.

The client batches what is waiting for one partition while the batch before it is on its way, and keeps their order. A record that is
not acknowledged in time may still be stored later: its notice was refused, comes again, and the law finds it a duplicate.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import structlog
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, KafkaTimeoutError, MessageSizeTooLargeError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

log: Final = structlog.get_logger(__name__)

BATCH_BYTES: Final = 262_144
REQUEST_MS: Final = 10_000
"""After so long without an answer from the broker a batch is sent again, under the same sequence number."""
AGAIN_S: Final = 0.5
PROBE_S: Final = 2.0


class Unavailable(Exception):  # noqa: N818  a state of the broker
    """The records are not known to be durable; the text says why."""


class Unstorable(Exception):  # noqa: N818  a verdict on the record
    """The record is larger than its topic takes."""


class Stored(NamedTuple):
    """One record to store; `topic` is the broker's name. A value of None removes the key from a table."""

    topic: str
    key: bytes
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


class Ticket:
    """The records of one notice that are on their way. `answer` is what its caller waits for; `left` are those not heard of yet."""

    __slots__ = ("answer", "deadline", "left")

    def __init__(self, sent: Sequence[asyncio.Future[Any]], deadline: float) -> None:
        self.answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.left = len(sent)
        self.deadline = deadline
        for each in sent:
            each.add_done_callback(self._heard)

    def _heard(self, sent: asyncio.Future[Any]) -> None:
        """A record is durable, or has failed. After the caller was answered neither is news."""
        self.left -= 1
        error = KafkaError("the client gave the record up") if sent.cancelled() else sent.exception()
        if self.answer.done():
            return
        if error is not None:
            self.answer.set_exception(error)
        elif not self.left:
            self.answer.set_result(None)


class Store:
    """Puts records onto Kafka, durably or not at all for the caller. Connects, and connects again, by itself."""

    def __init__(self, kafka: Mapping[str, Any], *, record_bytes: int, within_s: float) -> None:
        self._arguments = {
            **kafka,
            "acks": "all",
            "enable_idempotence": True,
            "max_batch_size": BATCH_BYTES,
            "max_request_size": record_bytes,
            "request_timeout_ms": REQUEST_MS,
            "retry_backoff_ms": 50,
        }
        self._within_s = within_s
        self._producer: AIOKafkaProducer | None = None
        self._out: deque[Ticket] = deque()
        """The oldest first. All have the same time, so one clock for the first of them watches over all."""
        self._clock: asyncio.TimerHandle | None = None
        self._behind: Ticket | None = None
        """A notice that was not acknowledged in time. Until it is, the broker is taken to be down."""
        self._connecting: asyncio.Task[None] | None = None
        self._leaving: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._connecting = asyncio.create_task(self._connect(), name="store")
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.stop(self._within_s)

    @property
    def trouble(self) -> str:
        """Why nothing can be stored now, or empty text."""
        if self._producer is None:
            return "no connection to the broker yet"
        if self._behind is not None and self._behind.left:
            return "the broker has not acknowledged in time"
        return ""

    async def reachable(self) -> bool:
        """Ask the broker itself, within two seconds."""
        if self.trouble or self._producer is None:
            return False
        try:
            async with asyncio.timeout(PROBE_S):
                await self._producer.client.fetch_all_metadata()
        except (KafkaError, OSError, TimeoutError):
            return False
        return True

    async def put(self, records: Sequence[Stored]) -> None:
        """Return once every record is acknowledged by all in-sync replicas. Raises `Unavailable` or `Unstorable`."""
        producer = self._producer
        if producer is None or (trouble := self.trouble):
            raise Unavailable(trouble if producer else "no connection to the broker yet")
        deadline = asyncio.get_running_loop().time() + self._within_s
        sent: list[asyncio.Future[Any]] = []
        try:
            async with asyncio.timeout_at(deadline):
                sent += [await self._send(producer, record) for record in records]
            if sent:
                await self._watched(Ticket(sent, deadline)).answer
        except (TimeoutError, KafkaTimeoutError) as error:
            raise Unavailable("the broker takes no more records in time") from error
        except MessageSizeTooLargeError as error:
            raise Unstorable from error
        except (KafkaError, OSError) as error:
            self._renew(producer, error)
            raise Unavailable(f"the producer failed: {type(error).__name__}") from error

    @staticmethod
    async def _send(producer: AIOKafkaProducer, record: Stored) -> asyncio.Future[Any]:
        sent: asyncio.Future[Any] = await producer.send(
            record.topic, record.value, key=record.key, headers=list(record.headers)
        )
        return sent

    def _watched(self, ticket: Ticket) -> Ticket:
        while self._out and self._out[0].answer.done():
            self._out.popleft()
        self._out.append(ticket)
        if self._clock is None:
            self._clock = asyncio.get_running_loop().call_at(ticket.deadline, self._look)
        return ticket

    def _look(self) -> None:
        """Give up what is late, and look again when the next one would be."""
        loop = asyncio.get_running_loop()
        while self._out and (self._out[0].answer.done() or self._out[0].deadline <= loop.time()):
            late = self._out.popleft()
            if not late.answer.done():
                self._behind = late
                late.answer.set_exception(Unavailable("the broker has not acknowledged in time"))
        self._clock = loop.call_at(self._out[0].deadline, self._look) if self._out else None

    async def stop(self, within_s: float) -> bool:
        """Flush what is on its way, for so long at most. False: the broker did not take everything (nobody was told it had)."""
        if self._connecting is not None:
            self._connecting.cancel()
        producer, self._producer = self._producer, None
        if producer is not None:
            self._leaving.add(asyncio.create_task(_close(producer), name="flush"))
        if not self._leaving:
            return True
        _done, late = await asyncio.wait(self._leaving, timeout=within_s)
        for task in late:
            task.cancel()
        return not late

    async def _connect(self) -> None:
        """Start a producer, however long it takes."""
        while True:
            producer = AIOKafkaProducer(**self._arguments)
            try:
                await producer.start()
            except (KafkaError, OSError) as error:
                log.warning("cannot reach the broker yet", error=type(error).__name__, fix="is Kafka at CONCORD_KAFKA?")
                await producer.stop()
                await asyncio.sleep(AGAIN_S)
            else:
                self._producer, self._behind = producer, None
                return

    def _renew(self, broken: AIOKafkaProducer, error: BaseException) -> None:
        """A producer that lost its sequence never works again: another one takes over."""
        if self._producer is not broken:
            return
        log.warning("the producer is replaced", error=type(error).__name__)
        self._producer = None
        leaving = asyncio.create_task(_close(broken), name="leave")
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)
        self._connecting = asyncio.create_task(self._connect(), name="store")


async def _close(producer: AIOKafkaProducer) -> None:
    try:
        await producer.stop()
    except KafkaError as error:  # it had failed before; whoever waited was told
        log.info("the producer ended with an error", error=type(error).__name__)
