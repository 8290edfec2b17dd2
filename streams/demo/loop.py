"""The whole loop as processes: gateway, worker and connector around a simulator that plays several channels, and who judges it.

The judge knows the simulator's ledger and reads the topics; it asks none of the three.
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
from typing import TYPE_CHECKING, Any, Final

import msgspec
from aiokafka import AIOKafkaProducer

from streams import proof
from streams.app import engine_config
from streams.channels.contracts import shipped
from streams.dev import ports
from streams.domain.events import CreatePayment, StartPayment
from streams.settings import Settings
from streams.simulator import accounts_file
from streams.simulator.server import Simulator, play
from streams.topics import Topics, create

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping
    from pathlib import Path

    from streams.simulator.faults import Rates

CURRENCY: Final = {"alipay": "CNY", "wechatpay": "CNY"}
WAITING: Final = frozenset({"PAYING", "UNKNOWN"})
FINAL: Final = frozenset({"SUCCESS", "FAIL", "CLOSED", "VOIDED"})
DETAILS: Final = {"stripe": {"payment_method": "pm_test"}}
READY_S: Final = 60.0
READY: Final = {"worker": b'"opened"', "gateway": b"the links are read", "connector": b"partitions taken"}
"""A line in each process's log that says that it is at work."""


class LoopError(RuntimeError):
    """A process of the loop that is not at work; the text names its log."""


class Update(msgspec.Struct):
    """What is read of a record of `payments.updates`."""

    type: str
    payment_no: str = ""
    state: str = ""


_update: Final = msgspec.json.Decoder(Update)


@dataclass
class Verdict:
    """What the judge found. The four lists are empty in a good run."""

    charged: int
    announced: int
    acknowledged: int
    """Notices that the gateway acknowledged."""
    by_query: int
    """Successes first learned by a query."""
    denied: int
    """Charges that the channel itself called failed, and of whose success nobody was ever told: only its bill can show them."""
    unheard: int
    """Charges at a channel that cannot be asked, whose answer was lost and whose notices were never sent: rightly still open."""
    twice: list[str] = field(default_factory=list)
    unfounded: list[str] = field(default_factory=list)
    without_verdict: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    @property
    def wrong(self) -> list[str]:
        return [
            *(f"{one} was charged more than once" for one in self.twice),
            *(f"{one} was announced and not charged" for one in self.unfounded),
            *(f"{one} was charged and has not one verdict" for one in self.without_verdict),
            *(f"an acknowledged notice is not in Kafka: {one}" for one in self.lost),
        ]


