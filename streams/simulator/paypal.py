"""How the simulator speaks as PayPal: webhooks with v2 resources, signed by a certificate of a test authority under PayPal's address."""

from __future__ import annotations

import base64
import json
from datetime import UTC
from typing import TYPE_CHECKING, Any, Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256

from streams.channels.amounts import to_text
from streams.channels.paypal import ALGORITHM, CERTIFICATE, CHANNEL, ID, RSA_SHA256, SIGNATURE, TIME, signed_text
from streams.simulator import seeded_rsa
from streams.simulator.dialect import Delivery, Dialect

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from streams.domain.contract import Contract
    from streams.simulator.dialect import Fact

WEBHOOK: Final = "7TE00000000000001"
NAME: Final = "messageverificationcerts.sandbox.paypal.com"
ADDRESS: Final = "https://api.sandbox.paypal.com/v1/notifications/certs/CERT-test-"
API: Final = "https://api.sandbox.paypal.com/v2/payments"
FORM: Final = "%Y-%m-%dT%H:%M:%SZ"
PAYMENTS: Final = {
    "SUCCESS": ("PAYMENT.CAPTURE.COMPLETED", "COMPLETED"),
    "PROCESSING": ("PAYMENT.CAPTURE.PENDING", "PENDING"),
    "AUTHORIZED": ("PAYMENT.AUTHORIZATION.CREATED", "CREATED"),
}
DECLINED: Final = ("PAYMENT.CAPTURE.DECLINED", "DECLINED")
REFUNDS: Final = {
    "SUCCESS": ("PAYMENT.CAPTURE.REFUNDED", "COMPLETED"),
    "PROCESSING": ("PAYMENT.REFUND.PENDING", "PENDING"),
}
REFUND_FAILED: Final = ("PAYMENT.REFUND.FAILED", "FAILED")
VOIDED: Final = ("PAYMENT.AUTHORIZATION.VOIDED", "VOIDED")
DISPUTED: Final = ("CUSTOMER.DISPUTE.CREATED", "OPEN")


class Secrets(msgspec.Struct, frozen=True):
    """The signing side: PayPal's key, the address of its certificate, and our webhook's id."""

    private_key: str
    address: str
    webhook_id: str


def secrets(seed: int) -> tuple[Secrets, Mapping[str, Any]]:
    """Test keys of a seed, and the credentials file of our side."""
    root, own = seeded_rsa.key(seed, "paypal authority"), seeded_rsa.key(seed, CHANNEL)
    authority = f"test authority {seed}"
    leaf = seeded_rsa.certificate(own, NAME, issuer=(root, authority))
    ours = {
        "webhook_ids": [WEBHOOK],
        "certificates": {f"{ADDRESS}{seed}": seeded_rsa.certificate_pem(leaf)},
        "roots": [seeded_rsa.certificate_pem(seeded_rsa.certificate(root, authority))],
    }
    return Secrets(seeded_rsa.private_pem(own), f"{ADDRESS}{seed}", WEBHOOK), ours


def notice(held: Secrets, fact: Fact, account: str, now: datetime, contract: Contract) -> Delivery:
    """The webhook of a fact."""
    del account, contract  # the webhook's id stands for the one, and amounts are decimal text
    event_type, status = _named(fact)
    is_refund = fact.about == "refund"
    resource = {
        "id": fact.operation_transaction or fact.transaction,
        "status": status,
        "amount": {"value": to_text(fact.currency, fact.amount), "currency_code": fact.currency},
        "custom_id": fact.order_id,
        "invoice_id": fact.operation_no if fact.operation_no and fact.about != "void" else fact.payment_no,
        "links": [{"href": f"{API}/captures/{fact.transaction}", "rel": "up", "method": "GET"}] if is_refund else [],
    }
    event = {
        "id": fact.event_id,
        "event_version": "1.0",
        "create_time": fact.at.astimezone(UTC).strftime(FORM),
        "resource_type": event_type.split(".")[1].lower(),
        "resource_version": "2.0",
        "event_type": event_type,
        "resource": resource,
    }
    return signed(
        held, json.dumps(event, separators=(",", ":")).encode(), number=f"transmission-{fact.event_id}", at=now
    )


def _named(fact: Fact) -> tuple[str, str]:
    """The event's name and the object's state."""
    if fact.about == "refund":
        return REFUNDS.get(fact.word, REFUND_FAILED)
    if fact.about == "void":
        return VOIDED
    return DISPUTED if fact.about == "dispute" else PAYMENTS.get(fact.word, DECLINED)


def signed(held: Secrets, body: bytes, *, number: str, at: datetime) -> Delivery:
    """The delivery of a body, signed at `at`."""
    time = at.astimezone(UTC).strftime(FORM)
    text = signed_text(number, time, held.webhook_id, body)
    signature = seeded_rsa.loaded(held.private_key).sign(text, PKCS1v15(), SHA256())
    headers = {
        "content-type": "application/json",
        ID.lower(): number,
        TIME.lower(): time,
        CERTIFICATE.lower(): held.address,
        ALGORITHM.lower(): RSA_SHA256,
        SIGNATURE.lower(): base64.b64encode(signature).decode(),
    }
    return Delivery(headers=headers, body=body)


DIALECT: Final[Dialect[Secrets]] = Dialect(channel=CHANNEL, secrets=secrets, notice=notice)
