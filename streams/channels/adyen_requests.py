"""Requests to Adyen's Checkout API, and what its replies prove.

| verb | call |
| --- | --- |
| submit | `POST /payments`; the payment method is JSON in `details["payment_method"]` |
| capture, refund | `POST /payments/{pspReference}/captures`, `…/refunds` |
| void | `POST /payments/{pspReference}/cancels` |
| close | the same, or `POST /cancels` with our own number where the payment's `pspReference` is not known |

A modification is only ever `received`; its notification says how it ended. There is no query: a lost answer is settled by
notifications and by the settlement report. A refusal for security or form ends a submit's attempt, because nothing was begun; of an
operation only one for security is a failure, as an earlier sending of the same request may be why the form is refused now.
"""

from __future__ import annotations

import hashlib
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec
from msgspec import Struct

from streams.channels.adyen import CHANNEL, Credentials, Keys
from streams.channels.adyen_items import CAPTURE, UNREADABLE, VOID, WHOLE, Amount
from streams.channels.amounts import from_channel_minor, to_channel_minor
from streams.channels.requests import Call, Nothing, Reply, Requests, Said, details
from streams.domain.fields import MAX_AMOUNT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from streams.domain.contract import Contract
    from streams.domain.decisions import ChannelRequest

ENDPOINT: Final = "https://checkout-test.adyen.com/v71"
"""The test system. The live one has a name of the company's own in it, so it is set with the account."""
UNKNOWN: Final = "PROCESSING"
LONGEST_REFERENCE: Final = 80
MOST_PAYER_ACTION: Final = 4096
TAKEN: Final = frozenset({200, 201, 202})
SECURITY: Final = frozenset({401, 403})
IN_FLIGHT: Final = "704"
"""The error code of a request whose idempotency key is still at work."""
PASSED_ON: Final = ("channel", "countryCode", "origin", "shopperEmail", "shopperIP", "shopperInteraction", "shopperReference",
                    "storePaymentMethod", "recurringProcessingModel")  # fmt: skip
"""Details of a start that go to the channel as they are."""
WORDS: Final[Mapping[str, str]] = MappingProxyType({
    "Authorised": "SUCCESS",
    "PartiallyAuthorised": "SUCCESS",
    "Refused": "FAILED",
    "Error": "FAILED",
    "Cancelled": "FAILED",
    "Pending": "PENDING",
    "Received": "PENDING",
    "PresentToShopper": "PENDING",
    "RedirectShopper": "PENDING",
    "IdentifyShopper": "PENDING",
    "ChallengeShopper": "PENDING",
    "AuthenticationFinished": "PENDING",
    "AuthenticationNotRequired": "PENDING",
})  # fmt: skip
"""Result code -> our word. A partial authorisation has its own lower amount, which the law compares."""


class Result(Struct, frozen=True, rename="camel"):
    """The reply to a payment or a modification. Amounts in Adyen's minor units."""

    psp_reference: str | None = None
    result_code: str | None = None
    status: str | None = None
    amount: Amount | None = None
    refusal_reason_code: str | None = None
    action: dict[str, Any] | None = None


class Problem(Struct, frozen=True, rename="camel"):
    """The reply of an error."""

    error_code: str | None = None
    error_type: str | None = None


# -- out


def build(request: ChannelRequest, held: Keys, account: str, endpoint: str, _now: datetime, contract: Contract) -> Call:
    """The call of a request. Raises `ValueError` naming field and fix for what Adyen cannot be asked: nothing was sent."""
    if not held.api_key:
        raise ValueError("api_key: it is empty; give it in the credentials file")
    writer = WRITES.get(request.verb)
    if writer is None:
        raise ValueError(
            f"verb: Adyen has no {request.verb} of payments; its notifications and settlement report tell what became of one"
        )
    path, said = writer(request, held, contract)
    headers = {"Content-Type": "application/json", "X-API-Key": held.api_key, "Idempotency-Key": _key(request)}
    body = msgspec.json.encode({"merchantAccount": held.account(account), **said})
    return Call(method="POST", url=endpoint.rstrip("/") + path, headers=headers, body=body)


def _key(request: ChannelRequest) -> str:
    """The attempt's own key; a close is no attempt, so each asking to close has one of its own."""
    return hashlib.sha256(request.id.encode()).hexdigest() if request.verb == "CLOSE" else request.idempotency_key


def _reference(number: str | None, mark: str = "") -> str:
    reference = f"{mark}{number or ''}"
    if not number or len(reference) > LONGEST_REFERENCE:
        raise ValueError(
            f"reference: {mark}{'…' if mark else ''} needs 1 to {LONGEST_REFERENCE} characters; number it so"
        )
    return reference


def _amount(request: ChannelRequest, contract: Contract) -> dict[str, Any]:
    amount = to_channel_minor(contract, request.currency, request.amount)
    if amount is None or not 0 < amount <= MAX_AMOUNT:
        raise ValueError(f"amount: {request.amount} {request.currency} is no amount of Adyen's; ask for another one")
    return {"value": amount, "currency": request.currency}


def _path(request: ChannelRequest, what: str) -> str:
    """Modifications name the payment, never the operation."""
    psp = request.payment_transaction if request.operation_no else request.transaction
    if not psp:
        raise ValueError(
            f"payment_transaction: a {request.verb} needs the payment's pspReference; wait for its notification"
        )
    return f"/payments/{quote(psp, safe='')}/{what}"


