"""Credentials files: JSON or YAML text to a channel's keys, ready to verify with. Nothing here ever shows a value.

A text in the file may stand for what lies elsewhere: `env:NAME` is the environment variable's content, `file:PATH` the content of a
file, beside the credentials file if the path is relative; surrounding blanks are cut. So the file itself need hold no secret. The
form of each channel's file is its adapter's `credentials`, documented on the channel's page; a field that it does not have is refused.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streams.channels.adapter import AnyAdapter

ENVIRONMENT: Final = "env:"
FILE: Final = "file:"
MOST_BYTES: Final = 1 << 20


class CredentialsError(ValueError):
    """Credentials that cannot be used; the text names the file, the field and the fix, never the value."""


def load(adapter: AnyAdapter, source: Path | str, environment: Mapping[str, str] | None = None) -> Any:
    """The adapter's `credentials` Struct, from a file (a `Path`) or from a text (a `str`). Raises `CredentialsError`."""
    name, folder, text = _text(source)
    wanted = adapter.credentials
    plain = _references(_parsed(text, name), name, folder, os.environ if environment is None else environment)
    try:
        read: Any = msgspec.convert(plain, wanted, strict=True)
    except msgspec.ValidationError as error:
        raise CredentialsError(f"{name}: {_without_value(error)}; see docs/channels/{adapter.channel}.md") from None
    known = {field.encode_name for field in msgspec.structs.fields(wanted)}
    for field in plain if isinstance(plain, dict) else ():
        if field not in known:
            problem = f"field `{field}` is not one of this channel's; it has {', '.join(sorted(known))}"
            raise CredentialsError(f"{name}: {problem}")
    return read


def keys(adapter: AnyAdapter, source: Path | str, environment: Mapping[str, str] | None = None) -> Any:
    """The adapter's keys, ready for `verify` and `events`. Raises `CredentialsError`."""
    credentials = load(adapter, source, environment)
    try:
        return adapter.keys(credentials)
    except ValueError as error:
        raise CredentialsError(f"{_text(source)[0]}: {error}") from error


def _text(source: Path | str) -> tuple[str, Path, str]:
    if isinstance(source, str):
        return "credentials", Path(), source
    return source.name, source.parent, _content(source, source.name)


def _content(path: Path, name: str) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise CredentialsError(
                f"{name}: the file {path.name} is larger than {MOST_BYTES} bytes; give the right one"
            )
        return data.decode()
    except OSError as error:
        raise CredentialsError(
            f"{name}: the file {path.name} cannot be read: {error.strerror}; check its path"
        ) from error
    except UnicodeDecodeError as error:
        raise CredentialsError(f"{name}: the file {path.name} is not text; save it as UTF-8 or PEM") from error


def _parsed(text: str, name: str) -> Any:
    """What the text says. The parsers' own messages quote what they read, so only the place is kept of them."""
    try:
        if text.lstrip().startswith("{"):
            return json.loads(text, object_pairs_hook=_once)
        return yaml.load(text, Loader=_Strict)  # noqa: S506  a SafeLoader that also refuses repeated keys
    except json.JSONDecodeError as error:
        problem = f"line {error.lineno}: it is not JSON"
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        problem = f"line {mark.line + 1 if mark else 1}: it is not YAML, or repeats a key"
    except _RepeatedKeyError as error:
        problem = f"field `{error}` is there twice"
    except (yaml.YAMLError, ValueError, RecursionError):
        problem = "it is neither JSON nor YAML"
    raise CredentialsError(f"{name}: {problem}; write one object with the channel's fields")


class _RepeatedKeyError(ValueError):
    """A key that stands twice: one of the two values would be lost, perhaps the live one."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise _RepeatedKeyError(next(name for name in names if names.count(name) > 1))
    return found


class _Strict(yaml.SafeLoader):
    """Refuses what a plain loader would settle by the last one: a repeated key."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002  as the library calls it
        names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if len(set(names)) != len(names):
            raise _RepeatedKeyError(next(name for name in names if names.count(name) > 1))
        return super().construct_mapping(node, deep=deep)


def _references(value: Any, name: str, folder: Path, environment: Mapping[str, str]) -> Any:
    """The same value, with what its texts refer to in their place."""
    if isinstance(value, dict):
        return {key: _references(inner, name, folder, environment) for key, inner in value.items()}
    if isinstance(value, list):
        return [_references(inner, name, folder, environment) for inner in value]
    if not isinstance(value, str):
        return value
    if value.startswith(ENVIRONMENT):
        variable = value.removeprefix(ENVIRONMENT)
        found = environment.get(variable, "").strip()
        if not found:
            raise CredentialsError(f"{name}: the environment variable {variable} is empty; put the value there")
        return found
    if value.startswith(FILE):
        return _content(folder / value.removeprefix(FILE), name).strip()
    return value


def _without_value(error: msgspec.ValidationError) -> str:
    """What is wrong and where. A message that quotes what it read is cut to its place."""
    message = str(error)
    if message.startswith(("Expected", "Object ")):
        return message
    _, mark, place = message.rpartition(" - at ")
    return f"the value cannot be used{mark}{place}" if mark else "a value cannot be used"
