"""The cashier under a steady load: from a create to its decision, and a payment read beside a bare fetch of the same row.

`create` is 200 new payments a second: gateway, Kafka and `concord worker` are real processes, and the time is from the request to the
answer that tells what was decided. `read` is as many `GET /v1/payments/{payment_no}` a second of these payments, once a projector has
written them; `fetch` in the same run is the cashier's own statement for the same rows at the same rate, by a process that only asks
Postgres. Both are asked in turn. Everything shares the machine.

A broker that has just started is slow for its first fifteen seconds, until its JVM has compiled what it does; so the first creates are
reported apart, as `first`.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import subprocess
import sys
import time
from collections import Counter
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import asyncpg
import msgspec
import psutil
import uvloop

from stores import merchants, schema
from stores.books import Reader
from stores.pool import pool
from streams.dev import ports
from tests.benchmarks.gateway import client, cpu, process
from tests.support.cashier import new, secret_key
from tests.support.gateways import Channel
from tests.support.job import Job

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from streams.demo.workers import WorkerProcess

CHANNEL: Final = "simulator:acct_1"
RATE: Final = 200
SECONDS: Final = 10.0
WARM_S: Final = 20.0
ROUNDS: Final = 3
LINES: Final = 512
"""Connections: enough for answers that take two seconds, so that the rate holds whatever they take."""
WRITTEN_S: Final = 60.0


async def register(dsn: str) -> str:
    """The tables, a shop, and the header of its key."""
    key, header = secret_key("shop")
    now = datetime.now(UTC)
    connection = await asyncpg.connect(dsn)
    try:
        await schema.migrate(connection, now)
        await merchants.add(connection, "shop", secrets.token_bytes(32), 100_000, now)
        await merchants.add_key(connection, key, now)
        await merchants.set_limit(connection, "shop", "SALE", "USD", 100_000)
    finally:
        await connection.close()
    return header


def accounts(folder: Path) -> Path:
    """The one account, which is the shop's."""
    channel = Channel("simulator")
    (folder / "simulator.json").write_text(json.dumps(channel.credentials))
    listed = {
        "channel": channel.name,
        "account": channel.account,
        "merchant": "shop",
        "credentials": "file:simulator.json",
    }
    path = folder / "channels.yaml"
    path.write_text(json.dumps({"accounts": [listed]}))
    return path


