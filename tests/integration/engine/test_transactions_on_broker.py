"""Running: outputs exactly once, due times, poison, and records too large for somewhere."""

from __future__ import annotations

import dataclasses
import hashlib
import time

import msgspec
import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from structlog.testing import capture_logs

from streams.engine import position as positions
from streams.engine.failures import Exit
from tests.integration.engine.stage import until
from tests.support.toy import COMPACTED, LOG_APPEND_TIME, ORDER, PAY, Event, order_with_payment, writing

pytestmark = pytest.mark.kafka


def orders(count: int, first: int = 0) -> list[Event]:
    return [event for n in range(first, first + count) for event in order_with_payment(f"o{n:03}")]


def names(count: int) -> list[str]:
    return [f"o{n:03}" for n in range(count)]


async def test_a_full_topic_is_drained_with_every_output_exactly_once(stage):
    events = orders(100)
    await stage.toy.produce(stage.bootstrap, [*events, *events[::3]])  # a third of them twice
    worker = await stage.start(batch=20)
    await until(lambda: sum(p.stats.records for p in worker.partitions.values()) == len(events) + len(events[::3]))
    assert await stage.paid() == names(100)
    assert await stage.read(stage.toy.discrepancies) == []
    assert await stage.read(stage.toy.dead_letters) == []
    states = await stage.states()
    assert sorted(states) == names(100)
    assert all(sorted(order.seen) == [f"{name}:1", f"{name}:2"] for name, order in states.items())
    assert sum(p.stats.sent[stage.toy.success] for p in worker.partitions.values()) == 100
    assert sum(p.stats.labels["paid"] for p in worker.partitions.values()) == 100
    assert all(sum(p.stats.commit.counts) == p.stats.transactions > 1 for p in worker.partitions.values())


async def test_outputs_keep_their_key_partition_headers_and_tag(stage):
    await stage.toy.produce(stage.bootstrap, orders(20))
    await stage.start()
    await until(lambda: _read_is(stage, stage.toy.success, 20))
    where = {record.key: record.partition for record in await stage.read(stage.toy.orders)}
    for record in await stage.read(stage.toy.success):
        assert record.partition == where[record.key]
        assert [name for name, _ in record.headers] == ["ce_id", "ce_type", "x"]
        assert positions.tag_of(record.headers)[0] == 1


async def _read_is(stage, topic, count):
    return len(await stage.read(topic)) == count


async def test_state_positions_and_outputs_commit_together(stage):
    """Design §3: the last `@position` of a changelog partition names its own tag, the inputs' ends and the outputs' counts."""
    await stage.toy.produce(stage.bootstrap, orders(30))
    worker = await stage.start(batch=7)
    await until(lambda: sum(p.stats.records for p in worker.partitions.values()) == 60)
    for number in range(2):
        log = await stage.read(stage.toy.changelog, partition=number)
        assert log[-1].key == positions.KEY
        position = positions.decode(log[-1].value)
        assert position.tag == positions.tag_of(log[-1].headers) == max(positions.tag_of(r.headers) for r in log)
        assert position.inputs == {
            stage.toy.orders: (await stage.ends(stage.toy.orders))[number],
            stage.toy.payments: (await stage.ends(stage.toy.payments))[number],
        }
        base, count = position.outputs[stage.toy.success]
        assert count == sum(r.offset >= base for r in await stage.read(stage.toy.success, partition=number))


async def test_a_table_is_confirmed_once_its_transactions_are_visible(stage, tmp_path):
    await stage.toy.produce(stage.bootstrap, orders(10))
    worker = await stage.start(state_dir=tmp_path, watch=0.2)
    await until(lambda: sum(p.stats.records for p in worker.partitions.values()) == 20)
    await until(lambda: all(p.table.unconfirmed == 0 for p in worker.partitions.values()))
    ends = await stage.ends(stage.toy.changelog)
    assert all(p.table.checkpoint().offset <= ends[n] for n, p in worker.partitions.items())


async def test_many_unconfirmed_rows_ask_for_a_watch_before_its_time(stage, tmp_path, monkeypatch):
    monkeypatch.setattr("streams.engine.partition.UNCONFIRMED_ROWS", 3)
    await stage.toy.produce(stage.bootstrap, orders(20))
    worker = await stage.start(state_dir=tmp_path, watch=3600.0, batch=4)
    await until(lambda: sum(p.stats.records for p in worker.partitions.values()) == 40)
    await until(lambda: all(p.table.unconfirmed <= 3 + 4 for p in worker.partitions.values()))


