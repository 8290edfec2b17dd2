"""The whole loop: gateway, worker and connector as processes of their own around a simulator, and the oracle over what they made of it.

The worker runs under the channels' own contracts with shorter times (`QUICK`), so that what takes hours takes seconds. The oracle
knows the simulator's ledger and reads the topics; it asks none of the three.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
from aiokafka import AIOKafkaProducer
from msgspec.structs import replace

from streams import log as logs
from streams import proof
from streams.agents import payments
from streams.app import engine_config
from streams.channels.contracts import shipped
from streams.cli.simulate import write_credentials
from streams.dev import ports
from streams.domain.events import CreatePayment, StartPayment
from streams.engine.membership import Worker
from streams.settings import Settings
from streams.simulator.server import Simulator, play
from streams.topics import Topics, create

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from streams.domain.contract import Contract
    from streams.simulator.faults import Rates

CURRENCY = {"alipay": "CNY", "wechatpay": "CNY"}
FINAL = frozenset({"SUCCESS", "FAIL", "CLOSED", "VOIDED"})
DETAILS = {"stripe": {"payment_method": "pm_test"}}
READY_S = 60.0


def quick(contract: Contract) -> Contract:
    """The same promises, with our own waiting cut to seconds."""
    query = contract.query
    if query is not None and query.not_found_after_s is not None:
        query = replace(query, not_found_after_s=2)
    return replace(
        contract, query=query, lease_s=4, query_after_s=(4, 8, 12), query_max_delay_s=8, query_window_s=600, most_queries=100,
        query_jitter_pct=12,
    )  # fmt: skip


QUICK = {name: quick(contract) for name, contract in shipped().items()}


@dataclass
class Verdict:
    """What the oracle found. `wrong` is empty in a good run."""

    charges: int
    paid: int
    acknowledged: int
    by_query: int
    denied: int
    """Charges that the channel itself called failed, and of whose success nobody was ever told: only its bill can show them."""
    wrong: list[str] = field(default_factory=list)


@dataclass
class Loop:
    """One loop on a broker. `channels` are played by one simulator, in this process."""

    bootstrap: str
    prefix: str
    folder: Path
    channels: list[str]
    rates: Rates
    seed: int = 7
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    payments: dict[str, str] = field(default_factory=dict)
    """payment_no -> `channel:account`"""
    instead: dict[str, list[str]] = field(default_factory=dict)
    """Another program to start under a process's name."""
    open: list[str] = field(default_factory=list)
    """Payments that had not come to their end when `settled` returned."""

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        simulated, gateway, metrics, worker = ports.free(4)
        self.ports = {"simulator": simulated, "gateway": gateway, "connector": metrics, "worker": worker}
        self.env = {
            "CONCORD_KAFKA": self.bootstrap,
            "CONCORD_TOPIC_PREFIX": self.prefix,
            "CONCORD_REPLICATION": "1",
            "CONCORD_SESSION_SECONDS": "6",
            "CONCORD_CHANNELS": str(self.folder / "channels.yaml"),
            "CONCORD_GATEWAY_PORT": str(gateway),
            "CONCORD_WEB_PORT": str(metrics),
        }
        self.settings = Settings.from_env(self.env)
        self.topics = Topics.load(prefix=self.prefix, replication=1)
        played = [play(name, self.seed, self.of(name)) for name in self.channels]
        self.simulator = Simulator(played, f"http://127.0.0.1:{gateway}", speed=20.0)
        accounts = [
            {
                "channel": one.channel,
                "account": one.account,
                "credentials": f"file:{write_credentials(one, self.folder).name}",
                "endpoint": f"http://127.0.0.1:{simulated}/{one.channel}",
            }
            for one in played
        ]
        (self.folder / "channels.yaml").write_text(json.dumps({"accounts": accounts}))

    def of(self, channel: str) -> Rates:
        """What goes wrong at a channel. One that answers no query repeats a notice until it is acknowledged; if it did not, only its
        bill would show the charge."""
        is_asked = shipped()[channel.partition(":")[0]].query is not None
        return self.rates if is_asked else replace(self.rates, drop=0.0)

    # -- processes

    def start(self, name: str) -> None:
        """Start `gateway`, `worker` or `connector`."""
        module = ["streams", name] if name != "worker" else ["tests.support.loop"]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                self.instead.get(name) or [sys.executable, "-m", *module],
                env={**os.environ, **self.env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self, name: str) -> None:
        """SIGKILL."""
        self.processes[name].send_signal(signal.SIGKILL)
        self.processes[name].wait()

    def end(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()

    # -- traffic

    async def pay(self, count: int, *, rate: float) -> None:
        """Create and start payments, spread over the channels, so many a second."""
        producer = AIOKafkaProducer(bootstrap_servers=self.bootstrap, enable_idempotence=True)
        await producer.start()
        began = time.monotonic()
        try:
            for number in range(count):
                channel = self.channels[number % len(self.channels)]
                played = self.simulator.played[channel.partition(":")[0]]
                account = f"{played.channel}:{played.account}"
                order, payment = f"order-{number}", f"pay{self.seed}x{number:06}"
                about = {"order_id": order, "payment_no": payment}
                money = {"amount": 1000 + number, "currency": CURRENCY.get(played.channel, "USD")}
                commands = [
                    CreatePayment(command_id=f"{order}-c", biz_code="SHOP", channel=account, **about, **money),
                    StartPayment(command_id=f"{order}-s", details=DETAILS.get(played.channel, {}), **about),
                ]
                for command in commands:
                    await producer.send(self.topics["commands"], msgspec.json.encode(command), key=order.encode())
                self.payments[payment] = account
                await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
            await producer.flush()
        finally:
            await producer.stop()

    # -- the oracle

    async def read(self, *names: str) -> dict[str, list[Any]]:
        found = await proof.read(
            engine_config(self.settings, self.topics), [self.topics[name] for name in names], self.topics.partitions
        )
        return {name: found[self.topics[name]] for name in names}

    async def states(self) -> dict[str, str]:
        """payment_no -> the last state that the trade domain was told."""
        updates = [json.loads(record.value) for record in (await self.read("updates"))["updates"]]
        return {one["payment_no"]: one["state"] for one in updates if one["type"] == "payment_update"}

    async def settled(self, within_s: float) -> Counter[str]:
        """Wait until nothing is open that money depends on; returns the states after that, or at the end of the time.

        A payment that was never charged may stay UNKNOWN: no channel but the simulated one promises that "not found" proves anything.
        """
        deadline = time.monotonic() + within_s
        while True:
            states = await self.states()
            charged = {charge["payment_no"] for charge in self.simulator.truth()["charges"]}
            self.open = [
                one
                for one in self.payments
                if (state := states.get(one, "none")) not in FINAL and (state != "UNKNOWN" or one in charged)
            ]
            waiting = self.simulator.notifier.waiting if self.simulator.notifier else 0
            if (not self.open and not waiting) or time.monotonic() > deadline:
                return Counter(
                    f"{self.payments[one].partition(':')[0]} {states.get(one, 'none')}" for one in self.payments
                )
            await asyncio.sleep(1.0)

    async def stories(self, payments: list[str]) -> list[str]:
        """Everything that was decided about some payments, as JSON lines in the order of its making."""
        told = await self.read("decisions", "channel-requests")
        wanted = [one.encode() for one in payments]
        lines = [record for topic in told.values() for record in topic if any(one in record.value for one in wanted)]
        return [record.value.decode() for record in sorted(lines, key=lambda record: record.timestamp)]

    async def judge(self) -> Verdict:
        """Hold what was decided against what really happened."""
        truth = self.simulator.truth()
        found = await self.read("success", "discrepancies", "channel-callbacks", "decisions")
        charged: dict[str, set[str]] = defaultdict(set)
        for charge in truth["charges"]:
            if charge["word"] == "SUCCESS":
                charged[charge["payment_no"]].add(charge["transaction"])
        announced = Counter(json.loads(record.value)["payment_no"] for record in found["success"])
        late = {
            one["payment_no"]
            for record in found["discrepancies"]
            if (one := json.loads(record.value))["kind"] == "LATE_SUCCESS"
        }
        wrong = [f"{payment} was charged {len(many)} times" for payment, many in charged.items() if len(many) > 1]
        states, denied = await self.states(), set()
        lies = {charge["payment_no"] for charge in truth["charges"] if charge["denied"]}
        for payment in charged:
            verdicts = announced[payment] + (payment in late and not announced[payment])
            if not verdicts and payment in lies and states.get(payment) in {"FAIL", "CLOSED"}:
                denied.add(payment)
            elif verdicts != 1:
                wrong.append(f"{payment} at {self.payments.get(payment)} was charged and has {verdicts} verdicts")
        wrong += [f"{payment} was announced and not charged" for payment in announced if payment not in charged]
        stored = {
            raw["sha256"]
            for record in found["channel-callbacks"]
            if (raw := json.loads(record.value).get("raw")) is not None
        }
        lost = [sha256 for sha256 in truth["acknowledged"] if sha256 not in stored]
        wrong += [f"an acknowledged notice is not in Kafka: {sha256}" for sha256 in lost]
        decisions = [json.loads(record.value) for record in found["decisions"]]
        first = {one["payment_no"]: one["source"] for one in reversed(decisions) if one.get("after") == "SUCCESS"}
        by_query = sum(source == "query" for source in first.values())
        return Verdict(len(charged), len(announced), len(truth["acknowledged"]), by_query, len(denied), wrong)


@asynccontextmanager
async def running(loop: Loop) -> AsyncIterator[Loop]:
    """The loop with everything started and ready, and ended afterwards."""
    await create(loop.settings.kafka, loop.topics)
    serving = asyncio.create_task(loop.simulator.serve("127.0.0.1", loop.ports["simulator"]))
    try:
        for name in ("worker", "gateway", "connector"):
            loop.start(name)
        await asyncio.to_thread(_ready, loop)
        yield loop
    finally:
        loop.end()
        loop.simulator.stop()
        await serving


def _ready(loop: Loop) -> None:
    """Wait for a line in each log that says that the process is at work."""
    marks = {"worker": b"open", "gateway": b"the links are read", "connector": b"partitions taken"}
    deadline = time.monotonic() + READY_S
    for name, mark in marks.items():
        log = loop.folder / f"{name}.log"
        while mark not in log.read_bytes():
            assert loop.processes[name].poll() is None, f"{name} ended: {log.read_text()[-2000:]}"
            assert time.monotonic() < deadline, f"{name} is not ready: {log.read_text()[-2000:]}"
            time.sleep(0.1)


async def _worker() -> None:
    settings = Settings.from_env()
    topics = Topics.load(prefix=settings.topic_prefix, replication=1)
    worker = Worker(payments.topology(topics, settings.group, QUICK_BY_ACCOUNT), engine_config(settings, topics))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
    await worker.run()


class _ByAccount(dict[str, Any]):
    """An account has the contract of its channel."""

    def get(self, key: str, default: Any = None) -> Any:
        return super().get(key.partition(":")[0], default)


QUICK_BY_ACCOUNT = _ByAccount(QUICK)

if __name__ == "__main__":
    logs.configure(level="info")
    asyncio.run(_worker())
