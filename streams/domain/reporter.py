"""How what was found is told: outcomes as reports and evidence, each under an id that the same facts give again.

What speaks of an operation is keyed by its order; what belongs to none by `recon`, its channel and its reference. So every finder, in
memory or in a database, tells the same thing in the same words, and telling it again is a repetition.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from msgspec import msgpack

from streams.domain.events import Answer
from streams.domain.reporting import keyed
from streams.domain.reports import Agreement, Booking, Difference, PayoutNotice, Settled

if TYPE_CHECKING:
    from typing import Literal

    from streams.domain.banking import BankLine, Item
    from streams.domain.bills import Local
    from streams.domain.lines import BillRow, Payout, SettlementRow
    from streams.domain.reports import Found


def event_id(*facts: object) -> str:
    """32 hexadecimal digits of these facts, in this order."""
    return blake2b(msgpack.encode(facts), digest_size=16).hexdigest()


def difference(
    kind: Found,
    channel: str,
    ref: str,
    evidence: str,
    *,
    local: Local | None = None,
    detail: str | None = None,
    severity: Literal["high", "info"] | None = None,
    amount: int | None = None,
    currency: str | None = None,
    money: bool = False,
    candidates: tuple[str, ...] = (),
) -> Difference:
    """A difference about one of our operations, or about something that belongs to no order."""
    return Difference(
        order_id=keyed("recon", channel, ref) if local is None else local.order_id,
        channel=channel,
        status=kind,
        ref=ref,
        event_id=event_id("difference", kind, channel, ref, evidence, amount, currency, candidates),
        evidence=evidence,
        payment_no="" if local is None else local.number,
        merchant=None if local is None else local.merchant,
        severity=severity,
        detail=detail,
        amount=amount,
        currency=currency,
        money=money,
        candidates=candidates[:16],
    )


def agreement(local: Local, channel: str, evidence: str) -> Agreement:
    """The row that was missing has come."""
    return Agreement(
        order_id=local.order_id,
        channel=channel,
        status="LOCAL_ONLY",
        ref=local.key,
        event_id=event_id("agreement", channel, local.key, evidence),
        evidence=evidence,
        payment_no=local.number,
        merchant=local.merchant,
    )


def answered(row: BillRow | SettlementRow, local: Local, channel: str) -> Answer:
    """A row that is money for an open operation, as evidence: it passes the same rules as a query's answer (R-025)."""
    return Answer(
        request="bill",
        order_id=local.order_id,
        payment_no=local.payment_no,
        operation_no=None if local.kind == "PAY" else local.number,
        channel=channel,
        status="SUCCESS",
        merchant=local.merchant,
        transaction=row.transaction,
        amount=abs(row.amount),
        currency=row.currency,
    )


def fee(local: Local, channel: str, amount: int, currency: str, evidence: str) -> Booking:
    """What a transaction cost, as this line states it."""
    return Booking(
        order_id=local.order_id,
        channel=channel,
        status="FEE",
        ref=local.key,
        event_id=event_id("fee", channel, local.key, amount, currency, evidence),
        amount=amount,
        currency=currency,
        evidence=evidence,
        payment_no=local.number,
        merchant=local.merchant,
    )


def fee_row(row: SettlementRow, local: Local | None, channel: str, place: str, source: str) -> Booking:
    """A fee of its own; `place` is batch:line. What a file calls negative is a cost."""
    return Booking(
        order_id=keyed("recon", channel, place) if local is None else local.order_id,
        channel=channel,
        status="FEE_ROW",
        ref=place,
        event_id=event_id("fee-row", source, channel, place, row.amount, row.currency),
        amount=-row.amount,
        currency=row.currency,
        evidence=place,
        payment_no="" if local is None else local.number,
        merchant=None if local is None else local.merchant,
    )


def moved(line: BankLine, item: Item, *, bounced: bool = False) -> list[Booking]:
    """What a bank line proves of the item that it names, and the charge that the bank named with it; keyed with the item."""
    if bounced:
        kind: Literal["BANK", "OUT", "BOUNCE"] = "BOUNCE"
    else:
        kind = "OUT" if item.channel is None else "BANK"
    amount = line.amount if kind == "BANK" else -line.amount
    suffix = "-return" if bounced else ""
    told = [_booking(kind, line, item, f"{item.ref}{suffix}", amount)]
    if line.charges:
        told.append(_booking("CHARGE", line, item, f"{item.ref}-charge", line.charges))
    return told


def _booking(
    kind: Literal["BANK", "OUT", "CHARGE", "BOUNCE"], line: BankLine, item: Item, ref: str, amount: int
) -> Booking:
    """`line.name` is the same in every file that has the line."""
    channel = item.channel or line.account
    return Booking(
        order_id=keyed("payout", channel, item.ref),
        channel=channel,
        status=kind,
        ref=ref,
        event_id=event_id("booking", kind, line.account, line.name),
        amount=amount,
        currency=line.currency,
        evidence=line.ref,
        account=line.account,
    )


def settled(local: Local, channel: str, payout: str, evidence: str) -> Settled:
    """The payout that lists this operation is at the bank."""
    return Settled(
        order_id=local.order_id,
        channel=channel,
        status="SETTLED",
        payment_no=local.number,
        event_id=event_id("settled", channel, local.key, payout),
        transaction=payout,
        evidence=evidence,
        merchant=local.merchant,
    )


def sent(payout: Payout, channel: str) -> PayoutNotice:
    """A settlement file says that this is on its way."""
    return PayoutNotice(
        order_id=keyed("payout", channel, payout.ref),
        channel=channel,
        status="SENT",
        ref=payout.ref,
        event_id=event_id("sent", channel, payout.ref, payout.amount, payout.currency),
        amount=payout.amount,
        currency=payout.currency,
    )