def creates(header: str, prefix: str, number: int) -> list[bytes]:
    """Requests that each open a payment of an order of its own."""
    found = []
    for order in range(number):
        body = json.dumps(new(f"{prefix}-{order}", channel=CHANNEL)).encode()
        head = f"POST /v1/payments HTTP/1.1\r\nhost: x\r\nauthorization: {header}\r\ncontent-type: application/json\r\n"
        found.append(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
    return found


def reads(header: str, numbers: Sequence[str]) -> list[bytes]:
    return [
        f"GET /v1/payments/{number} HTTP/1.1\r\nhost: x\r\nauthorization: {header}\r\n\r\n".encode()
        for number in numbers
    ]


def drive(folder: Path, name: str, requests: list[bytes], port: int, seconds: float) -> dict[str, Any]:
    """These requests at the rate, by a client process."""
    (folder / f"{name}.requests").write_bytes(msgspec.msgpack.encode(requests))
    return client(folder, name, port, rate=RATE, connections=LINES, seconds=seconds)


async def written(dsn: str, number: int) -> list[str]:
    """The numbers of the payments, once so many are in the books."""
    connection = await asyncpg.connect(dsn)
    try:
        async with asyncio.timeout(WRITTEN_S):
            while await connection.fetchval("SELECT count(*) FROM books.payments") < number:
                await asyncio.sleep(0.2)
        return [row[0] for row in await connection.fetch("SELECT payment_no FROM books.payments ORDER BY 1")]
    finally:
        await connection.close()


async def fetching(dsn: str, numbers: Sequence[str], seconds: float) -> dict[str, Any]:
    """The rows at the rate, through a pool as the gateway has it; milliseconds."""
    times: list[float] = []
    async with pool(dsn) as connections:
        reader = Reader(connections)

        async def one(number: str) -> None:
            began = time.perf_counter()
            assert await reader.payment("shop", number) is not None
            times.append(time.perf_counter() - began)

        async with asyncio.TaskGroup() as group:
            began, sent = time.perf_counter(), 0
            while (now := time.perf_counter()) - began < seconds:
                for _ in range(int((now - began) * RATE) - sent):
                    group.create_task(one(numbers[sent % len(numbers)]))
                    sent += 1
                await asyncio.sleep(0.002)
    times.sort()
    return {"p50_ms": 1000 * times[len(times) // 2], "p99_ms": 1000 * times[int(len(times) * 0.99)]}


def fetch(folder: Path, dsn: str, numbers: Sequence[str]) -> dict[str, Any]:
    """By a process of its own, as the gateway is one."""
    plan = folder / "fetch.json"
    plan.write_text(json.dumps({"dsn": dsn, "numbers": numbers, "seconds": SECONDS}))
    ran = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.cashier", str(plan)],
        capture_output=True, check=True, timeout=SECONDS + 60,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


async def measure(bootstrap: str, dsn: str, folder: Path) -> dict[str, Any]:
    """Milliseconds of each part, and what the gateway and the worker computed in it, as shares of one core."""
    folder.mkdir(parents=True, exist_ok=True)
    job = Job(bootstrap, f"c{os.getpid()}x{secrets.token_hex(2)}.", folder)
    header = await register(dsn)
    await job.create()
    port, second = ports.free(2)
    env = {
        **job.env,
        "CONCORD_POSTGRES": dsn,
        "CONCORD_CHANNELS": str(accounts(folder)),
        "CONCORD_LOG_LEVEL": "warning",
    }
    async with AsyncExitStack() as stack:
        stack.callback(job.end)
        worker = await job.start(CONCORD_LOG_LEVEL="warning")
        gateway = stack.enter_context(
            process(["-m", "streams", "gateway", "--port", str(port)], env, port, folder / "gateway.log")
        )
        found = {
            "first": [drive(folder, "first", creates(header, "first", int(RATE * WARM_S)), port, WARM_S)],
            "create": [],
        }
        before = cpu(gateway), worker_cpu(worker)
        for number in range(ROUNDS):
            requests = creates(header, f"order{number}", int(RATE * SECONDS))
            found["create"].append(drive(folder, "create", requests, port, SECONDS))
        shares = [
            (after - then) / SECONDS / ROUNDS
            for after, then in zip((cpu(gateway), worker_cpu(worker)), before, strict=True)
        ]
        job.end()
        projector = ["-m", "streams", "projector", "--port", str(second)]
        with process(projector, env, second, folder / "projector.log", path="/metrics"):
            opened = sum(one["statuses"].get("201", 0) for part in found.values() for one in part)
            numbers = await written(dsn, opened)
        asked = reads(header, numbers)
        found |= {"fetch": [], "read": []}
        for _ in range(ROUNDS):
            found["fetch"].append(fetch(folder, dsn, numbers))
            found["read"].append(drive(folder, "read", asked, port, SECONDS))
    return found | {"gateway_cpu": shares[0], "worker_cpu": shares[1], "load": os.getloadavg()[0]}


def lines(found: dict[str, Any]) -> Iterator[str]:
    """A Markdown table: medians of the rounds, and their spread."""
    yield "| 200 a second | p50 ms | p99 ms | answers |"
    yield "| --- |" + " --- |" * 3
    for part in ("first", "create", "fetch", "read"):
        cells = []
        for key in ("p50_ms", "p99_ms"):
            values = [one[key] for one in found[part]]
            cells.append(f"{median(values):.1f} ({min(values):.1f} to {max(values):.1f})")
        statuses = sum((Counter(one.get("statuses", {})) for one in found[part]), Counter())
        yield f"| {part} | {' | '.join(cells)} | {', '.join(f'{n} x {s}' for s, n in statuses.items())} |"
    yield f"CPU of creates: gateway {found['gateway_cpu']:.0%}, worker {found['worker_cpu']:.0%} of a core; load {found['load']:.1f}"


def worker_cpu(worker: WorkerProcess) -> float:
    assert worker.process is not None
    return cpu(psutil.Process(worker.process.pid))


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:  # noqa: PTH123
        given = json.load(file)
    print(json.dumps(uvloop.run(fetching(given["dsn"], given["numbers"], given["seconds"]))))
