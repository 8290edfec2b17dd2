"""How the simulated channel speaks: the other side of `streams.channels.simulator` and `simulator_requests`."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import msgspec

from streams.channels.requests import Reply
from streams.channels.simulator import CHANNEL, SIGNATURE, sign
from streams.channels.simulator_requests import PLURALS
from streams.simulator.dialect import Asked, Delivery, Dialect

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from streams.channels.requests import Call
    from streams.domain.contract import Contract
    from streams.simulator.dialect import Fact, Verb, Word

VERBS: Final[Mapping[str, Verb]] = {plural: verb.lower() for verb, plural in PLURALS.items()}  # type: ignore[misc]
STATUS: Final = {"REFUSED": 422, "NOT_FOUND": 404}


class Secrets(msgspec.Struct, frozen=True):
    """The simulator's own side of the test keys."""

    secret: bytes
    api_key: str


class Body(msgspec.Struct, frozen=True):
    """The body of any POST."""

    order_id: str = ""
    payment_no: str = ""
    operation_no: str | None = None
    amount: int | None = None
    currency: str | None = None


def secrets(seed: int) -> tuple[Secrets, Mapping[str, Any]]:
    """Test keys of a seed, and the credentials file of our side."""
    secret, api_key = (_made(seed, name) for name in ("notices", "requests"))
    return Secrets(secret.encode(), api_key), {"secrets": [secret], "api_key": api_key}


def _made(seed: int, name: str) -> str:
    return f"test_{hashlib.sha256(f'{CHANNEL}/{name}/{seed}'.encode()).hexdigest()}"


def notice(own: Secrets, fact: Fact, _account: str, now: datetime, _contract: Contract) -> Delivery:
    """A fact as the channel tells it, signed at `now`."""
    said = {
        "event_id": fact.event_id,
        "event_type": f"{fact.about}.{fact.word.lower()}",
        "event_time": fact.at.isoformat(),
        "about": fact.about,
        "status": fact.word,
        "order_id": fact.order_id,
        "payment_no": fact.payment_no,
        "transaction": fact.transaction,
        "operation_no": fact.operation_no,
        "operation_transaction": fact.operation_transaction,
        "amount": fact.amount,
        "currency": fact.currency,
        "sequence": fact.sequence,
    }
    body = msgspec.json.encode(said)
    signature = sign(own.secret, body, int(now.timestamp()))
    return Delivery(headers={"content-type": "application/json", SIGNATURE.lower(): signature}, body=body)


def read(own: Secrets, call: Call) -> Asked | None:
    """A request of ours; None for an address or a body that the channel does not have."""
    steps = [unquote(step) for step in urlsplit(call.url).path.strip("/").split("/")]
    headers = {name.lower(): value for name, value in call.headers.items()}
    signed = hmac.compare_digest(headers.get("authorization", "").encode(), f"Bearer {own.api_key}".encode())
    if steps[0] != "payments":
        return None
    match call.method, steps[1:]:
        case "GET", [payment]:
            return Asked(verb="query", payment_no=payment, signed=signed)
        case "GET", [payment, "operations", number]:
            return Asked(verb="query", payment_no=payment, operation_no=number, about="refund", signed=signed)
        case "POST", [payment, "close"]:
            return Asked(verb="close", payment_no=payment, signed=signed)
        case "POST", [] | [_, _]:
            return _posted(call.body, steps[1:], headers.get("idempotency-key") or None, signed=signed)
    return None


def _posted(body: bytes, steps: list[str], key: str | None, *, signed: bool) -> Asked | None:
    verb = VERBS.get(steps[1]) if steps else "submit"
    try:
        said = msgspec.json.decode(body, type=Body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    if verb is None:
        return None
    return Asked(
        verb=verb,
        order_id=said.order_id,
        payment_no=steps[0] if steps else said.payment_no,
        operation_no=said.operation_no,
        amount=said.amount,
        currency=said.currency,
        key=key,
        signed=signed,
    )


def answer(
    _own: Secrets,
    asked: Asked,
    word: Word,
    fact: Fact | None,
    duplicate: bool,  # noqa: FBT001  as every dialect has it
    _now: datetime,
    contract: Contract,
) -> Reply:
    """The reply: the operation as it is, or why the request was not accepted."""
    said: dict[str, Any] = {"status": word}
    status = STATUS.get(word, 200)
    policy = None if contract.idempotency is None else contract.idempotency.duplicate_answer
    if word == "REFUSED":
        said["error"] = "REFUSED"
    elif (asked.verb == "close" and word == "SUCCESS") or (duplicate and policy == "refused"):
        said, status, fact = {"status": "ALREADY_PAID", "error": "ALREADY_PAID"}, 409, None
    if fact is not None:
        transaction = fact.operation_transaction if fact.operation_no else fact.transaction
        said |= {"transaction": transaction, "amount": fact.amount, "currency": fact.currency}
        if asked.verb == "submit" and word == "PROCESSING":
            said["payer_action"] = f"simulator://pay/{fact.transaction}"
    return Reply(status=status, headers={"content-type": "application/json"}, body=msgspec.json.encode(said))


DIALECT: Final = Dialect(channel=CHANNEL, secrets=secrets, notice=notice, read=read, answer=answer)
