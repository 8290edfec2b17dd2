"""What a driver knows while it plays a scenario to real workers: the product events that each line stands for, and how to read the end.

The lines are translated by the replay's own mapping, which needs the orders as they stand; so a replay runs beside, as the memory of the
connectors that answer. Nothing of what it decides is compared: the outcome is made of the committed records alone, but for what the
gateway says at the door (acknowledgements, notices that cannot be read) and the proposals for a person.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args

import msgspec

from streams import codec
from streams.domain.decisions import Decision, Message, message_id
from streams.replay import raw
from streams.replay.report import report
from streams.replay.run import Run

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from streams.topics import Topics
    from tests.faults.oracle import Row

COMMAND: Final = re.compile(r"^[a-z_]+-([0-9]+)$")
"""Command ids of the mapping: the request and the line's number."""
_encode = msgspec.json.Encoder().encode
_message = msgspec.json.Decoder(Message).decode


class Sent(NamedTuple):
    """A record to produce: logical topic, key and value."""

    topic: str
    key: bytes | None
    value: bytes | None


def _topics() -> Iterator[tuple[str, str]]:
    for name, union in reversed(codec.TOPICS.items()):
        for kind in get_args(union) or (union,):
            for one in get_args(kind) or (kind,):
                yield str(one.__struct_config__.tag), name


TOPIC_OF: Final = dict(_topics())
"""The type of an event -> the topic that it comes in by; the first that admits it."""


class Shadow(Run):
    """A replay that keeps what it tells its orders."""

    def __init__(self, start: Any, events: list[Any]) -> None:
        super().__init__(start, events)
        self.told: list[Sent] = []

    def tell(self, name: str, fields: dict[str, Any], event: dict[str, Any]) -> None:
        super().tell(name, fields, event)
        present = {field: value for field, value in fields.items() if value is not None}
        self.told.append(Sent(TOPIC_OF[fields["type"]], name.encode(), _encode(present)))

    def next(self, number: int) -> list[Sent]:
        """The records that this line stands for; what it repeats of earlier lines included."""
        self.told, dead = [], len(self.dead)
        self.step(number)
        event = self.events[number]
        if event["type"] == "RAW_RECORD" and len(self.dead) > dead:
            key, value = raw.bytes_of(event, "key"), raw.bytes_of(event, "value")
            if (key, value) != (None, None):  # which no client sends
                self.told.append(Sent("channel-callbacks", key, value))
        return self.told


def outcome(
    shadow: Shadow, start: Any, topics: Topics, logs: Mapping[str, list[Row]], position: bytes
) -> dict[str, Any]:
    """The scenario's outcome as the committed records have it; outputs are distinct by their id."""
    end = Run(start, [])
    end.events, end.acks, end.dead, end.candidates = shadow.events, shadow.acks, shadow.dead, shadow.candidates
    end.begun = Run(start, shadow.events).begun
    last = {row.key: row.value for row in logs[topics.changelog] if row.key != position}
    end.orders = {(key or b"").decode(): codec.load(value) for key, value in last.items() if value}
    gone = {name for name in end.orders if name not in shadow.orders and name.startswith("card:")}
    for name in gone:
        del end.orders[name]
    end.messages = [message for message in in_order(topics, logs) if message.order_id not in gone]
    for message in end.messages:
        if isinstance(message, Decision) and message.source == "command" and message.verdict == "refused":
            found = COMMAND.match(message.evidence)
            if found:
                end.refuse(message.order_id, message, shadow.events[int(found[1])])
    return report(end)


def in_order(topics: Topics, logs: Mapping[str, Iterable[Row]]) -> list[Message]:
    """All messages, each decision after what it says that it caused."""
    others: dict[str, Message] = {}
    decisions: dict[str, Decision] = {}
    for topic in topics.outputs:
        for row in logs[topic]:
            message = _message(row.value or b"")
            if isinstance(message, Decision):
                decisions[message.id] = message
            else:
                others[message_id(message)] = message
    told: list[Message] = []
    for decision in sorted(decisions.values(), key=lambda one: (one.decided_at, one.order_id, one.seq)):
        told += [others.pop(name) for name in decision.messages if name in others]
        told.append(decision)
    return [*told, *others.values()]
