"""`concord ingest`: verify one notice of a channel as it was received, map it, and produce it to the callbacks' topic.

What is stored is acknowledged, mapped or not. Exit codes: 0 stored (or mapped, with --dry-run), 2 wrong usage, 3 refused (bad
signature, stale, malformed, too large: do not acknowledge), 4 not stored (no broker: let the channel send it again).
Secrets come from files and environment variables only: arguments are visible to every process on a machine.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NoReturn

import click
import msgspec
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from streams.channels import stripe, wechatpay
from streams.channels.verification import Refused, parse_headers
from streams.cli.exits import quiet, unreachable
from streams.cli.printable import json_text, printable
from streams.domain.events import Callback, Unmapped
from streams.settings import Settings, SettingsError
from streams.topics import Topics, TopicsError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    Events = list[Callback | Unmapped]

REFUSED: Final = 3
NOT_STORED: Final = 4
STORE_DEADLINE_S: Final = 15.0
CLOSE_DEADLINE_S: Final = 5.0
RECORD_OVERHEAD: Final = 4096
TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


@dataclass(frozen=True, slots=True)
class Keys:
    """What a channel's notices are verified and opened with; never shown."""

    secrets: tuple[bytes, ...]
    platform: Mapping[str, RSAPublicKey]


@click.command(
    epilog="Exit codes: 0 stored (or mapped, with --dry-run), 2 wrong usage, 3 refused: do not acknowledge it, "
    "4 not stored: let the channel send it again."
)
@click.option("--channel", type=click.Choice(["stripe", "wechatpay"]), required=True)
@click.option("--account", required=True, help="The account at the channel: acct_… of Stripe, mchid of WeChat Pay.")
@click.option("--headers", type=click.File("rb"), required=True, help="The request's header lines, as received.")
@click.option("--key-file", type=click.Path(exists=True, dir_okay=False, path_type=Path), multiple=True,
              help="A file with a live secret: whsec_… of Stripe, the APIv3 key of WeChat Pay. May be repeated.")  # fmt: skip
@click.option("--secret-env", multiple=True, help="An environment variable with such secrets, parted by blanks.")
@click.option("--certificate", type=click.Path(exists=True, dir_okay=False, path_type=Path), multiple=True,
              help="WeChat Pay: a live platform certificate, PEM. May be repeated.")  # fmt: skip
@click.option("--public-key", multiple=True, help="WeChat Pay: PUB_KEY_ID_…=FILE, a platform key under its name, PEM.")
@click.option("--now", help="Verify as at this RFC 3339 time: for old samples.")
@click.option("--dry-run", is_flag=True, help="Print the mapped event; produce nothing.")
@click.argument("body", type=click.File("rb"))
def ingest(
    *,
    channel: str,
    account: str,
    headers: BinaryIO,
    key_file: tuple[Path, ...],
    secret_env: tuple[str, ...],
    certificate: tuple[Path, ...],
    public_key: tuple[str, ...],
    now: str | None,
    dry_run: bool,
    body: BinaryIO,
) -> None:
    """Verify the notice in the file BODY, map it and store it, as a channel's HTTP callback would be."""
    keys = Keys(_secrets(key_file, secret_env), _platform_keys(certificate, public_key))
    at = _moment(now)
    try:
        received = parse_headers(headers.read())
        events = INTAKE[channel](account, received, body.read(), keys, at)
    except Refused as refusal:
        _fail(f"refused: {type(refusal).__name__}: {refusal}", REFUSED)
    for event in events:
        if dry_run:
            click.echo(json_text(event, indent=2))
        else:
            _store(event, received, at)


def _stripe(account: str, headers: Mapping[str, str], body: bytes, keys: Keys, at: datetime) -> Events:
    try:
        secrets = [secret.decode() for secret in keys.secrets]
    except UnicodeDecodeError as error:
        raise click.UsageError("--key-file: the secret is not text; it reads whsec_…") from error
    stripe.verify(headers, body, secrets, int(at.timestamp()))
    return stripe.to_events(headers, body, account, received_at=at)


def _wechatpay(account: str, headers: Mapping[str, str], body: bytes, keys: Keys, at: datetime) -> Events:
    if not keys.platform:
        raise click.UsageError("no platform key: give --certificate or --public-key")
    wechatpay.verify(headers, body, keys.platform, int(at.timestamp()))
    try:
        return wechatpay.to_events(headers, body, account, api_keys=keys.secrets, received_at=at)
    except ValueError as error:
        raise click.UsageError(f"--key-file or --secret-env: {error}") from error


INTAKE: Final = {stripe.CHANNEL: _stripe, wechatpay.CHANNEL: _wechatpay}


