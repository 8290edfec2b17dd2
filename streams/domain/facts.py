"""A fact: one event, read: its key, what it says, about which payment, and when that happened.

The time a channel states orders its own words and nothing else. One that cannot be read, or lies more than five minutes ahead of
its arrival, is marked and not used (R-075).
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from streams.domain import identity
from streams.domain.decisions import Source  # noqa: TC001  msgspec reads the annotation
from streams.domain.events import (
    Answer,
    Callback,
    CapturePayment,
    CardPosting,
    ClosePayment,
    Command,
    CreatePayment,
    Dispute,
    Evidence,
    Finding,
    RefundLayer,
    RefundNotice,
    RefundPayment,
    Release,
    Resolve,
    RetryPayment,
    StartPayment,
    Undelivered,
    VoidPayment,
)
from streams.domain.moment import parsed
from streams.domain.reports import Agreement, Booking, Difference, PayoutNotice, Settled

AHEAD_MS: Final = 300_000
ANSWERS: Final = frozenset({"submit", "query", "close", "capture", "void", "refund", "bill"})
"""Sources of answers, which have no key."""


class Fact(Struct, frozen=True, gc=False):
    """`at` is the arrival and `time` when it happened, as far as it can be trusted; both in milliseconds.

    `payment_no` is the number of the operation it speaks of. `ref` is what people call it; `witness` names the evidence.
    """

    source: Source
    word: str
    ref: str
    key: bytes
    payload: bytes
    packed: bytes
    payment_no: str
    merchant: str | None
    at: int
    time: int
    clock_suspect: bool = False
    parked: bool = False
    """It had waited for its operation."""
    witness: str = ""

    @property
    def evidence(self) -> str:
        return self.witness or self.ref


COMMAND_WORDS: Final[dict[type[Command], tuple[str, str]]] = {
    CreatePayment: ("create", "payment_no"),
    StartPayment: ("start", "payment_no"),
    RetryPayment: ("retry", "payment_no"),
    ClosePayment: ("close", "payment_no"),
    CapturePayment: ("capture", "capture_no"),
    VoidPayment: ("void", "void_no"),
    RefundPayment: ("refund", "refund_no"),
    Resolve: ("resolve", "discrepancy"),
    Undelivered: ("undelivered", "payment_no"),
}
"""What a command is called, and the field that says what it is about."""

SOURCES: Final[dict[type[Evidence], Source]] = {
    Release: "release",
    Dispute: "dispute",
    Finding: "finding",
    Difference: "reconciliation",
    Agreement: "reconciliation",
    Booking: "reconciliation",
    Settled: "reconciliation",
    PayoutNotice: "payout",
}
"""Where evidence comes from that has no transaction of its own kind."""


SPEAKERS: Final[dict[type[Command], Source]] = {Resolve: "person", Undelivered: "finding"}
"""Who speaks, where it is not the shop."""


def read_command(command: Command, at: int) -> Fact:
    packed = identity.said(command)
    word, number = COMMAND_WORDS[type(command)]
    return Fact(
        SPEAKERS.get(type(command), "command"),
        word,
        command.command_id,
        identity.command_key(command),
        identity.payload_hash(packed),
        packed,
        getattr(command, number),
        getattr(command, "merchant", None) or None,
        at,
        at,
    )


def read(event: Evidence, at: int, *, parked: bool = False) -> Fact:
    packed = identity.said(event)
    payload = identity.payload_hash(packed)
    merchant = event.merchant or None
    if isinstance(event, Answer):
        number = event.operation_no or event.payment_no
        witness = event.transaction or ""
        return Fact(
            event.request,
            event.status,
            operation_key(number, merchant),
            b"",
            payload,
            packed,
            number,
            merchant,
            at,
            at,
            parked=parked,
            witness=witness,
        )
    source, number, transaction = _about(event)
    stated = getattr(event, "event_time", None)
    time = at if stated is None else parsed(stated)
    suspect = time is None or time > at + AHEAD_MS
    return Fact(
        source,
        event.status,
        event.event_id or transaction or operation_key(number, merchant),
        identity.event_key(event) or b"",
        payload,
        packed,
        number,
        merchant,
        at,
        at if time is None or suspect else time,
        suspect,
        parked,
    )


def _about(event: Evidence) -> tuple[Source, str, str | None]:
    """Where it came from, the number it speaks of, and the channel's own name for that."""
    if type(event) is Callback:
        return "callback", event.payment_no, event.transaction
    if type(event) is RefundNotice:
        return "refund-notice", event.refund_no or event.payment_no, event.refund_transaction or event.transaction
    if type(event) is CardPosting:
        return "card", event.payment_no or event.authorization or "", event.transaction
    if type(event) is RefundLayer:
        return "layer", event.refund_no, None
    return SOURCES[type(event)], event.payment_no or "", getattr(event, "transaction", None)


def operation_key(number: str, merchant: str | None) -> str:
    """What an operation is called: its number, or `merchant/number`."""
    return number if merchant is None else f"{merchant}/{number}"
