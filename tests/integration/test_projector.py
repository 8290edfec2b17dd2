"""The projector on a real Kafka and a real Postgres: every table is what somebody else reads from the topics."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka import AIOKafkaProducer

from stores import offsets, projection
from stores.books import Reader
from stores.offsets import Overtaken
from stores.pool import connect, pool
from stores.projection import Batch
from stores.told import DecisionLostError
from streams.agents import sealing, telling
from streams.agents.feed import Feed, feeding
from streams.agents.finding import Finder
from streams.agents.projector import Projector
from streams.agents.projector_meters import Meters
from streams.cli.projector import feeds
from streams.dev import ports
from streams.domain.events import Finding
from streams.domain.standing import standing
from streams.topics import Topics
from tests.support.books import expected, read_topics, wait_written
from tests.support.books_oracle import TABLES, differences
from tests.support.databases import books, database
from tests.support.decided import History, history, produce
from tests.support.job import Job

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from streams.dev.services import Kafka, Postgres
    from streams.domain.decisions import Standing

pytestmark = [pytest.mark.kafka, pytest.mark.postgres]
KEY = base64.b64encode(bytes(range(32))).decode()


@pytest.fixture
async def dsn(postgres: Postgres) -> AsyncIterator[str]:
    async with books(postgres.dsn) as name:
        yield name


@pytest.fixture
async def job(kafka: Kafka, topic_prefix: str, tmp_path: Path) -> Job:
    found = Job(kafka.bootstrap, topic_prefix, tmp_path)
    await found.create()
    return found


@pytest.fixture
def sealer(tmp_path: Path) -> sealing.Sealer:
    (tmp_path / "keys").write_text(KEY)
    return sealing.read(tmp_path / "keys")


async def told(job: Job, made: History) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=job.bootstrap, enable_idempotence=True)
    await producer.start()
    await produce(producer, made.records)
    await producer.stop()


@asynccontextmanager
async def projecting(job: Job, dsn: str, sealer: Any, **more: Any) -> AsyncIterator[Projector]:
    kafka = job.settings.kafka
    async with pool(dsn) as connections, Finder(kafka, job.topics["query-results"]) as finder:
        one = Projector(
            kafka, f"{job.prefix}p", feeds(job.topics), connections,
            sealer=sealer, finder=finder, meters=Meters(), session_s=6.0, **more,
        )  # fmt: skip
        running = asyncio.create_task(one.run())
        try:
            yield one
        finally:
            one.stop()
            await running


async def test_every_table_is_what_the_topics_say(job: Job, dsn: str, sealer):
    made = history(job.topics, 150, seed=1)
    await told(job, made)
    records = await read_topics(job.config, job.topics)
    async with projecting(job, dsn, sealer, batch=97):
        await wait_written(dsn, records)
        found = await job.wait("query-results", lambda there: any(b'"finding"' in record.value for record in there))
    tables = expected(records, job.topics)
    assert await differences(dsn, tables, sealer.open) == []
    empty = [name for name in ("refunds", "card_entries", "shared_transactions", "raw_messages") if not tables[name]]
    assert empty == [], "the history is too plain to prove anything"
    claims = {(row["order_id"], row["transaction"]) for row in tables["shared_transactions"].values()}
    events = [job.topology.decode(record) for record in found if b'"finding"' in record.value]
    assert {(event.order_id, event.transaction) for event in events if type(event) is Finding} == claims


async def test_a_projector_goes_on_where_the_books_end_and_writes_nothing_twice(job: Job, dsn: str, sealer):
    made = history(job.topics, 60, seed=2)
    first, rest = made.records[: len(made.records) // 2], made.records[len(made.records) // 2 :]
    for part in (first, rest):
        made.records = part
        await told(job, made)
        async with projecting(job, dsn, sealer, batch=50):
            await wait_written(dsn, [record for record in part if record.topic in feeds(job.topics).all])
    records = await read_topics(job.config, job.topics)
    assert await differences(dsn, expected(records, job.topics), sealer.open) == []


async def test_two_projectors_share_the_partitions_and_agree(job: Job, dsn: str, sealer):
    await told(job, history(job.topics, 60, seed=3))
    records = await read_topics(job.config, job.topics)
    async with projecting(job, dsn, sealer, batch=20), projecting(job, dsn, sealer, batch=30):
        await wait_written(dsn, records)
    assert await differences(dsn, expected(records, job.topics), sealer.open) == []


async def test_of_two_that_hold_one_partition_the_one_that_lost_it_writes_nothing(dsn: str):
    one, other = await connect(dsn), await connect(dsn)
    await offsets.begin(one, {("t", 0): 0})
    await projection.write(one, Batch(moved={("t", 0): (0, 5)}))
    with pytest.raises(Overtaken):
        await projection.write(other, Batch(moved={("t", 0): (0, 7)}))
    assert await offsets.read(other, [("t", 0)]) == {("t", 0): 5}
    await one.close()
    await other.close()


async def test_an_order_whose_decision_is_missing_is_refused_whole(dsn: str, topic_prefix: str):
    made = history(Topics.load(prefix=topic_prefix, replication=1), 3, seed=4)
    decisions = [telling.told(record) for record in made.records if record.topic.endswith("decisions")]
    order = decisions[0].decision.order_id
    gap = [one for one in decisions if one.decision.order_id == order and one.decision.seq != 2]
    connection = await connect(dsn)
    await offsets.begin(connection, {("t", 0): 0})
    with pytest.raises(DecisionLostError, match="came after 1; what is between is lost"):
        await projection.write(connection, Batch(moved={("t", 0): (0, 9)}, told=gap))
    assert await offsets.read(connection, [("t", 0)]) == {("t", 0): 0}
    assert await connection.fetchval("SELECT count(*) FROM decisions") == 0
    await connection.close()


async def test_decisions_that_come_again_change_no_row(dsn: str, topic_prefix: str):
    """R-019, R-020: nothing moves backwards."""
    made = history(Topics.load(prefix=topic_prefix, replication=1), 20, seed=5)
    decisions = [telling.told(record) for record in made.records if record.topic.endswith("decisions")]
    connection = await connect(dsn)
    await offsets.begin(connection, {("t", 0): 0})
    await projection.write(connection, Batch(moved={("t", 0): (0, 1)}, told=decisions))
    before = await everything(connection)
    await projection.write(connection, Batch(moved={("t", 0): (1, 2)}, told=decisions[: len(decisions) // 2]))
    assert await everything(connection) == before
    await connection.close()


async def everything(connection) -> dict[str, list[Any]]:
    return {table: sorted(await connection.fetch(f"SELECT * FROM {table}"), key=repr) for table in TABLES}


async def test_the_reader_answers_what_the_law_says_of_a_payment(dsn: str, topic_prefix: str):
    made = history(Topics.load(prefix=topic_prefix, replication=1), 40, seed=6)
    decisions = [telling.told(record) for record in made.records if record.topic.endswith("decisions")]
    connection = await connect(dsn)
    await offsets.begin(connection, {("t", 0): 0})
    await projection.write(connection, Batch(moved={("t", 0): (0, 1)}, told=decisions))
    await connection.close()
    seen = {"PAY": 0, "REFUND": 0}
    async with pool(dsn) as connections:
        reader = Reader(connections)
        for one in decisions:
            for standing in one.decision.operations:
                await _told_as_it_stands(reader, made, one.decision.order_id, standing, seen)
        assert await reader.payment("somebody", "PAY-none") is None
    assert min(seen.values()) > 0


async def _told_as_it_stands(
    reader: Reader, made: History, order_id: str, last: Standing, seen: dict[str, int]
) -> None:
    order = made.orders.get(order_id)
    target = (
        next((each for each in (*order.payments, *order.operations) if each.number == last.number), None)
        if order
        else None
    )
    if order is None or target is None or last.kind not in seen:
        return
    found = await (reader.payment if last.kind == "PAY" else reader.refund)("", last.number)
    now = standing(order, target)
    assert found is not None
    same = ("number", "kind", "state", "amount", "transaction", "evidence", "shown", "asked", "fee", "announced")
    assert {name: getattr(found.standing, name) for name in same if name != "asked"} == {
        name: getattr(now, name) for name in same if name != "asked"
    }
    if now.asked is not None and found.standing.asked is not None and now.asked.idempotency_key is not None:
        assert found.standing.asked == now.asked
    seen[last.kind] += 1


async def test_a_projector_without_tables_says_which_command_makes_them(postgres: Postgres, job: Job, sealer):
    async with database(postgres.dsn) as empty:
        env = {"CONCORD_POSTGRES": empty, "CONCORD_WEB_PORT": str(ports.free(1)[0])}
        ended = await asyncio.to_thread(job.run, "projector", **env)
    assert ended.returncode == 4, ended.stderr
    assert "run `concord db migrate`" in ended.stdout + ended.stderr


async def test_the_command_writes_until_it_is_told_to_stop(job: Job, dsn: str, sealer, tmp_path: Path):
    await told(job, history(job.topics, 20, seed=7))
    records = await read_topics(job.config, job.topics)
    env = {**os.environ, **job.env, "CONCORD_POSTGRES": dsn, "CONCORD_RAW_KEY": str(tmp_path / "keys")}
    command = [sys.executable, "-m", "streams", "projector", "--port", str(ports.free(1)[0])]
    with (tmp_path / "log").open("wb") as log:
        running = subprocess.Popen(command, env=env, stdout=log, stderr=log, start_new_session=True)
    try:
        await wait_written(dsn, records)
    finally:
        running.send_signal(signal.SIGTERM)
        code = await asyncio.to_thread(running.wait, 30)
    assert code == 0, (tmp_path / "log").read_text()
    assert await differences(dsn, expected(records, job.topics), sealer.open) == []


async def test_a_rebuild_of_good_books_finds_no_difference_while_writing_goes_on(job: Job, dsn: str, sealer):
    made = history(job.topics, 80, seed=8)
    first, rest = made.records[: len(made.records) // 2], made.records[len(made.records) // 2 :]
    made.records = first
    await told(job, made)
    async with projecting(job, dsn, sealer, batch=25):
        await wait_written(dsn, written(job, first))
        rebuild = asyncio.create_task(asyncio.to_thread(job.run, "projector", "rebuild", CONCORD_POSTGRES=dsn))
        for start in range(0, len(rest), 40):
            made.records = rest[start : start + 40]
            await told(job, made)
        ended = await rebuild
        records = await read_topics(job.config, job.topics)
        await wait_written(dsn, records)
    assert (ended.returncode, "the new books took their place" in ended.stdout) == (0, True), (
        ended.stdout + ended.stderr
    )
    assert await differences(dsn, expected(records, job.topics), sealer.open) == []


def written(job: Job, records: list[Any]) -> list[Any]:
    return [record for record in records if record.topic in feeds(job.topics).all]


async def test_a_rebuild_shows_what_was_wrong_and_puts_it_right(job: Job, dsn: str, sealer):
    await told(job, history(job.topics, 20, seed=9))
    records = await read_topics(job.config, job.topics)
    async with projecting(job, dsn, sealer):
        await wait_written(dsn, records)
    connection = await connect(dsn)
    await connection.execute(
        "UPDATE payments SET state = 'CLOSED' WHERE payment_no = (SELECT min(payment_no) FROM payments)"
    )
    looked = await asyncio.to_thread(job.run, "projector", "rebuild", "--check", CONCORD_POSTGRES=dsn)
    assert (looked.returncode, "nothing was changed" in looked.stdout) == (1, True), looked.stdout + looked.stderr
    ended = await asyncio.to_thread(job.run, "projector", "rebuild", CONCORD_POSTGRES=dsn)
    signs = [line[:10] for line in ended.stdout.splitlines()[:2]]
    assert (ended.returncode, sorted(signs)) == (1, ["+ payments", "- payments"]), ended.stdout + ended.stderr
    assert await differences(dsn, expected(records, job.topics), sealer.open) == []
    assert await connection.fetchval("SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'books_%'") == 0
    await connection.close()


async def test_books_that_others_hang_on_are_not_replaced(job: Job, dsn: str, sealer):
    connection = await connect(dsn)
    await connection.execute("CREATE VIEW public.mine AS SELECT * FROM books.payments")
    ended = await asyncio.to_thread(job.run, "projector", "rebuild", CONCORD_POSTGRES=dsn)
    await connection.close()
    assert ended.returncode == 4
    assert "can bear no key or view of others" in ended.stderr


async def test_the_size_of_a_batch_makes_no_difference(postgres: Postgres, topic_prefix: str):
    made = history(Topics.load(prefix=topic_prefix, replication=1), 25, seed=11)
    decisions = [telling.told(record) for record in made.records if record.topic.endswith("decisions")]
    found = []
    for size in (len(decisions), 7, 1):
        async with books(postgres.dsn) as name:
            connection = await connect(name)
            await offsets.begin(connection, {("t", 0): 0})
            for at in range(0, len(decisions), size):
                part = decisions[at : at + size]
                await projection.write(connection, Batch(moved={("t", 0): (at, at + len(part))}, told=part))
            found.append(await everything(connection))
            await connection.close()
    assert found[0] == found[1] == found[2]


async def test_what_lies_beyond_a_bound_is_read_by_the_next_call(job: Job, dsn: str):
    await told(job, history(job.topics, 10, seed=12))
    decisions = job.topics["decisions"]
    records = [record for record in await read_topics(job.config, job.topics) if record.topic == decisions]
    ends: dict[tuple[str, int], int] = {}
    for record in records:
        ends[record.topic, record.partition] = record.offset + 1
    firsts = {place: min(3, end) for place, end in ends.items()}
    async with feeding(job.settings.kafka, feeds(job.topics), None) as feed:
        await feed.seek(dict.fromkeys(ends, 0), dict.fromkeys(ends, 0))
        found = [await told_until(feed, bound) for bound in (firsts, ends)]
    assert found == [sum(firsts.values()), len(records) - sum(firsts.values())]


async def told_until(feed: Feed, until: dict[tuple[str, int], int]) -> int:
    number = 0
    async with asyncio.timeout(60):
        while any(offset < until[place] for place, offset in feed.next.items()):
            batch = await feed.read(1000, 100, until)
            number += 0 if batch is None else len(batch.told)
    return number
