"""A gateway of a test's own, in a process, behind a line that can be spoilt; signed notices for it; and what it stored."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import httpx
from aiokafka import AIOKafkaConsumer, TopicPartition

from streams.channels import credentials, registry
from streams.channels.adapter import Received
from streams.channels.contracts import shipped
from streams.dev import ports
from streams.domain.events import Unmapped
from streams.simulator.dialect import Fact
from tests.support.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from pathlib import Path

    from streams.simulator.dialect import Delivery
    from streams.topics import Topics

WITHIN_S = 30.0
ACCOUNT = "acct_1"
CHINESE = ("alipay", "wechatpay", "unionpay")
CARD_ISSUERS = ("marqeta", "lithic")


def until(what: str, holds: Callable[[], Any], within_s: float = WITHIN_S) -> Any:
    """Wait for a condition; fails by its name."""
    deadline = time.monotonic() + within_s
    while not (found := holds()):
        assert time.monotonic() < deadline, f"{what} did not come true in {within_s} s"
        time.sleep(0.02)
    return found


class Loop:
    """An event loop in a thread, for what must go on while a test blocks."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(WITHIN_S)

    def soon(self, work: Callable[[], Any]) -> None:
        async def now() -> None:
            work()

        self.run(now())

    def end(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(WITHIN_S)
        self.loop.close()


@dataclass
class Channel:
    """One channel as a test speaks for it: its dialect with keys of the test's own."""

    name: str
    account: str = ACCOUNT
    seed: int = 1

    def __post_init__(self) -> None:
        self.dialect, self.adapter = registry.dialect(self.name), registry.adapter(self.name)
        self.contract = shipped()[self.name]
        self.secrets, self.credentials = self.dialect.secrets(self.seed)

    def fact(self, number: str, **given: Any) -> Fact:
        about = "card" if self.name in CARD_ISSUERS else "payment"
        plain = {
            "about": about, "word": "SUCCESS", "event_id": f"evt_{number}", "order_id": f"order-{number}",
            "payment_no": f"pay-{number}", "transaction": f"txn-{number}", "amount": 1099,
            "currency": "CNY" if self.name in CHINESE else "USD", "at": datetime.now(UTC).replace(microsecond=0),
        }  # fmt: skip
        return Fact(**{**plain, **given})

    def notice(self, number: str, *, at: datetime | None = None, account: str = "", **given: Any) -> Delivery:
        now = at or datetime.now(UTC)
        fact = self.fact(number, **given)
        return self.dialect.notice(self.secrets, fact, account or self.account, now, self.contract)

    def unmappable(self, number: str) -> Delivery | None:
        """A signed notice that the adapter cannot map, if the dialect has words for one."""
        keys = credentials.keys(self.adapter, json.dumps(self.credentials))
        empty = {"order_id": "", "payment_no": ""}
        tries: list[dict[str, Any]] = [
            {"about": about, "word": word, **extra}
            for extra in (empty, {"account": "somebody-else"}, {"currency": "ZZZ"})
            for about in ("dispute", "void", "capture", "card", "refund", "payment")
            for word in ("NOT_FOUND", "REFUSED", "CLOSED", "AUTHORIZED", "SUCCESS")
        ]
        for given in tries:
            try:
                found = self.notice(number, **given)
            except (LookupError, ValueError, TypeError, AssertionError):
                continue  # the dialect has no words for it
            received = Received(found.headers, found.body, self.account, datetime.now(UTC))
            events = [one.event for one in self.adapter.events(keys, received, self.contract)]
            if events and all(isinstance(event, Unmapped) for event in events):
                return found
        return None


@dataclass
class GatewayProcess:
    """`concord gateway` in a session of its own."""

    folder: Path
    env: Mapping[str, str]
    channels: list[Channel]
    port: int = 0
    process: subprocess.Popen[bytes] | None = None
    name: str = "gateway"

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    def write_accounts(self) -> Path:
        accounts = []
        for channel in self.channels:
            file = self.folder / f"{channel.name}.json"
            file.write_text(json.dumps(channel.credentials))
            accounts.append({"channel": channel.name, "account": channel.account, "credentials": f"file:{file.name}"})
        path = self.folder / "channels.yaml"
        path.write_text(json.dumps({"accounts": accounts}))
        return path

    def start(self) -> None:
        self.port = self.port or ports.free(1)[0]
        settings = {"CONCORD_CHANNELS": str(self.write_accounts()), **self.env}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "streams", "gateway", "--port", str(self.port)],
                env={**os.environ, **settings},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=WITHIN_S)
        self.wait_ready()

    def ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text()[-3000:]
        try:
            return self.client.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def wait_ready(self) -> None:
        until(f"the gateway is ready (see {self.log})", self.ready)

    def post(self, channel: Channel, found: Delivery, trace: str = "", **headers: str) -> httpx.Response:
        sent = {**found.headers, **({"traceparent": trace} if trace else {}), **headers}
        return self.client.post(f"/callbacks/{channel.name}/{channel.account}", content=found.body, headers=sent)

    def stop(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(WITHIN_S)

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.process is not None:
            self.client.close()


class Shelf:
    """What lies in Kafka: every record of some topics, read again to their ends whenever it is asked."""

    def __init__(self, loop: Loop, bootstrap: str, topics: Topics, *names: str) -> None:
        self._loop = loop
        self._places = [TopicPartition(topics[name], number) for name in names for number in range(topics.partitions)]
        self._names = {topics[name]: name for name in names}
        self.records: list[Any] = []
        self._consumer: Any = loop.run(self._open(bootstrap))

    async def _open(self, bootstrap: str) -> Any:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap, enable_auto_commit=False, auto_offset_reset="earliest", fetch_max_wait_ms=50
        )
        await consumer.start()
        consumer.assign(self._places)
        return consumer

    async def _read(self) -> None:
        ends = await self._consumer.end_offsets(self._places)
        while any([await self._consumer.position(place) < ends[place] for place in self._places]):
            for records in (await self._consumer.getmany(timeout_ms=100)).values():
                self.records += records

    def of(self, trace: str) -> list[tuple[str, Any]]:
        """(logical topic, record) of everything stored under a trace, as of now."""
        self._loop.run(self._read())
        wanted = ("traceparent", trace.encode())
        return [(self._names[record.topic], record) for record in self.records if wanted in record.headers]

    def close(self) -> None:
        self._loop.run(self._consumer.stop())


class Line(Proxy):
    """The proxy, driven from a test that is not in its loop."""

    def __init__(self, loop: Loop) -> None:
        super().__init__()
        self.loop = loop
        loop.run(self.start())

    def close(self) -> None:
        self.loop.run(self.stop())
