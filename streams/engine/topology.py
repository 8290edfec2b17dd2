"""What the engine is given: topics, a codec, a pure decision and a routing of its messages. The engine knows no more than this.

State belongs to a record's key. `decide` is called once per record, and once per due time with `DUE` as the event; it must be a
pure function of its arguments, because a transaction whose outcome is unknown is decided again. Times are integer milliseconds of
the UTC epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

State = TypeVar("State")
Event = TypeVar("Event")
Message = TypeVar("Message")

Headers: TypeAlias = Sequence[tuple[str, bytes]]


class Record(Protocol):
    """One record of an input topic as the client hands it over; `timestamp` is milliseconds, UTC."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Headers: ...


class Due:
    """The event of a due time."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "DUE"


DUE: Final = Due()


class Poison(Exception):  # noqa: N818  it is a verdict on the input, not an error of ours
    """Raised by `decode` for a record that can never be handled. It goes to the dead letters with `kind` and `reason`.

    `kind` is a stable lower-case word (`not_json`, `missing_key`); `reason` names the field and the fix, for a person.
    """

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(f"{kind}: {reason}")
        self.kind = kind
        self.reason = reason


class Outgoing(NamedTuple):
    """One record to send to an output topic, in the partition and under the key of the state that caused it."""

    topic: str
    value: bytes
    headers: Headers = ()
    """Its own list, if it is a list: the engine adds to it."""
    label: str = ""
    """What a committed record of this kind is counted as in the metrics; empty: not counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology(Generic[State, Event, Message]):
    """A stream job. All topics have the same number of partitions, and inputs are keyed by the same key."""

    name: str
    """The consumer group, and the prefix of every transactional id."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    changelog: str
    dead_letters: str
    decode: Callable[[Record], Event]
    """Raises `Poison`. Anything else it raises stops the worker: it is a bug, not bad input."""
    decide: Callable[[State | None, Event | Due, int], tuple[State | None, Sequence[Message]]]
    """(state, event, at) -> (state, messages). Returning the very same state object means that nothing is to be stored."""
    route: Callable[[Message, Record | None], Outgoing]
    """The record is the one that caused the message, None for a due time."""
    dump: Callable[[State], bytes]
    load: Callable[[bytes], State]
    due: Callable[[State], int | None]
    """The next due time of a state, in milliseconds, or None."""
    place: Callable[[bytes, int], int] | None = None
    """(key, partition count) -> the partition where a producer puts that key. With it, a record that lies elsewhere is not handled there
    but moved to its place. None: keys live where they lie."""
    implied: Callable[[State], Iterable[tuple[str, str]]] | None = None
    """(topic, `ce_id`) of every output that a state implies over its whole life; read by the audit."""

    def __post_init__(self) -> None:
        own = (self.changelog, self.dead_letters, *self.outputs)
        if not self.inputs or len(set(self.inputs + own)) != len(self.inputs) + len(own):
            raise ValueError(
                f"topology {self.name!r}: inputs, outputs, changelog and dead letters must be distinct, with at least one input"
            )
