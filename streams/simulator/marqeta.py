"""How the simulator speaks as Marqeta: a card's entries as batches of transactions, with Basic authentication and an HMAC."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import TYPE_CHECKING, Any, Final

from msgspec import Raw, Struct
from msgspec import json as encoder

from streams.channels.amounts import iso_exponents
from streams.channels.marqeta import CHANNEL, SIGNATURE
from streams.simulator.dialect import Delivery, Dialect, Fact

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from streams.domain.contract import Contract

STATES: Final = {"SUCCESS": "COMPLETION", "FAILED": "DECLINED", "CLOSED": "DECLINED"}


class Secrets(Struct, frozen=True):
    """The signing side."""

    username: str
    password: str
    secret: str


def secrets(seed: int) -> tuple[Secrets, Mapping[str, Any]]:
    """(the channel's side, our credentials file)"""
    made = [hashlib.sha256(f"{CHANNEL}/{seed}/{name}".encode()).hexdigest()[:40] for name in ("password", "secret")]
    found = Secrets("issuer", *made)
    return found, {"basic": [{"username": found.username, "password": found.password}], "secrets": [found.secret]}


def notice(held: Secrets, fact: Fact, account: str, now: datetime, contract: Contract) -> Delivery:
    """The delivery of a fact as a batch of one. A fact that is no card's entry is told as the purchase or refund it would make."""
    del account, now, contract
    return batch(held, [transaction(fact)])


def transaction(fact: Fact) -> dict[str, Any]:
    """The transaction of a fact: a purchase, or a refund where the fact has an operation of its own."""
    posted = fact.word == "SUCCESS"
    clearing = "authorization.clearing" if posted else "authorization"
    return {
        "token": fact.event_id,
        "type": "refund" if fact.operation_no else clearing,
        "state": STATES.get(fact.word, "PENDING"),
        "amount": Raw(major(fact.amount, fact.currency).encode()),
        "currency_code": fact.currency,
        "created_time": fact.at.isoformat(),
        "preceding_related_transaction_token": fact.transaction,
        "network_reference_id": f"N{fact.transaction}",
        "metadata": {"order_id": fact.order_id, "payment_no": fact.payment_no} if fact.order_id else {},
        "response": {"code": "0000", "memo": "Approved or completed successfully"},
    }


def major(amount: int, currency: str) -> str:
    """Minor units as the JSON number that the channel writes."""
    exponent = iso_exponents()[currency]
    sign, (whole, rest) = "-" if amount < 0 else "", divmod(abs(amount), 10**exponent)
    return f"{sign}{whole}.{rest:0{exponent}d}" if exponent else f"{sign}{whole}.0"


def batch(held: Secrets, transactions: Sequence[Mapping[str, Any]]) -> Delivery:
    """The delivery of these transactions."""
    return delivered(held, encoder.encode({"transactions": transactions}))


def ping(held: Secrets) -> Delivery:
    """The delivery that asks whether we are there."""
    return delivered(held, json.dumps({"pings": [{"token": "marqeta", "payload": "healthcheck"}]}).encode())


def delivered(held: Secrets, body: bytes, algorithm: str = "sha256") -> Delivery:
    """A body with its headers."""
    basic = base64.b64encode(f"{held.username}:{held.password}".encode()).decode()
    made = hmac.new(held.secret.encode(), body, algorithm).hexdigest()
    headers = {"Content-Type": "application/json", "Authorization": f"Basic {basic}", SIGNATURE: made}
    return Delivery(headers=headers, body=body)


DIALECT: Final = Dialect(channel=CHANNEL, secrets=secrets, notice=notice)
