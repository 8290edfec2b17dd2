"""What every channel's outgoing side is: a request of ours as one HTTP call, and its reply as an answer. Pure, both ways.

`build` makes the call, signed as the channel asks; `classify` says what a reply proves. What is no proof is UNKNOWN: timeouts,
resets, 5xx, empty and unreadable bodies, words nobody has mapped (R-003 to R-007). The connector sends and times; it decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from streams.domain.contract import Contract
    from streams.domain.decisions import ChannelRequest

C = TypeVar("C", bound=Struct)
K = TypeVar("K")

Nothing: TypeAlias = Literal["not_sent", "timeout", "reset", "too_large"]
"""Why there is no reply: the connection was never made (nothing was sent), no reply in time, cut while waiting, or too long to read."""


class Call(Struct, frozen=True, kw_only=True, gc=False):
    """One HTTP call. `headers` hold secrets: never logged."""

    method: Literal["GET", "POST"]
    url: str
    headers: dict[str, str] = {}
    body: bytes = b""


class Reply(Struct, frozen=True, kw_only=True, gc=False):
    """What came back. `headers` in lower case; `body` bounded by the connector."""

    status: int
    headers: dict[str, str] = {}
    body: bytes = b""


class Said(Struct, frozen=True, kw_only=True, gc=False):
    """What a reply says, in the words of `Answer`: `status` is a word that the contract's `failures` or the law knows.

    `amount` in minor units of `currency` (ISO 4217). `transaction` is the channel's reference of the operation asked about.
    `payer_action` is what the payer needs to go on (a QR code's content, a page's address, a client secret): never logged.
    """

    status: str
    transaction: str | None = None
    amount: int | None = None
    currency: str | None = None
    error_class: str | None = None
    auth_expires_at: datetime | None = None
    payer_action: str | None = None


@dataclass(frozen=True, slots=True)
class Requests(Generic[C, K]):
    """One channel's requests.

    - `credentials`, `keys`: as of the channel's `Adapter` (one file for both sides; a field that only one side needs may be absent).
    - `build(request, keys, account, endpoint, now, contract)`: the call; `endpoint` is the base address, the channel's own or the
      simulator's. Raises `ValueError` naming field and fix for what cannot be asked (an amount the channel cannot express,
      a verb it does not have): nothing was sent, the answer is not accepted.
    - `classify(request, reply, keys, contract)`: what the reply proves. Never raises. Where replies are signed, one whose signature
      is wrong proves nothing.
    """

    channel: str
    endpoint: str
    build: Callable[[ChannelRequest, K, str, str, datetime, Contract], Call]
    classify: Callable[[ChannelRequest, Reply | Nothing, K, Contract], Said]


AnyRequests: TypeAlias = Requests[Any, Any]


def details(request: ChannelRequest) -> Mapping[str, str]:
    """What only this channel wants to know (payment method token, payer's id at the channel, description, return address)."""
    return request.details
