"""The independent judge of a fault run: it reads every topic as a consumer would, and recomputes what must be there.

It shares the toy's law with the workers and nothing with the engine: its own reading, its own bookkeeping, its own idea of the tags.
Everything it finds wrong is a sentence in a list; an empty list is a pass.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

import msgspec
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from tests.support.toy import DUE_PREFIX, ORDER, PAY, Event, Order, Output, Toy, replay

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

STALL_S: Final = 25.0
"""A read that does not reach the end of a log within this is held back: longer than a fault run's transaction timeout."""
POSITION: Final = b"@position"
EXAMPLES: Final = 3


class Row(NamedTuple):
    """One record as it was read."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: dict[str, bytes]


@dataclass(slots=True)
class Facts:
    """What the judge found: violations, and numbers that show how much was looked at."""

    violations: list[str] = field(default_factory=list)
    numbers: Counter[str] = field(default_factory=Counter)

    def say(self, what: str, which: Iterable[object] = ()) -> None:
        """One violation of a kind, with a few examples."""
        examples = list(which)
        more = f" ({len(examples)}): {', '.join(map(str, examples[:EXAMPLES]))}" if examples else ""
        self.violations.append(f"{what}{more}"[:1500])


class Stalled(Exception):  # noqa: N818  a verdict
    """A log cannot be read to its end: something hangs in it."""


async def read(
    bootstrap: str, topics: Iterable[str], partitions: int, *, committed: bool = True
) -> dict[str, list[Row]]:
    """Every record of these topics, in the order of the logs. Raises `Stalled` if a last stable offset stays behind."""
    logs = [TopicPartition(topic, number) for topic in topics for number in range(partitions)]
    client = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        isolation_level="read_committed" if committed else "read_uncommitted",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    raw = AIOKafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_uncommitted")
    await client.start()
    await raw.start()
    try:
        ends = await raw.end_offsets(logs)
        client.assign(logs)
        for log, low in (await client.beginning_offsets(logs)).items():
            client.seek(log, low)
        return await _read_to(client, ends)
    finally:
        await client.stop()
        await raw.stop()


async def _read_to(client: AIOKafkaConsumer, ends: dict[TopicPartition, int]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {log.topic: [] for log in ends}
    left = {log for log, end in ends.items() if end > 0}
    deadline = time.monotonic() + STALL_S
    while left:
        for log, records in (await client.getmany(*left, timeout_ms=200)).items():
            found[log.topic] += [
                Row(log.partition, r.offset, r.timestamp, r.key, r.value, dict(r.headers)) for r in records
            ]
            deadline = time.monotonic() + STALL_S
        left = {log for log in left if await client.position(log) < ends[log]}
        if left and time.monotonic() > deadline:
            at = {f"{log.topic}/{log.partition}": (await client.position(log), ends[log]) for log in left}
            raise Stalled(f"a read_committed reader is held back at (position, end) {at}: an open transaction hangs")
    for rows in found.values():
        rows.sort(key=lambda row: row[:2])
    return found


class Job(Protocol):
    """What is judged: the toy or another topology. Its group has the name of its prefix."""

    @property
    def prefix(self) -> str: ...
    @property
    def partitions(self) -> int: ...
    @property
    def inputs(self) -> tuple[str, ...]: ...


Waiting: TypeAlias = "Callable[[str, Any], Awaitable[int]]"
"""How many due times have not fired that must fire before the end."""


async def lag(bootstrap: str, toy: Job) -> int:
    """Input records that the group has not reported as handled."""
    logs = [TopicPartition(topic, number) for topic in toy.inputs for number in range(toy.partitions)]
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    client = AIOKafkaConsumer(bootstrap_servers=bootstrap)
    await admin.start()
    await client.start()
    try:
        reported = await admin.list_consumer_group_offsets(toy.prefix, partitions=logs)
        ends = await client.end_offsets(logs)
        return sum(end - max(0, reported[log].offset) for log, end in ends.items())
    finally:
        await admin.close()
        await client.stop()


async def unfired(bootstrap: str, toy: Toy) -> int:
    """Orders whose committed state still waits for a due time."""
    rows = (await read(bootstrap, [toy.changelog], toy.partitions))[toy.changelog]
    last = {row.key: row.value for row in rows if row.key != POSITION}
    return sum(order.due is not None for order in states(last).values())


async def unsettled(bootstrap: str, toy: Job, pending: Waiting) -> str:
    """What is not finished yet, as text; empty when the run has come to rest."""
    try:
        behind = await lag(bootstrap, toy)
        waiting = 0 if behind else await pending(bootstrap, toy)
    except Stalled as stalled:
        return str(stalled)
    except (OSError, RuntimeError) as error:  # KafkaError is a RuntimeError: the cluster is not back yet
        return repr(error)
    if behind:
        return f"{behind} input records are not handled"
    return f"{waiting} due times have not fired" if waiting else ""


async def settle(bootstrap: str, toy: Job, seconds: float, pending: Waiting = unfired) -> str:
    """Wait until everything is handled. Returns what was left when the time was over."""
    deadline = time.monotonic() + seconds
    while (left := await unsettled(bootstrap, toy, pending)) and time.monotonic() < deadline:
        await asyncio.sleep(0.5)
    return left


def states(rows: dict[bytes | None, bytes | None]) -> dict[str, Order]:
    return {(key or b"").decode(): msgspec.json.decode(value, type=Order) for key, value in rows.items() if value}


async def judge(bootstrap: str, toy: Toy, produced: Iterable[str] = ()) -> Facts:
    """Compare all topics with a pure replay. `produced` are the ids of events that the broker has acknowledged."""
    facts = Facts()
    try:
        logs = await read(bootstrap, [*toy.inputs, *toy.own], toy.partitions)
    except Stalled as stalled:
        facts.say(str(stalled))
        return facts
    inputs = Inputs.of(toy, logs)
    facts.numbers.update(
        inputs=inputs.records, events=len(inputs.events), orders=len(inputs.ids), poison=len(inputs.poison)
    )
    if lost := set(produced) - set(inputs.events):
        facts.say("the broker lost acknowledged input", sorted(lost))
    check_sessions(facts, {topic: logs[topic] for topic in toy.own})
    check_dead_letters(facts, inputs, logs[toy.dead_letters])
    found = states({row.key: row.value for row in logs[toy.changelog] if row.key != POSITION})
    outputs = collect(facts, toy, logs)
    if set(found) != set(inputs.ids):
        facts.say("orders without state, or states without order", sorted(set(found) ^ set(inputs.ids)))
    for name, order in found.items():
        if name in inputs.ids:
            check_order(facts, toy, inputs, order, outputs[name])
    behind = await lag(bootstrap, toy)
    if behind:
        facts.say(f"the group lag is {behind}, not 0")
    return facts


@dataclass(slots=True)
class Inputs:
    """The input topics, understood."""

    records: int = 0
    events: dict[str, Event] = field(default_factory=dict)
    """By id, each as it first arrived."""
    arrived: dict[str, int] = field(default_factory=dict)
    """Broker timestamp of that arrival."""
    ids: dict[str, dict[str, list[str]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    """Order -> kind -> event ids in the order of their first arrival."""
    poison: dict[tuple[str, int, int], bytes | None] = field(default_factory=dict)

    @classmethod
    def of(cls, toy: Toy, logs: dict[str, list[Row]]) -> Inputs:
        inputs = cls()
        for topic in toy.inputs:
            for row in logs[topic]:
                inputs.take(topic, row)
        return inputs

    def take(self, topic: str, row: Row) -> None:
        self.records += 1
        try:
            event = msgspec.json.decode(row.value or b"", type=Event)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            self.poison[topic, row.partition, row.offset] = row.value
            return
        if row.key != event.order.encode():
            self.poison[topic, row.partition, row.offset] = row.value
        elif event.id not in self.events:
            self.events[event.id] = event
            self.arrived[event.id] = row.timestamp
            self.ids[event.order][event.kind].append(event.id)

    def must_succeed(self, order: str) -> bool:
        """Said without the toy's law: the first amount ordered and the first amount paid agree."""
        ordered, paid = self.ids[order][ORDER], self.ids[order][PAY]
        return bool(ordered and paid and self.events[ordered[0]].amount == self.events[paid[0]].amount)


