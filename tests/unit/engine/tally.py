"""A law for the engine's unit tests: a record's value is a line of commands, so that each test says what happens in its own words.

`add 5`, `due 200` (milliseconds; `due -` for none), `say N` (an output of N bytes), `grow N` (a state of N bytes more), `same` (the
very same state comes back), `delete`, `label L` (an output counted as L), `poison`. A due time is logged as `@200` and says `fired`;
after `again 50` it comes back 50 ms later, after `stay` it is left where it was.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from streams.engine.config import Config
from streams.engine.table import MemoryTable, Table
from streams.engine.topology import Due, Outgoing, Poison, Record, Topology
from streams.engine.work import Work

IN, OTHER, OUT, CHANGELOG, DEAD = "in", "other", "out", "changelog", "dead"


class In(NamedTuple):
    """An input record."""

    value: bytes | None
    key: bytes | None = b"k"
    timestamp: int = 0
    offset: int = 0
    topic: str = IN
    partition: int = 3
    headers: tuple[tuple[str, bytes], ...] = ()


class Tally(msgspec.Struct, frozen=True):
    """The state: what was applied, in order, and the rest."""

    log: tuple[str, ...] = ()
    total: int = 0
    due: int | None = None
    again: int = 0
    stay: bool = False
    ballast: str = ""


Message = tuple[bytes, str]


def decode(record: Record) -> str:
    text = (record.value or b"").decode()
    if text == "poison":
        raise Poison("spoiled", "the value is spoiled; send another")
    return text


def decide(state: Tally | None, event: str | Due, at: int) -> tuple[Tally | None, list[Message]]:
    if isinstance(event, Due):
        assert state is not None
        due = at if state.stay else at + state.again if state.again else None
        return msgspec.structs.replace(state, log=(*state.log, f"@{at}"), due=due), [(b"fired %d" % at, "fired")]
    if event == "same":
        return state, []
    if event == "delete":
        return None, []
    after, said = state or Tally(), []
    for command in event.split(", "):
        word, _, argument = command.partition(" ")
        after, message = _obey(after, word, argument)
        said += message
    return msgspec.structs.replace(after, log=(*after.log, event)), said


def _obey(state: Tally, word: str, argument: str) -> tuple[Tally, list[Message]]:
    if word == "say":
        return state, [(b"." * int(argument), "")]
    if word == "label":
        return state, [(argument.encode(), argument)]
    changes: dict[str, Any] = {
        "add": lambda: {"total": state.total + int(argument)},
        "due": lambda: {"due": None if argument == "-" else int(argument)},
        "grow": lambda: {"ballast": state.ballast + "." * int(argument)},
        "again": lambda: {"again": int(argument)},
        "stay": lambda: {"stay": True},
    }[word]()
    return msgspec.structs.replace(state, **changes), []


load = msgspec.json.Decoder(Tally).decode


def route(message: Message, cause: Record | None) -> Outgoing:
    value, label = message
    return Outgoing(OUT, value, [("from", cause.value or b"" if cause else b"due")], label)


def topology(**changes: Any) -> Topology[Tally, str, Message]:
    parts: dict[str, Any] = {
        "name": "tally",
        "inputs": (IN, OTHER),
        "outputs": (OUT,),
        "changelog": CHANGELOG,
        "dead_letters": DEAD,
        "decode": decode,
        "decide": decide,
        "route": route,
        "dump": msgspec.json.encode,
        "load": load,
        "due": lambda state: state.due,
    }
    return Topology(**parts | changes)


def work(table: Table | None = None, *, careful: bool = False, **config: Any) -> Work:
    """An empty transaction on a table."""
    return Work(topology(), Config(kafka={}, **config), MemoryTable() if table is None else table, 3, careful=careful)


def commit(work: Work) -> None:
    """What the partition does when the transaction has been committed."""
    work.table.apply(work.rows())


def state(table: Table, key: bytes = b"k") -> Tally | None:
    row = table.get(key)
    return None if row is None else load(row)
