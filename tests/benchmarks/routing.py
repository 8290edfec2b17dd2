"""Decisions a second of `route`, in one process: 10 channels, 30 rules, health of each channel, amounts and hours that vary."""

from __future__ import annotations

import time
from typing import Final

from msgspec import structs

from streams.domain.routing import Ask, route
from streams.domain.score import Book, Health, Hours, Limit, Offer, Rule

CHANNELS: Final = 10
RULES: Final = 30
ASKS: Final = 5000


def book() -> Book:
    """Ten channels of two currencies; rules by amount, by buyer, by hour, three for each channel."""
    names = [f"channel:{number}" for number in range(CHANNELS)]
    offers = tuple(
        Offer(
            channel=name,
            limits={"CNY": Limit(most=0 if number % 2 else 5_000_000), "USD": Limit()},
            methods=("card", "wallet"),
            fee_ppm=2000 + 400 * number,
            assumed_ppm=990_000 - 2000 * number,
        )
        for number, name in enumerate(names)
    )
    rules = tuple(
        Rule(
            name=f"rule {number}",
            channel=names[number % CHANNELS],
            priority=number % 3,
            amount_min=0 if number % 3 else 10_000,
            buyer_tag="v1" if number % 7 == 0 else None,
            hours=Hours(start="2300", end="0600") if number % 5 == 0 else None,
        )
        for number in range(RULES)
    )
    return Book(offers=offers, rules=rules)


def measure() -> dict[str, int]:
    """Decisions a second by each way of scoring."""
    plain = book()
    health = {one.channel: Health(succeeded=900 + number, failed=number) for number, one in enumerate(plain.offers)}
    asks = [
        Ask(amount=100 + 37 * number, currency="CNY", at=number, minute=number % 1440, method="card")
        for number in range(ASKS)
    ]
    found = {}
    for by in ("plain", "expected_value"):
        used = structs.replace(plain, by=by)
        began = time.perf_counter()
        for ask in asks:
            route(ask, used, health)
        found[by] = round(ASKS / (time.perf_counter() - began))
    return found
