"""Fault runs of the fallback, each from its seed: routers and the worker are killed while channels refuse, charge and fall silent.

    python -m tests.faults.fallback --seeds "1 2 3"        or --seeds 1-5

Every router is a consumer group of its own, so each new one answers all refusals since the beginning once more, beside those that live.
The driver plays the channels and keeps their ledger; the judge reads it and the topics, and nothing of the routers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter, defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from msgspec import structs

from stores import route_books, route_decisions
from stores.pool import connect
from stores.route_decisions import Routed
from streams.domain.events import Answer, Callback, CreatePayment, StartPayment
from streams.domain.number import payment_number
from streams.domain.routing import MOST_CHANNELS, route
from streams.domain.score import Book, Limit, Offer
from streams.routes.asks import ask
from tests.faults.projector import seeds
from tests.support import services
from tests.support.databases import books
from tests.support.job import Job

if TYPE_CHECKING:
    from pathlib import Path

ORDERS = 80
ROUTERS = 2
FAULTS = 10
SETTLED_WITHIN_S = 100.0
CHANNELS = tuple(f"simulator:acct_{number}" for number in range(1, 5))
BOOK = Book(offers=tuple(Offer(channel=name, limits={"USD": Limit()}, fee_ppm=n) for n, name in enumerate(CHANNELS)))
TURNS = ("refuse",) * 5 + ("charge",) * 3 + ("charge, then silence", "refuse twice")


@dataclass
class Run:
    """One seed. `charged` is the channels' ledger, channel and idempotency key by payment; `asked` the channel of each attempt's key."""

    seed: int
    job: Job
    dsn: str
    charged: dict[str, set[tuple[str, str]]] = field(default_factory=lambda: defaultdict(set))
    asked: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    silent: set[str] = field(default_factory=set)
    routers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    told: Counter[str] = field(default_factory=Counter)
    numbers: list[str] = field(default_factory=list)
    _heard: set[str] = field(default_factory=set)
    _born: int = 0

    def __post_init__(self) -> None:
        self.chance = random.Random(f"fallback {self.seed}")

    # -- processes

    def hire(self) -> None:
        self._born += 1
        env = {
            **os.environ,
            **self.job.env,
            "CONCORD_POSTGRES": self.dsn,
            "CONCORD_GROUP": f"{self.job.prefix}r{self._born}",
        }
        with (self.job.folder / f"router-{self._born}.log").open("ab") as log:
            self.routers.append(
                subprocess.Popen(
                    [sys.executable, "-m", "streams", "router"], env=env, stdout=log, stderr=log, start_new_session=True
                )
            )

    async def fault(self) -> None:
        what = self.chance.choice(["router", "router", "router", "worker"])
        self.told[f"{what} killed"] += 1
        if what == "worker":
            self.job.workers[-1].kill()
            await self.job.start()
            return
        victim = self.routers.pop(self.chance.randrange(len(self.routers)))
        victim.kill()
        victim.wait()
        self.hire()

    # -- orders

    async def create(self, connection: Any, number: int) -> None:
        """As a gateway routes, records and sends it."""
        now = datetime.now(UTC)
        payment_no = payment_number("SALE", now.date(), self.chance.randbytes(10))
        order = f"o-{number}"
        asked = structs.replace(ask(BOOK, now, amount=1000, currency="USD"), among=CHANNELS)
        routing = route(asked, structs.replace(BOOK, version=1), {})
        assert routing.channel is not None
        command = CreatePayment(
            command_id=f"c-{order}", order_id=order, payment_no=payment_no, biz_code="SALE", channel=routing.channel,
            amount=1000, currency="USD", merchant="shop", routed=True,
        )  # fmt: skip
        await route_decisions.keep(
            connection,
            Routed(
                id=command.command_id, decided_at=now, purpose="create", merchant="shop", order_id=order,
                payment_no=payment_no, ask=asked, health={}, downgrades=(), routing=routing,
            ),
        )  # fmt: skip
        start = StartPayment(command_id=f"s-{order}", order_id=order, payment_no=payment_no, merchant="shop")
        await self.job.send("commands", [command, start])
        self.numbers.append(payment_no)

    # -- channels

    async def play(self) -> None:
        """Answer every submit that was not answered yet, as the seed says for its payment and channel."""
        for record in await self.job.read("channel-requests"):
            request = json.loads(record.value)
            if request["id"] not in self._heard:
                self._heard.add(request["id"])
                if request["verb"] == "SUBMIT":
                    await self.answer(request)

    async def answer(self, request: dict[str, Any]) -> None:
        payment, channel = request["payment_no"], request["channel"]
        self.asked[payment][request["idempotency_key"]] = channel
        turn = random.Random(f"{self.seed} {request['order_id']} {channel}").choice(TURNS)
        common = {"order_id": request["order_id"], "payment_no": payment, "channel": channel, "merchant": "shop"}
        if turn.startswith("refuse"):
            said = Answer(
                request="submit", status="REFUSED", error_class="over_limit", request_id=request["id"], **common
            )
            await self.job.send("query-results", [said] * (2 if turn.endswith("twice") else 1))
            return
        self.charged[payment].add((channel, request["idempotency_key"]))
        paid = {
            "status": "SUCCESS",
            "transaction": f"t-{payment}-{channel}",
            "amount": 1000,
            "currency": "USD",
            **common,
        }
        if turn == "charge":
            await self.job.send("query-results", [Answer(request="submit", request_id=request["id"], **paid)])
            return
        self.silent.add(payment)
        await self.job.send("query-results", [Answer(request="submit", status="TIMEOUT", **common)])
        if self.chance.random() < 0.5:  # the notice comes after all
            await self.job.send("channel-callbacks", [Callback(event_id=f"e-{payment}", **paid)])
            self.silent.discard(payment)

    # -- the end

    async def states(self) -> dict[str, str]:
        found = {}
        for one in await self.job.read("updates"):
            update = json.loads(one.value)
            if update["type"] == "payment_update":
                found[update["payment_no"]] = update["state"]
        return found

    async def settle(self) -> dict[str, str]:
        """Play on until each payment has an end, or its channel has fallen silent."""
        deadline = time.monotonic() + SETTLED_WITHIN_S
        while True:
            await self.play()
            states = await self.states()
            waiting = [
                one for one in self.numbers if states.get(one) not in {"SUCCESS", "CLOSED"} and one not in self.silent
            ]
            if not waiting or time.monotonic() > deadline:
                return states
            await asyncio.sleep(0.3)

    async def judge(self, states: dict[str, str]) -> list[str]:
        wrong = [f"{one} was charged {len(keys)} times" for one, keys in self.charged.items() if len(keys) > 1]
        told = Counter(json.loads(one.value)["payment_no"] for one in await self.job.read("success"))
        for one in self.numbers:
            state, ends = states.get(one), "SUCCESS" if self.charged[one] else "CLOSED"
            if state != ends and one not in self.silent:
                wrong.append(f"{one} is {state}, and should be {ends}")
            if told[one] != (state == "SUCCESS"):
                wrong.append(f"{one} is {state} and was announced {told[one]} times")
            channels = list(self.asked[one].values())  # one for each attempt, however often it was sent
            if len(set(channels)) != len(channels) or len(channels) > MOST_CHANNELS:
                wrong.append(f"{one} was tried at {channels}")
        for each in self.asked.values():
            self.told[f"{len(each)} channels"] += 1
        self.told["charged"] = sum(map(bool, self.charged.values()))
        return wrong


async def run(seed: int, bootstrap: str, postgres: str, folder: Path) -> tuple[list[str], Counter[str]]:
    """What is wrong after one seed, and what was done."""
    async with books(postgres) as dsn:
        one = Run(seed, Job(bootstrap, f"fb{seed}x{os.getpid()}.", folder), dsn)
        connection = await connect(dsn)
        await route_books.load(connection, BOOK, at=datetime.now(UTC), by="faults", why="")
        await one.job.create()
        await one.job.start()
        try:
            for _ in range(ROUTERS):
                one.hire()
            for number in range(ORDERS):
                await one.create(connection, number)
                if number % (ORDERS // FAULTS) == 0:
                    await one.play()
                    await one.fault()
            return await one.judge(await one.settle()), one.told
        finally:
            for each in one.routers:
                each.kill()
                each.wait()
            one.job.end()
            await connection.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=seeds, default=seeds("1-5"))
    wrong = 0
    with ExitStack() as stack:
        kafka = stack.enter_context(services.shared_kafka())
        postgres = stack.enter_context(services.shared_postgres())
        for seed in parser.parse_args().seeds:
            folder = services.fresh_folder(f"fallback-{seed}")
            began = time.monotonic()
            found, told = asyncio.run(run(seed, kafka.bootstrap, postgres.dsn, folder))
            done = ", ".join(f"{times} {what}" for what, times in sorted(told.items()))
            print(f"seed {seed}: {len(found)} wrong in {time.monotonic() - began:.0f} s ({done})", flush=True)
            for line in found[:20]:
                print(f"    {line}")
            if found:
                print(f"    again: python -m tests.faults.fallback --seeds {seed}; logs: {folder}")
            wrong += bool(found)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
