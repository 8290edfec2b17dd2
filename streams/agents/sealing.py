"""Raw messages at rest: redacted where a card could be read, then encrypted under a key that only its reference is known of (R-109).

AES-256-GCM; the place of the record is bound to it, so that no row can be passed off as another's. The file of keys has one key a line,
32 bytes as base64: the first seals, all of them open. A key's id is the beginning of its SHA-256.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
from typing import TYPE_CHECKING, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
ID_DIGITS: Final = 16

CARD_FIELDS: Final = re.compile(
    rb"""(["']?\b(?:card_?number|card_?no|pan|acc_?no|cvc2?|cvv2?|security_?code|track_?[12]?_?data|pin_?block)\b["']?\s*[:=]\s*["']?)"""
    rb"""([^"'&,}\s][^"'&,}]*)""",
    re.IGNORECASE,
)
"""A field whose name says that its value is a card's: in JSON, in a form, or in XML-like text with `=`."""
HIDDEN: Final = b"[redacted]"


class SealingError(ValueError):
    """A file of keys, or a sealed message, that cannot be used; the text says which, and the fix."""


def redact(body: bytes) -> tuple[bytes, int]:
    """The body without what a field's name says is a card's number or secret, and how many such there were (R-216)."""
    return CARD_FIELDS.subn(lambda found: found[1] + HIDDEN, body)


class Sealer:
    """Seals under the first key and opens under any."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        if not keys or any(len(key) != KEY_BYTES for key in keys):
            raise SealingError(f"keys: each has {KEY_BYTES} bytes, and there is at least one")
        self._keys = {key_id(key): AESGCM(key) for key in keys}
        self.key_id = key_id(keys[0])

    def __repr__(self) -> str:
        return f"Sealer({self.key_id})"

    def seal(self, body: bytes, place: str) -> bytes:
        """Nonce and ciphertext. `place` is the record's topic/partition/offset."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._keys[self.key_id].encrypt(nonce, body, place.encode())

    def open(self, sealed: bytes, place: str, name: str) -> bytes:
        """What was sealed at this place under the key of this id. Raises `SealingError`."""
        if name not in self._keys:
            raise SealingError(f"key {name}: it is not in the file of keys; put it back, after the first line")
        try:
            return self._keys[name].decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], place.encode())
        except InvalidTag as error:
            raise SealingError(f"{place}: it was not sealed for this place under key {name}, or was changed") from error


def key_id(key: bytes) -> str:
    return hashlib.sha256(key).hexdigest()[:ID_DIGITS]


def read(path: Path) -> Sealer:
    """The keys of a file. Raises `SealingError`."""
    try:
        lines = path.read_text(encoding="ascii").split()
        return Sealer([base64.b64decode(line, validate=True) for line in lines])
    except (OSError, UnicodeDecodeError, binascii.Error, SealingError) as error:
        raise SealingError(
            f"CONCORD_RAW_KEY={path}: {error}; write one key a line, {KEY_BYTES} random bytes as base64"
        ) from error