@dataclass
class Loop:
    """One loop on a broker. `kafka` are the settings that say how to reach it, as environment variables.

    `channels` are played by one simulator, in this process; distances between their redeliveries are divided by `speed`.
    """

    kafka: Mapping[str, str]
    prefix: str
    folder: Path
    channels: list[str]
    rates: Rates
    seed: int = 7
    speed: float = 20.0
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    started: Counter[str] = field(default_factory=Counter)
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
            **self.kafka,
            "CONCORD_TOPIC_PREFIX": self.prefix,
            "CONCORD_GROUP": f"{self.prefix}concord",
            "CONCORD_SESSION_SECONDS": "6",
            "CONCORD_CHANNELS": str(self.folder / "channels.yaml"),
            "CONCORD_GATEWAY_PORT": str(gateway),
            "CONCORD_WEB_PORT": str(metrics),
        }
        self.settings = Settings.from_env(self.env)
        self.topics = Topics.load(prefix=self.prefix, replication=self.settings.replication)
        played = [play(name, self.seed, self.rates) for name in self.channels]
        self.simulator = Simulator(played, f"http://127.0.0.1:{gateway}", speed=self.speed)
        base = f"http://127.0.0.1:{simulated}"
        accounts_file.write(self.folder / "channels.yaml", played, self.folder, base)

    # -- processes

    def start(self, name: str) -> None:
        """Start `gateway`, `worker` or `connector`."""
        self.started[name] += 1
        usual = [sys.executable, "-m", "streams", name]
        if name == "worker":
            usual += ["--port", str(self.ports[name])]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(  # noqa: S603  our own commands
                self.instead.get(name) or usual,
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
        producer = AIOKafkaProducer(**self.settings.kafka, enable_idempotence=True)
        await producer.start()
        began = time.monotonic()
        try:
            for number in range(count):
                channel = self.channels[number % len(self.channels)].partition(":")[0]
                account = f"{channel}:{self.simulator.played[channel].account}"
                order, payment = f"order-{number}", f"pay{self.seed}x{number:06}"
                create = CreatePayment(
                    command_id=f"{order}-c",
                    order_id=order,
                    payment_no=payment,
                    biz_code="SHOP",
                    channel=account,
                    amount=1000 + number,
                    currency=CURRENCY.get(channel, "USD"),
                )
                start = StartPayment(
                    command_id=f"{order}-s", order_id=order, payment_no=payment, details=DETAILS.get(channel, {})
                )
                for command in (create, start):
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
        records = (await self.read("updates"))["updates"]
        updates = [_update.decode(record.value) for record in records]
        return {one.payment_no: one.state for one in updates if one.type == "payment_update"}

    async def settled(self, within_s: float) -> Counter[str]:
        """Wait until nothing is open that money depends on; returns the states after that, or at the end of the time.

        A payment that was never charged may stay UNKNOWN: no channel but the simulated one promises that "not found" proves anything.
        At a channel that cannot be asked it stays PAYING as well: nobody has said anything.
        """
        deadline = time.monotonic() + within_s
        while True:
            began = time.monotonic()
            states = await self.states()
            charged = {one["payment_no"] for one in self.simulator.truth()["charges"] if not _unheard(one)}
            self.open = [
                one
                for one in self.payments
                if (state := states.get(one, "none")) not in FINAL and (state not in WAITING or one in charged)
            ]
            waiting = self.simulator.notifier.waiting if self.simulator.notifier else 0
            if (not self.open and not waiting) or time.monotonic() > deadline:
                return Counter(
                    f"{self.payments[one].partition(':')[0]} {states.get(one, 'none')}" for one in self.payments
                )
            # The channels play in this process: they, too, need its time.
            await asyncio.sleep(max(1.0, 9 * (time.monotonic() - began)))

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
        opened = [json.loads(record.value) for record in found["discrepancies"]]
        late = {one["payment_no"] for one in opened if one["kind"] == "LATE_SUCCESS"}
        unheard = {one for one in charged if announced[one] + (one in late and not announced[one]) != 1}
        states = await self.states()
        denied = unheard & self._denied(truth, announced, states)
        silent = {
            one["payment_no"] for one in truth["charges"] if _unheard(one) and states.get(one["payment_no"]) in WAITING
        }
        silent &= unheard
        decisions = [json.loads(record.value) for record in found["decisions"]]
        first = {one["payment_no"]: one["source"] for one in reversed(decisions) if one.get("after") == "SUCCESS"}
        raws = [json.loads(record.value).get("raw") for record in found["channel-callbacks"]]
        return Verdict(
            charged=len(charged),
            announced=len(announced),
            acknowledged=len(truth["acknowledged"]),
            by_query=sum(source == "query" for source in first.values()),
            denied=len(denied),
            unheard=len(silent),
            twice=[one for one, many in charged.items() if len(many) > 1],
            unfounded=[one for one in announced if one not in charged],
            without_verdict=sorted(unheard - denied - silent),
            lost=sorted(set(truth["acknowledged"]) - {raw["sha256"] for raw in raws if raw is not None}),
        )

    @staticmethod
    def _denied(truth: dict[str, Any], announced: Counter[str], states: Mapping[str, str]) -> set[str]:
        """Charges that the channel called failed, and that stand so with us."""
        lies = {charge["payment_no"] for charge in truth["charges"] if charge["denied"]}
        return {one for one in lies if not announced[one] and states.get(one) in {"FAIL", "CLOSED"}}


def _unheard(charge: Mapping[str, Any]) -> bool:
    """Whether nothing that was said of a charge could reach us, and its channel has no query to find out by."""
    return not charge["told"] and shipped()[charge["channel"].partition(":")[0]].query is None


@asynccontextmanager
async def running(loop: Loop) -> AsyncIterator[Loop]:
    """The loop with everything started and ready, and ended afterwards."""
    await create(loop.settings.kafka, loop.topics)
    serving = asyncio.create_task(loop.simulator.serve("127.0.0.1", loop.ports["simulator"]))
    try:
        for name in READY:
            loop.start(name)
        await asyncio.to_thread(ready, loop, READY)
        yield loop
    finally:
        loop.end()
        loop.simulator.stop()
        await serving


def ready(loop: Loop, names: Iterable[str]) -> None:
    """Wait for a line in each process's log that says that it is at work."""
    deadline = time.monotonic() + READY_S
    for name in names:
        log = loop.folder / f"{name}.log"
        while log.read_bytes().count(READY[name]) < loop.started[name]:
            if loop.processes[name].poll() is not None or time.monotonic() > deadline:
                raise LoopError(f"the {name} is not at work: see {log}")
            time.sleep(0.1)
