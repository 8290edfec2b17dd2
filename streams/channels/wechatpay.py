"""WeChat Pay v3: who signed a message, and how its sealed part is opened.

The signature covers `timestamp\\nnonce\\nbody\\n` with the platform's key that the serial names, in notices and in replies alike. What a
notice says is sealed with the merchant's 32-byte APIv3 key, and read by `streams.channels.wechatpay_events`.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key
from msgspec import Struct

from streams.channels import wechatpay_events
from streams.channels.adapter import Adapter, Received
from streams.channels.verification import (
    BadSignature,
    Malformed,
    check_fresh,
    header,
    optional_header,
    unix_seconds,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

CHANNEL: Final = "wechatpay"
TIMESTAMP: Final = "Wechatpay-Timestamp"
NONCE: Final = "Wechatpay-Nonce"
SERIAL: Final = "Wechatpay-Serial"
SIGNATURE: Final = "Wechatpay-Signature"
SIGNATURE_TYPE: Final = "Wechatpay-Signature-Type"
RSA_SHA256: Final = "WECHATPAY2-SHA256-RSA2048"
KEY_SIZE: Final = 32
HEX: Final = re.compile("[0-9A-Fa-f]{1,64}")
SHORT_SIZES: Final = frozenset({16, 24, KEY_SIZE})
WINDOW_S: Final = 299  # less than 300 s, as the channel's own SDK has it


class Credentials(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The credentials file of one merchant."""

    api_v3_keys: list[str] = []
    """Every live APIv3 key, 32 bytes each: two while it is changed. Needed to receive."""
    platform_certificates: list[str] = []
    """Live platform certificates, PEM; each has its serial in it."""
    platform_public_keys: dict[str, str] = {}
    """Live platform public keys, PEM, by the name that the channel gives them (`PUB_KEY_ID_…`). Certificates and keys may live
    side by side; one of the two is needed to receive, and to send."""
    app_id: str = ""
    """The application that the merchant's orders are placed for, `wx…`. Needed to send."""
    merchant_serial: str = ""
    """The serial of the merchant's API certificate, hexadecimal. Needed to send."""
    merchant_private_key: str = ""
    """The private key of that certificate, PEM. Needed to send."""
    notify_url: str = ""
    """The gateway's address for this account, https and without a query. Needed to submit."""
    allow_short_keys: bool = False
    """Take APIv3 keys of 16 or 24 bytes. Only for published test vectors: no merchant has such a key."""


@dataclass(frozen=True, slots=True)
class Merchant:
    """The signing side of our requests."""

    app_id: str
    serial: str
    key: RSAPrivateKey
    notify_url: str


@dataclass(frozen=True, slots=True)
class Keys:
    """The credentials, ready. `platform` by serial."""

    api_keys: tuple[bytes, ...]
    platform: Mapping[str, RSAPublicKey]
    merchant: Merchant | None


def keys(credentials: Credentials) -> Keys:
    """Raises `ValueError` naming the field for what is no key."""
    allowed = SHORT_SIZES if credentials.allow_short_keys else {KEY_SIZE}
    api_keys = tuple(key.encode() for key in credentials.api_v3_keys)
    if any(len(key) not in allowed for key in api_keys):
        raise ValueError("api_v3_keys: one is not 32 bytes long; take it as set in the merchant's console")
    platform: dict[str, RSAPublicKey] = {}
    for pem in credentials.platform_certificates:
        serial, key = _read("platform_certificates", key_of_certificate, pem)
        platform[serial] = key
    for name, pem in credentials.platform_public_keys.items():
        platform[name] = _read("platform_public_keys", key_of_pem, pem)
    if not platform:
        raise ValueError("platform_certificates, platform_public_keys: both are empty; give at least one live key")
    return Keys(api_keys, platform, _merchant(credentials))


