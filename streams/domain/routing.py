"""Which channel a payment goes to: filter first, then score (R-150).

The filter says of every channel why it cannot take this payment; rules express only "condition ⇒ channel" (R-152). What is left is
scored (`score`) and the best is chosen, unless it was tried before. At most three channels are tried for one payment, one at a time, and
each attempt passes `may_submit` (R-156, R-157): routing proposes, the gate decides.

Nothing here asks for the time, for health or for limits: they are arguments, read by the shell and kept with the decision, so a
recorded decision can be made again, under the same book or another. Amounts are integer minor units, rates parts per million, moments
milliseconds UTC, and minutes of the day are those of the book's zone.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta, Struct

from streams.domain import score
from streams.domain.score import Book, Health, Offer, Rule, Scored  # noqa: TC001  msgspec reads the annotation

MOST_CHANNELS: Final = 3
"""Channels tried for one payment (R-156)."""
ANY: Final = 0
"""An `amount_max` without a bound (R-153)."""

Reason: TypeAlias = Literal[
    "disabled", "account", "currency", "method", "below_minimum", "above_maximum", "maintenance", "downgraded",
    "no_rule", "tried", "unhealthy",
]  # fmt: skip
"""Why a channel is not a candidate; the first that holds, in this order."""
Failure: TypeAlias = Literal["no_channel_after_filters", "all_channel_failed"]


class Ask(Struct, frozen=True, kw_only=True):
    """What is to be paid, by whom, when. `minute` is of the day in the book's zone, `at` in milliseconds."""

    amount: int
    currency: str
    at: int
    minute: Annotated[int, Meta(ge=0, lt=1440)]
    method: str | None = None
    buyer_tag: str | None = None
    among: tuple[str, ...] | None = None
    """The channel accounts that may be used, being the merchant's own; None: all of the book."""
    tried: tuple[str, ...] = ()
    """Channels of earlier attempts of this payment, each known not to have accepted it."""


class Downgrade(Struct, frozen=True, kw_only=True):
    """A channel that is passed over until then: for everything, or for `currency` amounts from `amount_from` on."""

    channel: str
    until: int
    why: str
    currency: str | None = None
    amount_from: int = 0

    def holds(self, channel: str, ask: Ask) -> bool:
        if self.channel != channel or ask.at >= self.until:
            return False
        return self.currency is None or (self.currency == ask.currency and ask.amount >= self.amount_from)


class Dropped(Struct, frozen=True, kw_only=True):
    """A channel that the filter took out, with what would have to be different."""

    channel: str
    reason: Reason
    detail: str


class Routing(Struct, frozen=True, kw_only=True):
    """One decision: the candidates, best first, with the terms of their scores; who was dropped and why; the choice, or why there is none.

    `waived` says that no candidate was healthy, and the health filter stood aside: a sick channel is better than none.
    """

    book: int
    channel: str | None
    failure: Failure | None
    candidates: tuple[Scored, ...]
    dropped: tuple[Dropped, ...]
    waived: bool = False


def route(ask: Ask, book: Book, health: dict[str, Health], downgrades: tuple[Downgrade, ...] = ()) -> Routing:
    """Choose a channel for `ask`. `health` is of the last half hour, by channel; one that is missing was not heard of (R-155, R-163).

    The result does not depend on the order in which the book lists channels and rules.
    """
    dropped: list[Dropped] = []
    fit: list[tuple[Offer, tuple[Rule, ...]]] = []
    for offer in sorted(book.offers, key=lambda one: one.channel):
        rules = tuple(rule for rule in book.rules if rule.channel == offer.channel and applies(rule, ask))
        why = _unfit(offer, rules, ask, book, downgrades)
        if why is None:
            fit.append((offer, rules))
        else:
            dropped.append(Dropped(channel=offer.channel, reason=why[0], detail=why[1]))
    scored = [score.best(offer, rules, ask.amount, book, health.get(offer.channel)) for offer, rules in fit]
    sick = [one for one in scored if not one.healthy]
    waived = bool(sick) and len(sick) == len(scored)
    if not waived:
        dropped += [Dropped(channel=one.channel, reason="unhealthy", detail=_sickness(one, book)) for one in sick]
        scored = [one for one in scored if one.healthy]
    scored.sort(key=score.rank)
    failure = _failure(ask, scored)
    return Routing(
        book=book.version,
        channel=None if failure else scored[0].channel,
        failure=failure,
        candidates=tuple(scored),
        dropped=tuple(sorted(dropped, key=lambda one: one.channel)),
        waived=waived,
    )


