"""How the simulator speaks as UnionPay: back notices, signed over the hash's text with a certificate of its own."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

import msgspec
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256

from streams.channels.amounts import to_channel_minor
from streams.channels.local_time import local
from streams.channels.unionpay import CHANNEL, FORM, digest_text, iso_number
from streams.simulator import seeded_rsa
from streams.simulator.dialect import Delivery, Dialect

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from streams.domain.contract import Contract
    from streams.simulator.dialect import Fact

MERCHANT: Final = "700000000000001"
TYPES: Final = {"payment": "01", "capture": "03", "refund": "04", "void": "32"}
CODES: Final = {"SUCCESS": "00", "AUTHORIZED": "00", "FAILED": "61", "CLOSED": "61"}
IN_DOUBT: Final = "05"


class Secrets(msgspec.Struct, frozen=True):
    """The signing side: UnionPay's key and certificate."""

    private_key: str
    certificate: str


def secrets(seed: int) -> tuple[Secrets, Mapping[str, Any]]:
    """Test keys of a seed, and the credentials file of our side."""
    own = seeded_rsa.key(seed, CHANNEL)
    pem = seeded_rsa.certificate_pem(seeded_rsa.certificate(own, f"unionpay test {seed}"))
    return Secrets(seeded_rsa.private_pem(own), pem), {"merchant_ids": [MERCHANT], "certificates": [pem]}


def notice(held: Secrets, fact: Fact, account: str, now: datetime, contract: Contract) -> Delivery:
    """A back notice. A fact about an operation carries the operation's own number, and the payment's transaction as the original."""
    del account, now  # the merchant number stands for the one, and no time of sending is in a notice
    kind = "02" if fact.word == "AUTHORIZED" and fact.about == "payment" else TYPES.get(fact.about, "01")
    about_payment = fact.about == "payment"
    reserved = {"order_id": fact.order_id, "payment_no": fact.payment_no}
    amount = to_channel_minor(contract, fact.currency, fact.amount)
    fields = {
        "version": "5.1.0",
        "encoding": "UTF-8",
        "signMethod": "01",
        "txnType": kind,
        "txnSubType": "01",
        "bizType": "000201",
        "accessType": "0",
        "merId": MERCHANT,
        "orderId": fact.payment_no if about_payment else fact.operation_no or "",
        "txnTime": local(fact.at, FORM, contract.tz),
        "txnAmt": "" if amount is None else str(amount),
        "currencyCode": iso_number(fact.currency) or "",
        "queryId": fact.transaction if about_payment else fact.operation_transaction or "",
        "origQryId": "" if about_payment else fact.transaction,
        "respCode": CODES.get(fact.word, IN_DOUBT),
        "respMsg": "成功[0000000]" if fact.word == "SUCCESS" else "处理中",
        "reqReserved": base64.b64encode(json.dumps(reserved).encode()).decode(),
        "signPubKeyCert": held.certificate,
    }
    return signed(held, fields)


def signed(held: Secrets, fields: Mapping[str, str], *, charset: str = "utf-8") -> Delivery:
    """The delivery of a notice with these fields, empty ones left out."""
    form = {name: value.encode(charset) for name, value in fields.items() if value}
    text = b"&".join(name.encode() + b"=" + value for name, value in sorted(form.items()))
    signature = seeded_rsa.loaded(held.private_key).sign(digest_text(text), PKCS1v15(), SHA256())
    form["signature"] = base64.b64encode(signature)
    headers = {"content-type": f"application/x-www-form-urlencoded;charset={charset}"}
    return Delivery(headers=headers, body=urlencode(form).encode())


DIALECT: Final[Dialect[Secrets]] = Dialect(channel=CHANNEL, secrets=secrets, notice=notice)