def _merchant(credentials: Credentials) -> Merchant | None:
    fields = ("app_id", "merchant_serial", "merchant_private_key")
    given = [bool(getattr(credentials, field)) for field in fields]
    if not any(given):
        return None
    if not all(given):
        raise ValueError(f"{fields[given.index(False)]}: it is empty; requests need {', '.join(fields)}")
    if not HEX.fullmatch(credentials.merchant_serial):
        raise ValueError("merchant_serial: it is not hexadecimal; take the serial of the merchant's API certificate")
    key = _read("merchant_private_key", lambda pem: load_pem_private_key(pem, None), credentials.merchant_private_key)
    if not isinstance(key, RSAPrivateKey):
        raise ValueError("merchant_private_key: it is not an RSA key; WeChat Pay v3 signs with RSA")  # noqa: TRY004  a file's content, not a type
    return Merchant(credentials.app_id, credentials.merchant_serial, key, credentials.notify_url)


def _read(field: str, reader: Callable[[bytes], Any], pem: str) -> Any:
    try:
        return reader(pem.encode())
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        # the parser's own words may quote what it read
        raise ValueError(f"{field}: it is not an RSA key or certificate in PEM; copy the whole file") from error


def key_of_certificate(pem: bytes) -> tuple[str, RSAPublicKey]:
    """(serial in upper-case hexadecimal, public key) of a platform certificate."""
    certificate = x509.load_pem_x509_certificate(pem)
    return f"{certificate.serial_number:X}", _rsa(certificate.public_key())


def key_of_pem(pem: bytes) -> RSAPublicKey:
    """The key in a PEM file under a name of the channel's (`PUB_KEY_ID_…`): a public key, or a certificate's."""
    return key_of_certificate(pem)[1] if b"CERTIFICATE" in pem else _rsa(load_pem_public_key(pem))


def _rsa(key: object) -> RSAPublicKey:
    if not isinstance(key, RSAPublicKey):
        raise ValueError("the key is not an RSA key; WeChat Pay v3 signs with RSA")  # noqa: TRY004  a file's content, not a type
    return key


def verify(live: Keys, received: Received) -> None:
    """Accept a notice that the platform key of its serial signed less than 300 s from its receipt, either way, or raise a `Refused`.

    An absent signature type is the default one. WeChat Pay probes with bad signatures that start `WECHATPAY/SIGNTEST/` and watches that
    they are refused: they are refused like any other, and need no rule of their own.
    """
    signed_s = check_signature(live.platform, received.headers, received.body)
    check_fresh(signed_s, int(received.at.timestamp()), TIMESTAMP, WINDOW_S)


def check_signature(platform: Mapping[str, RSAPublicKey], headers: Mapping[str, str], body: bytes) -> int:
    """The signed time, in Unix seconds, of a message that a platform key signed. Raises a `Refused`."""
    kind = optional_header(headers, SIGNATURE_TYPE) or RSA_SHA256
    if kind != RSA_SHA256:
        raise Malformed(SIGNATURE_TYPE, "the signature type is not supported", f"ask the channel for {RSA_SHA256}")
    timestamp, nonce, serial, signature = (header(headers, name) for name in (TIMESTAMP, NONCE, SERIAL, SIGNATURE))
    signed_s = unix_seconds(timestamp, TIMESTAMP)
    key = platform.get(serial) or platform.get(serial.upper().lstrip("0"))
    if key is None:
        raise BadSignature(SERIAL, "no live platform key has this serial", "add the platform certificate or public key")
    message = f"{timestamp}\n{nonce}\n".encode(errors="replace") + body + b"\n"
    try:
        key.verify(base64.b64decode(signature, validate=True), message, PKCS1v15(), SHA256())
    except (binascii.Error, ValueError, InvalidSignature) as error:
        raise BadSignature(SIGNATURE, "the platform key did not make it", "pass the raw body and headers") from error
    return signed_s


ADAPTER: Final = Adapter(
    channel=CHANNEL,
    credentials=Credentials,
    keys=keys,
    verify=verify,
    events=lambda live, received, contract: wechatpay_events.events(live.api_keys, received, contract),
)
