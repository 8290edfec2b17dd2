"""What a decision tells of a channel's health: an attempt began, succeeded or was refused, or nobody knows its result.

UNKNOWN counts as neither success nor failure, and so does a close: nobody wanted the payment any more. Amounts are minor units; an amount
band is the currency and the number of digits of the amount, so `CNY:4` is 1000 to 9999 fen. Times are milliseconds UTC.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from streams.domain.moment import milliseconds
from streams.domain.tables import AUTHORIZED, FAIL, OPEN, SUCCESS, UNKNOWN

if TYPE_CHECKING:
    from streams.domain.decisions import Decision, Standing


LONGEST: Final = 128


class Opened(NamedTuple):
    """A payment whose last attempt has no result: since when, where, and whether the law calls it UNKNOWN."""

    at: int
    channel: str
    band: str
    attempts: int
    unknown: bool


class Outcome(NamedTuple):
    """How an attempt ended. `latency_ms` is from its start to its success; None where it failed, or its start was not seen."""

    channel: str
    band: str
    at: int
    succeeded: bool
    latency_ms: int | None = None
    failure: str = ""


class News(NamedTuple):
    """What a decision says of one payment: `opened` replaces what was known of it, None removes it."""

    payment: str
    opened: Opened | None
    outcome: Outcome | None


def payments(decision: Decision) -> list[tuple[str, Standing]]:
    """The payments with an attempt that it changed, each under a name of its own."""
    return [
        (f"{decision.order_id} {one.merchant or ''} {one.number}", one)
        for one in decision.operations
        if one.kind == "PAY" and one.asked is not None
    ]


def shown(text: str) -> str:
    """Others' text as Postgres can hold it, and as short as a name is."""
    return text[:LONGEST].replace("\0", "\ufffd")


def band(currency: str, amount: int) -> str:
    return f"{currency}:{len(str(max(amount, 0)))}"


def news(decision: Decision, name: str, standing: Standing, known: Opened | None) -> News:
    """What becomes of a payment. `known` is what was remembered of it."""
    asked, at = standing.asked, milliseconds(decision.decided_at)
    assert asked is not None
    opened = known
    if standing.state in OPEN and (known is None or asked.attempts > known.attempts):
        bounds = band(standing.currency, standing.amount)
        opened = Opened(at, shown(standing.channel), bounds, asked.attempts, unknown=False)
    outcome = _outcome(decision, standing, opened, at)
    if opened is not None:
        doubted = standing.state == UNKNOWN and asked.refused_by is None
        opened = opened._replace(unknown=doubted)
    return News(name, opened if standing.state in OPEN else None, outcome)


def _outcome(decision: Decision, standing: Standing, opened: Opened | None, at: int) -> Outcome | None:
    ours = decision.payment_no == standing.number and decision.after == standing.state
    moved = ours and decision.before in OPEN and decision.before != decision.after
    channel = shown(decision.said.channel if decision.said is not None else standing.channel)
    bounds = band(standing.currency, standing.amount)
    if moved and standing.state in {SUCCESS, AUTHORIZED}:
        latency = None if opened is None or opened.channel != channel else at - opened.at
        return Outcome(channel, bounds, at, succeeded=True, latency_ms=latency)
    asked = standing.asked
    refused = asked is not None and asked.refused_by is not None and asked.refused_by == decision.evidence
    if refused or (moved and standing.state == FAIL):
        said = decision.said
        failure = (said.error_class if said is not None else None) or decision.word or decision.rule
        return Outcome(channel, bounds, at, succeeded=False, failure=shown(failure))
    return None
