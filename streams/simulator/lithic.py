"""How the simulator speaks as Lithic: a card's transaction with its whole history, signed by Standard Webhooks."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct
from standardwebhooks.webhooks import Webhook

from streams.channels.amounts import to_channel_minor
from streams.channels.lithic import CHANNEL, ID, SIGNATURE, TIMESTAMP
from streams.simulator.dialect import Delivery, Dialect, Fact

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from streams.domain.contract import Contract


class Secrets(Struct, frozen=True):
    """The signing side."""

    webhook_secret: str


def secrets(seed: int) -> tuple[Secrets, Mapping[str, Any]]:
    """(the channel's side, our credentials file)"""
    made = base64.b64encode(hashlib.sha256(f"{CHANNEL}/{seed}".encode()).digest()[:24]).decode()
    found = Secrets(f"whsec_{made}")
    return found, {"webhook_secrets": [found.webhook_secret]}


def notice(held: Secrets, fact: Fact, account: str, now: datetime, contract: Contract) -> Delivery:
    """The delivery of a fact: the hold first, then what became of it."""
    del account
    money = {"amount": to_channel_minor(contract, fact.currency, fact.amount), "currency": fact.currency}
    posted = "RETURN" if fact.operation_no else "CLEARING"
    history = [event("AUTHORIZATION", f"{fact.transaction}-hold", money, fact)]
    if fact.word == "SUCCESS":
        history.append(event(posted, fact.event_id, money, fact))
    names = {"order_id": fact.order_id, "payment_no": fact.payment_no} if fact.order_id else {}
    said = {
        "event_type": "card_transaction.updated",
        "token": fact.transaction,
        "status": "SETTLED" if fact.word == "SUCCESS" else "PENDING",
        "result": "APPROVED" if fact.word != "FAILED" else "DECLINED",
        "tags": names,
        "events": history,
    }
    return delivered(held, msgspec.json.encode(said), f"msg_{fact.event_id}", now)


def event(kind: str, token: str, money: Mapping[str, Any], fact: Fact) -> dict[str, Any]:
    """One event of the history."""
    return {
        "token": token,
        "type": kind,
        "amount": money["amount"],
        "amounts": {"cardholder": money, "merchant": money, "settlement": None},
        "result": "APPROVED" if fact.word != "FAILED" else "DECLINED",
        "created": fact.at.isoformat().replace("+00:00", "Z"),
        "network_info": {"acquirer": {"acquirer_reference_number": f"N{fact.transaction}"}, "visa": None},
    }


def delivered(held: Secrets, body: bytes, number: str, at: datetime) -> Delivery:
    """A body with its headers, signed at `at`."""
    made = Webhook(held.webhook_secret).sign(number, at, body.decode())
    time = str(int(at.timestamp()))
    return Delivery(
        headers={"Content-Type": "application/json", ID: number, TIMESTAMP: time, SIGNATURE: made}, body=body
    )


DIALECT: Final = Dialect(channel=CHANNEL, secrets=secrets, notice=notice)