class TestDueTimes:
    async def test_an_idle_partition_fires_them_by_the_wall_clock(self, stage):
        stage.toy = dataclasses.replace(stage.toy, due_ms=700)
        worker = await stage.start()
        await stage.toy.produce(stage.bootstrap, [Event("a", "late", ORDER, 5)])
        await until(lambda: _read_is(stage, stage.toy.discrepancies, 1))
        [order] = (await stage.states()).values()
        [asked] = await stage.read(stage.toy.orders)
        assert order.seen == ("a", f"@due:{asked.timestamp + 700}")
        [record] = await stage.read(stage.toy.discrepancies)
        assert record.timestamp >= asked.timestamp + 700
        delays = [p.stats.due_delay for p in worker.partitions.values()]
        assert sum(sum(delay.counts) for delay in delays) == 1

    async def test_a_busy_partition_fires_them_by_the_records_timestamps(self, stage):
        """The payment was stored after the due time: it comes second, though both wait when the worker starts."""
        stage.toy = dataclasses.replace(stage.toy, due_ms=300)
        await stage.toy.produce(stage.bootstrap, [Event("a", "o", ORDER, 5)])
        [asked] = await stage.read(stage.toy.orders)
        await until(lambda: time.time() * 1000 > asked.timestamp + 350)
        await stage.toy.produce(stage.bootstrap, [Event("b", "o", PAY, 5)])
        await stage.start()
        await until(lambda: _read_is(stage, stage.toy.success, 1))
        assert (await stage.states())["o"].seen == ("a", f"@due:{asked.timestamp + 300}", "b")

    async def test_a_due_time_that_is_not_over_is_not_fired_by_a_restart(self, stage):
        worker = await stage.start()
        await stage.toy.produce(stage.bootstrap, [Event("a", "o", ORDER, 5)])
        await until(lambda: sum(p.stats.records for p in worker.partitions.values()) == 1)
        await worker.stop()
        again = await stage.start()
        assert sorted(p.table.next_due() or 0 for p in again.partitions.values())[1] > time.time() * 1000
        assert await stage.read(stage.toy.discrepancies) == []

    async def test_due_times_that_passed_while_nobody_ran_fire_after_the_start(self, stage):
        stage.toy = dataclasses.replace(stage.toy, due_ms=500)
        worker = await stage.start()
        await stage.toy.produce(stage.bootstrap, [Event("a", "o", ORDER, 5)])
        await until(lambda: sum(p.stats.records for p in worker.partitions.values()) == 1)
        await worker.stop()
        await stage.start()
        await until(lambda: _read_is(stage, stage.toy.discrepancies, 1))


class TestPoison:
    async def test_it_is_buried_once_and_what_follows_it_is_handled(self, stage):
        bad = [(b"k", b"{"), (b"k", b"\xff\xfe"), (None, b"{}"), (b"@position", b"{}"), (b"k", None), (b"k", b"")]
        async with writing(stage.bootstrap) as producer:
            for key, value in bad:
                await producer.send_and_wait(stage.toy.orders, value, key=key, headers=[("ce_id", b"1")], partition=0)
        await stage.toy.produce(stage.bootstrap, orders(5))
        worker = await stage.start()
        await until(lambda: sum(p.stats.records for p in worker.partitions.values()) == len(bad) + 10)
        dead = await stage.read(stage.toy.dead_letters)
        assert [(record.key, record.value) for record in dead] == bad
        about = [dict(record.headers) for record in dead]
        assert [headers["dead-offset"] for headers in about] == [b"%d" % n for n in range(len(bad))]
        assert {headers["dead-topic"] for headers in about} == {stage.toy.orders.encode()}
        assert [headers["dead-kind"] for headers in about][2:4] == [b"missing_key", b"reserved_key"]
        assert all(headers["ce_id"] == b"1" and headers["dead-reason"] for headers in about)
        assert await stage.paid() == names(5)
        await worker.stop()
        await stage.start()
        assert len(await stage.read(stage.toy.dead_letters)) == len(bad)

    async def test_a_value_of_ten_megabytes_ends_in_the_dead_letters_cut_and_hashed(self, stage):
        await alter(stage, stage.toy.orders, {"max.message.bytes": str(12 << 20)})
        await alter(stage, stage.toy.dead_letters, {"max.message.bytes": str(2 << 20)})
        value = b"0123456789" * (1 << 20)
        async with writing(stage.bootstrap, max_request_size=12 << 20) as producer:
            await producer.send_and_wait(stage.toy.orders, value, key=b"big", partition=0)
        await stage.toy.produce(stage.bootstrap, orders(3))
        worker = await stage.start()
        await until(lambda: sum(p.stats.records for p in worker.partitions.values()) == 7)
        [dead] = await stage.read(stage.toy.dead_letters)
        about = dict(dead.headers)
        assert dead.value == value[:1_000_000]
        assert about["dead-cut-from-bytes"] == b"%d" % len(value)
        assert about["dead-sha256"] == hashlib.sha256(value).hexdigest().encode()
        assert await stage.paid() == names(3)


