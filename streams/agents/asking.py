"""What a connector may do with a request, and how an answer is written. Pure.

A request is sent again only where the channel's contract promises to know it: under its idempotency key, or because asking changes
nothing. It is sent no later than its lease, and no later than the channel surely still knows its key when the answer comes.
"""

from __future__ import annotations

import base64
import hashlib
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec

from streams.channels.requests import Reply
from streams.cloudevents import attributes
from streams.domain.decisions import ChannelRequest
from streams.domain.events import Answer, Raw
from streams.domain.fields import MAX_AMOUNT

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from streams.channels.requests import Nothing, Said
    from streams.domain.contract import Contract

TRACEPARENT: Final = re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
MOST_RAW: Final = 64 << 10
MOST_ID: Final = 256
MOST_ACTION: Final = 4096
ASKS: Final = frozenset({"QUERY", "CLOSE"})
"""What may be repeated at any channel: a question, and a wish to close that finds its payment closed."""
PUSHED_BACK: Final = 429

_decode: Final = msgspec.json.Decoder(ChannelRequest).decode


class RequestError(ValueError):
    """A record that is no request; the text says why."""


def request_of(value: bytes | None) -> ChannelRequest:
    """The request in a record. Raises `RequestError`."""
    try:
        return _decode(value or b"")
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RequestError(f"the record is no channel_request: {error}") from error


def repeatable(request: ChannelRequest, contract: Contract) -> bool:
    """Whether the channel takes the same request twice for one."""
    if request.verb in ASKS:
        return True
    promise = contract.idempotency
    return promise is not None and request.verb.lower() in promise.operations


def last_moment(request: ChannelRequest, contract: Contract) -> datetime | None:
    """After which it must not be sent any more (R-064). None: it may be sent whenever it is read."""
    found = [] if request.not_after is None else [request.not_after]
    promise = contract.idempotency
    if (
        request.verb not in ASKS
        and promise is not None
        and promise.life_s is not None
        and repeatable(request, contract)
    ):
        found.append(request.decided_at + timedelta(seconds=max(0, promise.life_s - contract.lease_s)))
    return min(found, default=None)


def proves_nothing(reply: Reply | Nothing) -> bool:
    """Whether the channel itself seems to be in trouble: what the circuit breaker counts."""
    return not isinstance(reply, Reply) or reply.status >= 500 or reply.status == PUSHED_BACK


def answer(request: ChannelRequest, said: Said, reply: Reply | Nothing | None, at: datetime) -> Answer:
    """The answer to a request, as the law reads it. A reply's own bytes go with it, up to a bound."""
    verb: Any = request.verb.lower()
    amount = said.amount if said.amount is not None and abs(said.amount) <= MAX_AMOUNT else None
    return Answer(
        request=verb,
        order_id=request.order_id,
        payment_no=request.payment_no,
        channel=request.channel,
        status=said.status[:64] or "TIMEOUT",
        request_id=request.id if len(request.id) <= MOST_ID else None,
        merchant=request.merchant,
        transaction=_bounded(said.transaction, MOST_ID),
        amount=amount,
        currency=said.currency if said.currency is not None and len(said.currency) == 3 else None,
        error_class=None if said.error_class is None else said.error_class[:MOST_ID],
        answered_at=at,
        operation_no=request.operation_no,
        auth_expires_at=said.auth_expires_at,
        payer_action=_bounded(said.payer_action, MOST_ACTION),
        raw=_raw(reply) if isinstance(reply, Reply) and reply.body else None,
    )


def _bounded(text: str | None, most: int) -> str | None:
    """An id that is too long to be one is no id: a shortened one would name something else."""
    return text if text and len(text) <= most else None


def _raw(reply: Reply) -> Raw:
    return Raw(
        body=base64.b64encode(reply.body[:MOST_RAW]).decode("ascii"),
        sha256=hashlib.sha256(reply.body).hexdigest(),
        content_type=reply.headers.get("content-type", "")[:MOST_ID],
    )


def headers(request: ChannelRequest, came: Iterable[tuple[str, bytes]], at: datetime) -> list[tuple[str, bytes]]:
    """CloudEvents attributes in binary mode, and the trace that the request belongs to."""
    moment = at.isoformat().replace("+00:00", "Z")
    made = attributes(f"{request.id}/{moment}", "concord.answer", request.channel, moment)
    return made + [(name, value) for name, value in came if name == "traceparent" and TRACEPARENT.fullmatch(value)][:1]
