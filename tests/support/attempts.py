"""Payments that end as a seed says, decided by the law in memory: the decisions, and what is true of their channels."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from streams.channels.contracts import shipped
from streams.domain.converge import converge
from streams.domain.decisions import Decision
from streams.domain.events import Answer, CreatePayment, StartPayment

CHANNELS = ("simulator:a", "simulator:b")
LATENCY_MS = 1500


@dataclass
class Attempts:
    """`take` plays one payment; `truth` counts (channel, result), `stock` what has no result."""

    seed: int
    decisions: list[Decision] = field(default_factory=list)
    truth: Counter[tuple[str, str]] = field(default_factory=Counter)
    stock: Counter[str] = field(default_factory=Counter)
    _made: int = 0

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)

    def take(self, at: int, *, counts: bool = True) -> None:
        """One payment whose attempt begins at `at`, milliseconds. `counts`: it is young enough for the half hour."""
        self._made += 1
        name, channel = f"o-{self.seed}-{self._made}", self._chance.choice(CHANNELS)
        amount = self._chance.choice([500, 50_000])
        word = self._chance.choice(["SUCCESS"] * 6 + ["DECLINED_RETRYABLE"] * 2 + ["TIMEOUT"])
        create = CreatePayment(
            command_id=f"c-{name}", order_id=name, payment_no=f"P-{name}", biz_code="SALE", channel=channel,
            amount=amount, currency="CNY", merchant="shop",
        )  # fmt: skip
        start = StartPayment(command_id=f"s-{name}", order_id=name, payment_no=f"P-{name}", merchant="shop")
        answer = Answer(
            request="submit", order_id=name, payment_no=f"P-{name}", channel=channel, status=word, merchant="shop",
            transaction=f"t-{name}" if word == "SUCCESS" else None, amount=amount if word == "SUCCESS" else None,
            currency="CNY" if word == "SUCCESS" else None, error_class="declined" if word == "DECLINED_RETRYABLE" else None,
        )  # fmt: skip
        order: Any = None
        for event, moment in ((create, at), (start, at), (answer, at + LATENCY_MS)):
            order, said = converge(order, event, moment, shipped())
            self.decisions += [one for one in said if isinstance(one, Decision)]
        if word == "TIMEOUT":
            self.stock[channel] += 1
        elif counts:
            self.truth[channel, "succeeded" if word == "SUCCESS" else "failed"] += 1