class TestTooLarge:
    async def test_a_state_that_outgrows_the_changelog_buries_exactly_the_guilty_record(self, stage):
        """The toy's state grows with every event of its order: the first that does not fit is buried, the rest goes on."""
        many = [Event(f"{n}:{'x' * 200}", "hot", ORDER, 1) for n in range(40)]
        await stage.toy.produce(stage.bootstrap, [*many, *orders(5)])
        worker = await stage.start(record_bytes=5000)
        await until(lambda: sum(p.stats.records for p in worker.partitions.values()) == 50)
        dead = await stage.read(stage.toy.dead_letters)
        seen = (await stage.states())["hot"].seen
        assert seen == tuple(event.id for event in many[: len(seen)])
        assert [msgspec.json.decode(record.value)["id"] for record in dead] == [e.id for e in many[len(seen) :]]
        assert {dict(record.headers)["dead-kind"] for record in dead} == {b"too_large"}
        assert 15 < len(seen) < 25
        assert await stage.paid() == names(5)

    async def test_due_times_of_work_that_is_done_again_are_not_lost(self, stage):
        """The record that outgrows its row comes after a due time: both are looked at twice, and fire or fail once."""
        stage.toy = dataclasses.replace(stage.toy, due_ms=60_000)
        for topic in stage.toy.inputs:
            await alter(stage, topic, {"message.timestamp.type": "CreateTime"})
        now = int(time.time() * 1000)
        worker = await stage.start(record_bytes=5000)
        await send_at(stage, Event("a", "late", ORDER, 1), now)
        await until(lambda: sum(p.stats.records for p in worker.partitions.values()) == 1)
        await send_at(stage, Event("x" * 5000, "hot", ORDER, 1), now + 120_000)
        await until(lambda: sum(p.stats.records for p in worker.partitions.values()) == 2)
        assert (await stage.states())["late"].seen == ("a", f"@due:{now + 60_000}")
        assert len(await stage.read(stage.toy.discrepancies)) == 1
        assert len(await stage.read(stage.toy.dead_letters)) == 1

    async def test_the_engines_limit_keeps_every_record_within_the_topics_limit(self, stage):
        """A topic takes `max.message.bytes` with the batch's header included; the limit given to the engine is the same number."""
        limit = 3000
        for topic in (stage.toy.changelog, stage.toy.discrepancies):
            await alter(stage, topic, {"max.message.bytes": str(limit)})
        topology = stage.toy.topology(
            route=lambda message, _cause: dataclasses_replace(stage.toy.route(message, None), limit, message)
        )
        events = [Event("first", "k", ORDER, 1)] + [Event(f"{n}", "k", ORDER, 2) for n in range(200)]
        await stage.toy.produce(stage.bootstrap, events)
        worker = stage.begin(topology, record_bytes=limit, batch=1, watch=60.0)
        await worker.ready()
        await until(lambda: worker.ends or sum(p.stats.records for p in worker.partitions.values()) == len(events))
        assert worker.ends == []
        sizes = {len(record.value) for record in await stage.read(stage.toy.discrepancies)}
        assert max(sizes) > limit - 250
        assert len(await stage.read(stage.toy.dead_letters)) > 0

    async def test_a_record_too_large_for_its_topic_stops_the_worker_and_says_so(self, stage):
        """The engine was told a wrong limit: going on would only repeat it."""
        await alter(stage, stage.toy.changelog, {"max.message.bytes": "700"})
        await stage.toy.produce(stage.bootstrap, [Event("x" * 900, "o", ORDER, 1)])
        code, why = await stage.begin().ended()
        assert code is Exit.STATE_UNKNOWN
        assert "MessageSizeTooLarge" in why


def dataclasses_replace(outgoing, limit, message):
    """The same message with a value whose length grows with the order's trail, up to the limit."""
    number = int(message.id.split("/")[1])
    return outgoing._replace(value=b"." * (limit - 300 + number * 2))


async def send_at(stage, event, timestamp_ms):
    async with writing(stage.bootstrap) as producer:
        value = msgspec.json.encode(event)
        await producer.send_and_wait(
            stage.toy.orders, value, key=event.order.encode(), partition=0, timestamp_ms=timestamp_ms
        )


