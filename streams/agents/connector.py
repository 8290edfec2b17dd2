"""The connector: requests out of Kafka to the channels, answers back. It sends and times; it decides nothing.

A request that the channel knows again by its key is taken at least once: its offset is committed after its answer is stored. One that
the channel would carry out twice is taken at most once: its offset is committed before the call, and if the process dies in between,
the law asks. A SIGKILL at any step therefore repeats no charge. What this process was not configured for, it passes over.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError

from streams.agents import asking, calling
from streams.agents.lane import Job, Lane
from streams.agents.pacing import Gate
from streams.agents.sharing import MOST, Sharing
from streams.channels.requests import Said
from streams.domain.tables import NOT_SENT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import httpx
    from aiokafka import ConsumerRecord

    from streams.agents.connector_meters import Meters
    from streams.channels.requests import AnyRequests, Call, Nothing, Reply
    from streams.domain.contract import Contract
    from streams.domain.decisions import ChannelRequest
    from streams.domain.events import Answer

DRAIN_S: Final = 20.0
COMMIT_S: Final = 0.2
RETRY_S: Final = 0.5
BROKER_S: Final = 10.0
FETCH_MS: Final = 200
TROUBLE_S: Final = 2.0

log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Outlet:
    """One account that requests can go to now. `keys` hold secrets: never logged."""

    account: str
    requests: AnyRequests
    contract: Contract
    keys: Any
    endpoint: str


class LostError(Exception):
    """The partition was given up before the offset was committed: its next owner will take the request."""


class Connector:
    """One member of the connectors' group. `outlet` finds the account of a `channel:account`, or None where it is not configured here.

    `topics` are (requests, answers). `longest_lease_s` is how far back a group begins that was never here before: what is older
    nobody waits for any more.
    """

    def __init__(
        self,
        kafka: Mapping[str, Any],
        group: str,
        topics: tuple[str, str],
        outlet: Callable[[str], Outlet | None],
        meters: Meters,
        *,
        limit: int = MOST,
        longest_lease_s: int = 60,
        session_s: float = 10.0,
        read_s: float = calling.READ_S,
    ) -> None:
        self.topics = topics
        self.meters = meters
        self.sharing = Sharing(limit)
        self._outlet = outlet
        self._read_s = read_s
        self._lease_s = longest_lease_s
        self._gates: dict[str, Gate] = {}
        self._clients: dict[str, httpx.AsyncClient] = {}
        self._lanes: dict[TopicPartition, Lane] = {}
        self._stopping = asyncio.Event()
        self._shared_out = False
        self._failure: BaseException | None = None
        self._committing = asyncio.Lock()
        self._producer = AIOKafkaProducer(**kafka, acks="all", enable_idempotence=True, linger_ms=2)
        self._consumer = AIOKafkaConsumer(
            **kafka,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            partition_assignment_strategy=(self.sharing,),
            session_timeout_ms=int(session_s * 1000),
            rebalance_timeout_ms=int((DRAIN_S + BROKER_S) * 1000),
        )

    # -- its life

    async def run(self) -> None:
        """Work until `stop`; then finish what was sent, commit, leave the group. Raises what a bug raised."""
        await self._producer.start()
        try:
            self._consumer.subscribe([self.topics[0]], listener=_Listener(self))
            await self._consumer.start()
            committer = asyncio.create_task(self._commit_often())
            try:
                while not self._stopping.is_set():
                    await self._fetch()
            finally:
                committer.cancel()
                await asyncio.gather(committer, return_exceptions=True)
                await self.give_up(set(self._lanes))
        finally:
            await self._close()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Drain and leave; `run` returns."""
        self._stopping.set()

    async def trouble(self) -> str:
        """Why nothing is sent from here now; empty if all is well, which it is of one that stands by, too."""
        if self._stopping.is_set():
            return "it is draining"
        try:
            async with asyncio.timeout(TROUBLE_S):
                missing = set(self.topics) - await self._consumer.topics()
        except (KafkaError, TimeoutError):
            return "the broker does not answer"
        if missing:
            return f"there is no topic {', '.join(sorted(missing))}; run `concord topics create`"
        return "" if self._shared_out else "the group has not given out its shares yet"

    async def _close(self) -> None:
        for stop in (self._consumer.stop, self._producer.stop):
            with suppress(TimeoutError):  # both flush, and would wait for a broker that is gone
                async with asyncio.timeout(BROKER_S):
                    await stop()
        for http in self._clients.values():
            await http.aclose()

    async def _fetch(self) -> None:
        batches = await self._consumer.getmany(timeout_ms=FETCH_MS, max_records=64)
        for partition, records in batches.items():
            if (lane := self._lanes.get(partition)) is not None:
                for record in records:
                    lane.add(record)
        for partition, lane in list(self._lanes.items()):
            with suppress(IllegalStateError):  # given up meanwhile
                if lane.full:
                    self._consumer.pause(partition)
                elif lane.roomy and partition in self._consumer.paused():
                    self._consumer.resume(partition)

    # -- partitions

    async def take_over(self, partitions: set[TopicPartition]) -> None:
        """Begin with partitions that the group gave us."""
        for gate in self._gates.values():  # before any lane begins: each takes its new share at its next request
            gate.resize(0, 0.0)
        found = {partition: await self._consumer.committed(partition) for partition in partitions}
        new = await self._first_positions(found)
        if new:
            await self._consumer.commit(new)
        for partition, position in {**found, **new}.items():
            self._consumer.seek(partition, position)  # what was fetched before there was a lane is fetched again
            self._lanes[partition] = Lane(partition, position, self._work, self._failed)
        self._shared_out = True
        self.meters.assigned(len(self._lanes), self.sharing.members)
        log.info("partitions taken", partitions=sorted(one.partition for one in partitions), of=self.sharing.members)

    async def _first_positions(self, found: Mapping[TopicPartition, int | None]) -> dict[TopicPartition, int]:
        """Where a group begins that was never here: nobody waits any more for what is older than the longest lease."""
        new = [partition for partition, position in found.items() if position is None]
        if not new:
            return {}
        ends = await self._consumer.end_offsets(
            new
        )  # first: what comes between the two questions is found by the second
        since = int((time.time() - self._lease_s) * 1000)
        young = await self._consumer.offsets_for_times(dict.fromkeys(new, since))
        return {one: int(ends[one] if young.get(one) is None else young[one].offset) for one in new}

    async def give_up(self, partitions: set[TopicPartition]) -> None:
        """Break off what was not sent, finish what was, commit how far it came."""
        self._shared_out = False
        lanes = [lane for one in partitions if (lane := self._lanes.get(one)) is not None]
        await asyncio.gather(*(lane.close(DRAIN_S) for lane in lanes))
        for lane in lanes:
            with suppress(
                KafkaError, TimeoutError
            ):  # not ours any more, or no broker: the next owner repeats what may be repeated
                await self._commit(lane, lane.done_to())
            self._lanes.pop(lane.partition, None)

    async def _commit_often(self) -> None:
        while True:
            await asyncio.sleep(COMMIT_S)
            for lane in list(self._lanes.values()):
                if lane.done_to() > lane.committed:
                    try:
                        await self._commit(lane, lane.done_to())
                    except (KafkaError, TimeoutError) as error:
                        log.warning(
                            "an offset was not committed", partition=lane.partition.partition, error=repr(error)
                        )

    async def _commit(self, lane: Lane, offset: int) -> None:
        async with self._committing:
            if offset > lane.committed:
                async with asyncio.timeout(BROKER_S):
                    await self._consumer.commit({lane.partition: offset})
                lane.committed = offset

    def _failed(self, error: BaseException) -> None:
        """A bug: stop, and say so. What was not done stays uncommitted."""
        self._failure = self._failure or error
        self._stopping.set()

    # -- one request

    async def _work(self, lane: Lane, job: Job) -> None:
        record: ConsumerRecord = job.record
        try:
            request = asking.request_of(record.value)
        except asking.RequestError as error:
            log.error("a record is no request", partition=record.partition, offset=record.offset, error=str(error))  # noqa: TRY400  its text says it all
            self.meters.passed_over("", "", "unreadable")
            return
        outlet = self._outlet(request.channel)
        if outlet is None:
            self.meters.passed_over(request.channel, request.verb, "not_configured")
            return
        call = self._built(outlet, request)
        if isinstance(call, Said):
            if request.verb == "QUERY":  # a channel that cannot be asked: silence, not a word about the payment
                return
            job.sending = True
            await self._store(request, asking.answer(request, call, None, datetime.now(UTC)), record)
            return
        await self._send(lane, job, outlet, request, call)

    def _built(self, outlet: Outlet, request: ChannelRequest) -> Call | Said:
        """The call, or the word that it was never accepted because it cannot be made."""
        try:
            return outlet.requests.build(
                request, outlet.keys, outlet.account, outlet.endpoint, datetime.now(UTC), outlet.contract
            )
        except ValueError as error:
            log.warning("a request cannot be made", **_names(request), error=str(error))
            self.meters.passed_over(request.channel, request.verb, "cannot_be_made")
            return Said(status=NOT_SENT, error_class="cannot_be_made")

    async def _send(self, lane: Lane, job: Job, outlet: Outlet, request: ChannelRequest, call: Call) -> None:
        gate = self._gate(request.channel, outlet)
        once = not asking.repeatable(request, outlet.contract)
        if once:
            await lane.first(job)
        lease_s = outlet.contract.lease_s
        if not await gate.enter(_until(request, outlet.contract), lease_s):
            self._too_late(request)
            return
        try:
            job.sending = True
            if once:
                await self._take_once(lane, job)
            reply, took_s = await self._exchange(outlet, request, call)
        except (calling.TooLateError, LostError) as reason:
            gate.give_back()
            if isinstance(reason, LostError):
                raise asyncio.CancelledError from reason
            self._too_late(request)
            return
        except BaseException:
            gate.give_back()
            raise
        gate.leave(unknown=asking.proves_nothing(reply))
        said = outlet.requests.classify(request, reply, outlet.keys, outlet.contract)
        self.meters.answered(request.channel, request.verb, reply, took_s, paused=gate.paused)
        log.info(
            "answered", **_names(request), status=said.status, error_class=said.error_class, took_ms=int(took_s * 1000)
        )
        await self._store(request, asking.answer(request, said, reply, datetime.now(UTC)), job.record)

    async def _take_once(self, lane: Lane, job: Job) -> None:
        """Commit past a request before it is sent. Raises `LostError` if the partition is not ours any more."""
        lane.take(job)
        while True:
            try:
                await self._commit(lane, job.record.offset + 1)
            except (CommitFailedError, IllegalStateError) as error:
                raise LostError from error
            except (KafkaError, TimeoutError) as error:
                log.warning("a request waits for its offset", partition=lane.partition.partition, error=repr(error))
                await asyncio.sleep(RETRY_S)
            else:
                return

    async def _exchange(self, outlet: Outlet, request: ChannelRequest, call: Call) -> tuple[Reply | Nothing, float]:
        moment = asking.last_moment(request, outlet.contract)
        began = time.monotonic()
        with self.meters.in_flight(request.channel):
            reply = await calling.call(
                self._client(request.channel, outlet), call, lambda: moment is None or datetime.now(UTC) <= moment
            )
        return reply, time.monotonic() - began

    async def _store(self, request: ChannelRequest, answer: Answer, record: ConsumerRecord) -> None:
        """The answer is stored, however long the broker is away: it may be the only one there will be."""
        value, key = msgspec.json.encode(answer), request.order_id.encode()
        headers = asking.headers(request, record.headers, answer.answered_at or datetime.now(UTC))
        while True:
            try:
                await self._producer.send_and_wait(self.topics[1], value, key=key, headers=headers)
            except KafkaError as error:
                log.warning("an answer waits for the broker", **_names(request), error=repr(error))
                await asyncio.sleep(RETRY_S)
            else:
                return

    def _too_late(self, request: ChannelRequest) -> None:
        log.info("not sent: its time has passed", **_names(request))
        self.meters.passed_over(request.channel, request.verb, "too_late")

    # -- accounts

    def _gate(self, channel: str, outlet: Outlet) -> Gate:
        gate = self._gates.setdefault(channel, Gate())
        share = self.sharing.share(outlet.contract.concurrency)
        rate = outlet.contract.rate_per_s
        every_s = 0.0 if rate is None else max(1, self.sharing.members) / rate
        if (gate.slots, gate.every_s) != (share, every_s):
            gate.resize(share, every_s)
        return gate

    def _client(self, channel: str, outlet: Outlet) -> httpx.AsyncClient:
        if channel not in self._clients:
            self._clients[channel] = calling.client(outlet.contract.concurrency, read_s=self._read_s)
        return self._clients[channel]


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # the client publishes no types
    """Tells the connector which partitions come and go. The client swallows what is raised here, so it is told apart."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        try:
            async with asyncio.timeout(BROKER_S):
                await self._connector.take_over(assigned)
        except (KafkaError, TimeoutError) as error:
            self._connector._failed(error)  # noqa: SLF001  one class in two, as the client wants it

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        await self._connector.give_up(revoked)


def _until(request: ChannelRequest, contract: Contract) -> float:
    """The monotonic time after which it is not worth sending: its last moment; a question's is a lease from now, as it is asked again."""
    moment = asking.last_moment(request, contract)
    if moment is not None:
        return time.monotonic() + (moment - datetime.now(UTC)).total_seconds()
    return time.monotonic() + contract.lease_s if request.verb == "QUERY" else inf


def _names(request: ChannelRequest) -> dict[str, Any]:
    return {"order": request.order_id, "request": request.id, "verb": request.verb, "channel": request.channel}
