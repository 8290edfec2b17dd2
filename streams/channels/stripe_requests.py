"""Requests to Stripe's API: PaymentIntents and Refunds, form-encoded, under our idempotency key.

| verb | call |
| --- | --- |
| submit | `POST /v1/payment_intents`; with a payment method in the details it is confirmed at once, without one the payer confirms it |
| query | `GET /v1/payment_intents/{id}`; without the id `GET /v1/payment_intents/search` by our number, which lags up to a minute |
| capture | `POST /v1/payment_intents/{id}/capture`, named by `metadata[capture_no]` |
| close, void | `POST /v1/payment_intents/{id}/cancel` |
| refund | `POST /v1/refunds`, named by `metadata[refund_no]` |
| query of a refund | `GET /v1/refunds/{id}`; without the id `GET /v1/refunds` of the payment, where its metadata shows which is ours |

A 409, 424 or 5xx, and whatever is no readable object of Stripe, proves nothing. An error of the request proves that it was not accepted,
but for a query, which proves nothing about the payment by failing, and an idempotency error, behind which an earlier request stands.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct

from streams.channels import stripe
from streams.channels.amounts import from_channel_minor, to_channel_minor
from streams.channels.requests import Call, Reply, Requests, Said, details
from streams.channels.stripe_objects import INTENT_WORDS, REFUND_WORDS, UNREADABLE, Intent, Refund

if TYPE_CHECKING:
    from streams.channels.requests import Nothing
    from streams.domain.contract import Contract
    from streams.domain.decisions import ChannelRequest

ENDPOINT: Final = "https://api.stripe.com"
VERSION: Final = "2024-06-20"
"""The API version that the objects here are read by, whatever the account's default is."""
INTENTS: Final = "/v1/payment_intents"
REFUNDS: Final = "/v1/refunds"
PASSED_ON: Final = (
    "payment_method", "customer", "description", "return_url", "capture_method", "off_session", "statement_descriptor_suffix",
)  # fmt: skip
"""Details that are parameters of a PaymentIntent."""
EXPAND: Final = {"expand[]": "latest_charge"}
"""The charge says until when a hold can be captured."""
MOST_PAYER_ACTION: Final = 4096
UNKNOWN: Final = "TIMEOUT"
"""The law's word for what proves nothing."""
REFUSALS: Final = frozenset({"card_error", "invalid_request_error"})
UNKNOWN_STATUSES: Final = frozenset({409, 424})
TOO_MANY: Final = 429


class Problem(Struct, frozen=True):
    """What Stripe says of a request that it did not carry out."""

    type: str
    code: str | None = None
    payment_intent: dict[str, Any] | None = None


class Failed(Struct, frozen=True):
    error: Problem


class Listed(Struct, frozen=True):
    """A list or a search's result."""

    data: list[msgspec.Raw]


# -- out


def build(
    request: ChannelRequest, keys: stripe.Keys, _account: str, endpoint: str, _now: datetime, contract: Contract
) -> Call:
    """The call of a request. Raises `ValueError` naming field and fix for what Stripe cannot be asked: nothing was sent."""
    if not keys.api_key:
        raise ValueError("api_key: it is empty; give it in the credentials file")
    headers = {"Authorization": f"Bearer {keys.api_key}", "Stripe-Version": VERSION}
    if request.verb == "QUERY":
        return Call(method="GET", url=endpoint + _question(request), headers=headers)
    path, fields = WRITES[request.verb](request, contract)
    headers |= {"Content-Type": "application/x-www-form-urlencoded", "Idempotency-Key": _key(request)}
    return Call(method="POST", url=endpoint + path, headers=headers, body=urlencode(fields).encode())


def _key(request: ChannelRequest) -> str:
    """The attempt's own key; a close is no attempt, so its key says so, and each asking to close is a new one."""
    return hashlib.sha256(request.id.encode()).hexdigest() if request.verb == "CLOSE" else request.idempotency_key


def _question(request: ChannelRequest) -> str:
    if request.operation == "REFUND":
        if request.transaction:
            return f"{REFUNDS}/{quote(request.transaction, safe='')}"
        return f"{REFUNDS}?{urlencode({'payment_intent': _intent_id(request), 'limit': 100})}"
    if request.operation or request.transaction:
        return f"{INTENTS}/{quote(_intent_id(request), safe='')}?{urlencode(EXPAND)}"
    number = request.payment_no.replace("\\", "\\\\").replace("'", "\\'")
    query = f"metadata['payment_no']:'{number}'"
    return f"{INTENTS}/search?{urlencode({'query': query})}"


