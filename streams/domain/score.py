"""How good a channel is for a payment: the score with its units said, and the expected value beside it.

    plain            priority x 10.0 + success x 2.0 - fee x 0.5, and 5.0 where the rule is for the buyer tag "v1"     (R-154)
                     success is 0 to 1, the fee in per mille of the amount; the weights can be set
    expected_value   success x (worth of a success - fee) - (1 - success) x cost of a failure, in money

The plain score weighs a fee of four per mille like the whole way from "always fails" to "always succeeds", so a cheap channel can win at a
success rate of nothing. It is the default because it is required; `remarks` says what a book with it can and cannot do, and the health
filter, not the score, protects success. The expected value asks what a payment at the channel is worth, and has no such blind spot.

No float is used: rates are parts per million, weights thousandths, scores whole billionths, expected values millionths of millionths of a
minor unit. The success rate is of the last half hour, drawn towards what the book assumes of the channel while little was observed
(R-155, R-163); an unknown result counts as neither.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta, Struct

MILLION: Final = 1_000_000
TAG: Final = "v1"
"""The buyer tag with a bonus of its own."""

Rate: TypeAlias = Annotated[int, Meta(ge=0, le=MILLION, description="parts per million")]
Clock: TypeAlias = Annotated[str, Meta(pattern="^(?:[01][0-9]|2[0-3])[0-5][0-9]$|^2400$", description="HHmm")]
Minor: TypeAlias = Annotated[int, Meta(ge=0, le=2**53 - 1, description="integer minor units")]


class Hours(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of every day, HHmm in the book's zone, the end excluded; over midnight where it ends first. Equal: the whole day."""

    start: Clock
    end: Clock

    def covers(self, minute: int) -> bool:
        start, end = _minute(self.start), _minute(self.end)
        if start < end:
            return start <= minute < end
        return minute >= start or minute < end


def _minute(clock: str) -> int:
    return int(clock[:2]) * 60 + int(clock[2:])