def _failure(ask: Ask, scored: list[Scored]) -> Failure | None:
    """`all_channel_failed` once something was tried and nothing, or nothing lawful, is left; else nobody fitted (R-159)."""
    if len(set(ask.tried)) >= MOST_CHANNELS:
        return "all_channel_failed"
    if not scored:
        return "all_channel_failed" if ask.tried else "no_channel_after_filters"
    return None


def applies(rule: Rule, ask: Ask) -> bool:
    """Whether the condition of a rule holds. Its hours may run over midnight; the end is not part of them (R-120)."""
    if not rule.active or rule.currency not in {None, ask.currency}:
        return False
    if rule.buyer_tag is not None and rule.buyer_tag != ask.buyer_tag:
        return False
    if ask.amount < rule.amount_min or (rule.amount_max != ANY and ask.amount > rule.amount_max):
        return False
    return rule.hours is None or rule.hours.covers(ask.minute)


def _unfit(
    offer: Offer, rules: tuple[Rule, ...], ask: Ask, book: Book, downgrades: tuple[Downgrade, ...]
) -> tuple[Reason, str] | None:
    """The first reason, in the order of `Reason`, why this channel cannot take it (R-151)."""
    if not offer.enabled:
        return "disabled", "enable it in the route book"
    if ask.among is not None and offer.channel not in ask.among:
        return "account", "it is not an account of this merchant"
    refusal = _unsuited(offer, ask) or _closed(offer, ask, downgrades)
    if refusal is not None:
        return refusal
    if book.rules and not rules:
        return "no_rule", "no active rule for this amount, buyer and hour names it"
    return ("tried", "an earlier attempt was made here") if offer.channel in ask.tried else None


def _unsuited(offer: Offer, ask: Ask) -> tuple[Reason, str] | None:
    limit = offer.limits.get(ask.currency)
    if limit is None:
        return "currency", f"takes {', '.join(sorted(offer.limits)) or 'no currency'}"
    if ask.method is not None and ask.method not in offer.methods:
        return "method", f"takes {', '.join(sorted(offer.methods)) or 'no method'}"
    if ask.amount < limit.least:
        return "below_minimum", f"from {limit.least} {ask.currency} minor units on"
    if limit.most != ANY and ask.amount > limit.most:
        return "above_maximum", f"up to {limit.most} {ask.currency} minor units"
    return None


def _closed(offer: Offer, ask: Ask, downgrades: tuple[Downgrade, ...]) -> tuple[Reason, str] | None:
    for window in offer.maintenance:
        if window.starts <= ask.at < window.ends:
            return "maintenance", f"until {window.ends} ms"
    for hours in offer.closed:
        if hours.covers(ask.minute):
            return "maintenance", f"daily from {hours.start} to {hours.end}"
    held = [one for one in downgrades if one.holds(offer.channel, ask)]
    if held:
        longest = max(held, key=lambda one: (one.until, one.why))
        return "downgraded", f"{longest.why}, until {longest.until} ms"
    return None


def _sickness(one: Scored, book: Book) -> str:
    return (
        f"{one.succeeded} of {one.observed} succeeded; {book.floor_ppm} ppm are asked of {book.least_observed} or more"
    )
