"""The router: what a channel has not accepted goes to the next one, as a command that the law judges like any other.

It follows the decisions in a group and answers each refusal in three steps, all of them safe to repeat: the downgrade that follows from
the error, the decision, which is written down before it is sent, and the command. Whoever comes second, another router or itself after a
crash, finds the decision that was written down and sends that one, under the same id. So many routers do the same thing once, and the
gate sees to it that nothing is charged twice even if they did not.

Only payments whose first channel was chosen by routing are followed; a pinned channel stays the caller's (R-138).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import asyncpg
import msgspec
import structlog
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError, UnknownMemberIdError
from msgspec import structs

from stores import route_decisions, route_downgrades, route_knowledge
from stores.pool import LOST, Unreachable, pool
from stores.route_decisions import Routed
from streams.cloudevents import attributes
from streams.domain.decisions import Decision
from streams.domain.downgrade import downgraded
from streams.domain.fallback import command, fallback, lawful, refusal
from streams.domain.moment import moment
from streams.domain.number import is_number
from streams.routes.asks import ask

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from stores.route_knowledge import Knowledge
    from stores.schema import Connection
    from streams.agents.router_meters import Meters
    from streams.domain.contract import Contract
    from streams.domain.fallback import Refusal

log: Final = structlog.get_logger(__name__)

OUTAGE: Final = (Unreachable, *LOST, asyncpg.PostgresError, KafkaError)
AGAIN_S: Final = 1.0
POLL_MS: Final = 500
MOST: Final = 500
MARK: Final = b'"attempt-refused"'
"""In every record that can be a refusal; what has it not is not read any further."""


class Router:
    """One of any number of routers. `decisions` and `commands` are the broker's names of topics; `now` is UTC."""

    def __init__(
        self,
        kafka: Mapping[str, Any],
        dsn: str,
        *,
        group: str,
        session_s: float,
        decisions: str,
        commands: str,
        contracts: Mapping[str, Contract],
        meters: Meters,
        now: Callable[[], datetime],
    ) -> None:
        self._kafka, self._dsn, self._group, self._session_s = kafka, dsn, group, session_s
        self._decisions, self._commands = decisions, commands
        self._contracts, self._meters, self._now = contracts, meters, now

    async def run(self) -> None:
        """Until cancelled. An outage is waited for; nothing is passed over meanwhile."""
        while True:
            try:
                await self._follow()
            except OUTAGE as error:
                fix = "run `concord db migrate`" if isinstance(error, asyncpg.UndefinedTableError) else ""
                self._meters.trouble(is_there=True)
                log.warning("an outage is waited for", error=f"{type(error).__name__}: {error}", fix=fix)
                await asyncio.sleep(AGAIN_S)

    async def _follow(self) -> None:
        consumer = AIOKafkaConsumer(
            self._decisions,
            **self._kafka,
            group_id=self._group,
            session_timeout_ms=int(self._session_s * 1000),
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        producer = AIOKafkaProducer(**self._kafka, acks="all", enable_idempotence=True)
        async with pool(self._dsn, largest=2) as connections:
            try:
                await consumer.start()
                await producer.start()
                self._meters.trouble(is_there=False)
                log.info("router follows", topic=self._decisions, group=self._group)
                while True:
                    await self._round(consumer, producer, connections)
            finally:
                await asyncio.gather(consumer.stop(), producer.stop())

    async def _round(self, consumer: AIOKafkaConsumer, producer: AIOKafkaProducer, connections: Connection) -> None:
        """A batch is answered before it is committed: what a crash interrupts is answered again, to the same effect."""
        passed: dict[TopicPartition, int] = {}
        for place, records in (await consumer.getmany(timeout_ms=POLL_MS, max_records=MOST)).items():
            for record in records:
                refused = read(record.value)
                if refused is not None:
                    async with connections.acquire() as connection:
                        await self._answer(connection, producer, refused)
            passed[place] = records[-1].offset + 1
        if not passed:
            return
        try:
            await consumer.commit(passed)
        except (CommitFailedError, IllegalStateError, UnknownMemberIdError) as error:
            log.info("the partitions went to another router", error=type(error).__name__)

    async def _answer(self, connection: Connection, producer: AIOKafkaProducer, refused: Refusal) -> None:
        routed = await self.decide(connection, refused)
        if routed is None:
            return
        sent = command(refused, routed.routing)
        kind, now = str(type(sent).__struct_config__.tag), self._now()
        await producer.send_and_wait(
            self._commands,
            key=sent.order_id.encode(),
            value=msgspec.json.encode(sent),
            headers=attributes(sent.command_id, kind, "router", now.isoformat()),
        )
        self._meters.answered(refused.channel, retried=routed.routing.channel is not None)
        log.info(
            "fallback", payment=refused.payment_no, attempt=refused.attempt, refused_by=refused.channel,
            error=refused.error, to=routed.routing.channel, failure=routed.routing.failure,
        )  # fmt: skip

    async def decide(self, connection: Connection, refused: Refusal) -> Routed | None:
        """What follows from a refusal, as it is written down; None: the payment was not routed, and is its caller's."""
        if not is_number(refused.payment_no) or "\0" in (refused.merchant or ""):
            return None  # no cashier of ours made it
        known = await route_decisions.of_payment(connection, refused.merchant or "", refused.payment_no)
        created = next((one for one in known if one.purpose == "create" and one.order_id == refused.order_id), None)
        if created is None:
            return None
        again = next((one for one in known if one.id == refused.command_id), None)
        if again is not None:
            return again
        now = self._now()
        knowledge = await route_knowledge.known(connection, now)
        assert knowledge is not None  # the first decision refers to a book by key
        passed = downgraded(
            knowledge.book,
            structs.replace(created.ask, at=refused.at),
            channel=refused.channel,
            error=refused.error,
            attempt=refused.command_id,
        )
        if passed is not None:
            if await route_downgrades.keep(connection, passed, attempt=refused.command_id, at=moment(refused.at)):
                self._meters.downgraded(passed.channel)
            knowledge = structs.replace(knowledge, downgrades=(*knowledge.downgrades, passed))
        earlier = [one.routing.channel for one in known if one.routing.channel is not None]
        routed = self._routed(refused, created, knowledge, tried=(*earlier, refused.channel), now=now)
        if await route_decisions.keep(connection, routed):
            return routed
        return await route_decisions.of_id(connection, refused.command_id)

    def _routed(
        self, refused: Refusal, created: Routed, knowledge: Knowledge, *, tried: tuple[str, ...], now: datetime
    ) -> Routed:
        """The next channel, for what the payment was created with, among the accounts it was created among."""
        first, book = created.ask, knowledge.book
        asked = ask(
            book,
            now,
            amount=first.amount,
            currency=first.currency,
            method=first.method,
            buyer_tag=first.buyer_tag,
            tried=tuple(dict.fromkeys(tried)),
        )
        asked = structs.replace(asked, among=lawful(first.among, self._contracts, book))
        return Routed(
            id=refused.command_id,
            decided_at=now,
            purpose="fallback",
            merchant=created.merchant,
            order_id=refused.order_id,
            payment_no=refused.payment_no,
            ask=asked,
            health=knowledge.health,
            downgrades=knowledge.downgrades,
            routing=fallback(refused, asked, book, knowledge.health, knowledge.downgrades),
        )


def read(value: bytes | None) -> Refusal | None:
    """The refusal in a record of the decisions, if it is one that can be read."""
    if value is None or MARK not in value:
        return None
    try:
        return refusal(_decision.decode(value))
    except msgspec.MsgspecError as error:
        log.warning("a decision cannot be read", error=type(error).__name__)
        return None


_decision: Final = msgspec.json.Decoder(Decision)
