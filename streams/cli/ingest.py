"""`concord ingest`: verify one notice of a channel as it was received, map it, and produce it to its topic.

What is stored is acknowledged, mapped or not. Exit codes: 0 stored (or mapped, with --dry-run), 2 wrong usage, 3 refused (bad
signature, stale, malformed, too large: do not acknowledge), 4 not stored (no broker, or its order is not known: let the channel send
it again). Secrets come from files and environment variables only: arguments are visible to every process on a machine.

With `--format json` standard output has JSON lines: one event a line, in the notice's order, or one line for a refusal, with `refused`
(its kind), `field`, `problem` and `fix`. An event whose order must be looked up has an empty `order_id`, and `references`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NoReturn

import click
import msgspec
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from streams.agents.intake import linked, records
from streams.channels import credentials as credential_files
from streams.channels import registry
from streams.channels.adapter import Mapped, Received
from streams.channels.contracts import shipped
from streams.channels.verification import Malformed, Refused, parse_headers
from streams.cli.exits import quiet, unreachable
from streams.cli.printable import json_text, printable
from streams.domain.contract import DEFAULT
from streams.domain.events import Unmapped
from streams.settings import Settings, SettingsError
from streams.topics import Topics, TopicsError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streams.agents.intake import IntakeRecord

REFUSED: Final = 3
NOT_STORED: Final = 4
STORE_DEADLINE_S: Final = 15.0
CLOSE_DEADLINE_S: Final = 5.0
RECORD_OVERHEAD: Final = 4096


@click.command(
    epilog="Exit codes: 0 stored (or mapped, with --dry-run), 2 wrong usage, 3 refused: do not acknowledge it, "
    "4 not stored: let the channel send it again."
)
@click.option("--channel", type=click.Choice(registry.CHANNELS), required=True)
@click.option("--account", required=True, help="The account at the channel, as in the callback's address: acct_1.")
@click.option("--credentials", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=True,
              help="The account's credentials, JSON or YAML; the form is on the channel's page in docs/channels.")  # fmt: skip
@click.option("--headers", type=click.File("rb"), required=True,
              help="The request's headers: a JSON object, or the lines as received.")  # fmt: skip
@click.option("--at", help="The time of receipt, RFC 3339 or Unix seconds; now, if it is not given.")
@click.option("--order-id", help="The order, where the notice does not name it and you have looked it up.")
@click.option("--dry-run", is_flag=True, help="Print the mapped events; produce nothing.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="json: one object a line.")
@click.argument("body", type=click.File("rb"))
def ingest(
    *,
    channel: str,
    account: str,
    credentials: Path,
    headers: BinaryIO,
    at: str | None,
    order_id: str | None,
    dry_run: bool,
    form: str,
    body: BinaryIO,
) -> None:
    """Verify the notice in the file BODY, map it and store it, as a channel's HTTP callback would be."""
    as_json = form == "json"
    moment = _moment(at)
    try:
        received = Received(_headers(headers.read()), body.read(), account, moment)
        mapped = _mapped(channel, credentials, received)
    except Refused as refusal:
        _refuse(refusal, as_json=as_json)
    if order_id:
        mapped = [_of_order(one, order_id) for one in mapped]
    if dry_run:
        for one in mapped:
            click.echo(json_text(_shown(one), indent=-1 if as_json else 2))
    else:
        _store(mapped, received, as_json=as_json)


def _mapped(channel: str, credentials: Path, received: Received) -> list[Mapped]:
    adapter = registry.adapter(channel)
    try:
        keys = credential_files.keys(adapter, credentials)
    except credential_files.CredentialsError as error:
        raise click.UsageError(f"--credentials: {printable(str(error))}") from error
    adapter.verify(keys, received)
    return adapter.events(keys, received, shipped().get(channel, DEFAULT))


def _headers(data: bytes) -> dict[str, str]:
    """A JSON object of texts, or of lists of texts where a header came several times; else header lines."""
    if not data.lstrip().startswith(b"{"):
        return parse_headers(data)
    try:
        plain = msgspec.json.decode(data, type=dict[str, str | list[str]])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        problem = "they are not a JSON object of texts"
        raise Malformed("headers", problem, 'write {"name": "value"}, or pass the header lines as received') from error
    return {name.lower(): value if isinstance(value, str) else ", ".join(value) for name, value in plain.items()}