async def alter(stage, topic, config):
    """Set a topic's configuration on top of the toy's own, and wait until the broker goes by it."""
    own = COMPACTED if topic == stage.toy.changelog else LOG_APPEND_TIME if topic in stage.toy.inputs else {}
    async with stage.admin() as client:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {**own, **config})
        [response] = await client.alter_configs([resource])
        assert [resource[0] for resource in response.resources] == [0]

        async def in_force():
            [found] = await client.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
            has = {entry[0]: entry[1] for entry in found.resources[0][4]}
            return all(has[name] == value for name, value in config.items())

        await until(in_force)


class TestUpstream:
    async def test_an_open_transaction_upstream_is_said_and_what_follows_it_comes_through_once_it_ends(self, stage):
        worker = await stage.start(upstream=1.0)
        upstream = AIOKafkaProducer(bootstrap_servers=stage.bootstrap, transactional_id=f"{stage.toy.prefix}-upstream")
        await upstream.start()
        event = msgspec.json.encode(Event("a", "held", ORDER, 5))
        with capture_logs() as lines:
            await upstream.begin_transaction()
            held = await upstream.send_and_wait(stage.toy.orders, event, key=b"held")
            await stage.toy.produce(stage.bootstrap, orders(20))
            await until(lambda: [line for line in lines if "held back" in line["event"]])
        [line, *_] = [line for line in lines if "held back" in line["event"]]
        assert (line["log_level"], line["topic"], line["partition"]) == ("error", stage.toy.orders, held.partition)
        assert line["stable"] == held.offset
        assert "abort" in line["fix"]
        assert not worker.ends
        assert worker.worker.ready
        await upstream.abort_transaction()
        await upstream.stop()
        await until(lambda: sum(p.stats.records for p in worker.partitions.values()) == 40)
        assert await stage.paid() == names(20)
        assert "held" not in await stage.states()
        await until(lambda: not any(p.stalled for p in worker.partitions.values()))

    async def test_due_times_fire_while_an_input_is_held_back(self, stage):
        stage.toy = dataclasses.replace(stage.toy, due_ms=600)
        await stage.start()
        upstream = AIOKafkaProducer(bootstrap_servers=stage.bootstrap, transactional_id=f"{stage.toy.prefix}-upstream")
        await upstream.start()
        await stage.toy.produce(stage.bootstrap, [Event("a", "late", ORDER, 5)])
        where = (await stage.read(stage.toy.orders))[0].partition
        await upstream.begin_transaction()
        await upstream.send_and_wait(stage.toy.orders, b"{}", key=b"held", partition=where)
        await until(lambda: _read_is(stage, stage.toy.discrepancies, 1))
        await upstream.abort_transaction()
        await upstream.stop()

    async def test_an_aborted_event_is_never_seen(self, stage):
        upstream = AIOKafkaProducer(bootstrap_servers=stage.bootstrap, transactional_id=f"{stage.toy.prefix}-upstream")
        await upstream.start()
        await upstream.begin_transaction()
        await upstream.send_and_wait(stage.toy.orders, msgspec.json.encode(Event("a", "ghost", ORDER, 5)), key=b"ghost")
        await upstream.abort_transaction()
        await upstream.stop()
        await stage.toy.produce(stage.bootstrap, orders(5))
        worker = await stage.start()
        await until(lambda: sum(p.stats.records for p in worker.partitions.values()) == 10)
        assert sorted(await stage.states()) == names(5)


async def test_lag_is_what_is_committed_and_not_handled(stage):
    worker = await stage.start()
    await stage.toy.produce(stage.bootstrap, orders(10))
    await until(lambda: sum(p.stats.records for p in worker.partitions.values()) == 20)
    lags = [p.lag() for p in worker.partitions.values()]
    assert lags == [{stage.toy.orders: 0, stage.toy.payments: 0}] * 2
    partition = worker.partitions[0]
    partition.offsets = {**partition.offsets, stage.toy.orders: partition.offsets[stage.toy.orders] - 2}
    assert partition.lag()[stage.toy.orders] == 2
    partition.ready.clear()
    assert partition.lag() == {}
    partition.ready.set()


async def test_group_offsets_are_reported_for_lag_tools(stage):
    worker = await stage.start()
    await stage.toy.produce(stage.bootstrap, orders(10))
    await until(lambda: sum(p.stats.records for p in worker.partitions.values()) == 20)
    ends = {topic: await stage.ends(topic) for topic in stage.toy.inputs}

    async def reported():
        logs = [TopicPartition(topic, n) for topic in stage.toy.inputs for n in range(2)]
        found = await worker.worker.reported(logs)
        return found == {log: ends[log.topic][log.partition] for log in logs}

    await until(reported)
