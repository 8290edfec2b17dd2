"""How a broker on this machine is configured: pure, from the layout of the cluster to the text of `server.properties`.

Each node is broker and controller, binds loopback only, and has three listeners: CLIENT, whose advertised address a
test may move (a proxy in front of it); INSIDE, for the other brokers, and for looking past such a proxy; CONTROLLER.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from streams.dev.ports import HOST

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

LISTENERS: Final = ("CLIENT", "INSIDE", "CONTROLLER")


@dataclass(frozen=True, slots=True)
class Node:
    """One broker: its id, its three ports, and the address that clients are told, if it is another one."""

    id: int
    client: int
    inside: int
    controller: int
    advertised: str | None = None

    @property
    def address(self) -> str:
        """Where clients are told to go."""
        return self.advertised or f"{HOST}:{self.client}"


def properties(node: Node, nodes: Sequence[Node], data: Path, extra: Mapping[str, str]) -> dict[str, str]:
    """The settings of one node. Internal topics are small and as safe as the cluster allows; `extra` has the last word."""
    ports = dict(zip(LISTENERS, (node.client, node.inside, node.controller), strict=True))
    copies, in_sync = str(len(nodes)), str(max(1, len(nodes) - 1))
    settings = {
        "process.roles": "broker,controller",
        "node.id": str(node.id),
        "controller.quorum.voters": ",".join(f"{other.id}@{HOST}:{other.controller}" for other in nodes),
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "INSIDE",
        "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items()),
        "advertised.listeners": f"CLIENT://{node.address},INSIDE://{HOST}:{node.inside}",
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in LISTENERS),
        "log.dirs": str(data),
        "auto.create.topics.enable": "false",
        "default.replication.factor": copies,
        "min.insync.replicas": in_sync,
        "group.initial.rebalance.delay.ms": "0",
        # A broker that was killed may register again only when its former session is over (by default after 9 s).
        "broker.heartbeat.interval.ms": "500",
        "broker.session.timeout.ms": "5000",
        # Fewer threads and less memory for compaction than a server of its own would have.
        "num.network.threads": "2",
        "num.io.threads": "4",
        "log.cleaner.dedupe.buffer.size": str(16 << 20),
    }
    for topic, partitions in (
        ("offsets.topic", "4"),
        ("transaction.state.log", "8"),
        ("share.coordinator.state.topic", "2"),
    ):
        settings |= {f"{topic}.num.partitions": partitions, f"{topic}.replication.factor": copies}
    settings |= {f"{topic}.min.isr": in_sync for topic in ("transaction.state.log", "share.coordinator.state.topic")}
    return settings | dict(extra)


def render(settings: Mapping[str, str]) -> str:
    """A Java properties file. Backslashes are doubled, as they escape there."""
    return "".join(f"{name}={value}\n".replace("\\", "\\\\") for name, value in settings.items())
