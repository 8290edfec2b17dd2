"""A seeded day on which a channel fails for a while: how policies do beside each other, in success and in cost.

The payments, and whether a channel would take each, are the same for every policy, so that only the choice differs. A channel succeeds as
the book assumes of it, and not at all while it fails. What fails is a decline that the fallback may answer: at most three channels,
one after the other. Amounts are minor units, rates parts per million; times are minutes of the day.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct, structs

from streams.domain import score
from streams.domain.routing import MOST_CHANNELS, Ask, Routing, route
from streams.domain.score import MILLION, Health

if TYPE_CHECKING:
    from collections.abc import Callable

    from streams.domain.score import Book, Offer

DAY: Final = 1440
WINDOW: Final = 30
"""Minutes that the rolling success rate looks back (R-155)."""
MINUTE_MS: Final = 60_000
SAMPLE: Final = 500
"""Payments that say which channel is used most."""


class Failing(Struct, frozen=True, kw_only=True):
    """The channel that fails, from when, and for how many minutes."""

    channel: str
    starts: int
    minutes: int = 20

    def holds(self, channel: str, minute: int) -> bool:
        return channel == self.channel and self.starts <= minute < self.starts + self.minutes


class Payment(Struct, frozen=True):
    """One payment, and what each channel would draw for it: it succeeds where the draw is below its rate."""

    minute: int
    amount: int
    draws: dict[str, int]


class Tally(Struct, kw_only=True):
    """How a policy did. `fees` are of what succeeded, by contract; `hit` is while the channel failed."""

    payments: int = 0
    at_once: int = 0
    succeeded: int = 0
    attempts: int = 0
    volume: int = 0
    fees: int = 0
    hit_payments: int = 0
    hit_at_once: int = 0
    hit_succeeded: int = 0

    def paid(self, amount: int, fee: int, *, once: bool, hit: bool) -> None:
        """A payment succeeded, at its first attempt or later."""
        self.succeeded += 1
        self.at_once += once
        self.hit_succeeded += hit
        self.hit_at_once += hit and once
        self.volume += amount
        self.fees += fee

    @property
    def fee_ppm(self) -> int:
        """What the successes cost, of their amount."""
        return self.fees * MILLION // self.volume if self.volume else 0


Policy: TypeAlias = "Callable[[Ask, dict[str, Health]], str | None]"
"""Chooses a channel for an ask, with the health of the last half hour; None: there is none."""


class Rolling:
    """The success rate of the last half hour, by channel."""

    def __init__(self) -> None:
        self._results: deque[tuple[int, str, bool]] = deque()
        self._counts: dict[str, list[int]] = {}

    def take(self, minute: int, channel: str, *, succeeded: bool) -> None:
        self._results.append((minute, channel, succeeded))
        self._counts.setdefault(channel, [0, 0])[succeeded] += 1

    def at(self, minute: int) -> dict[str, Health]:
        while self._results and self._results[0][0] <= minute - WINDOW:
            _, channel, succeeded = self._results.popleft()
            self._counts[channel][succeeded] -= 1
        return {name: Health(succeeded=good, failed=bad) for name, (bad, good) in self._counts.items()}


def payments(book: Book, count: int, seed: int, currency: str) -> list[Payment]:
    """The day's payments, evenly over the minutes; amounts over three orders of magnitude, as the book takes them."""
    chance = random.Random(seed)  # noqa: S311  a simulation that a seed repeats
    least = min((one.limits[currency].least for one in book.offers if currency in one.limits), default=1)
    made = []
    for number in range(count):
        scale = 10 ** chance.randrange(2, 5)
        amount = max(least, scale * chance.randint(1, 9) + chance.randrange(scale))
        draws = {one.channel: chance.randrange(MILLION) for one in book.offers}
        made.append(Payment(number * DAY // count, amount, draws))
    return made


def policies(book: Book) -> dict[str, Policy]:
    """The four that are compared. The first two choose among what fits, and know no health."""
    order = sorted(book.offers, key=lambda one: (-_priority(book, one), one.channel))
    turn = 0

    def fixed(ask: Ask, _heard: dict[str, Health]) -> str | None:
        fit = _fit(route(ask, book, {}))
        return next((one.channel for one in order if one.channel in fit), None)

    def round_robin(ask: Ask, _heard: dict[str, Health]) -> str | None:
        nonlocal turn
        turn += not ask.tried
        fit = _fit(route(ask, book, {}))
        ring = deque(one.channel for one in book.offers if one.channel in fit)
        ring.rotate(-turn)
        return ring[0] if ring else None

    def scored(by: Book) -> Policy:
        return lambda ask, heard: route(ask, by, heard).channel

    return {
        "fixed priority": fixed,
        "round robin": round_robin,
        "plain score": scored(structs.replace(book, by="plain")),
        "expected value": scored(structs.replace(book, by="expected_value")),
    }


def _priority(book: Book, offer: Offer) -> int:
    return max((rule.priority for rule in book.rules if rule.active and rule.channel == offer.channel), default=0)


def _fit(routing: Routing) -> frozenset[str]:
    return frozenset(one.channel for one in routing.candidates) if routing.channel else frozenset()


def favourite(book: Book, currency: str, seed: int) -> str:
    """The channel that the plain score uses most while none fails."""
    plain = policies(book)["plain score"]
    day = payments(book, SAMPLE, seed, currency)
    chosen = Counter(filter(None, (plain(_ask(one, currency, ()), {}) for one in day)))
    return chosen.most_common(1)[0][0] if chosen else next(one.channel for one in book.offers if currency in one.limits)


def _ask(payment: Payment, currency: str, tried: tuple[str, ...]) -> Ask:
    at = payment.minute * MINUTE_MS
    return Ask(amount=payment.amount, currency=currency, at=at, minute=payment.minute, tried=tried)


def played(book: Book, policy: Policy, day: list[Payment], *, currency: str, failing: Failing | None) -> Tally:
    """The day under one policy."""
    tally, rolling = Tally(), Rolling()
    offers = {one.channel: one for one in book.offers}
    for payment in day:
        hit = failing is not None and failing.holds(failing.channel, payment.minute)
        tally.payments += 1
        tally.hit_payments += hit
        tried: tuple[str, ...] = ()
        while len(tried) < MOST_CHANNELS:
            channel = policy(_ask(payment, currency, tried), rolling.at(payment.minute))
            if channel is None:
                break
            down = failing is not None and failing.holds(channel, payment.minute)
            succeeded = not down and payment.draws[channel] < offers[channel].assumed_ppm
            rolling.take(payment.minute, channel, succeeded=succeeded)
            tally.attempts += 1
            if succeeded:
                tally.paid(payment.amount, score.contract_fee(offers[channel], payment.amount), once=not tried, hit=hit)
                break
            tried = (*tried, channel)
    return tally


def compared(book: Book, *, count: int, seed: int, currency: str, failing: Failing | None) -> dict[str, Tally]:
    """Every policy on the same day."""
    day = payments(book, count, seed, currency)
    return {
        name: played(book, policy, day, currency=currency, failing=failing) for name, policy in policies(book).items()
    }