def _submit(request: ChannelRequest, held: Keys, contract: Contract) -> tuple[str, dict[str, Any]]:
    given = details(request)
    said: dict[str, Any] = {
        "amount": _amount(request, contract),
        "reference": _reference(request.payment_no),
        "metadata": {"order_id": request.order_id, "payment_no": request.payment_no},
        **{name: given[name] for name in PASSED_ON if given.get(name)},
    }
    if "payment_method" in given:
        said["paymentMethod"] = _method(given["payment_method"])
    if "return_url" in given:
        said["returnUrl"] = given["return_url"]
    if held.manual_capture:
        said["additionalData"] = {"manualCapture": "true"}
    return "/payments", said


def _method(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except UNREADABLE:
        raise ValueError("details.payment_method: it is no JSON object; give what the payer's page made") from None


def _capture(request: ChannelRequest, _held: Keys, contract: Contract) -> tuple[str, dict[str, Any]]:
    said = {"amount": _amount(request, contract), "reference": _reference(request.operation_no, CAPTURE)}
    return _path(request, "captures"), said


def _refund(request: ChannelRequest, _held: Keys, contract: Contract) -> tuple[str, dict[str, Any]]:
    said = {"amount": _amount(request, contract), "reference": _reference(request.operation_no)}
    return _path(request, "refunds"), said


def _void(request: ChannelRequest, _held: Keys, _contract: Contract) -> tuple[str, dict[str, Any]]:
    return _path(request, "cancels"), {"reference": _reference(request.operation_no, VOID)}


def _close(request: ChannelRequest, _held: Keys, _contract: Contract) -> tuple[str, dict[str, Any]]:
    said = {"reference": _reference(request.payment_no)}
    if request.transaction:
        return _path(request, "cancels"), said
    return "/cancels", said | {"paymentReference": request.payment_no}


WRITES: Final[Mapping[str, Callable[[ChannelRequest, Keys, Contract], tuple[str, dict[str, Any]]]]] = {
    "SUBMIT": _submit,
    "CAPTURE": _capture,
    "REFUND": _refund,
    "VOID": _void,
    "CLOSE": _close,
}


# -- back


def classify(request: ChannelRequest, reply: Reply | Nothing, held: Keys, contract: Contract) -> Said:
    """What the reply proves. Never raises."""
    if not isinstance(reply, Reply):
        return Said(status=UNKNOWN, error_class=reply)
    try:
        if reply.status not in TAKEN:
            return _refused(request, reply)
        result = msgspec.json.decode(reply.body, type=Result)
    except UNREADABLE:
        return Said(status=UNKNOWN, error_class=f"{reply.status} unreadable")
    if request.verb == "SUBMIT":
        return _paid(result, held, contract)
    return _taken(request, result)


def _paid(result: Result, held: Keys, contract: Contract) -> Said:
    code = result.result_code or ""
    word = WORDS.get(code, UNKNOWN)
    if word == "SUCCESS" and held.manual_capture:
        word = "AUTHORIZED"
    return Said(
        status=word,
        transaction=_id(result.psp_reference),
        error_class=(result.refusal_reason_code or code)[:256] or None,
        payer_action=_action(result) if word == "PENDING" else None,
        **_money(result.amount, contract),
    )


def _taken(request: ChannelRequest, result: Result) -> Said:
    """`received` is no result; its own reference is, for a close, not the payment's."""
    known = result.status == "received"
    own = None if request.verb == "CLOSE" else _id(result.psp_reference)
    return Said(status="ACCEPTED" if known else UNKNOWN, transaction=own, error_class=None if known else "status")


def _id(text: str | None) -> str | None:
    return text if text and len(text) <= 256 else None


def _action(result: Result) -> str | None:
    """What the payer's page goes on with, as JSON."""
    text = msgspec.json.encode(result.action).decode() if result.action else ""
    return text if text and len(text) <= MOST_PAYER_ACTION else None


def _money(stated: Amount | None, contract: Contract) -> dict[str, Any]:
    """In our minor units; an amount that the currency cannot express is unknown, and so proves no success."""
    if stated is None or not stated.currency or len(stated.currency) != 3:
        return {}
    text = str(stated.value)
    amount = from_channel_minor(contract, stated.currency, int(text)) if WHOLE.fullmatch(text) else None
    return {"amount": amount, "currency": stated.currency}


def _refused(request: ChannelRequest, reply: Reply) -> Said:
    if not 400 <= reply.status < 500 or "transient-error" in {name.lower() for name in reply.headers}:
        return Said(status=UNKNOWN, error_class=str(reply.status))
    if reply.status in SECURITY:
        word = "PENDING" if request.verb == "CLOSE" else "FAILED"
        return Said(status=word, error_class=str(reply.status))
    problem = msgspec.json.decode(reply.body, type=Problem)
    code = f"{reply.status}/{problem.error_code or ''}"[:256]
    if reply.status != 422 or problem.error_type != "validation" or problem.error_code == IN_FLIGHT:
        return Said(status=UNKNOWN, error_class=code)
    if request.verb == "SUBMIT":
        return Said(status="FAILED", error_class="validation")
    return Said(status="PENDING" if request.verb == "CLOSE" else UNKNOWN, error_class=code)


REQUESTS: Final[Requests[Credentials, Keys]] = Requests(
    channel=CHANNEL, endpoint=ENDPOINT, build=build, classify=classify
)
