"""`concord contracts check|list|show`: what each channel promises, where every value comes from, and whether the files are sound.

Exit codes: 0 sound, 1 a file breaks a rule, 2 a channel that is not there was asked for. Unconfirmed promises are counted and
printed; they break nothing, but nothing that could move money twice may rest on one.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from streams.channels.contracts import ContractsError, Read, catalogue, leaves, read, shipped_files
from streams.domain.contract import Contract

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streams.channels.contracts import Document

UNSOUND: Final = 1
NOT_THERE: Final = 2
WIDTHS: Final = (10, 8, 32, 16, 16, 14)
NOTE: Final = "<!-- Generated from streams/channels/*.yaml by `concord docs write`; do not edit. -->"


@click.group()
def contracts() -> None:
    """The contracts of the channels: their promises, with the source of each."""


@contracts.command("check")
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
def check(files: tuple[Path, ...]) -> None:
    """Exit with 1 if a contract breaks a rule. Without FILES: the contracts of the product."""
    reads = [read(path) for path in files or shipped_files()]
    for each in reads:
        if each.document is not None and not each.problems:
            click.echo(f"{each.name}: sound, {len(each.values)} values, {len(each.unconfirmed)} unconfirmed promises")
        for path, reason in each.unconfirmed.items():
            click.echo(f"{each.name}: unconfirmed: {path}: {reason}")
    unsound = _problems(reads)
    for problem in unsound:
        click.echo(problem)
    unconfirmed = sum(len(each.unconfirmed) for each in reads)
    click.echo(f"{len(reads)} contracts, {len(unsound)} problems, {unconfirmed} unconfirmed promises")
    if unsound:
        sys.exit(UNSOUND)


@contracts.command("list")
def list_all() -> None:
    """One line a channel."""
    for _read, document in _shipped():
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(_row(document), WIDTHS, strict=True)).rstrip())


@contracts.command("show")
@click.argument("name")
def show(name: str) -> None:
    """Every promise of the channel NAME (an account, as in stripe:acct_1, is its channel) and where it comes from."""
    channel = name.partition(":")[0]
    known = {document.channel: (each, document) for each, document in _shipped()}
    if channel in known:
        click.echo("\n".join(_shown(*known[channel])))
        return
    click.echo(f"NAME: there is no contract {channel!r}; use one of {', '.join(known)}", err=True)
    sys.exit(NOT_THERE)


def contracts_page() -> str:
    """docs/contracts.md: all contracts beside each other, then each with its sources."""
    return "\n".join([*_page(), ""])


def _page() -> Iterator[str]:
    shipped = _shipped()
    yield from (NOTE, "", "# Contracts", "")
    yield "What each channel promises. A promise that is absent was not made; the defaults stand for it (the last table)."
    yield "`concord contracts check` holds the files to their rules, `concord contracts show NAME` shows one."
    yield from ("", "| channel | role | the same request again | found by query | sent again | unconfirmed |")
    yield "| --- | --- | --- | --- | --- | --- |"
    for _read, document in shipped:
        yield f"| {' | '.join(_row(document))} |"
    for each, document in shipped:
        yield from _section(each, document)
    yield from ("", "## Defaults", "", "| promise | value |", "| --- | --- |")
    for path, value in leaves(_builtins(Contract())):
        if value is not None:
            yield f"| `{path}` | {_cell(value)} |"


def _section(each: Read, document: Document) -> Iterator[str]:
    yield from ("", f"## {document.title}", "", "| promise | value | from |", "| --- | --- | --- |")
    for value in each.values:
        origin = {"sources": "", "ours": "ours: ", "unconfirmed": "**unconfirmed**: "}[value.origin]
        yield f"| `{value.path}` | {_cell(value.value)} | {origin}{value.reason} |"
    for path, reason in _doubts(each):
        yield f"| `{path}` | not stated | **unconfirmed**: {reason} |"


def _doubts(each: Read) -> list[tuple[str, str]]:
    """(path, reason) of what is unconfirmed beyond the values that the file states."""
    told = {value.reason for value in each.values if value.origin == "unconfirmed"}
    return [(path, reason) for path, reason in each.unconfirmed.items() if reason not in told]


def _cell(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(_cell(one) for one in value) or "none"
    if value is None:
        return "null"
    text = str(value).lower() if isinstance(value, bool) else str(value).replace("|", "\\|")
    return f"`{text}`" if text else "empty"


def _builtins(contract: Contract) -> dict[str, Any]:
    return {name: _plain(getattr(contract, name)) for name in contract.__struct_fields__}


def _plain(value: Any) -> Any:
    fields = getattr(value, "__struct_fields__", None)
    return value if fields is None else {name: _plain(getattr(value, name)) for name in fields}


def _row(document: Document) -> tuple[str, ...]:
    contract = document.contract
    key, query = contract.idempotency, contract.query
    again = "nothing is promised" if key is None else f"{key.duplicate_answer} answer, {_life(key.life_s)}"
    return (
        document.channel,
        contract.role,
        again if contract.role == "payments" else "-",
        query.key if query is not None else "-",
        f"{contract.most_submits - 1} times" if contract.resubmits else "never" if contract.role == "payments" else "-",
        f"{len(document.unconfirmed)} unconfirmed" if document.unconfirmed else "-",
    )


def _life(seconds: int | None) -> str:
    return "for good" if seconds is None else f"for {seconds} s"


def _shown(each: Read, document: Document) -> Iterator[str]:
    yield f"{document.title} ({document.channel})"
    for value in each.values:
        secret = value.path == "hmac_sha256_key"
        shown = "(a key)" if secret else _cell(value.value).replace("`", "")
        yield f"  {value.path} = {shown}    {value.origin}: {value.reason}"
    for path, reason in _doubts(each):
        yield f"  {path} is not stated    unconfirmed: {reason}"


def _shipped() -> list[tuple[Read, Document]]:
    """Every contract of the product. Raises `ContractsError` if one is unsound: nothing is shown that does not hold."""
    reads = [read(entry) for entry in shipped_files()]
    catalogue(reads)
    return [(each, each.document) for each in reads if each.document is not None]


def _problems(reads: list[Read]) -> list[str]:
    try:
        catalogue(reads)
    except ContractsError as error:
        return [str(problem) for problem in error.problems]
    return []
