"""The contract files: one a channel, read and held to what they say of themselves.

A file is the contract and, for every value in it, where the value comes from: `sources` (the channel's own words, read or run),
`ours` (a decision of this product) or `unconfirmed` (nobody has shown it yet). A path covers what lies beneath it, the longest one
wins, and a value that no path covers is refused: whoever changes a promise says who made it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, overload

import msgspec
import yaml

from streams.channels.promises import Problem, broken
from streams.domain.contract import Contract

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable
    from pathlib import Path

T = TypeVar("T")

ORIGINS: Final = ("sources", "ours", "unconfirmed")
LEAST_WORDS: Final = 2
MAPPINGS: Final = frozenset(
    {"exponents", "overcapture_pct", "notice.ack.headers", "file.columns", "file.control_columns"}
)
"""Fields whose keys are data, so that a path may go one step further than the types do."""


class ContractsError(ValueError):
    """Contract files that cannot be used; the text names each file, field and fix."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


class Document(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file as it is written."""

    channel: str
    title: str
    contract: Contract
    sources: dict[str, str] = {}
    ours: dict[str, str] = {}
    unconfirmed: dict[str, str] = {}

    def marks(self, origin: str) -> dict[str, str]:
        """path -> reason, of one origin."""
        marks: dict[str, str] = getattr(self, origin)
        return marks


class Stated(NamedTuple):
    """A value that the file states, and where it comes from."""

    path: str
    value: Any
    origin: str
    reason: str


class Read(NamedTuple):
    """What became of one file: its document unless it is unreadable, its values, and all that is wrong."""

    name: str
    document: Document | None
    values: tuple[Stated, ...]
    problems: tuple[Problem, ...]

    @property
    def unconfirmed(self) -> dict[str, str]:
        """path -> reason, of every promise that nobody has shown yet."""
        return {} if self.document is None else self.document.unconfirmed


class Catalogue(Mapping[str, Contract]):
    """Contracts by channel. `stripe:acct_1` is an account at `stripe` and has its contract, unless it has one of its own."""

    def __init__(self, contracts: Mapping[str, Contract]) -> None:
        self._contracts = dict(contracts)

    def __getitem__(self, channel: str) -> Contract:
        found = self.get(channel)
        if found is None:
            raise KeyError(channel)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._contracts)

    def __len__(self) -> int:
        return len(self._contracts)

    @overload
    def get(self, key: str, default: None = None, /) -> Contract | None: ...
    @overload
    def get(self, key: str, default: Contract, /) -> Contract: ...
    @overload
    def get(self, key: str, default: T, /) -> Contract | T: ...
    def get(self, key: str, default: object = None, /) -> object:
        """One or two look-ups: the law asks at every event."""
        found = self._contracts.get(key)
        return found if found is not None else self._contracts.get(key.partition(":")[0], default)


@cache
def shipped() -> Catalogue:
    """The contracts that come with the product. Raises `ContractsError` if one is not sound."""
    return catalogue([read(entry) for entry in shipped_files()])


def shipped_files() -> list[Traversable]:
    """The contract files beside the adapters, by name."""
    folder = resources.files("streams.channels")
    return sorted((entry for entry in folder.iterdir() if entry.name.endswith(".yaml")), key=lambda entry: entry.name)


def catalogue(reads: list[Read]) -> Catalogue:
    """The contracts of these files. Raises `ContractsError` if anything is wrong with any of them."""
    problems = [problem for each in reads for problem in each.problems]
    names = [each.document.channel for each in reads if each.document is not None]
    problems += [
        Problem(each.name, "channel", f"{each.document.channel} has more than one file", "keep one")
        for each in reads
        if each.document is not None and names.count(each.document.channel) > 1
    ]
    if problems:
        raise ContractsError(problems)
    return Catalogue({each.document.channel: each.document.contract for each in reads if each.document is not None})


def read(path: Path | Traversable) -> Read:
    """Read one file and hold it to every rule."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        return _unreadable(path.name, Problem(path.name, "the file", f"cannot be read: {error}", "give a UTF-8 file"))
    return read_text(text, path.name)


def read_text(text: str, name: str) -> Read:
    """The same for a text; `name` is its file name, `<channel>.yaml`."""
    try:
        raw = yaml.load(text, Loader=_Strict)  # noqa: S506  a SafeLoader that also refuses repeated keys
    except yaml.YAMLError as error:
        problem = f"is not YAML that can be used: {' '.join(str(error).split())}"
        return _unreadable(name, Problem(name, "the file", problem, "correct the line"))
    except RecursionError:
        return _unreadable(name, Problem(name, "the file", "is nested without end", "write it flat"))
    return hold(raw, name)


def hold(raw: Any, name: str) -> Read:
    """The same for what the text says: mappings, lists and scalars."""
    try:
        document = msgspec.convert(raw, Document)
    except msgspec.ValidationError as error:
        return _unreadable(name, _misfit(name, str(error)))
    values = tuple(_stated(raw["contract"], document))
    problems = [
        *_named(name, document),
        *_marked(name, document, values),
        *broken(name, document.contract, frozenset(document.unconfirmed)),
    ]
    return Read(name, document, values, tuple(problems))


class _Strict(yaml.SafeLoader):
    """A repeated key would silently win over the first; here it is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002  as the library calls it
        seen: set[str] = set()
        for key, _value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue  # the library refuses it, with its line
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} is repeated", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


def _unreadable(name: str, problem: Problem) -> Read:
    return Read(name, None, (), (problem,))


def _misfit(name: str, text: str) -> Problem:
    """What the type refuses, with the place as a path of the file."""
    problem, _, place = text.partition(" - at `$")
    field = place.rstrip("`").lstrip(".") or "the file"
    fix = "write what the type asks for (text that looks like a number or a time goes in quotes)"
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", problem, re.DOTALL)
    missing = re.fullmatch(r"Object missing required field `(.*)`", problem)
    if unknown:
        field = unknown[1] if field == "the file" else f"{field}.{unknown[1]}"
        problem, fix = "no such promise is known", "correct the name, or leave it out"
    elif missing:
        field = missing[1] if field == "the file" else f"{field}.{missing[1]}"
        problem, fix = "is required", "add it"
    return Problem(name, field, problem, fix)


def _named(name: str, document: Document) -> Iterator[Problem]:
    if f"{document.channel}.yaml" != name:
        yield Problem(
            name, "channel", f"is {document.channel!r}", f"name the file {document.channel}.yaml, or correct it"
        )
    if not document.title.strip():
        yield Problem(name, "title", "is empty", "write the channel's name as people know it")


def _stated(raw: dict[str, Any], document: Document) -> Iterator[Stated]:
    for path, value in leaves(raw):
        origin, reason = _origin(path, document)
        yield Stated(path, value, origin, reason)


def leaves(raw: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(path, value) of everything that is not a mapping; lists are values."""
    for key, value in raw.items():
        path = f"{prefix}{key}"
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{path}.")
        else:
            yield path, value


def _origin(path: str, document: Document) -> tuple[str, str]:
    """Where a value comes from: the mark with the longest path that covers it."""
    steps = path.split(".")
    for count in range(len(steps), 0, -1):
        covering = ".".join(steps[:count])
        for origin in ORIGINS:
            if covering in document.marks(origin):
                return origin, document.marks(origin)[covering]
    return "", ""


def _marked(name: str, document: Document, values: tuple[Stated, ...]) -> Iterator[Problem]:
    for value in values:
        if not value.origin:
            fix = f"name it (or what it lies in) under {', '.join(ORIGINS)} with a reason"
            yield Problem(name, f"contract.{value.path}", "nobody says where this comes from", fix)
    covered: dict[str, str] = {}
    for origin in ORIGINS:
        for path, reason in document.marks(origin).items():
            where = f"{origin}.{path}"
            if path in covered:
                yield Problem(name, where, f"is also under {covered[path]}", "keep one")
            covered[path] = origin
            if not known(path):
                yield Problem(name, where, "the contract has no such field", "correct the path")
            elif origin != "unconfirmed" and not any(f"{value.path}.".startswith(f"{path}.") for value in values):
                yield Problem(name, where, "the contract does not state it", "state it, or leave the reason out")
            if len(reason.split()) < LEAST_WORDS:
                yield Problem(name, where, "gives no reason", "say in words where the value comes from")


@cache
def known(path: str) -> bool:
    """Whether a contract has a field of this path."""
    kind: Any = Contract
    steps = path.split(".")
    for index, step in enumerate(steps):
        fields = {field.name: field.type for field in msgspec.structs.fields(kind)}
        if step not in fields:
            return False
        here = ".".join(steps[: index + 1])
        if here in MAPPINGS:
            return len(steps) <= index + 2
        kind = _struct_of(fields[step])
        if kind is None:
            return index == len(steps) - 1
    return True


def _struct_of(annotation: Any) -> Any:
    candidates = [annotation, *getattr(annotation, "__args__", ())]
    return next((each for each in candidates if isinstance(each, type) and issubclass(each, msgspec.Struct)), None)