class Limit(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a channel takes of one currency, both ends included. `most` 0 is unlimited (R-153)."""

    least: Minor = 1
    most: Minor = 0


class Maintenance(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One window, milliseconds UTC, the end excluded."""

    starts: int
    ends: int


class Offer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One channel account: what it takes, what it costs by contract (R-119), and the success rate that is assumed of it unseen."""

    channel: str
    limits: dict[str, Limit]
    methods: tuple[str, ...] = ()
    fee_ppm: Rate = 0
    """Of the amount; 2,000 are two per mille."""
    fee_fixed: Minor = 0
    """For each transaction, in minor units of the currency."""
    assumed_ppm: Rate = 950_000
    maintenance: tuple[Maintenance, ...] = ()
    closed: tuple[Hours, ...] = ()
    enabled: bool = True


class Rule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Condition ⇒ channel (R-120, R-152). What is not named is not asked. A larger `priority` is better."""

    name: str
    channel: str
    priority: Annotated[int, Meta(ge=-1000, le=1000)] = 0
    currency: str | None = None
    amount_min: Minor = 0
    amount_max: Minor = 0
    buyer_tag: str | None = None
    hours: Hours | None = None
    active: bool = True


class Weights(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of the plain score, in thousandths."""

    priority: int = 10_000
    success: int = 2_000
    fee: int = 500
    tag: int = 5_000


class Value(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of the expected value: what a success is worth, as a share of the amount, and what a failed attempt costs, in minor units."""

    margin_ppm: Rate = 30_000
    failure_cost: Minor = 0


class Deterministic(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An error class that the same request must meet again, at one channel or at any (R-162)."""

    error: str
    scope: Literal["amount", "channel"]
    channel: str | None = None


OVER_LIMIT: Final = (
    Deterministic(error="over_limit", scope="amount"),
    Deterministic(error="ACQ.TOTAL_FEE_EXCEED", scope="amount"),
    Deterministic(error="maintenance", scope="channel"),
)


class Book(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A version of the whole configuration. Without rules every channel is a candidate."""

    version: int = 0
    zone: str = "UTC"
    offers: tuple[Offer, ...] = ()
    rules: tuple[Rule, ...] = ()
    by: Literal["plain", "expected_value"] = "plain"
    weights: Weights = Weights()
    value: Value = Value()
    floor_ppm: Rate = 500_000
    """The health filter: the least success rate, of at least so many results observed."""
    least_observed: Annotated[int, Meta(ge=1, le=MILLION)] = 20
    prior: Annotated[int, Meta(ge=0, le=MILLION)] = 10
    """How many results the assumption weighs."""
    deterministic: tuple[Deterministic, ...] = OVER_LIMIT


class Health(Struct, frozen=True, kw_only=True):
    """What was heard of a channel in the last half hour. `unknown` counts as neither and is shown."""

    succeeded: int = 0
    failed: int = 0
    unknown: int = 0

    @property
    def observed(self) -> int:
        return self.succeeded + self.failed


UNHEARD: Final = Health()


class Scored(Struct, frozen=True, kw_only=True):
    """A candidate, with the terms of its score. `terms` are billionths of a point, or of the expected value; `total` is their sum.

    `fee` is what the contract takes of this amount, in minor units, rounded half to even; the score uses the exact one.
    """

    channel: str
    rule: str | None
    priority: int
    success_ppm: int
    observed: int
    succeeded: int
    unknown: int
    healthy: bool
    fee: int
    terms: dict[str, int]
    total: int


def success_ppm(offer: Offer, health: Health, prior: int) -> int:
    """The rate that is reckoned with: what was observed, and `prior` results as assumed."""
    weight = health.observed + prior
    if weight == 0:
        return offer.assumed_ppm
    return _half_even(health.succeeded * MILLION + prior * offer.assumed_ppm, weight)


def best(offer: Offer, rules: tuple[Rule, ...], amount: int, book: Book, health: Health | None) -> Scored:
    """The channel under that of its rules which serves it best."""
    heard = health or UNHEARD
    options: tuple[Rule | None, ...] = rules or (None,)
    return min(
        (_scored(offer, rule, amount, book, heard) for rule in options), key=lambda one: (rank(one), one.rule or "")
    )


def rank(one: Scored) -> tuple[int, int, int, str]:
    """Best first; equals by priority, then by what they cost, then by name, so that the result is the same everywhere."""
    return -one.total, -one.priority, one.fee, one.channel


def _scored(offer: Offer, rule: Rule | None, amount: int, book: Book, health: Health) -> Scored:
    rate = success_ppm(offer, health, book.prior)
    terms = _plain(offer, rule, amount, book, rate) if book.by == "plain" else _value(offer, amount, book, rate)
    return Scored(
        channel=offer.channel,
        rule=None if rule is None else rule.name,
        priority=0 if rule is None else rule.priority,
        success_ppm=rate,
        observed=health.observed,
        succeeded=health.succeeded,
        unknown=health.unknown,
        healthy=health.observed < book.least_observed or health.succeeded * MILLION >= book.floor_ppm * health.observed,
        fee=contract_fee(offer, amount),
        terms=terms,
        total=sum(terms.values()),
    )


def contract_fee(offer: Offer, amount: int) -> int:
    """What the contract takes of this amount, in minor units, rounded half to even."""
    return _half_even(_fee(offer, amount), MILLION)


def _fee(offer: Offer, amount: int) -> int:
    """What the contract takes, in millionths of a minor unit."""
    return amount * offer.fee_ppm + offer.fee_fixed * MILLION


def _plain(offer: Offer, rule: Rule | None, amount: int, book: Book, rate: int) -> dict[str, int]:
    """Billionths of a point: a weight in thousandths times a rate in millionths; per mille are thousands of ppm."""
    weights = book.weights
    per_mille_millionths = _half_even(_fee(offer, amount) * 1000, max(amount, 1))
    return {
        "priority": weights.priority * MILLION * (0 if rule is None else rule.priority),
        "success": weights.success * rate,
        "fee": -weights.fee * per_mille_millionths,
        "tag": weights.tag * MILLION if rule is not None and rule.buyer_tag == TAG else 0,
    }


def _value(offer: Offer, amount: int, book: Book, rate: int) -> dict[str, int]:
    """Millionths of millionths of a minor unit."""
    return {
        "worth": rate * amount * book.value.margin_ppm,
        "fee": -rate * _fee(offer, amount),
        "failure": -(MILLION - rate) * book.value.failure_cost * MILLION,
    }


def _half_even(value: int, by: int) -> int:
    whole, rest = divmod(value, by)
    return whole + (2 * rest > by or (2 * rest == by and whole % 2 == 1))