def _secrets(files: Sequence[Path], variables: Sequence[str]) -> tuple[bytes, ...]:
    secrets = [file.read_bytes().strip() for file in files]
    for variable in variables:
        if not os.environ.get(variable, "").strip():
            raise click.UsageError(f"--secret-env: the variable {variable} is empty; put the secret there")
        secrets += [secret.encode() for secret in os.environ[variable].split()]
    if not secrets or not all(secrets):
        raise click.UsageError("no secret: give --key-file or --secret-env, with a secret in it")
    return tuple(secrets)


def _platform_keys(certificates: Sequence[Path], public_keys: Sequence[str]) -> dict[str, RSAPublicKey]:
    keys: dict[str, RSAPublicKey] = {}
    for file in certificates:
        try:
            serial, key = wechatpay.key_of_certificate(file.read_bytes())
        except ValueError as error:
            raise click.UsageError(
                f"--certificate: {file} is not a PEM certificate with an RSA key: {error}"
            ) from error
        keys[serial] = key
    for option in public_keys:
        name, _, path = option.partition("=")
        try:
            keys[name] = wechatpay.key_of_pem(Path(path).read_bytes())
        except (ValueError, OSError) as error:
            raise click.UsageError(
                f"--public-key: {path or option} is not a PEM file with a key; use ID=FILE"
            ) from error
    return keys


def _moment(text: str | None) -> datetime:
    if text is None:
        return datetime.now(UTC)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise click.UsageError(f"--now: {text!r} is not RFC 3339; write 2025-03-03T10:00:00Z") from error
    if moment.tzinfo is None:
        raise click.UsageError(f"--now: {text!r} has no zone; write 2025-03-03T10:00:00Z")
    return moment.astimezone(UTC)


def _store(event: Callback | Unmapped, received: Mapping[str, str], at: datetime) -> None:
    reference = f"{event.channel}/{event.event_id or (event.raw.sha256 if event.raw else '')}"
    key = event.order_id or reference  # what belongs to no order is keyed by its source and reference
    try:
        settings = Settings.from_env()
        topic = Topics.load(prefix=settings.topic_prefix).of("channel-callbacks")
    except (SettingsError, TopicsError) as error:
        raise click.UsageError(str(error)) from error
    value = msgspec.json.encode(event)
    if len(value) > topic.max_message_bytes - RECORD_OVERHEAD:
        _fail(f"refused: body: the record has {len(value)} bytes, more than {topic.topic} takes", REFUSED)
    with quiet() as words:
        try:
            stored = asyncio.run(
                _produce(settings.kafka, topic.topic, key.encode(), value, _headers(event, reference, received, at))
            )
        except TimeoutError:
            why = words.last or f"{topic.topic} may be missing, see `concord topics check`"
            _fail(f"not stored: no answer within {STORE_DEADLINE_S:g} s: {why}", NOT_STORED)
        except (KafkaError, OSError) as error:
            _fail(f"not stored: {unreachable(error, words.last)}", NOT_STORED)
    what = event.status if isinstance(event, Callback) else f"unmapped: {event.reason}"
    said = f"key {key} event {reference} {what}"
    click.echo(f"{stored.topic} partition {stored.partition} offset {stored.offset} {printable(said)}")


def _headers(
    event: Callback | Unmapped, reference: str, received: Mapping[str, str], at: datetime
) -> list[tuple[str, bytes]]:
    """CloudEvents attributes in binary mode, and the caller's trace."""
    headers = {
        "ce_specversion": "1.0",
        "ce_id": reference,
        "ce_type": type(event).__struct_config__.tag,
        "ce_source": event.channel,
        "ce_time": at.isoformat().replace("+00:00", "Z"),
        "content-type": "application/json",
    }
    trace = received.get("traceparent", "")
    if TRACEPARENT.fullmatch(trace):
        headers["traceparent"] = trace
    return [(name, str(value).encode()) for name, value in headers.items()]


async def _produce(
    kafka: Mapping[str, Any], topic: str, key: bytes, value: bytes, headers: list[tuple[str, bytes]]
) -> Any:
    producer = AIOKafkaProducer(**kafka, acks="all", enable_idempotence=True)
    try:
        async with asyncio.timeout(STORE_DEADLINE_S):
            await producer.start()
            return await producer.send_and_wait(topic, value, key=key, headers=headers)
    finally:
        async with asyncio.timeout(CLOSE_DEADLINE_S):  # it flushes, and would wait for a broker that is gone
            await producer.stop()


def _fail(message: str, code: int) -> NoReturn:
    click.echo(printable(message), err=True)
    sys.exit(code)
