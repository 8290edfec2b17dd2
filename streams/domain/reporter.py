"""How what was found is told: outcomes as reports and evidence, each under an id that the same facts give again.

What speaks of an operation is keyed by its order; what belongs to none by `recon`, its channel and its reference. So every finder, in
memory or in a database, tells the same thing in the same words, and telling it again is a repetition.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from msgspec import msgpack

from streams.domain.bills import is_money
from streams.domain.events import Answer
from streams.domain.lines import BillRow
from streams.domain.reporting import keyed
from streams.domain.reports import Agreement, Booking, Difference, PayoutNotice, Settled

if TYPE_CHECKING:
    from typing import Literal

    from streams.domain.banking import BankLine, Item, Placed
    from streams.domain.bills import Local, Outcome
    from streams.domain.lines import Payout, SettlementRow
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


def of_row(outcome: Outcome, row: BillRow | SettlementRow, channel: str, place: str) -> Difference:
    """A row that differs, or that nobody has. `place` is batch:line; an extra row and an unknown one are called by their own reference."""
    local = outcome.local
    own = local is None or outcome.verdict == "DUPLICATE_TRANSACTION" or bool(outcome.candidates)
    differs = outcome.verdict in {"AMOUNT_MISMATCH", "CURRENCY_MISMATCH"}
    return difference(
        outcome.verdict,  # type: ignore[arg-type]  # whatever is told of a row is a difference
        channel,
        (row.transaction or place) if own or local is None else local.key,
        place,
        local=local,
        amount=row.amount if differs else None,
        currency=row.currency if differs else None,
        money=not isinstance(row, BillRow) or is_money(row),
        candidates=outcome.candidates,
    )


def unplaced(line: BankLine, placed: Placed, channel: str) -> Difference:
    """A bank line that posts nothing: what stands against it. One in another currency is matched and only noted."""
    return difference(
        "CURRENCY_MISMATCH" if placed.verdict == "FOREIGN" else placed.verdict,  # type: ignore[arg-type]  # the rest are differences
        channel,
        line.ref,
        line.ref,
        severity="info" if placed.severity == "info" else None,
        amount=line.amount,
        currency=line.currency,
        candidates=placed.candidates,
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
