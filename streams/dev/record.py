"""What a cluster's folder remembers, `cluster.json`: the version that formatted it and the addresses it comes back at."""

from __future__ import annotations

import secrets
from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING, Final

import msgspec

from streams.dev import ports
from streams.dev.brokers import Node
from streams.dev.errors import ServiceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

NAME: Final = "cluster.json"


class Record(msgspec.Struct, kw_only=True):
    """One cluster. `id` is Kafka's cluster id; `properties` and `jvm` are what its brokers were last started with."""

    version: str
    id: str
    nodes: list[Node]
    properties: dict[str, str]
    jvm: list[str]


def read(folder: Path) -> Record | None:
    """The record of a folder; nothing if it holds no cluster. Raises `ServiceError` for one that cannot be read."""
    try:
        return msgspec.json.decode((folder / NAME).read_bytes(), type=Record)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise ServiceError(f"{folder / NAME} cannot be read ({error}): end its brokers and remove {folder}") from error


def write(folder: Path, record: Record) -> None:
    """Write it, atomically."""
    part = folder / f"{NAME}.part"
    part.write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=1))
    part.replace(folder / NAME)


def cluster_id() -> str:
    """A new Kafka cluster id: 16 bytes in URL-safe base 64. None begins with a dash, which would look like an option."""
    while (text := urlsafe_b64encode(secrets.token_bytes(16)).rstrip(b"=").decode()).startswith("-"):
        pass
    return text


def lay_out(
    known: Record | None, *, count: int, client_ports: Sequence[int], advertised: Mapping[int, str]
) -> list[Node]:
    """The nodes of a cluster: those of the record, with what is asked for now; else new ones on free ports."""
    if known is None:
        client = list(client_ports) or ports.free(count)
        others = ports.free(2 * count, client)
        return [Node(i + 1, client[i], others[2 * i], others[2 * i + 1], advertised.get(i + 1)) for i in range(count)]
    client = list(client_ports) or [node.client for node in known.nodes]
    return [
        Node(node.id, port, node.inside, node.controller, advertised.get(node.id, node.advertised))
        for node, port in zip(known.nodes, client, strict=True)
    ]


def require_same(folder: Path, known: Record, *, version: str, count: int) -> None:
    """Refuse to take the data of one cluster for another's: a version cannot read a later one's, nor three nodes one's."""
    if (known.version, len(known.nodes)) != (version, count):
        raise ServiceError(
            f"{folder} holds a cluster of Kafka {known.version} with {len(known.nodes)} node(s), not of {version} with "
            f"{count}: ask for the same, or remove it first (`concord dev down --wipe`)"
        )
