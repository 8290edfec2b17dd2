"""The engine as a processor of the comparison benchmark: settings from the environment, marks on standard output.

`LAW=small` is the workload's own little state machine. `TABLE=rocksdb` keeps the state on disk, `LOOP=asyncio` leaves uvloop out.
Prints `FIRST n time cpu` at the first event, `MARK n time cpu` every 50,000 events and at `N` (epoch seconds, process CPU seconds).
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import uvloop
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from streams import log
from streams.engine.config import Config
from streams.engine.membership import Worker
from streams.engine.topology import DUE, Due, Outgoing, Poison, Record, Topology

if TYPE_CHECKING:
    from collections.abc import Sequence

MARK: Final = 50_000


class Event(msgspec.Struct, gc=False):
    event_key: str
    order_id: str
    channel: str
    kind: str
    status: str
    amount_minor: int
    currency: str
    occurred_at: str
    raw_id: str


class State(msgspec.Struct, array_like=True):
    status: str
    amount: int
    seen: list[str]


class Success(msgspec.Struct, gc=False):
    order_id: str
    event_key: str
    amount_minor: int
    occurred_at: str


class Discrepancy(msgspec.Struct, gc=False):
    order_id: str
    event_key: str
    expected: int
    got: int


class Meter:
    """Counts events and prints marks."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.seen = 0

    def tick(self) -> None:
        self.seen += 1
        if self.seen == 1:
            self.mark("FIRST")
        elif self.seen % MARK == 0 or self.seen == self.total:
            self.mark("MARK")

    def mark(self, word: str) -> None:
        os.write(1, f"{word} {self.seen} {time.time():.4f} {time.process_time():.3f}\n".encode())


def decide(state: State | None, event: Event | Due, _at: int) -> tuple[State | None, Sequence[Any]]:
    """The workload's state machine."""
    assert event is not DUE
    if state is None:
        state = State("pending", event.amount_minor, [])
    elif event.event_key in state.seen:
        return state, ()
    messages: list[Any] = []
    status = state.status
    if status != "success":
        if event.status == "success":
            status = "success"
            messages.append(Success(event.order_id, event.event_key, event.amount_minor, event.occurred_at))
        elif event.status == "failed":
            status = "failed"
    if event.amount_minor != state.amount:
        messages.append(Discrepancy(event.order_id, event.event_key, state.amount, event.amount_minor))
    return State(status, state.amount, [*state.seen, event.event_key]), messages


def topology(env: dict[str, str], meter: Meter) -> Topology[State, Event, Any]:
    decoder, encode = msgspec.json.Decoder(Event), msgspec.json.Encoder().encode
    success, discrepancy = env["OUT_S"], env["OUT_D"]

    def decode(record: Record) -> Event:
        meter.tick()
        try:
            return decoder.decode(record.value or b"")
        except msgspec.MsgspecError as error:
            raise Poison("not_json", str(error)) from error

    def route(message: Any, _cause: Record | None) -> Outgoing:
        return Outgoing(success if type(message) is Success else discrepancy, encode(message))

    return Topology(
        name=env["RUN"],
        inputs=(env["IN"],),
        outputs=(success, discrepancy),
        changelog=env["CHANGELOG"],
        dead_letters=f"{env['RUN']}-dead",
        decode=decode,
        decide=decide,
        route=route,
        dump=msgspec.msgpack.Encoder().encode,
        load=msgspec.msgpack.Decoder(State).decode,
        due=lambda _state: None,
    )


async def main(env: dict[str, str]) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=env["BROKER"])
    await admin.start()
    await admin.create_topics([NewTopic(f"{env['RUN']}-dead", 8, 1)])
    await admin.close()
    config = Config(
        kafka={"bootstrap_servers": env["BROKER"]},
        state_dir=Path(env["STATE_DIR"]) if env.get("TABLE") == "rocksdb" else None,
        batch=int(env.get("BATCH", "2000")),
        linger=float(env.get("LINGER", str(Config.__dataclass_fields__["linger"].default))),
    )
    worker = Worker(topology(env, Meter(int(env.get("N", "200000")))), config)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, worker.stop)
    await worker.run()


if __name__ == "__main__":
    log.configure(level=os.environ.get("CONCORD_LOG_LEVEL", "warning"))
    run = asyncio.run if os.environ.get("LOOP") == "asyncio" else uvloop.run
    run(main(dict(os.environ)))