def check_sessions(facts: Facts, logs: dict[str, list[Row]]) -> None:
    """In each log transactions are visible in the order of their tags: a fenced session shows nothing after its successor."""
    for topic, rows in logs.items():
        last: dict[int, tuple[int, int]] = {}
        for row in rows:
            session, _, number = row.headers.get("x", b"0.0").partition(b".")
            tag = (int(session), int(number))
            if tag == (0, 0):
                facts.say(f"{topic}/{row.partition}@{row.offset} has no tag: the engine did not write it")
            elif tag < last.get(row.partition, (0, 0)):
                facts.say(f"{topic}/{row.partition}@{row.offset}: {tag} is visible after {last[row.partition]}")
            last[row.partition] = max(tag, last.get(row.partition, tag))
            facts.numbers["sessions"] = max(facts.numbers["sessions"], tag[0])


def check_dead_letters(facts: Facts, inputs: Inputs, rows: list[Row]) -> None:
    """Every poison record is there once, byte for byte, and nothing else."""
    found: Counter[tuple[str, int, int]] = Counter()
    for row in rows:
        about = row.headers
        where = about["dead-topic"].decode(), int(about["dead-partition"]), int(about["dead-offset"])
        found[where] += 1
        if where in inputs.poison and inputs.poison[where] != row.value:
            facts.say(f"the dead letter of {where} has other bytes")
    if missing := [where for where in inputs.poison if not found[where]]:
        facts.say("poison that is not in the dead letters", missing)
    if extra := [where for where, count in found.items() if count > 1 or where not in inputs.poison]:
        facts.say("dead letters that are doubled or no poison", extra)


