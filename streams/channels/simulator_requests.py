"""Requests to the simulated channel: a plain JSON API, one address for each verb.

| verb | call |
| --- | --- |
| submit | `POST /payments` |
| query | `GET /payments/{payment_no}`, `GET /payments/{payment_no}/operations/{operation_no}` |
| close | `POST /payments/{payment_no}/close` |
| capture, void, refund | `POST /payments/{payment_no}/captures`, `/voids`, `/refunds` |

Every call carries `Authorization: Bearer <api_key>`; every POST `Idempotency-Key`. A reply is
`{"status", "transaction"?, "amount"?, "currency"?, "payer_action"?, "error"?}`, amounts in minor units.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec

from streams.channels import simulator
from streams.channels.requests import Call, Reply, Requests, Said
from streams.domain.fields import Amount, Currency, Id, Text, Word  # noqa: TC001  msgspec reads the annotations

if TYPE_CHECKING:
    from datetime import datetime

    from streams.channels.requests import Nothing
    from streams.domain.contract import Contract
    from streams.domain.decisions import ChannelRequest

ENDPOINT: Final = "http://127.0.0.1:8700/simulator"
PLURALS: Final = {"CAPTURE": "captures", "VOID": "voids", "REFUND": "refunds"}
ANSWERED: Final = frozenset({200, 201, 402, 404, 409, 422})
"""The statuses whose body is an answer; whatever comes with any other proves nothing."""
UNKNOWN: Final = "TIMEOUT"
"""The law's word for no answer."""


class Body(msgspec.Struct, frozen=True):
    """What a reply says."""

    status: Word
    transaction: Id | None = None
    amount: Amount | None = None
    currency: Currency | None = None
    payer_action: str | None = None
    error: Text | None = None


def build(
    request: ChannelRequest, keys: simulator.Keys, _account: str, endpoint: str, _now: datetime, _contract: Contract
) -> Call:
    """The call of a request. Raises `ValueError` where the simulator has no such thing."""
    headers = {"Authorization": f"Bearer {keys.api_key}", "Accept": "application/json"}
    payment = f"{endpoint}/payments/{quote(request.payment_no, safe='')}"
    if request.verb == "QUERY":
        return Call(method="GET", url=payment + _operation(request), headers=headers)
    headers |= {"Content-Type": "application/json", "Idempotency-Key": request.idempotency_key}
    body: dict[str, Any] = {"amount": request.amount, "currency": request.currency, "order_id": request.order_id}
    if request.verb == "SUBMIT":
        url, body["payment_no"] = f"{endpoint}/payments", request.payment_no
    elif request.verb == "CLOSE":
        url, body = f"{payment}/close", {}
    else:
        if not request.operation_no:
            raise ValueError(f"operation_no: a {request.verb} has none; ask for it by its own number")
        url, body["operation_no"] = f"{payment}/{PLURALS[request.verb]}", request.operation_no
    return Call(method="POST", url=url, headers=headers, body=msgspec.json.encode(body))


def _operation(request: ChannelRequest) -> str:
    return "" if not request.operation_no else f"/operations/{quote(request.operation_no, safe='')}"


def classify(_request: ChannelRequest, reply: Reply | Nothing, _keys: simulator.Keys, _contract: Contract) -> Said:
    """What the reply proves: its own word, or nothing."""
    if not isinstance(reply, Reply):
        return Said(status=UNKNOWN, error_class=reply)
    if reply.status not in ANSWERED:
        return Said(status=UNKNOWN, error_class=f"http_{reply.status}")
    try:
        body = msgspec.json.decode(reply.body, type=Body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return Said(status=UNKNOWN, error_class="unreadable")
    return Said(
        status=body.status or UNKNOWN,
        transaction=body.transaction or None,
        amount=body.amount,
        currency=body.currency,
        payer_action=body.payer_action,
        error_class=body.error,
    )


REQUESTS: Final[Requests[simulator.Credentials, simulator.Keys]] = Requests(
    channel=simulator.CHANNEL, endpoint=ENDPOINT, build=build, classify=classify
)
