"""After a channel has not accepted an attempt: the next channel, or the end of the payment (R-050, R-156, R-157).

Only the law's own ruling `attempt-refused` starts it: a timeout, an exception or an unknown word is no refusal. What it asks for is a
command like any other, so the gate judges it once more. Its id derives from the payment and the attempt that was refused: whoever
asks, and however often, it is one command. Where no channel is left, or the refusal is so old that the payer has gone, the payment is
given up; nothing of it was accepted, so it ends at once, and the order is free for another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct, structs

from streams.domain.events import ClosePayment, RetryPayment
from streams.domain.identity import digest
from streams.domain.moment import milliseconds
from streams.domain.routing import Ask, Downgrade, Routing, route
from streams.domain.tables import OPEN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streams.domain.contract import Contract
    from streams.domain.decisions import Decision
    from streams.domain.score import Book, Health

LATEST_MS: Final = 120_000
"""A payer waits no longer: a fallback after this would charge somebody who has gone."""


class Refusal(Struct, frozen=True, kw_only=True):
    """The last attempt of a payment was not accepted, in any of its sendings. `error` is the channel's class of it, or its word."""

    at: int
    merchant: str | None
    order_id: str
    payment_no: str
    attempt: int
    channel: str
    error: str

    @property
    def command_id(self) -> str:
        """Of the one command that answers it."""
        return f"fallback-{digest('fallback', self.merchant, self.order_id, self.payment_no, self.attempt).hex()}"


def refusal(decision: Decision) -> Refusal | None:
    """What a decision refuses, where the payment is open and its last attempt is refused as a whole; None: nothing."""
    if decision.rule != "attempt-refused" or decision.verdict != "applied":
        return None
    for one in decision.operations:
        asked = one.asked
        if one.kind != "PAY" or one.number != decision.payment_no or asked is None:
            continue
        if one.state not in OPEN or asked.refused_by != decision.evidence:
            continue
        said = decision.said
        return Refusal(
            at=milliseconds(decision.decided_at),
            merchant=one.merchant,
            order_id=decision.order_id,
            payment_no=one.number,
            attempt=asked.attempts,
            channel=one.channel,
            error=(said.error_class if said is not None else None) or decision.word,
        )
    return None


def lawful(among: tuple[str, ...] | None, contracts: Mapping[str, Contract], book: Book) -> tuple[str, ...]:
    """Of these accounts those whose contract does not leave another attempt to people. `contracts` are by account."""
    names = (one.channel for one in book.offers) if among is None else among
    found = ((name, contracts.get(name)) for name in names)
    return tuple(name for name, contract in found if contract is None or contract.isolation != "manual")


def fallback(
    refused: Refusal, ask: Ask, book: Book, health: dict[str, Health], downgrades: tuple[Downgrade, ...]
) -> Routing:
    """Where to try next. `ask` is of now and names what was tried; without a channel the payment is given up."""
    routing = route(ask, book, health, downgrades)
    if ask.at - refused.at > LATEST_MS:
        return structs.replace(routing, channel=None, failure="all_channel_failed")
    return routing


def command(refused: Refusal, routing: Routing) -> RetryPayment | ClosePayment:
    """What is asked of the law: another attempt, or the end."""
    if routing.channel is None:
        return ClosePayment(
            command_id=refused.command_id,
            order_id=refused.order_id,
            payment_no=refused.payment_no,
            merchant=refused.merchant,
        )
    return RetryPayment(
        command_id=refused.command_id,
        order_id=refused.order_id,
        payment_no=refused.payment_no,
        merchant=refused.merchant,
        channel=routing.channel,
    )
