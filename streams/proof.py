"""The proof by replay: everything that went in, decided again in memory, against everything that came out.

An independent reader takes the inputs, the decisions and all outputs, read_committed. The decisions name their causes, which gives the
order in which each order's events were handled; the law is then run again on plain memory. It must mint the same records, byte for
byte, and end in the same states, and every input must have been handled once: by one decision, or by one dead letter.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from aiokafka import TopicPartition

from streams.agents.payments import CAUSE
from streams.domain.moment import parsed
from streams.engine import position as positions
from streams.engine.audit import ID_HEADER
from streams.engine.moving import MOVED
from streams.engine.recovery import reading, scan
from streams.engine.topology import DUE, Poison

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from streams.engine.config import Config
    from streams.engine.topology import Topology

SHOWN: Final = 10


class Step(NamedTuple):
    """One call of the law: the record that caused it, or the due time that did."""

    cause: str | None
    at: int


@dataclass(slots=True)
class Proof:
    """What was compared, and everything that did not agree."""

    inputs: int = 0
    handled: int = 0
    dead: int = 0
    timers: int = 0
    orders: int = 0
    outputs: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


async def read(config: Config, topics: Sequence[str], partitions: int) -> dict[str, list[Any]]:
    """Every committed record of these topics, by topic, each partition in its order."""
    logs = [TopicPartition(topic, number) for topic in topics for number in range(partitions)]
    found: dict[str, list[Any]] = {topic: [] for topic in topics}
    async with reading(config, "read_committed", topics) as client:
        starts, ends = await client.beginning_offsets(logs), await client.end_offsets(logs)
        async for log, records in scan(client, {log: (starts[log], ends[log]) for log in logs}):
            found[log.topic] += records
    return found


async def prove(
    topology: Topology[Any, Any, Any], config: Config, partitions: int, decisions: str, within: float = 120.0
) -> Proof:
    """Read everything and compare. `decisions` is the output topic that says what each event did. Workers should be idle."""
    topics = [*topology.inputs, *topology.outputs, topology.dead_letters, topology.changelog]
    found = await asyncio.wait_for(read(config, topics, partitions), within)
    return compare(topology, found, decisions)


def compare(topology: Topology[Any, Any, Any], found: dict[str, list[Any]], decisions: str) -> Proof:
    """The comparison itself: pure."""
    proof = Proof()
    inputs = {
        f"{topic}/{record.partition}/{record.offset}": record for topic in topology.inputs for record in found[topic]
    }
    steps = _steps(found[decisions])
    proof.inputs = len(inputs)
    _each_input_once(proof, inputs, steps, found[topology.dead_letters])
    _replayed(proof, topology, inputs, steps, found)
    return proof


def _steps(decisions: Iterable[Any]) -> dict[bytes, list[Step]]:
    """The calls of the law, per key, in order. One call may decide several things, which then stand together."""
    steps: dict[bytes, list[Step]] = defaultdict(list)
    for record in decisions:
        headers = dict(record.headers)
        cause = headers.get(CAUSE)
        at = headers["ce_time"].decode()
        step = Step(cause.decode() if cause else None, parsed(at) or 0)
        if not steps[record.key] or steps[record.key][-1] != step:
            steps[record.key].append(step)
    return dict(steps)


def _each_input_once(proof: Proof, inputs: dict[str, Any], steps: dict[bytes, list[Step]], dead: Iterable[Any]) -> None:
    handled = Counter(step.cause for calls in steps.values() for step in calls if step.cause is not None)
    buried = Counter(_grave(record) for record in dead)
    moved = {dict(record.headers)[MOVED].decode() for record in inputs.values() if MOVED in dict(record.headers)}
    proof.handled, proof.dead = sum(handled.values()), sum(buried.values())
    proof.timers = sum(step.cause is None for calls in steps.values() for step in calls)
    total = handled + buried
    proof.wrong += [f"input {name} was never handled" for name in inputs if name not in total and name not in moved]
    proof.wrong += [f"input {name} was moved, and handled too" for name in total if name in moved]
    proof.wrong += [f"input {name} was handled {number} times" for name, number in total.items() if number > 1]
    proof.wrong += [f"{name} was handled, but is no input" for name in total if name not in inputs]


def _grave(record: Any) -> str:
    headers = dict(record.headers)
    return "/".join(headers[name].decode() for name in ("dead-topic", "dead-partition", "dead-offset"))


def _replayed(
    proof: Proof,
    topology: Topology[Any, Any, Any],
    inputs: dict[str, Any],
    steps: dict[bytes, list[Step]],
    found: dict[str, list[Any]],
) -> None:
    states = {record.key: record.value for record in found[topology.changelog] if record.key != positions.KEY}
    sent = {
        topic: Counter(_print(record.key, record.value, record.headers) for record in found[topic])
        for topic in topology.outputs
    }
    minted: dict[str, Counter[Any]] = {topic: Counter() for topic in topology.outputs}
    for key, calls in steps.items():
        state, outgoing = _replay(topology, inputs, calls)
        proof.orders += 1
        row = states.get(key)
        if (None if state is None else topology.dump(state)) != row:
            proof.wrong.append(f"the state of {key.decode()} is not what its {len(calls)} events make of it")
        for topic, value, headers, _ in outgoing:
            minted[topic][_print(key, value, headers)] += 1
    proof.wrong += [f"{key.decode()} has a state, and no decision" for key in states if key not in steps]
    for topic in topology.outputs:
        proof.outputs[topic] = sum(sent[topic].values())
        proof.wrong += [
            f"{topic}: {each[1]} is there, and no event makes it so often" for each in (sent[topic] - minted[topic])
        ]
        proof.wrong += [f"{topic}: {each[1]} is missing" for each in (minted[topic] - sent[topic])]


def _replay(topology: Topology[Any, Any, Any], inputs: dict[str, Any], calls: Iterable[Step]) -> tuple[Any, list[Any]]:
    state: Any = None
    outgoing: list[Any] = []
    for cause, at in calls:
        record = inputs.get(cause) if cause else None
        if cause and record is None:
            continue  # reported as "no input" already
        try:
            event = DUE if record is None else topology.decode(record)
        except Poison:
            continue  # reported as handled twice: decided, and not decodable
        state, messages = topology.decide(state, event, at if record is None else record.timestamp)
        outgoing += [topology.route(message, record) for message in messages]
    return state, outgoing


def _print(key: bytes, value: bytes, headers: Sequence[tuple[str, bytes]]) -> tuple[bytes, str, bytes]:
    """What makes two records the same: key, id, bytes. The transaction's tag is the engine's own."""
    return key, next((text.decode() for name, text in headers if name == ID_HEADER), ""), value


def lines(proof: Proof) -> Iterator[str]:
    """The proof in words."""
    yield f"{proof.inputs} inputs: {proof.handled} decided, {proof.dead} dead letters"
    timers = f"{proof.timers} due times, " if proof.timers else ""
    yield f"{timers}{proof.orders} orders replayed"
    for topic, number in proof.outputs.items():
        yield f"{number:>8} {topic}"
    yield from proof.wrong[:SHOWN]
    if len(proof.wrong) > SHOWN:
        yield f"… and {len(proof.wrong) - SHOWN} more"
