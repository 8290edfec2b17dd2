"""RSA keys and certificates as channels hand them out: PEM, or the bare base64 that a merchant console shows.

Errors name the field, never the key.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    load_der_private_key,
    load_der_public_key,
    load_pem_private_key,
    load_pem_public_key,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

LEAST_BITS: Final = 2048


def public_key(text: str, field: str) -> RSAPublicKey:
    """An RSA public key of at least 2048 bits. Raises `ValueError` naming the field."""
    key: object
    try:
        key = load_pem_public_key(text.encode()) if "-----BEGIN" in text else load_der_public_key(_der(text))
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ValueError(f"{field}: it is no public key; paste it as the channel's console shows it") from error
    if not isinstance(key, RSAPublicKey) or key.key_size < LEAST_BITS:
        raise ValueError(f"{field}: it is no RSA key of at least {LEAST_BITS} bits; take the channel's RSA2 key")
    return key


def private_key(text: str, field: str) -> RSAPrivateKey:
    """Our own RSA private key (PKCS#8 or PKCS#1, not encrypted). Raises `ValueError` naming the field."""
    key: object
    try:
        pem = "-----BEGIN" in text
        key = load_pem_private_key(text.encode(), None) if pem else load_der_private_key(_der(text), None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ValueError(f"{field}: it is no private key without a password; give PKCS#8 or PKCS#1") from error
    if not isinstance(key, RSAPrivateKey) or key.key_size < LEAST_BITS:
        raise ValueError(f"{field}: it is no RSA key of at least {LEAST_BITS} bits; make one of that size")
    return key


def _der(text: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except binascii.Error as error:
        raise ValueError("neither PEM nor base64") from error


def made_by(keys: Collection[RSAPublicKey], signature: bytes, messages: Iterable[bytes]) -> bool:
    """Whether any of the keys signed any of the messages (PKCS#1 v1.5, SHA-256)."""
    return any(_made(key, signature, text) for text in messages for key in keys)


def _made(key: RSAPublicKey, signature: bytes, message: bytes) -> bool:
    try:
        key.verify(signature, message, PKCS1v15(), SHA256())
    except InvalidSignature:
        return False
    return True
