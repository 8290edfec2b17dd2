"""The accounts file of what is played: gateway and connector read it as it is, and find the keys and the simulator by it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from streams.simulator.server import Played

MARK: Final = "# Written by `concord simulate`, and written anew at its next start: what is changed here is lost.\n"


class ForeignError(ValueError):
    """The file is there and is not ours to write."""


def write(path: Path, played: Iterable[Played], folder: Path, base: str, merchant: str | None = None) -> None:
    """Write the accounts file `path`, and the credentials it names into `folder`; `base` is the simulator's address, `merchant` whose
    the accounts are.

    Raises `ForeignError`, before anything is written, if the file is there and was not written by this function.
    """
    if path.exists() and not path.read_bytes().startswith(MARK.encode()):
        raise ForeignError(f"{path} was not written by `concord simulate`; name another file, or move it away")
    owner = {} if merchant is None else {"merchant": merchant}
    accounts = [
        owner
        | {
            "channel": one.channel,
            "account": one.account,
            "credentials": f"file:{_from(path, one.write_credentials(folder))}",
            "endpoint": f"{base}/{one.channel}",
        }
        for one in played
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.new")
    new.write_bytes(MARK.encode() + msgspec.yaml.encode({"accounts": accounts}))
    new.replace(path)  # a gateway that reads it meanwhile sees the former one or this one


def _from(path: Path, file: Path) -> Path:
    """Where a file lies as seen from beside `path`: relative if it lies below, so that both can move together."""
    file, beside = file.resolve(), path.resolve().parent
    return file.relative_to(beside) if file.is_relative_to(beside) else file
