"""`concord inbox`: what was said about an order, and the messages themselves, opened by name and for a reason."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime
from typing import Any, Final

import click
import msgspec

from stores import reviewers, sealed
from streams.agents import sealing
from streams.cli.database import end, using
from streams.cli.exits import WRONG_SETTING
from streams.cli.printable import printable
from streams.gateway.review_rights import Declined, admit, key_id
from streams.settings import Settings, SettingsError

CODES: Final = (
    "Exit codes: 0 printed, 1 there is no such message, or it may not be opened, 2 a setting is wrong, "
    "4 Postgres does not answer."
)
NOT_DONE: Final = 1
PLACE: Final = re.compile(r"(?P<topic>[A-Za-z0-9._-]+)/(?P<partition>\d{1,9})/(?P<offset>\d{1,18})")


@click.group()
def inbox() -> None:
    """What channels said, beside what was made of it."""


@inbox.command(epilog=CODES)
@click.argument("order_id")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def show(order_id: str, form: str) -> None:
    """List what was said about an order: by whom, which word, what came of it, and the place of its message."""
    found = using("inbox show", lambda connection: sealed.pieces(connection, order_id))
    if form == "json":
        click.echo(msgspec.json.encode(found))
        return
    for one in found:
        kept = "sealed" if one.key_id else "hash only"
        line = f"{one.received_at:%Y-%m-%d %H:%M:%S}Z  {one.source} {one.channel} {one.word}  {one.process_status} ({one.process_rule})"
        click.echo(printable(f"{line}  {one.cause or '-'}  {kept}"))


@inbox.command("open", epilog=CODES)
@click.argument("place")
@click.option("--reason", required=True, help="Why; it is in the audit log from now on.")
def opened(place: str, reason: str) -> None:
    """Print the message at TOPIC/PARTITION/OFFSET, as `show` names it, for the holder of CONCORD_REVIEW_KEY: an approver or an admin.

    What was redacted before it was sealed stays hidden.
    """
    match = PLACE.fullmatch(place)
    if match is None:
        end("inbox open", WRONG_SETTING, f"{place!r} is not TOPIC/PARTITION/OFFSET; `concord inbox show` names places")
    if not reason.strip():
        end("inbox open", WRONG_SETTING, "--reason is empty; say why it is opened")
    sealer, key = _sealer()
    at = (match["topic"], int(match["partition"]), int(match["offset"]))

    async def work(connection: Any) -> sealed.Message | None:
        person = admit(key, await reviewers.holder(connection, key_id(key)), "audit")
        return await sealed.take(connection, at, person.name, reason, datetime.now(UTC))

    try:
        message = using("inbox open", work)
        if message is None:
            end("inbox open", NOT_DONE, f"there is no message at {place}")
        if message.sealed is None or message.key_id is None:
            end("inbox open", NOT_DONE, f"of {place} only the hash was kept: {message.sha256}")
        body = sealer.open(message.sealed, place, message.key_id)
    except Declined as wrong:
        end(
            "inbox open",
            NOT_DONE,
            f"{wrong.code}: {wrong.detail}; set CONCORD_REVIEW_KEY to a key of an approver or an admin",
        )
    except sealing.SealingError as wrong:
        end("inbox open", NOT_DONE, str(wrong))
    click.echo(f"{message.content_type}, {message.redactions} redactions, sha256 {message.sha256}", err=True)
    sys.stdout.buffer.write(body)


def _sealer() -> tuple[sealing.Sealer, str]:
    """What opens messages, and the authorization of who asks."""
    try:
        settings = Settings.from_env()
        if settings.raw_key is None:
            end(
                "inbox open",
                WRONG_SETTING,
                "CONCORD_RAW_KEY is not set; name the file of keys that the projector seals with",
            )
        return sealing.read(settings.raw_key), f"Bearer {settings.review_key}"
    except (SettingsError, sealing.SealingError) as wrong:
        end("inbox open", WRONG_SETTING, str(wrong))
