"""Fault runs of the projector, each from its seed: killed at any statement, beside a second one, while Postgres dies, lines are cut
and books are rebuilt. At the end every table must be what an independent reader makes of the topics.

    python -m tests.faults.projector --seeds "1 2 3"        or --seeds 1-20

Every incarnation is a consumer group of its own, so a new one never waits for the dead to be missed, and two of them write the same
partitions at once: only the rows of the offsets stand between them. The projector reaches Postgres through a proxy; rebuilds go straight.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from pathlib import Path  # noqa: TC003  dataclasses read the annotation
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from aiokafka import AIOKafkaProducer

from streams.agents import sealing
from streams.app import engine_config
from streams.dev import ports
from streams.dev.postgres import PostgresServer
from streams.settings import Settings
from streams.topics import Topics, create
from tests.support import services
from tests.support.books import expected, read_topics, wait_written
from tests.support.books_oracle import Rows, differences
from tests.support.databases import books
from tests.support.decided import history, produce
from tests.support.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

ORDERS = 60
FAULTS = 8
STATEMENTS = 70
"""About as many as a projector makes until it has written a few batches."""
DIES_WITHIN_S = 6.0
WRITTEN_WITHIN_S = 90.0


@dataclass
class Run:
    """One seed's projectors, Postgres and line."""

    seed: int
    bootstrap: str
    server: PostgresServer
    dsn: str
    proxy: Proxy
    folder: Path
    chance: random.Random = field(init=False)
    alive: list[subprocess.Popen[bytes]] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    incarnations: Any = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        self.chance = random.Random(f"projector {self.seed}")
        self.prefix = f"f{self.seed}x{os.getpid()}."
        self.topics = Topics.load(prefix=self.prefix, replication=1, partitions=2)
        (self.folder / "keys").write_text(base64.b64encode(bytes(range(32))).decode())

    def env(self, dsn: str, **more: str) -> dict[str, str]:
        return {
            **os.environ, "CONCORD_KAFKA": self.bootstrap, "CONCORD_TOPIC_PREFIX": self.prefix, "CONCORD_POSTGRES": dsn,
            "CONCORD_RAW_KEY": str(self.folder / "keys"), "CONCORD_SESSION_SECONDS": "6",
            "CONCORD_GROUP": f"{self.prefix}{next(self.incarnations)}", "CONCORD_WEB_PORT": str(ports.free(1)[0]), **more,
        }  # fmt: skip

    def start(self, *command: str, dsn: str | None = None, **more: str) -> subprocess.Popen[bytes]:
        line = urlsplit(self.dsn)._replace(netloc=f"postgres@{self.proxy.address}").geturl()
        with (self.folder / "log").open("ab") as log:
            one = subprocess.Popen(
                [sys.executable, *command],
                env=self.env(dsn or line, **more),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.alive.append(one)
        return one

    def projector(self) -> subprocess.Popen[bytes]:
        return self.start("-m", "streams", "projector")

    # -- faults

    async def dies_at_a_statement(self) -> None:
        """Another one is started, which ends at a statement; then one that goes on."""
        at, when = self.chance.randrange(1, STATEMENTS), self.chance.choice(("before", "after"))
        self.told.append(f"dies {when} statement {at}")
        victim = self.start("-m", "tests.faults.victim", "projector", VICTIM_AT=str(at), VICTIM_WHEN=when)
        await until(lambda: victim.poll() is not None, DIES_WITHIN_S)

    async def is_killed(self) -> None:
        one = self.projector()
        await asyncio.sleep(self.chance.uniform(1.0, 3.0))
        one.send_signal(signal.SIGKILL)
        self.told.append("killed")

    async def postgres_dies(self) -> None:
        """As by a power cut, in the middle of whatever is written."""
        self.told.append("Postgres dies")
        self.projector()
        await asyncio.sleep(self.chance.uniform(1.0, 2.5))
        await asyncio.to_thread(self.server.stop, mode="immediate")
        await asyncio.sleep(self.chance.uniform(0.0, 1.0))
        await asyncio.to_thread(self.server.start)

    async def line_is_cut(self) -> None:
        """After so many more bytes, which is in the middle of a copy more often than not."""
        self.projector()
        for _ in range(3):
            mark = self.proxy.forwarded + self.chance.randrange(2_000, 60_000)
            await until(lambda mark=mark: self.proxy.forwarded > mark, 2.5)
            self.proxy.cut(refuse=self.chance.random() < 0.3)
            self.told.append("line cut")
            await asyncio.sleep(0.2)
            self.proxy.restore()

    async def books_are_rebuilt(self) -> None:
        self.told.append("rebuild")
        self.start("-m", "streams", "projector", "rebuild", dsn=self.dsn)
        if self.chance.random() < 0.5:
            await self.dies_at_a_statement()

    async def a_second_one_writes_too(self) -> None:
        self.told.append("second")
        self.projector()
        await asyncio.sleep(self.chance.uniform(0.5, 2.0))

    # -- the run

    async def play(self) -> list[str]:
        """All faults while the history is produced; then what differs, in words."""
        await create({"bootstrap_servers": self.bootstrap}, self.topics)
        records = history(self.topics, ORDERS, self.seed, prefix=f"F{self.seed}-").records
        faults: Sequence[Callable[[], Awaitable[None]]] = (
            self.dies_at_a_statement, self.dies_at_a_statement, self.is_killed, self.postgres_dies, self.line_is_cut,
            self.books_are_rebuilt, self.a_second_one_writes_too,
        )  # fmt: skip
        plan = [*faults, *self.chance.choices(faults, k=max(0, FAULTS - len(faults)))]
        self.chance.shuffle(plan)
        producer = AIOKafkaProducer(bootstrap_servers=self.bootstrap, enable_idempotence=True)
        await producer.start()
        try:
            step = -(-len(records) // len(plan))
            for number, fault in enumerate(plan):
                await produce(producer, records[number * step : (number + 1) * step])
                await fault()
        finally:
            await producer.stop()
        return await self.judge()

    async def judge(self) -> list[str]:
        """Everything is healed, one projector more is started, and the tables are compared once they are as far as the topics."""
        self.proxy.restore()
        self.projector()
        config = engine_config(Settings.from_env(self.env(self.dsn)), self.topics)
        await wait_written(self.dsn, await read_topics(config, self.topics), WRITTEN_WITHIN_S)
        rebuilds = [one for one in self.alive if "rebuild" in one.args]  # type: ignore[operator]
        await until(lambda: all(one.poll() is not None for one in rebuilds), WRITTEN_WITHIN_S)
        codes = [one.poll() for one in rebuilds]
        self.told.append(f"rebuilds ended with {codes}")
        tables, records = await self._told_of_all(config)
        await wait_written(self.dsn, records, WRITTEN_WITHIN_S)
        wrong = await differences(self.dsn, tables, sealing.read(self.folder / "keys").open)
        wrong += [f"a rebuild ended with {code}" for code in codes if code in {None, 1}]
        return wrong + [f"{claim} was never told" for claim in _claims(tables) - _found(records)]

    async def _told_of_all(self, config: Any) -> tuple[dict[str, Rows], list[Any]]:
        """What the topics say, once every shared transaction is told, or the time is over."""
        deadline = time.monotonic() + DIES_WITHIN_S
        while True:
            records = await read_topics(config, self.topics)
            tables = expected(records, self.topics)
            if _claims(tables) <= _found(records) or time.monotonic() > deadline:
                return tables, records
            await asyncio.sleep(0.3)

    def end(self) -> None:
        for one in self.alive:
            if one.poll() is None:
                one.kill()
            one.wait(10)


def _claims(tables: dict[str, Rows]) -> set[tuple[str, str]]:
    return {(row["order_id"], row["transaction"]) for row in tables["shared_transactions"].values()}


def _found(records: list[Any]) -> set[tuple[str, str]]:
    events = [json.loads(record.value) for record in records if b'"finding"' in (record.value or b"")]
    return {(event["order_id"].replace("\0", "\ufffd"), event["transaction"]) for event in events}


async def until(condition: Callable[[], bool], within_s: float) -> bool:
    """Whether it became true in time."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.02)
    return True


async def run(seed: int, bootstrap: str, folder: Path) -> tuple[list[str], list[str]]:
    """One seed on a Postgres of its own: what differs at the end, and what was done to it."""
    folder.mkdir(parents=True, exist_ok=True)
    async with AsyncExitStack() as stack:
        server = await asyncio.to_thread(PostgresServer(folder / "postgres").start)
        stack.push_async_callback(asyncio.to_thread, server.wipe)
        dsn = await stack.enter_async_context(books(server.dsn))
        proxy = await stack.enter_async_context(Proxy((ports.HOST, server.port)))
        one = Run(seed, bootstrap, server, dsn, proxy, folder)
        stack.callback(one.end)
        return await one.play(), one.told


def seeds(text: str) -> list[int]:
    """`1 5 7` or `1-20`."""
    first, _, last = text.partition("-")
    return list(range(int(first), int(last) + 1)) if last else [int(part) for part in text.split()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=seeds, default=seeds("1-20"))
    wrong = 0
    with ExitStack() as stack:
        kafka = stack.enter_context(services.shared_kafka())
        for seed in parser.parse_args().seeds:
            folder = services.fresh_folder(f"projector-{seed}")
            began = time.monotonic()
            found, told = asyncio.run(run(seed, kafka.bootstrap, folder))
            print(
                f"seed {seed}: {len(found)} differences in {time.monotonic() - began:.0f} s ({', '.join(told)})",
                flush=True,
            )
            for line in found[:20]:
                print(f"    {line}")
            if found:
                print(f"    again: python -m tests.faults.projector --seeds {seed}; its log: {folder / 'log'}")
            else:
                shutil.rmtree(folder, ignore_errors=True)
            wrong += bool(found)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
