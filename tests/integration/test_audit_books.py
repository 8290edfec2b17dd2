"""`concord audit books`: quiet about good books, and it names each thing that somebody broke in them (R-180)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka import AIOKafkaProducer

from stores import auditing, offsets, projection
from stores.pool import connect
from stores.projection import Batch
from streams import codec
from streams.agents import telling
from streams.topics import Topics, partition_of
from tests.support.databases import books
from tests.support.decided import history
from tests.support.job import Job

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from streams.dev.services import Kafka, Postgres
    from tests.support.decided import History

pytestmark = pytest.mark.postgres


@pytest.fixture
async def dsn(postgres: Postgres) -> AsyncIterator[str]:
    async with books(postgres.dsn) as name:
        yield name


async def written(dsn: str, made: History) -> Any:
    """A connection to books that hold the history."""
    decisions = [telling.told(record) for record in made.records if record.topic == made.topics["decisions"]]
    connection = await connect(dsn)
    await offsets.begin(connection, {("t", 0): 0})
    await projection.write(connection, Batch(moved={("t", 0): (0, 1)}, told=decisions))
    return connection


BREAKS = [
    ("UPDATE payments SET announced = false WHERE announced", "one success fact for each announced payment"),
    ("UPDATE payments SET announced = false WHERE announced", "a paid payment is announced, a duplicate, or a leg"),
    ("DELETE FROM postings WHERE amount > 0", "debits equal credits in every entry"),
    ("UPDATE postings SET amount = amount + 1 WHERE amount > 0", "debits equal credits in every currency"),
    (
        "UPDATE payments SET captured = captured + 1 WHERE state = 'SUCCESS'",
        "what was captured is what the entries say",
    ),
    ("UPDATE operations SET amount = amount + 1 WHERE kind = 'REFUND'", "what was refunded is what the entries say"),
    ("UPDATE payments SET state = 'VOIDED'", "every state was entered by one decision, which names its witness"),
    ("DELETE FROM inbox", "every state was entered by one decision, which names its witness"),
    ("DELETE FROM decisions WHERE seq = 2", "no decision of an order is missing"),
    ("UPDATE discrepancies SET status = 'resolved'", "a discrepancy stands as its last step says"),
]


@pytest.mark.parametrize(("statement", "check"), BREAKS)
async def test_whatever_somebody_breaks_is_named_by_its_check(dsn: str, topic_prefix: str, statement: str, check: str):
    connection = await written(dsn, history(Topics.load(prefix=topic_prefix, replication=1), 40, seed=3))
    assert await auditing.themselves(connection) == ([], 0)
    await connection.execute("SET session_replication_role = replica")  # as one who owns the database can
    await connection.execute(statement)
    broken, number = await auditing.themselves(connection)
    assert check in {one.check for one in broken}
    assert number >= len(broken) > 0
    await connection.close()


@pytest.mark.parametrize("seed", range(4))
async def test_books_of_any_history_break_nothing(dsn: str, topic_prefix: str, seed: int):
    connection = await written(dsn, history(Topics.load(prefix=topic_prefix, replication=1), 150, seed=seed))
    assert await auditing.themselves(connection) == ([], 0)
    await connection.close()


@pytest.mark.kafka
async def test_the_command_compares_the_books_with_the_state_topic(
    kafka: Kafka, dsn: str, topic_prefix: str, tmp_path: Path
):
    job = Job(kafka.bootstrap, topic_prefix, tmp_path)
    await job.create()
    made = history(job.topics, 30, seed=5)
    producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, enable_idempotence=True)
    await producer.start()
    for name, order in made.orders.items():
        key = name.encode()
        await producer.send_and_wait(
            job.topics.changelog, codec.dump(order), key=key, partition=partition_of(key, job.topics.partitions)
        )
    await producer.stop()
    connection = await written(dsn, made)
    good = await asyncio.to_thread(job.run, "audit", "books", CONCORD_POSTGRES=dsn)
    assert (good.returncode, good.stdout.splitlines()[-1]) == (0, "nothing breaks"), good.stdout + good.stderr
    number = await connection.fetchval("SELECT min(payment_no) FROM payments WHERE state = 'SUCCESS'")
    await connection.execute("UPDATE payments SET transaction = 'other' WHERE payment_no = $1", number)
    await connection.close()
    bad = await asyncio.to_thread(job.run, "audit", "books", "--settle", "0", CONCORD_POSTGRES=dsn)
    assert bad.returncode == 1, bad.stdout + bad.stderr
    assert f"{number} transaction: 'other' in the books" in bad.stdout
    assert "1 things break" in bad.stdout