def _intent_id(request: ChannelRequest) -> str:
    """Of the payment itself, or of the payment that the operation is of."""
    found = request.payment_transaction if request.operation_no else request.transaction
    if not found:
        raise ValueError(f"transaction: {request.verb} needs the PaymentIntent's id; query the payment first")
    return found


def _amount(request: ChannelRequest, contract: Contract) -> str:
    amount = to_channel_minor(contract, request.currency, request.amount)
    if amount is None or amount <= 0:
        raise ValueError(f"amount: {request.amount} {request.currency} is no amount of Stripe's; ask for another one")
    return str(amount)


def _names(request: ChannelRequest, **extra: str | None) -> dict[str, str]:
    names = {"order_id": request.order_id, "payment_no": request.payment_no, **extra}
    return {f"metadata[{name}]": value for name, value in names.items() if value}


def _submit(request: ChannelRequest, contract: Contract) -> tuple[str, dict[str, str]]:
    given = details(request)
    fields = {"amount": _amount(request, contract), "currency": request.currency.lower(), **_names(request)}
    fields |= {name: given[name] for name in PASSED_ON if given.get(name)}
    fields |= {"automatic_payment_methods[enabled]": "true", **EXPAND}
    if "payment_method" in fields:
        fields["confirm"] = "true"
        if "return_url" not in fields:  # a method that leads the payer away needs a way back
            fields["automatic_payment_methods[allow_redirects]"] = "never"
    else:
        fields.pop("return_url", None)  # it belongs to the confirmation, which is the payer's
        fields.pop("off_session", None)
    return INTENTS, fields


def _capture(request: ChannelRequest, contract: Contract) -> tuple[str, dict[str, str]]:
    fields = {"amount_to_capture": _amount(request, contract), **_names(request, capture_no=request.operation_no)}
    return f"{INTENTS}/{quote(_intent_id(request), safe='')}/capture", fields


def _cancel(request: ChannelRequest, _contract: Contract) -> tuple[str, dict[str, str]]:
    reason = "requested_by_customer" if request.verb == "VOID" else "abandoned"
    return f"{INTENTS}/{quote(_intent_id(request), safe='')}/cancel", {"cancellation_reason": reason}


def _refund(request: ChannelRequest, contract: Contract) -> tuple[str, dict[str, str]]:
    names = _names(request, refund_no=request.operation_no)
    return REFUNDS, {"payment_intent": _intent_id(request), "amount": _amount(request, contract), **names}


WRITES: Final = {"SUBMIT": _submit, "CAPTURE": _capture, "CLOSE": _cancel, "VOID": _cancel, "REFUND": _refund}


# -- back


def classify(request: ChannelRequest, reply: Reply | Nothing, _keys: stripe.Keys, contract: Contract) -> Said:
    """What the reply proves. Never raises."""
    if not isinstance(reply, Reply):
        return Said(status=UNKNOWN, error_class=reply)
    try:
        if 200 <= reply.status < 300:
            return _object(request, reply.body, contract)
        return _refused(request, reply)
    except UNREADABLE:
        return Said(status=UNKNOWN, error_class="unreadable")


def _object(request: ChannelRequest, body: bytes, contract: Contract) -> Said:
    if request.operation == "REFUND" or request.verb == "REFUND":
        refund = _own_refund(request, body)
        return Said(status="NOT_FOUND") if refund is None else _of_refund(refund, contract)
    if request.verb == "QUERY" and not request.operation_no and not request.transaction:
        found = msgspec.json.decode(body, type=Listed).data
        if not found:
            return Said(status="NOT_FOUND")
        return _best([_of_intent(request, one, contract) for one in found])
    return _of_intent(request, body, contract)


def _best(found: list[Said]) -> Said:
    """Of several intents under one number, after attempts that were refused, the one that has or may get the money."""
    ranks = {"SUCCESS": 0, "AUTHORIZED": 1, "PROCESSING": 2, "PENDING": 3}
    return min(found, key=lambda said: ranks.get(said.status, len(ranks)))


def _of_intent(request: ChannelRequest, body: bytes | msgspec.Raw, contract: Contract) -> Said:
    intent = msgspec.json.decode(body, type=Intent)
    word = _word(request, intent)
    amounts = {"succeeded": intent.amount_received, "requires_capture": intent.amount_capturable}
    open_ = word in ("PENDING", "DECLINED_RETRYABLE")
    return Said(
        status=word,
        transaction=intent.id,
        error_class=_declined(intent),
        auth_expires_at=_expiry(intent) if word == "AUTHORIZED" else None,
        payer_action=_payer_action(intent) if open_ and not request.operation else None,
        **_money(amounts.get(intent.status, intent.amount), intent.currency, contract),
    )


