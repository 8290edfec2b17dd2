"""From records to rows: what a record carries is told, and what is no event of ours is nothing."""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime

import msgspec
import pytest

from streams.agents import telling
from streams.agents.sealing import Sealer
from streams.domain.events import Callback, Raw
from streams.topics import Topics
from tests.support.decided import Written, history

BODY = b'{"card_number": "4000000000000002"}'


def record(value: bytes | None, headers: tuple[tuple[str, bytes], ...] = ()) -> Written:
    return Written("callbacks", 1, 7, 1_767_225_600_123, b"O1", value, headers)


def callback(**more: object) -> bytes:
    raw = Raw(body=base64.b64encode(BODY).decode(), sha256=hashlib.sha256(BODY).hexdigest())
    fields = {"order_id": "O1", "payment_no": "P1", "channel": "chA", "status": "SUCCESS", "raw": raw}
    return msgspec.json.encode(Callback(**{**fields, **more}))  # type: ignore[arg-type]


def test_a_delivery_is_redacted_then_sealed_and_its_hash_is_of_the_bytes_that_came():
    """R-107, R-109."""
    sealer = Sealer([bytes(32)])
    found = telling.raw_message(record(callback()), sealer)
    assert found is not None
    assert found.sha256 == hashlib.sha256(BODY).hexdigest()
    assert found.sealed is not None
    assert sealer.open(found.sealed, "callbacks/1/7", sealer.key_id) == b'{"card_number": "[redacted]"}'
    assert (found.redactions, found.received_at) == (1, datetime(2026, 1, 1, 0, 0, 0, 123_000, UTC))


def test_without_a_key_the_hash_is_kept_and_no_body():
    found = telling.raw_message(record(callback()), None)
    assert found is not None
    assert (found.sealed, found.key_id) == (None, None)


@pytest.mark.parametrize(
    "value", [None, b"", b'{"raw":', b'{"raw":{}}', b'{"raw":null}', b'"raw"', b'\xff"raw"', callback(raw=None)]
)
def test_what_carries_no_delivery_gives_no_row(value: bytes | None):
    assert telling.raw_message(record(value), None) is None


def test_a_text_that_postgres_cannot_hold_is_told_without_its_nul():
    found = telling.raw_message(record(callback(order_id="O\0")), None)
    assert found is not None
    assert found.order_id == "O\ufffd"


def test_a_dead_letter_names_the_record_that_it_was():
    dead = telling.dead_letter(
        record(
            b"x", (("dead-topic", b"in"), ("dead-partition", b"2"), ("dead-offset", b"9"), ("dead-kind", b"not_json"))
        )
    )
    assert (dead.cause, dead.kind, dead.sha256) == ("in/2/9", "not_json", hashlib.sha256(b"x").hexdigest())


def test_a_decision_is_told_with_its_cause_and_what_no_worker_wrote_is_refused():
    made = history(Topics.load(replication=1), 3, seed=1)
    decisions = [one for one in made.records if one.topic.endswith("decisions")]
    causes = {f"{one.topic}/{one.partition}/{one.offset}" for one in made.records}
    told = [telling.told(one) for one in decisions]
    assert {one.cause for one in told if one.cause is not None} <= causes
    assert any(one.cause is None for one in told), "due times have no cause"
    with pytest.raises(msgspec.MsgspecError):
        telling.told(record(b'{"type":"payment_success"}'))
