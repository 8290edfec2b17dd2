"""WeChat Pay v3 notices: verify one, open its sealed resource, and map it to what it says about one of our payments.

The signature covers `timestamp\\nnonce\\nbody\\n` with the platform's key that the serial names; what it says is sealed
with the merchant's 32-byte APIv3 key. `out_trade_no` is our payment number. The merchant order id travels in `attach`,
which our side sets to the JSON text `{"order_id": "…"}` when it places the order; without it the out-trade number is
the order id.

The account is the merchant number (`mchid`); a notice about another one is kept, not mapped.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any, Final

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from streams.channels.verification import (
    BadSignature,
    Malformed,
    check_fresh,
    evidence,
    header,
    in_utc,
    optional_header,
    unix_seconds,
)
from streams.domain.events import Amount, Callback, Currency, Unmapped

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

CHANNEL: Final = "wechatpay"
TIMESTAMP: Final = "Wechatpay-Timestamp"
NONCE: Final = "Wechatpay-Nonce"
SERIAL: Final = "Wechatpay-Serial"
SIGNATURE: Final = "Wechatpay-Signature"
SIGNATURE_TYPE: Final = "Wechatpay-Signature-Type"
RSA_SHA256: Final = "WECHATPAY2-SHA256-RSA2048"
ALGORITHM: Final = "AEAD_AES_256_GCM"
KEY_SIZE: Final = 32
NONCE_SIZE: Final = 12
WINDOW_S: Final = 299  # less than 300 s, as the channel's own SDK has it

WORDS: Final = {
    "SUCCESS": "SUCCESS",
    "REFUND": "SUCCESS",  # was paid, and later refunded: the payment stays a success
    "CLOSED": "CLOSED",
    "REVOKED": "CLOSED",
    "PAYERROR": "FAILED",
    "NOTPAY": "PENDING",
    "USERPAYING": "PROCESSING",
}


class Resource(msgspec.Struct, frozen=True):
    """The sealed part of a notice; `ciphertext` is base64 with the tag in its last 16 bytes."""

    ciphertext: str
    nonce: str
    algorithm: str = ALGORITHM
    associated_data: str | None = None


class Notice(msgspec.Struct, frozen=True):
    """The envelope of every notice."""

    id: str
    event_type: str
    resource: Resource
    create_time: str | None = None


class Total(msgspec.Struct, frozen=True):
    """What the buyer owes, in minor units (fen)."""

    total: Amount | None = None
    currency: Currency | None = None


class Transaction(msgspec.Struct, frozen=True):
    """The opened resource of a payment notice."""

    mchid: str
    out_trade_no: str
    trade_state: str
    transaction_id: str | None = None
    attach: str | None = None
    success_time: str | None = None
    amount: Total = Total()


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


def verify(headers: Mapping[str, str], body: bytes, keys: Mapping[str, RSAPublicKey], now_s: int) -> None:
    """Accept a notice that the platform key of its serial signed less than 300 s from `now_s`, or raise a `Refused`.

    `keys` maps each live serial (certificate serial in hexadecimal, or `PUB_KEY_ID_…`) to its key.
    """
    kind = optional_header(headers, SIGNATURE_TYPE) or RSA_SHA256
    if kind != RSA_SHA256:
        raise Malformed(SIGNATURE_TYPE, "the signature type is not supported", f"ask the channel for {RSA_SHA256}")
    timestamp, nonce, serial, signature = (header(headers, name) for name in (TIMESTAMP, NONCE, SERIAL, SIGNATURE))
    signed_s = unix_seconds(timestamp, TIMESTAMP)
    key = keys.get(serial) or keys.get(serial.upper().lstrip("0"))
    if key is None:
        raise BadSignature(SERIAL, "no live platform key has this serial", "add the platform certificate or public key")
    message = f"{timestamp}\n{nonce}\n".encode() + body + b"\n"
    try:
        key.verify(base64.b64decode(signature, validate=True), message, PKCS1v15(), SHA256())
    except (binascii.Error, ValueError, InvalidSignature) as error:
        # WeChat probes with signatures that start WECHATPAY/SIGNTEST/ and watches that they are refused like any other.
        raise BadSignature(SIGNATURE, "the platform key did not make it", "pass the raw body and headers") from error
    check_fresh(signed_s, now_s, TIMESTAMP, WINDOW_S)


def decrypt(resource: Resource, keys: Sequence[bytes], *, key_size: int = KEY_SIZE) -> bytes:
    """Open a sealed resource with the live APIv3 keys. `key_size` is for published test vectors that break the rule."""
    if any(len(key) != key_size for key in keys):
        raise ValueError(f"an APIv3 key is not {key_size} bytes long; take it as set in the merchant's console")
    if resource.algorithm != ALGORITHM:
        raise Malformed("resource.algorithm", "the algorithm is not supported", f"it must be {ALGORITHM}")
    if len(resource.nonce.encode()) != NONCE_SIZE:
        raise Malformed("resource.nonce", "it is not 12 bytes", "keep the resource as it was received")
    try:
        sealed = base64.b64decode(resource.ciphertext, validate=True)
    except ValueError as error:
        raise Malformed("resource.ciphertext", "it is not base64", "keep the resource as it was received") from error
    for key in keys:
        try:
            return AESGCM(key).decrypt(resource.nonce.encode(), sealed, (resource.associated_data or "").encode())
        except InvalidTag:
            continue
    raise BadSignature("resource.ciphertext", "no live APIv3 key opens it", "add the merchant's current APIv3 key")


def to_events(
    headers: Mapping[str, str],
    body: bytes,
    account: str,
    *,
    api_keys: Sequence[bytes],
    received_at: datetime | None = None,
    key_size: int = KEY_SIZE,
) -> list[Callback | Unmapped]:
    """Map a verified notice. What cannot be mapped comes back as `Unmapped` with the reason: it is kept all the same.

    Raises `BadSignature` when none of our APIv3 keys opens it: that is our missing key, and the channel sends it again.
    """
    channel, raw = f"{CHANNEL}:{account}", evidence(headers, body)
    try:
        notice = msgspec.json.decode(body, type=Notice)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return [Unmapped(channel=channel, event_type="", reason=f"the body is not a notice: {error}", raw=raw)]
    payment = _not_handled(notice.event_type) or _payment(notice, account, api_keys, key_size)
    common: dict[str, Any] = {"channel": channel, "event_type": notice.event_type, "event_id": notice.id, "raw": raw}
    if isinstance(payment, str):
        return [Unmapped(reason=payment, **common)]
    return [Callback(received_at=received_at, **payment, **common)]


def _not_handled(event_type: str) -> str | None:
    if event_type.startswith("REFUND."):
        return "refund notices are not handled by this version"
    if not event_type.startswith("TRANSACTION."):
        return f"event_type: {event_type} says nothing about a payment"
    return None


def _payment(notice: Notice, account: str, api_keys: Sequence[bytes], key_size: int) -> dict[str, Any] | str:
    """The payment's fields, or the reason why there are none."""
    try:
        transaction = msgspec.json.decode(decrypt(notice.resource, api_keys, key_size=key_size), type=Transaction)
    except Malformed as error:
        return str(error)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return f"resource: {error}"
    if transaction.mchid != account:
        return f"mchid: the notice is about {transaction.mchid}, not {account}; give each merchant its own endpoint"
    order_id = _order_id(transaction)
    if not order_id or not transaction.out_trade_no:
        return 'out_trade_no and attach: a payment number and {"order_id": "text"} are needed; set them with the order'
    word = WORDS.get(transaction.trade_state, transaction.trade_state)
    if notice.event_type == "TRANSACTION.SUCCESS" and word != "SUCCESS":
        word = "CONTRADICTORY"  # the notice's name and its content must tell the same story
    happened_at = transaction.success_time or notice.create_time
    return {
        "order_id": order_id,
        "payment_no": transaction.out_trade_no,
        "status": word,
        "transaction": transaction.transaction_id,
        "amount": transaction.amount.total,
        "currency": transaction.amount.currency,
        "event_time": in_utc(happened_at) if happened_at else None,
    }


def _order_id(transaction: Transaction) -> str | None:
    """From `attach` if that is a JSON object; a merchant's own text there leaves the out-trade number."""
    try:
        attached = msgspec.json.decode(transaction.attach or "", type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return transaction.out_trade_no
    order_id = attached.get("order_id", transaction.out_trade_no)
    return order_id if isinstance(order_id, str) else None
