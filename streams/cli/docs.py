"""`concord docs write|check`: the reference pages that are made from the code, so that they cannot tell another story.

`topics.md` comes from topics.yaml, `contracts.md` from the contract files, `machines.md` and `discrepancies.md` from the tables of the
law, `schemas/*.json` from the wire types, `asyncapi.json` from the topics and them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec

from streams.cli.asyncapi import document
from streams.cli.contracts import contracts_page
from streams.codec import schemas
from streams.domain.tables import COMES_BACK, DISPUTE, EXITS, KINDS, MACHINES, mermaid
from streams.topics import Topics

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

STALE: Final = 1
NOTE: Final = "<!-- Generated from {source} by `concord docs write`; do not edit. -->"
DRAWN: Final = {"PAY": "Payment", "CAPTURE": "Capture and void", "REFUND": "Refund"}

OUTPUT_NOTE: Final = "Outputs carry [CloudEvents](https://cloudevents.io) attributes in binary mode, and:"
OUTPUT_HEADERS: Final = {
    "ce_specversion": "`1.0`",
    "ce_type": "`concord.` and the message's name, as `concord.payment_success`",
    "ce_source": "`concord`",
    "ce_id": "the message's `id`; a replay mints the same, so consumers can deduplicate by it",
    "ce_time": "when it was decided: the time of the input record, or the due time; RFC 3339, UTC",
    "content-type": "`application/json`",
    "traceparent": "that of the input record (W3C Trace Context), if it had one",
    "cause": "decisions only: `topic/partition/offset` of the input record; absent if a due time was the cause",
    "x": "every record of a worker, also in the state topic and the dead letters: `session.n`, the transaction that wrote it",
}
DEAD_NOTE: Final = (
    "Dead letters keep the key, the value and the headers of the input record (but for `x` and `dead-…`), and tell:"
)
DEAD_HEADERS: Final = {
    "dead-topic": "the input topic",
    "dead-partition": "the partition there",
    "dead-offset": "the offset there",
    "dead-timestamp": "the record's time, milliseconds since 1970",
    "dead-kind": "the class of what is wrong, as `truncated`, `missing_key`, `key_mismatch`, `unmapped`, `too_large`",
    "dead-reason": "what is wrong and how to fix it, in words, at most 2000 bytes",
    "dead-cut-from-bytes": "only if the record did not fit: how many bytes its value has; only the beginning is kept",
    "dead-sha256": "only if the record did not fit: SHA-256 of its whole value, hex",
}


@click.group()
def docs() -> None:
    """The generated pages of docs/."""


@docs.command("write", epilog="Exit codes: 0 written.")
@click.option("--folder", type=click.Path(path_type=Path), default=Path("docs"), show_default=True)
def write(folder: Path) -> None:
    """Write the generated pages, and remove schemas of types that are gone."""
    wanted = pages()
    for name, text in wanted.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for path in _left_over(folder, wanted):
        path.unlink()
    click.echo(f"{len(wanted)} pages written in {folder}")


@docs.command("check", epilog="Exit codes: 0 they are, 1 a page is stale.")
@click.option("--folder", type=click.Path(path_type=Path), default=Path("docs"), show_default=True)
def check(folder: Path) -> None:
    """Exit with 1 if a generated page is not what the code says."""
    names = stale(folder)
    for name in names:
        click.echo(f"{folder / name} is stale; run `concord docs write`")
    if names:
        sys.exit(STALE)


def stale(folder: Path) -> list[str]:
    """The names of pages that are absent, differ from the code, or have no type any more."""
    wanted = pages()
    names = [name for name, text in wanted.items() if not _reads(folder / name, text)]
    return names + [str(path.relative_to(folder)) for path in _left_over(folder, wanted)]


def pages() -> dict[str, str]:
    """Every generated page: its name in the folder, and its text."""
    made = {"topics.md": topics_page(Topics.load()), "contracts.md": contracts_page(), "machines.md": machines_page()}
    made["discrepancies.md"] = discrepancies_page()
    made["asyncapi.json"] = _json(document(Topics.load()))
    for name, schema in sorted(schemas().items()):
        made[f"schemas/{name}.json"] = _json(schema)
    return made


def _json(plain: Mapping[str, object]) -> str:
    return msgspec.json.format(msgspec.json.encode(plain), indent=2).decode() + "\n"


def machines_page() -> str:
    """The machines of the law, drawn from its tables."""
    return "\n".join([
        NOTE.format(source="streams/domain/tables.py"),
        "",
        "# Machines",
        "",
        "An input that is not in the table is refused, and the law says by which rule. Not drawn are the inputs that are",
        f"accepted and change nothing: {_kept()}.",
        "",
        *(f"## {title}\n\n```mermaid\n{mermaid(MACHINES[kind]).strip()}\n```\n" for kind, title in DRAWN.items()),
        "## Dispute",
        "",
        f"```mermaid\n{mermaid(DISPUTE, begin='NONE').strip()}\n```",
        "",
    ])  # fmt: skip


def discrepancies_page() -> str:
    """Every discrepancy: how bad, whose, until when, and what people may decide."""
    rows = [
        f"| `{name}` | {kind.severity} | {kind.owner} | {kind.hours} h | "
        f"{', '.join(f'`{exit_}`' for exit_ in sorted(EXITS.get(name, {'close'})))} | {'yes' if name in COMES_BACK else ''} |"
        for name, kind in KINDS.items()
    ]
    return "\n".join([
        NOTE.format(source="streams/domain/tables.py"),
        "",
        "# Discrepancies",
        "",
        "`high` needs a person; `info` is recorded and needs nobody at once. The severity is the usual one, which the law may lower. The",
        "deadline counts from the opening. Two people decide, on evidence (`resolve`); what speaks of how things stand may come back",
        "after that.",
        "",
        "| type | severity | owner | deadline | decisions | may come back |",
        "| --- | --- | --- | --- | --- | --- |",
        *rows,
        "",
    ])  # fmt: skip


def _kept() -> str:
    """The self-loops of the table, in words."""
    kept = [
        f"{' and '.join(words)} in {state} ({DRAWN[kind].lower()})"
        for kind in DRAWN
        for state, moves in MACHINES[kind].items()
        if (words := [f"`{word}`" for word, after in moves.items() if after == state])
    ]
    return "; ".join(kept)


def topics_page(topics: Topics) -> str:
    """The list of topics as tables."""
    return "\n".join([*_topic_lines(topics), ""])


def _topic_lines(topics: Topics) -> Iterator[str]:
    yield from (NOTE.format(source="topics.yaml"), "", "# Topics", "")
    yield f"All topics have {topics.partitions} partitions; a key lives in the partition in which Java's default"
    yield "partitioner puts it (murmur2). `concord topics create` makes them, `concord topics check` verifies them."
    yield "With another replication (CONCORD_REPLICATION), `min.insync.replicas` is at most one less than it, and at least 1."
    yield from ("", "| topic | direction | what | key | messages |", "| --- | --- | --- | --- | --- |")
    for topic in topics.all:
        messages = ", ".join(f"[{message}](schemas/{message}.json)" for message in topic.messages) or "-"
        yield f"| `{topic.topic}` | {topic.direction} | {topic.about} | {topic.key} | {messages} |"
    fields = list(dict.fromkeys(field for topic in topics.all for field in topic.config()))
    head = ["topic", "name in the code", "replication", *(f"`{field}`" for field in fields)]
    yield from ("", f"| {' | '.join(head)} |", "|" + " --- |" * len(head))
    for topic in topics.all:
        row = [
            f"`{topic.topic}`",
            topic.name,
            str(topic.replication),
            *(topic.config().get(field, "-") for field in fields),
        ]
        yield f"| {' | '.join(row)} |"
    yield from ("", "## Headers", "", OUTPUT_NOTE, "")
    yield from _table("header", OUTPUT_HEADERS)
    yield from ("", DEAD_NOTE, "")
    yield from _table("header", DEAD_HEADERS)


def _table(head: str, rows: Mapping[str, str]) -> Iterator[str]:
    yield from (f"| {head} | what |", "| --- | --- |")
    for name, what in rows.items():
        yield f"| `{name}` | {what} |"


def _reads(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


def _left_over(folder: Path, wanted: dict[str, str]) -> list[Path]:
    return [path for path in sorted((folder / "schemas").glob("*.json")) if f"schemas/{path.name}" not in wanted]
