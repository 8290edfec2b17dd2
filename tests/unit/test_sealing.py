"""Raw messages at rest: nothing of a card in the clear, nothing opened in another's place, and no key in what is printed."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest

from streams.agents.sealing import Sealer, SealingError, key_id, read, redact

if TYPE_CHECKING:
    from pathlib import Path

ONE, OTHER = bytes(range(32)), bytes(range(1, 33))
PLACE = "callbacks/3/17"


def test_what_was_sealed_is_opened_under_its_key_and_differs_each_time():
    sealer = Sealer([ONE])
    first, second = sealer.seal(b"body", PLACE), sealer.seal(b"body", PLACE)
    assert first != second
    assert b"body" not in first
    assert sealer.open(first, PLACE, sealer.key_id) == sealer.open(second, PLACE, sealer.key_id) == b"body"


def test_a_message_cannot_be_passed_off_as_anothers():
    sealer = Sealer([ONE])
    with pytest.raises(SealingError, match="was not sealed for this place"):
        sealer.open(sealer.seal(b"body", PLACE), "callbacks/3/18", sealer.key_id)


def test_a_changed_message_is_refused():
    sealer = Sealer([ONE])
    sealed = bytearray(sealer.seal(b"body", PLACE))
    sealed[-1] ^= 1
    with pytest.raises(SealingError, match="or was changed"):
        sealer.open(bytes(sealed), PLACE, sealer.key_id)


def test_after_a_rotation_the_former_key_still_opens_and_the_new_one_seals():
    before, after = Sealer([ONE]), Sealer([OTHER, ONE])
    assert after.open(before.seal(b"body", PLACE), PLACE, before.key_id) == b"body"
    assert after.key_id == key_id(OTHER) != before.key_id
    with pytest.raises(SealingError, match="put it back, after the first line"):
        before.open(after.seal(b"body", PLACE), PLACE, after.key_id)


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        (b'{"card_number": "4000000000000002", "amount": 5}', b'{"card_number": "[redacted]", "amount": 5}'),
        (b'{"cvc":"123"}', b'{"cvc":"[redacted]"}'),
        (b'{"pan":4000000000000002}', b'{"pan":[redacted]}'),
        (b"cardNumber=4000000000000002&amount=5", b"cardNumber=[redacted]&amount=5"),
        (b"accNo=6216261000000000018&txnAmt=1", b"accNo=[redacted]&txnAmt=1"),
    ],
)
def test_a_field_that_is_named_as_a_cards_is_hidden(body: bytes, kept: bytes):
    """R-109, R-216."""
    assert redact(body) == (kept, 1)


@pytest.mark.parametrize(
    "body", [b'{"transaction": "4200001234567890123456789012", "amount": 100}', b"company=5&span=7", b"", b"\xff\x00"]
)
def test_what_is_not_named_as_a_cards_is_kept_to_the_byte(body: bytes):
    assert redact(body) == (body, 0)


@pytest.mark.parametrize("text", ["", "short", base64.b64encode(bytes(31)).decode(), "\u00e9"])
def test_a_file_without_whole_keys_is_refused_by_its_name(tmp_path: Path, text: str):
    (tmp_path / "keys").write_text(text, encoding="utf-8")
    with pytest.raises(SealingError, match=r"CONCORD_RAW_KEY=.*32 random bytes as base64"):
        read(tmp_path / "keys")


def test_no_key_is_in_what_is_printed_of_a_sealer(tmp_path: Path):
    (tmp_path / "keys").write_text(base64.b64encode(ONE).decode() + "\n" + base64.b64encode(OTHER).decode() + "\n")
    assert repr(read(tmp_path / "keys")) == f"Sealer({key_id(ONE)})"
