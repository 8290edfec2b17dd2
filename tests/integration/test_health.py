"""The figures from a real Postgres, and what `concord health` makes of them."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from aiokafka import AIOKafkaProducer
from msgspec import structs
from prometheus_client import CollectorRegistry, generate_latest

from stores import figures, pool
from streams.agents.health import HealthCollector, Limits, Measured, judge, measure
from streams.settings import Settings
from streams.topics import Topics, create

pytestmark = pytest.mark.postgres

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
PAYMENT = """
INSERT INTO payments (merchant, payment_no, order_id, biz_code, channel, amount, currency, state, evidence, success_at, announced, captured,
    held, returned, disputed, duplicate, fulfilled, finished, attempts, queries, closes, seq, created_at, updated_at)
VALUES ('shop', $1, $1, 'SALE', $2, 1099, 'USD', $3, 'e', $4, false, 0, 0, 0, 0, false, false, false, 1, 0, 0, 1, $5, $5)"""
DECISION = """
INSERT INTO decisions (order_id, seq, id, verdict, rule, source, word, evidence, merchant, number, after, detail, marks, messages,
    event_key, payload, decided_at)
VALUES ($1, $2::bigint, $1 || '/' || $2::bigint, 'applied', 'success', $3, 'SUCCESS', 'e', 'shop', $1, 'SUCCESS', '',
    '{}', '{}', '', '', $4)"""


@pytest.fixture
async def held(database):
    connection = await pool.connect(database)
    yield connection
    await connection.close()


def ago(**of: float) -> datetime:
    return NOW - timedelta(**of)


async def pay(held, name, state, *, channel="stripe:a", success_at=None, learned=None, created_at=NOW):
    await held.execute(PAYMENT, name, channel, state, success_at, created_at)
    for seq, source in enumerate([learned, "callback"] if learned else [], 1):
        await held.execute(DECISION, name, seq, source, NOW)


async def test_what_is_paying_or_unknown_for_30_minutes_is_stuck_and_nothing_else(held):
    """R-240"""
    await pay(held, "A", "PAYING", created_at=ago(minutes=31))
    await pay(held, "B", "UNKNOWN", created_at=ago(hours=9))
    await pay(held, "C", "UNKNOWN", created_at=ago(minutes=29))
    await pay(held, "D", "SUCCESS", created_at=ago(hours=9))
    await pay(held, "E", "INIT", created_at=ago(hours=9))
    found = await figures.read(held, NOW)
    assert (found.stuck, found.unknown) == ({"stripe:a": 2}, {"stripe:a": 2})


async def test_a_success_that_was_asked_for_counts_as_a_lost_callback_for_a_day(held):
    await pay(held, "A", "SUCCESS", success_at=ago(hours=1), learned="callback")
    await pay(held, "B", "SUCCESS", success_at=ago(hours=1), learned="query")
    await pay(held, "C", "SUCCESS", success_at=ago(hours=25), learned="query")
    assert (await figures.read(held, NOW)).learned == {"stripe:a": figures.Learned(2, 1)}


async def test_callback_delay_reads_the_times_that_channels_write_and_passes_over_others(held):
    times = [
        "2026-05-01T11:59:50Z",
        str(int(ago(seconds=20).timestamp())),
        f"{int(ago(seconds=30).timestamp())}000",
        "yesterday Z",
        "",
    ]
    for number, text in enumerate(times):
        await held.execute(
            "INSERT INTO inbox (order_id, event_key, received_at, channel, source, word, event_type, event_time, payload_hash, "
            "signature_valid, process_status, process_rule, seq, processed_at) "
            "VALUES ($1, $1, $2, 'stripe:a', 'callback', 'SUCCESS', '', $3, '', true, '', '', 1, $2)",
            f"O{number}",
            NOW,
            text,
        )
    [delay] = (await figures.read(held, NOW)).callback_delay.values()
    assert delay.p50 == pytest.approx(20)
    assert delay.p99 == pytest.approx(29.8)


async def test_an_empty_database_is_well_and_every_number_is_served(held):
    measured = Measured(await figures.read(held, NOW), {0: 0})
    assert all(one.well for one in judge(measured, Limits()))
    collector, registry = HealthCollector(), CollectorRegistry()
    registry.register(collector)
    assert b"concord_health_measured 0.0" in generate_latest(registry)
    collector.measured = measured
    text = generate_latest(registry).decode()
    assert "concord_health_measured 1.0" in text
    assert 'concord_projection_lag_records{partition="0"} 0.0' in text


async def test_each_number_beyond_its_limit_is_not_well(held):
    empty = Measured(await figures.read(held, NOW), {})
    ill = structs.replace(
        empty.figures,
        stuck={"a": 1}, single_sided=1, unknown={"a": 1001}, learned={"a": figures.Learned(100, 21), "few": figures.Learned(1, 1)},
        callback_delay={"a": figures.Delay(1, 301)}, notices=figures.Backlog(1, 901, 1), discrepancies=figures.Open({"high": 1}, 1),
    )  # fmt: skip
    assert not any(one.well for one in judge(Measured(ill, {0: 10_001}), Limits()))


@pytest.mark.kafka
async def test_the_command_ends_by_what_it_found(held, database, kafka, topic_prefix):
    env = {
        "CONCORD_KAFKA": kafka.bootstrap,
        "CONCORD_TOPIC_PREFIX": topic_prefix,
        "CONCORD_REPLICATION": "1",
        "CONCORD_POSTGRES": database,
    }
    await create(Settings.from_env(env).kafka, Topics.load(prefix=topic_prefix, replication=1))

    def health(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "streams", "health", *arguments]
        return subprocess.run(
            command, env={**os.environ, **env, **more}, capture_output=True, text=True, timeout=60, check=False
        )

    well = health()
    assert (well.returncode, "HIGH" in well.stdout) == (0, False)
    await pay(held, "A", "PAYING")
    ill = health()
    assert ill.returncode == 1
    assert "HIGH          1  at most       0  payments stuck for 30 minutes" in ill.stdout
    assert health("--stuck", "1").returncode == 0
    assert health("--json").stdout.startswith('{"figures":{"stuck":{"stripe:a":1}')
    assert health(CONCORD_POSTGRES="postgresql://nobody@127.0.0.1:1/none").returncode == 4


async def test_markers_of_transactions_are_no_lag(held, kafka, topic_prefix):
    """Every record in a transaction of its own: twice as many offsets as records."""
    topics = Topics.load(prefix=topic_prefix, replication=1)
    settings = Settings.from_env({"CONCORD_KAFKA": kafka.bootstrap})
    await create(settings.kafka, topics)
    producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, transactional_id=f"{topic_prefix}lag")
    await producer.start()
    for number in range(5):
        async with producer.transaction():
            await producer.send_and_wait(topics["decisions"], b"{}", partition=number % 2)
    await producer.stop()
    measured = await measure(held, settings.kafka, topics["decisions"], topics.partitions, NOW)
    assert {place: count for place, count in measured.lag.items() if count} == {0: 3, 1: 2}
