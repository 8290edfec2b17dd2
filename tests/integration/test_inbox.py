"""`concord inbox`: sealed messages are opened by those who may, for a reason, and never without a trace (R-109, R-197)."""

from __future__ import annotations

import asyncio
import base64
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest
from click.testing import CliRunner

from stores import audit, reviewers
from streams.agents import sealing
from streams.cli.inbox import inbox
from streams.gateway.review import new_reviewer

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.postgres
AT = datetime(2026, 3, 3, tzinfo=UTC)
PLACE = "payments.channel-callbacks/3/41"
KEYS = base64.b64encode(bytes(range(32))).decode() + "\n"


async def fill(dsn: str, keys: Path) -> dict[str, str]:
    """The message, and two people; their keys."""
    keys.write_text(KEYS)
    sealer = sealing.read(keys)
    body, hidden = sealing.redact(b'{"order": "O1", "card_number": "4111111111111111"}')
    connection = await asyncpg.connect(dsn, server_settings={"search_path": "books, public"})
    await connection.execute(
        "INSERT INTO raw_messages VALUES ($1, 3, 41, 'O1', 'stripe:a', 'application/json', 'ab', $2, $3, $4, $5)",
        PLACE.split("/", maxsplit=1)[0], hidden, sealer.key_id, sealer.seal(body, PLACE), AT,
    )  # fmt: skip
    await connection.execute(
        "INSERT INTO inbox (order_id, event_key, payload_hash, source, channel, event_type, word, cause, signature_valid, process_status, "
        "process_rule, received_at, processed_at, seq) VALUES ('O1', 'k', 'h', 'callback', 'stripe:a', '', 'SUCCESS', $1, true, 'applied', "
        "'success', $2, $2, 1)",
        PLACE, AT,
    )  # fmt: skip
    held = {"nobody": ""}
    for name, role in (("ada", "approver"), ("lin", "viewer")):
        person, held[name] = new_reviewer(name, role)
        await reviewers.add(connection, person, AT, "setup")
    await connection.close()
    return held


async def typed(dsn: str, keys: Path, *command: str, key: str = "") -> Any:
    env = {"CONCORD_POSTGRES": dsn, "CONCORD_RAW_KEY": str(keys), "CONCORD_REVIEW_KEY": key}
    return await asyncio.to_thread(CliRunner().invoke, inbox, list(command), env=env)


async def test_a_message_is_opened_by_name_and_for_a_reason(database: str, tmp_path: Path):
    keys = tmp_path / "keys"
    held = await fill(database, keys)
    listed = await typed(database, keys, "show", "O1")
    assert PLACE in listed.output
    assert "sealed" in listed.output
    for person in ("lin", "nobody"):
        refused = await typed(database, keys, "open", PLACE, "--reason", "ticket 7", key=held[person])
        assert refused.exit_code == 1
        assert "an approver or an admin" in refused.output
    done = await typed(database, keys, "open", PLACE, "--reason", "ticket 7", key=held["ada"])
    assert done.exit_code == 0
    assert '"order": "O1"' in done.output
    assert "4111111111111111" not in done.output
    connection = await asyncpg.connect(database)
    entries = [one.done async for one in audit.entries(connection)]
    assert [(one.actor, one.act, one.subject) for one in entries if one.act == "open-message"] == [
        ("ada", "open-message", PLACE)
    ]
    assert "ticket 7" in entries[-1].detail
    await connection.close()


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (("open", "nowhere", "--reason", "x"), 2, "TOPIC/PARTITION/OFFSET"),
        (("open", "t/1/1", "--reason", " "), 2, "--reason"),
        (("open", "t/1/1", "--reason", "x"), 1, "there is no message"),
    ],
)
async def test_what_cannot_be_opened_is_said(database: str, tmp_path: Path, command, code, said):
    held = await fill(database, tmp_path / "keys")
    done = await typed(database, tmp_path / "keys", *command, key=held["ada"])
    assert done.exit_code == code
    assert said in done.output