def _moment(text: str | None) -> datetime:
    if text is None:
        return datetime.now(UTC)
    if text.isascii() and text.isdigit() and 9 <= len(text) <= 11:
        return datetime.fromtimestamp(int(text), UTC)  # as channels sign it
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise click.UsageError(f"--at: {text!r} is not RFC 3339; write 2025-03-03T10:00:00Z") from error
    if moment.tzinfo is None:
        raise click.UsageError(f"--at: {text!r} has no zone; write 2025-03-03T10:00:00Z")
    return moment.astimezone(UTC)


def _of_order(one: Mapped, order_id: str) -> Mapped:
    return one if isinstance(one.event, Unmapped) else Mapped(linked(one.event, order_id), one.references)


def _shown(one: Mapped) -> dict[str, Any]:
    """The event as it would be stored, with its references where its order must be looked up."""
    shown: dict[str, Any] = msgspec.to_builtins(one.event)
    if not one.event.order_id and not isinstance(one.event, Unmapped):
        shown["references"] = msgspec.to_builtins(one.references)
    return shown


# -- storing


def _store(mapped: list[Mapped], received: Received, *, as_json: bool) -> None:
    for one in mapped:
        if not one.event.order_id and not isinstance(one.event, Unmapped):
            found = ", ".join(reference.key for reference in one.references) or "nothing"
            why = "its order is not in it; let the gateway look it up, or look it up yourself and pass --order-id"
            _fail(f"not stored: {why}: it is known by {found}", NOT_STORED)
    made = records(mapped, at=received.at, traceparent=received.headers.get("traceparent", ""))
    try:
        settings = Settings.from_env()
        topics = Topics.load(prefix=settings.topic_prefix)
    except (SettingsError, TopicsError) as error:
        raise click.UsageError(str(error)) from error
    for record in made:
        topic = topics.of(record.topic)
        if len(record.value) > topic.max_message_bytes - RECORD_OVERHEAD:
            size = f"the record has {len(record.value)} bytes, more than {topic.topic} takes"
            _refuse(
                Malformed("body", size, "keep it out of the topic, and ask the channel for a shorter one"),
                as_json=as_json,
            )
    for one, record, stored in zip(mapped, made, _stored(settings.kafka, topics, made), strict=True):
        _say(one, record, stored, as_json=as_json)


def _stored(kafka: Mapping[str, Any], topics: Topics, made: list[IntakeRecord]) -> list[Any]:
    """Where each record lies; ends the program if one of them does not."""
    with quiet() as words:
        try:
            return asyncio.run(_produce(kafka, topics, made))
        except TimeoutError:
            why = words.last or f"{topics[made[0].topic]} may be missing, see `concord topics check`"
            _fail(f"not stored: no answer within {STORE_DEADLINE_S:g} s: {why}", NOT_STORED)
        except (KafkaError, OSError) as error:
            _fail(f"not stored: {unreachable(error, words.last)}", NOT_STORED)


async def _produce(kafka: Mapping[str, Any], topics: Topics, made: list[IntakeRecord]) -> list[Any]:
    producer = AIOKafkaProducer(**kafka, acks="all", enable_idempotence=True)
    try:
        async with asyncio.timeout(STORE_DEADLINE_S):
            await producer.start()
            return [
                await producer.send_and_wait(topics[one.topic], one.value, key=one.key, headers=list(one.headers))
                for one in made
            ]
    finally:
        async with asyncio.timeout(CLOSE_DEADLINE_S):  # it flushes, and would wait for a broker that is gone
            await producer.stop()


def _say(one: Mapped, record: IntakeRecord, stored: Any, *, as_json: bool) -> None:
    event = one.event
    what = f"unmapped: {event.reason}" if isinstance(event, Unmapped) else event.status
    key = record.key.decode()
    if as_json:
        place = {"topic": stored.topic, "partition": stored.partition, "offset": stored.offset}
        click.echo(json_text({**place, "key": key, "event": record.reference, "said": what}))
        return
    said = printable(f"key {key} event {record.reference} {what}")
    click.echo(f"{stored.topic} partition {stored.partition} offset {stored.offset} {said}")


# -- ends


def _refuse(refusal: Refused, *, as_json: bool) -> NoReturn:
    kind = type(refusal).__name__
    if as_json:
        named = {"refused": kind, "field": refusal.field, "problem": refusal.problem, "fix": refusal.fix}
        click.echo(json.dumps(named))
        sys.exit(REFUSED)
    _fail(f"refused: {kind}: {refusal}", REFUSED)


def _fail(message: str, code: int) -> NoReturn:
    click.echo(printable(message), err=True)
    sys.exit(code)
