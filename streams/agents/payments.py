"""The payment job: each input topic decoded, handed to the law, and what the law says routed to its topic.

Outputs carry CloudEvents headers in binary mode and the `traceparent` of the record that caused them. Ids come from the law, so a
replay mints the same.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from streams import codec
from streams.channels.contracts import shipped
from streams.domain.converge import decider
from streams.domain.decisions import KINDS, Decision, message_id
from streams.domain.implied import implied
from streams.domain.order import due
from streams.engine.topology import DUE, Outgoing, Topology
from streams.topics import partition_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from streams.domain.contract import Contracts
    from streams.domain.decisions import Message
    from streams.domain.order import Order
    from streams.engine.topology import Record
    from streams.topics import Topics

SOURCE: Final = b"concord"
TRACE: Final = "traceparent"
TRACEPARENT: Final = re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
"""W3C Trace Context; anything else under that name is not passed on."""
CAUSE: Final = "cause"
"""Header of a decision: `topic/partition/offset` of the record it answers; a decision of a due time has none."""


def topology(topics: Topics, group: str, contracts: Contracts | None = None) -> Topology[Order, Any, Message]:
    """The payment job on these topics, as the consumer group `group`, under the contracts that come with the product or others."""
    names = topics.names
    return Topology(
        name=group,
        inputs=topics.inputs,
        outputs=topics.outputs,
        changelog=topics.changelog,
        dead_letters=topics.dead_letters,
        decode=codec.decoder(names),
        decide=decider(shipped() if contracts is None else contracts, DUE),
        route=router({kind: names[name] for kind, name in KINDS.items()}),
        dump=codec.dump,
        load=codec.load,
        due=due,
        place=partition_of,
        implied=lambda order: _physical(names, order),
    )


def _physical(names: dict[str, str], order: Order) -> Iterator[tuple[str, str]]:
    for name, identity in implied(order):
        yield names[name], identity


def router(topic_of: dict[type[Message], str]) -> Callable[[Message, Record | None], Outgoing]:
    """How a message becomes a record: its topic, its bytes, its headers, and what a decision counts as in the metrics."""
    constant: dict[type[Message], list[tuple[str, bytes]]] = {
        kind: [
            ("ce_specversion", b"1.0"),
            ("ce_type", f"concord.{kind.__struct_config__.tag}".encode()),
            ("ce_source", SOURCE),
            ("content-type", b"application/json"),
        ]
        for kind in topic_of
    }
    encode = codec.encode
    moment, text = None, b""

    def route(message: Message, cause: Record | None) -> Outgoing:
        nonlocal moment, text
        kind = type(message)
        if message.decided_at is not moment:  # all messages of one decision share it
            moment = message.decided_at
            text = moment.isoformat().encode()
        headers = [
            *constant[kind],
            ("ce_id", message_id(message).encode()),
            ("ce_time", text),
        ]
        if cause is not None:
            headers += [header for header in cause.headers if header[0] == TRACE and TRACEPARENT.fullmatch(header[1])][
                :1
            ]
        label = ""
        if type(message) is Decision:
            label = message.verdict
            if cause is not None:
                headers.append((CAUSE, f"{cause.topic}/{cause.partition}/{cause.offset}".encode()))
        return Outgoing(topic_of[kind], encode(message), headers, label)

    return route
