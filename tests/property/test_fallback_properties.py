"""Routers, clicks and late successes in every interleaving charge once (R-050, R-156, R-157, R-162).

Two routers read the decisions, each at its own pace and some of them twice; one may die before or after it has written its decision down,
or send a command long after. The channels are the model of `model_channels`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from streams.domain.decisions import Decision
from streams.domain.fallback import Refusal, command, fallback, lawful, refusal
from streams.domain.routing import MOST_CHANNELS, Ask, Routing
from streams.domain.score import Book, Limit, Offer
from tests.support.model_channels import CONTRACTS, Cashier, charges

BOOK = Book(offers=tuple(Offer(channel=name, limits={"USD": Limit()}) for name in ("chA", "chB", "chC", "chD")))
CHANNELS = (
    "charge", "charge", "charge, answer lost", "refuse", "refuse", "refuse", "refuse, answer lost", "deliver", "query",
)  # fmt: skip
ROUTERS = (
    "router 1",
    "router 1",
    "router 2",
    "router 2",
    "router 1 dies",
    "router 2 dies late",
    "router 1 again",
    "late command",
)
STEPS = (*CHANNELS, *ROUTERS, "click", "second payment", "wait", "wait long", "give up")
Steps = st.lists(st.sampled_from(STEPS), min_size=2, max_size=16)


@dataclass
class Desk:
    """What the routers share in Postgres: decisions by id; and how far each has read."""

    kept: dict[str, Routing] = field(default_factory=dict)
    tried: list[str] = field(default_factory=lambda: ["chA"])
    places: dict[str, int] = field(default_factory=lambda: {"1": 0, "2": 0})
    late: list[tuple[Refusal, Routing]] = field(default_factory=list)


class Routed(Cashier):
    """The cashier with two routers beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.desk = Desk()

    def refusals(self) -> list[Refusal]:
        return [found for one in self.world.said if isinstance(one, Decision) and (found := self.read(one)) is not None]

    def read(self, decision: Decision) -> Refusal | None:
        return refusal(decision)

    def step(self, step: str) -> None:
        if step.startswith("router"):
            _, name, *how = step.split()
            self.route(name, " ".join(how))
        elif step == "late command":
            if self.desk.late:
                self.send(*self.desk.late.pop(0))
        else:
            super().step(step)

    def route(self, name: str, how: str) -> None:
        """Answer the next refusal: write down, send, and only then pass it."""
        if how == "again":
            self.desk.places[name] = 0
        waiting = self.refusals()[self.desk.places[name] :]
        if not waiting or how == "dies":
            return
        routing = self.decide(waiting[0])
        if how == "dies late":  # what it was about to send may still arrive
            self.desk.late.append((waiting[0], routing))
            return
        self.send(waiting[0], routing)
        self.desk.places[name] += 1

    def decide(self, refused: Refusal) -> Routing:
        if refused.command_id not in self.desk.kept:
            tried = (*self.desk.tried, refused.channel)
            ask = Ask(
                amount=1000, currency="USD", at=self.world.at, minute=0,
                among=lawful(None, CONTRACTS, BOOK), tried=tuple(dict.fromkeys(tried)),
            )  # fmt: skip
            routing = fallback(refused, ask, BOOK, {}, ())
            self.desk.kept[refused.command_id] = routing
            if routing.channel is not None:
                self.desk.tried.append(routing.channel)
        return self.desk.kept[refused.command_id]

    def send(self, refused: Refusal, routing: Routing) -> None:
        self.take(len(self.world.said), lambda: self.world.tell(command(refused, routing)))


class Hasty(Routed):
    """The mutant: it takes every doubt for a refusal."""

    def read(self, decision: Decision) -> Refusal | None:
        if decision.source not in {"submit", "query"} or decision.payment_no != "P1":
            return None
        at = int(decision.decided_at.timestamp() * 1000)
        return Refusal(
            at=at, merchant=None, order_id="O1", payment_no="P1", attempt=decision.seq, channel="chA", error="TIMEOUT"
        )


@given(Steps)
@settings(max_examples=settings.default.max_examples * 3)
def test_clicks_fallbacks_and_late_successes_charge_once(steps: list[str]):
    routed = Routed()
    assert charges(routed, steps) <= 1
    assert len(set(routed.desk.tried)) <= MOST_CHANNELS
    assert len(routed.world.order.payments[0].made) <= MOST_CHANNELS


@given(Steps)
def test_even_a_router_that_takes_a_doubt_for_a_refusal_charges_once(steps: list[str]):
    """The gate decides, not the router."""
    assert charges(Hasty(), steps) <= 1


def test_a_fallback_goes_to_three_channels_and_then_gives_up():
    """R-156, R-159; nothing was accepted, so the order is free."""
    routed = Routed()
    for _ in range(MOST_CHANNELS):
        routed.step("refuse")
        routed.step("router 1")
        routed.step("router 2")
    assert routed.desk.tried == ["chA", "chB", "chC"]
    assert [one.channel for one in routed.desk.kept.values()] == ["chB", "chC", None]
    assert routed.world.order.payments[0].state == "CLOSED"
    assert routed.channels.charged == []


def test_a_refusal_that_is_old_gives_up_instead_of_charging_who_has_gone():
    routed = Routed()
    routed.step("refuse")
    routed.step("wait long")
    routed.step("router 1")
    (kept,) = routed.desk.kept.values()
    assert (kept.channel, kept.failure) == (None, "all_channel_failed")
    assert routed.world.order.payments[0].state == "CLOSED"


def test_a_fallback_charges_at_the_next_channel_once_though_both_routers_ask():
    routed = Routed()
    routed.step("refuse, answer lost")
    assert routed.refusals() == [], "a lost answer is no refusal"
    routed = Routed()
    assert charges(routed, ["refuse", "router 2 dies late", "router 1", "late command", "router 2", "click"]) == 1
    assert {channel for _, channel, _ in routed.channels.charged} == {"chB"}