def _word(request: ChannelRequest, intent: Intent) -> str:
    status = intent.status
    operation = request.operation or request.verb
    if operation == "VOID":
        return {"canceled": "SUCCESS", "succeeded": "FAILED", "requires_capture": "PENDING"}.get(status, UNKNOWN)
    if operation == "CAPTURE":
        return _capture_word(request, intent)
    if status == "requires_payment_method" and intent.last_payment_error is not None:
        return "DECLINED_RETRYABLE"
    return INTENT_WORDS.get(status, status)


def _capture_word(request: ChannelRequest, intent: Intent) -> str:
    """An intent is captured once. Which capture it was its metadata says, and without that the amount."""
    if intent.status != "succeeded":
        return {"canceled": "CLOSED", "requires_capture": "PENDING"}.get(intent.status, UNKNOWN)
    named = (intent.metadata or {}).get("capture_no")
    return UNKNOWN if named is not None and named != request.operation_no else "SUCCESS"


def _own_refund(request: ChannelRequest, body: bytes) -> Refund | None:
    """The refund asked about: the one in the reply, or the one of ours in a list."""
    if request.verb == "REFUND" or request.transaction:
        return msgspec.json.decode(body, type=Refund)
    for one in msgspec.json.decode(body, type=Listed).data:
        refund = msgspec.json.decode(one, type=Refund)
        if (refund.metadata or {}).get("refund_no") == request.operation_no:
            return refund
    return None


def _of_refund(refund: Refund, contract: Contract) -> Said:
    money = _money(refund.amount, refund.currency, contract)
    return Said(status=REFUND_WORDS.get(refund.status, refund.status), transaction=refund.id, **money)


def _money(amount: int, currency: str, contract: Contract) -> dict[str, Any]:
    """In our minor units; an amount that the currency cannot express is unknown, and so proves no success."""
    code = currency.upper()
    return {"amount": from_channel_minor(contract, code, amount), "currency": code}


def _declined(intent: Intent) -> str | None:
    problem = intent.last_payment_error or {}
    code = problem.get("decline_code") or problem.get("code")
    return code[:256] if isinstance(code, str) and code else None


def _payer_action(intent: Intent) -> str | None:
    """Where the payer goes, or else the secret by which the payer's page goes on."""
    redirect = (intent.next_action or {}).get("redirect_to_url")
    url = redirect.get("url") if isinstance(redirect, dict) else None
    found = url if isinstance(url, str) and url else intent.client_secret
    return found if found and len(found) <= MOST_PAYER_ACTION else None


def _expiry(intent: Intent) -> datetime | None:
    """Until when the hold can be captured, if the reply has the charge in it."""
    found: Any = intent.latest_charge
    for name in ("payment_method_details", "card", "capture_before"):
        found = found.get(name) if isinstance(found, dict) else None
    return datetime.fromtimestamp(found, UTC) if isinstance(found, int) and 0 < found < 2**32 else None


# -- refusals


def _refused(request: ChannelRequest, reply: Reply) -> Said:
    if reply.status in UNKNOWN_STATUSES or reply.status >= 500 or reply.status < 400:
        return Said(status=UNKNOWN, error_class=str(reply.status))
    problem = msgspec.json.decode(reply.body, type=Failed).error
    kind = str(TOO_MANY) if reply.status == TOO_MANY else problem.type[:64]
    if request.verb == "QUERY":
        missing = problem.code == "resource_missing"
        return Said(status="NOT_FOUND" if missing else UNKNOWN, error_class=problem.code if missing else kind)
    if kind not in REFUSALS and reply.status != TOO_MANY:
        return Said(status=UNKNOWN, error_class=kind)
    if request.verb == "CLOSE":
        return Said(status=_not_closed(problem), error_class=kind)
    return Said(status="DECLINED_RETRYABLE" if kind == "card_error" else "FAILED", error_class=kind)


def _not_closed(problem: Problem) -> str:
    """Why an intent could not be cancelled: it is paid, it is cancelled already, or it is at work."""
    if problem.payment_intent is None:
        return UNKNOWN
    status = msgspec.convert(problem.payment_intent, Intent).status
    return {"succeeded": "ALREADY_PAID", "canceled": "CLOSED"}.get(status, "PENDING")


REQUESTS: Final[Requests[stripe.Credentials, stripe.Keys]] = Requests(
    channel=stripe.CHANNEL, endpoint=ENDPOINT, build=build, classify=classify
)
