"""What the books found goes back to the law as an event of each order: told at least once, and the same each time.

It is remembered as told after the broker has stored it; if that is lost it is told again, which the law takes for a repetition.
"""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog
from aiokafka import AIOKafkaProducer

from stores import transactions
from streams.cloudevents import attributes
from streams.domain.events import Finding

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from stores.schema import Connection
    from stores.transactions import Shared

log: Final = structlog.get_logger(__name__)
_encode: Final = msgspec.json.Encoder().encode


def finding(one: Shared) -> Finding:
    """The event of this order. Its id comes from the facts alone."""
    facts = msgspec.msgpack.encode((one.channel, one.transaction, one.other_order))
    return Finding(
        order_id=one.order_id,
        payment_no=one.number,
        channel=one.channel,
        status="TRANSACTION_ON_TWO_ORDERS",
        event_id=f"two-orders-{blake2b(facts, digest_size=16).hexdigest()}",
        transaction=one.transaction,
        other_order=one.other_order,
        merchant=one.merchant or None,
    )


class Finder:
    """Produces findings to the topic of answers. To be entered by `async with`."""

    def __init__(self, kafka: Mapping[str, Any], topic: str) -> None:
        self._topic = topic
        self._producer = AIOKafkaProducer(**kafka, acks="all", enable_idempotence=True)

    async def __aenter__(self) -> Self:
        await self._producer.start()
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self._producer.stop()

    async def tell(self, pool: Connection) -> None:
        """Tell everything that is found and not told yet."""
        while True:
            async with pool.acquire() as connection:
                found = await transactions.untold(connection)
            if not found:
                return
            for one in found:
                await self._produce(finding(one))
                log.warning(
                    "a transaction stands for two orders",
                    channel=one.channel,
                    order=one.order_id,
                    other=one.other_order,
                )
            async with pool.acquire() as connection:
                await transactions.told(connection, found)

    async def _produce(self, event: Finding) -> None:
        now = datetime.now(UTC).isoformat()
        await self._producer.send_and_wait(
            self._topic,
            _encode(event),
            key=event.order_id.encode(),
            headers=attributes(event.event_id, "finding", "concord-projector", now),
        )