def collect(facts: Facts, toy: Toy, logs: dict[str, list[Row]]) -> dict[str, dict[str, list[Output]]]:
    """Outputs by order and topic, in the order of the log; ids must be unique."""
    outputs: dict[str, dict[str, list[Output]]] = defaultdict(lambda: defaultdict(list))
    times: Counter[str] = Counter()
    for topic in (toy.success, toy.discrepancies):
        for row in logs[topic]:
            output = msgspec.json.decode(row.value or b"", type=Output)
            times[output.id] += 1
            outputs[output.order][topic].append(output)
            if (row.key or b"").decode() != output.order or toy.output(output.kind) != topic:
                facts.say(f"{topic}/{row.partition}@{row.offset} is misplaced: {output}")
        facts.numbers[topic.removeprefix(f"{toy.prefix}-")] = len(logs[topic])
    if doubled := [f"{name} x{count}" for name, count in times.items() if count > 1]:
        facts.say("outputs that were sent more than once", doubled)
    return outputs


def check_order(facts: Facts, toy: Toy, inputs: Inputs, order: Order, outputs: dict[str, list[Output]]) -> None:
    """State, outputs, order of application and timers of one order."""
    name, kinds = order.id, inputs.ids[order.id]
    applied = [event for event in order.seen if not event.startswith(DUE_PREFIX)]
    if Counter(applied) != Counter(event for ids in kinds.values() for event in ids):
        facts.say(f"{name}: applied {applied}, but the input holds {dict(kinds)}")
        return
    for kind, ids in kinds.items():
        if [event for event in applied if event in set(ids)] != ids:
            facts.say(f"{name}: the {kind} events were applied as {applied}, but arrived as {ids}")
    state, sent = replay(name, order.seen, inputs.events)
    if state != order:
        facts.say(f"{name}: its state is {order}, its replay gives {state}")
    for topic in (toy.success, toy.discrepancies):
        expected = [output for output in sent if toy.output(output.kind) == topic]
        if outputs[topic] != expected:
            facts.say(f"{name}: {topic} holds {outputs[topic]}, expected {expected}")
    if len(outputs[toy.success]) != inputs.must_succeed(name):
        facts.say(f"{name}: {len(outputs[toy.success])} successes, expected {int(inputs.must_succeed(name))}")
    check_timers(facts, toy, inputs, order)


def check_timers(facts: Facts, toy: Toy, inputs: Inputs, order: Order) -> None:
    """A due time fires once, at the time it was set for, and before any record that is later."""
    if order.due is not None:
        facts.say(f"{order.id}: its due time {order.due} never fired")
    fired = [event for event in order.seen if event.startswith(DUE_PREFIX)]
    facts.numbers["timers"] += len(fired)
    if len(fired) > 1:
        facts.say(f"{order.id}: more than one due time fired: {order.seen}")
    for event in fired[:1]:
        due = int(event.removeprefix(DUE_PREFIX))
        before = order.seen[: order.seen.index(event)]
        if due != inputs.arrived[before[0]] + toy.due_ms:
            facts.say(f"{order.id}: a due time fired at {due}, not {toy.due_ms} ms after its first event")
        if late := [each for each in before if inputs.arrived[each] >= due]:
            facts.say(f"{order.id}: {late} were applied before the due time {due}, which was earlier")
