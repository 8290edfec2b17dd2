"""The product itself under load: `concord worker` drains the demonstration's traffic, then follows it at a steady rate.

Measured from outside: events by its own /metrics, CPU and memory by the operating system, latency by a read_committed consumer of the
success topic. One broker, one worker process.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psutil
from aiokafka import AIOKafkaProducer, TopicPartition

from streams.demo.traffic import traffic
from streams.dev import ports
from streams.engine.config import Config
from streams.engine.recovery import reading
from streams.topics import Topics, create

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streams.demo.traffic import Sent

EVENTS: Final = re.compile(r"^concord_events_total\{[^}]*\} ([0-9.e+]+)$", re.MULTILINE)
SEED: Final = 20


@dataclass
class Measured:
    """One worker process, watched."""

    process: subprocess.Popen[bytes]
    port: int

    def events(self) -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=2) as answer:
                return int(sum(float(number) for number in EVENTS.findall(answer.read().decode())))
        except OSError:
            return 0

    def cpu(self) -> float:
        times = psutil.Process(self.process.pid).cpu_times()
        return times.user + times.system

    def peak_mib(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", status).group(1)) / 1024  # type: ignore[union-attr]


def start(bootstrap: str, prefix: str, table: str, state: Path, log: Path) -> Measured:
    port = ports.free(1)[0]
    env = {
        **os.environ,
        "CONCORD_KAFKA": bootstrap,
        "CONCORD_TOPIC_PREFIX": prefix,
        "CONCORD_REPLICATION": "1",
        "CONCORD_TABLE": table,
        "CONCORD_STATE_DIR": str(state),
        "CONCORD_LOG_LEVEL": "warning",
    }
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "streams", "worker", "--port", str(port)],
            env=env,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    return Measured(process, port)


async def fill(bootstrap: str, topics: Topics, records: Sequence[Sent]) -> None:
    """Produce as fast as it goes."""
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, enable_idempotence=True, linger_ms=20, max_batch_size=1 << 18
    )
    await producer.start()
    for record in records:
        await producer.send(topics[record.topic], record.value, key=record.key)
    await producer.stop()


async def latencies(bootstrap: str, topics: Topics, orders: set[bytes], wanted: asyncio.Event) -> dict[bytes, float]:
    """When each order's success became readable."""
    config = Config(kafka={"bootstrap_servers": bootstrap})
    logs = [TopicPartition(topics["success"], number) for number in range(topics.partitions)]
    seen: dict[bytes, float] = {}
    async with reading(config, "read_committed", [topics["success"]]) as client:
        ends = await client.end_offsets(logs)
        client.assign(logs)
        for log in logs:
            client.seek(log, ends[log])
        wanted.set()
        while orders - seen.keys():
            for records in (await client.getmany(timeout_ms=100)).values():
                seen.update({record.key: time.time() for record in records})
    return seen


async def steady(bootstrap: str, topics: Topics, worker: Measured, rate: int, seconds: float) -> dict[str, Any]:
    """Latency and CPU at a steady rate: only lives that end with the event that pays, so that sending is the beginning."""
    made = traffic(int(seconds * rate / 5), SEED + 1, prefix=f"STEADY-{time.time():.0f}")
    whole = [record for record in made.records if record.key and record.key.decode() in made.paid]
    paid = {record.key for record in whole if record.key}
    ready = asyncio.Event()
    reader = asyncio.create_task(latencies(bootstrap, topics, paid, ready))
    await ready.wait()
    cpu, began = worker.cpu(), time.monotonic()
    sent = await send(bootstrap, topics, whole, rate)
    used, took = worker.cpu() - cpu, time.monotonic() - began
    seen = await asyncio.wait_for(reader, 60)
    # The record that completes an order may be any of its events; the latest of those before the success was readable is the cause.
    waits = sorted(
        (seen[key] - max(at for at in times if at <= seen[key])) * 1000 for key, times in sent.items() if key in seen
    )
    return {
        "p50_ms": round(waits[len(waits) // 2], 1),
        "p99_ms": round(waits[int(len(waits) * 0.99)], 1),
        "cpu_percent": round(used / took * 100, 1),
        "successes": len(waits),
    }


async def send(bootstrap: str, topics: Topics, records: Sequence[Sent], rate: int) -> dict[bytes, list[float]]:
    """Produce at a rate; the times of every record of each key."""
    times: dict[bytes, list[float]] = {}
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=0)
    await producer.start()
    began = time.monotonic()
    for number, record in enumerate(records):
        if (ahead := number / rate - (time.monotonic() - began)) > 0:
            await asyncio.sleep(ahead)
        times.setdefault(record.key or b"", []).append(time.time())
        await producer.send(topics[record.topic], record.value, key=record.key)
    await producer.stop()
    return times


async def measure(
    bootstrap: str, folder: Path, *, orders: int, table: str, rate: int, seconds: float
) -> dict[str, Any]:
    """Drain, then follow. Events/s, CPU seconds per 100,000 events, peak RSS in MiB, latency in ms."""
    prefix = f"law-{int(time.time() * 1000)}."
    topics = Topics.load(prefix=prefix, replication=1)
    await create({"bootstrap_servers": bootstrap}, topics)
    made = traffic(orders, SEED)
    await fill(bootstrap, topics, made.records)
    total = len(made.records)
    worker = start(bootstrap, prefix, table, folder / prefix, folder / f"{prefix}log")
    try:
        first = await until(worker, 1)
        cpu = worker.cpu()
        last = await until(worker, total)
        result = {
            "table": table,
            "events": total,
            "events_per_s": round((total - first[1]) / (last[0] - first[0])),
            "cpu_s_per_100k": round((worker.cpu() - cpu) / (total - first[1]) * 1e5, 2),
            "peak_rss_mib": round(worker.peak_mib()),
        }
        if seconds:
            result |= await steady(bootstrap, topics, worker, rate, seconds)
    finally:
        worker.process.send_signal(signal.SIGTERM)
        worker.process.wait(30)
    return result


async def until(worker: Measured, number: int, within: float = 180.0) -> tuple[float, int]:
    """Wait until so many events were handled; (when, how many)."""
    deadline = time.monotonic() + within
    while True:
        events = await asyncio.to_thread(worker.events)
        if events >= number:
            return time.monotonic(), events
        if worker.process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the worker handled {events} of {number} events; exit code {worker.process.poll()}")
        await asyncio.sleep(0.05)
