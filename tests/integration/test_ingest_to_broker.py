"""`concord ingest` on a real broker: what it stores is what the worker's codec reads."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from typing import TYPE_CHECKING

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from click.testing import CliRunner

from streams.cli.ingest import ingest
from streams.codec import decoder
from streams.domain.events import Callback
from streams.engine.topology import Poison
from streams.topics import Topics, create, partition_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.kafka

AT = 1_740_996_000
KEY = "whsec_own_test_secret"
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
def store(kafka, topic_prefix, tmp_path: Path):
    def run(event: dict[str, object]) -> tuple[int, str]:
        body = json.dumps(event).encode()
        signature = hmac.new(KEY.encode(), f"{AT}.".encode() + body, hashlib.sha256).hexdigest()
        (tmp_path / "body").write_bytes(body)
        (tmp_path / "headers").write_text(f"Stripe-Signature: t={AT},v1={signature}\ntraceparent: {TRACE}\n")
        arguments = ["--channel", "stripe", "--account", "acct_1", "--headers", str(tmp_path / "headers")]
        (tmp_path / "credentials").write_text("webhook_secrets: ['env:HOOK']\n")
        arguments += [
            "--credentials",
            str(tmp_path / "credentials"),
            "--at",
            "2025-03-03T10:00:00Z",
            str(tmp_path / "body"),
        ]
        settings = {"CONCORD_KAFKA": kafka.bootstrap, "CONCORD_TOPIC_PREFIX": topic_prefix, "HOOK": KEY}
        result = CliRunner().invoke(ingest, arguments, env=settings)
        return result.exit_code, result.output

    return run


@pytest.fixture
async def topics(kafka, topic_prefix) -> Topics:
    wanted = Topics.load(prefix=topic_prefix, replication=1)
    await create({"bootstrap_servers": kafka.bootstrap}, wanted)
    return wanted


async def last_record(bootstrap: str, topic: str, partition: int):
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    await consumer.start()
    try:
        at = TopicPartition(topic, partition)
        consumer.assign([at])
        await consumer.seek_to_beginning(at)
        return await consumer.getone()
    finally:
        await consumer.stop()


def paid(kind: str = "payment_intent.succeeded", **extra: object) -> dict[str, object]:
    intent = {"id": "pi_1", "status": "succeeded", "amount": 1099, "amount_received": 1099, "currency": "usd"}
    data = {"object": intent | {"metadata": {"order_id": "订单-1", "payment_no": "P1"}}}
    return {"id": "evt_1", "type": kind, "created": AT, "data": data} | extra


async def test_a_stored_notice_is_read_by_the_worker_under_its_orders_key(kafka, topics, store):
    code, output = await asyncio.to_thread(store, paid())
    topic, partition = topics["channel-callbacks"], partition_of("订单-1".encode(), 8)
    assert code == 0
    assert output == f"{topic} partition {partition} offset 0 key 订单-1 event stripe:acct_1/evt_1 SUCCESS\n"
    record = await last_record(kafka.bootstrap, topic, partition)
    event = decoder(topics.names)(record)
    assert isinstance(event, Callback)
    assert (event.order_id, event.status, event.amount) == ("订单-1", "SUCCESS", 1099)
    headers = dict(record.headers)
    assert (headers["ce_id"], headers["ce_source"]) == (b"stripe:acct_1/evt_1", b"stripe:acct_1")
    assert (headers["ce_time"], headers["traceparent"]) == (b"2025-03-03T10:00:00Z", TRACE.encode())


async def test_a_notice_that_cannot_be_mapped_is_stored_for_the_dead_letters(kafka, topics, store):
    code, output = await asyncio.to_thread(store, paid("customer.created"))
    topic, key = topics["channel-callbacks"], b"stripe:acct_1/evt_1"
    assert code == 0
    assert "unmapped: type: customer.created says nothing about a payment" in output
    record = await last_record(kafka.bootstrap, topic, partition_of(key, 8))
    assert record.key == key
    with pytest.raises(Poison) as poison:
        decoder(topics.names)(record)
    assert poison.value.kind == "unmapped"


async def test_without_its_topic_a_notice_is_not_stored(store):
    code, output = await asyncio.to_thread(store, paid())
    assert (code, "not stored: " in output) == (4, True)
