"""A model of channels that charge, and of a cashier over the law, for whoever wants to know how often an order is charged.

A model channel charges whatever submit reaches it, at once and for good, unless it refuses it; its answer may get lost or be late. So a
second submit that it accepts is a second charge.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from streams.domain.contract import Contract, Failures, Idempotency, Query
from streams.domain.decisions import ChannelRequest
from streams.domain.events import Answer, Callback
from streams.domain.moment import milliseconds
from tests.support.worlds import World

CONTRACTS = {
    name: Contract(failures=Failures(not_accepted=("REFUSED",))) for name in ("chC", "chD")
} | {
    "chA": Contract(
        failures=Failures(not_accepted=("REFUSED",)), query=Query(key="merchant_number", not_found_after_s=60, consistency="strong"),
    ),
    "chB": Contract(
        failures=Failures(not_accepted=("REFUSED",)), idempotency=Idempotency(key="k", scope="account", life_s=600),
        most_submits=4, submit_retry_window_s=300, lease_s=30,
    ),
}  # fmt: skip


@dataclass
class Channels:
    """Two channels. `charged` holds every charge made: its payment, channel and idempotency key."""

    charged: list[tuple[str, str, str]] = field(default_factory=list)
    inbox: list[tuple[str, str, str, int]] = field(default_factory=list)
    reports: list[tuple[str, str]] = field(default_factory=list)

    def charge(self, payment: str, channel: str, key: str) -> None:
        """A channel with idempotency knows a key again; one without charges whatever comes."""
        knows = CONTRACTS[channel].idempotency is not None
        if not (knows and (payment, channel, key) in self.charged):
            self.charged.append((payment, channel, key))
            self.reports.append((payment, channel))


class Cashier:
    """The law, driven as a cashier and its connectors would."""

    def __init__(self) -> None:
        self.world = World(CONTRACTS)
        self.channels = Channels()
        self.clicks = 0
        self.tell("create P1 channel=chA expires_at=never")
        self.tell("start P1")

    def tell(self, row: str) -> None:
        self.take(len(self.world.said), lambda: self.world.row(row))

    def take(self, before: int, act: object) -> None:
        act()  # type: ignore[operator]
        for message in self.world.said[before:]:
            if isinstance(message, ChannelRequest) and message.verb == "SUBMIT":
                assert message.not_after is not None
                until = milliseconds(message.not_after)
                self.channels.inbox.append((message.payment_no, message.channel, message.idempotency_key, until))

    def answer(self, payment: str, channel: str, status: str, request: str = "submit") -> None:
        answer = Answer(request=request, order_id="O1", payment_no=payment, channel=channel, status=status)  # type: ignore[arg-type]
        self.take(len(self.world.said), lambda: self.world.tell(answer))

    def step(self, step: str) -> None:
        self.clicks += 1
        if step.startswith(("charge", "refuse")):
            self.handle(accept=step.startswith("charge"), answered="lost" not in step)
        elif step == "deliver" and self.channels.reports:
            payment, channel = self.channels.reports.pop(0)
            notice = Callback(
                order_id="O1", payment_no=payment, channel=channel, status="SUCCESS", event_id=f"{payment}-{channel}",
                transaction=f"X-{payment}-{channel}", amount=1000, currency="USD",
            )  # fmt: skip
            self.take(len(self.world.said), lambda: self.world.tell(notice))
        elif step == "query":
            self.query()
        elif step == "fall back":
            self.fall_back()
        elif step == "click":
            self.tell(f"start P1 command_id=click-{self.clicks}")
        elif step == "second payment":
            self.tell(f"create P2 channel=chB command_id=create-{self.clicks} expires_at=never")
            self.tell(f"start P2 command_id=start-{self.clicks}")
        elif step.startswith("wait"):
            self.tell("+700 tick" if "long" in step else "+40 tick")
        elif step == "give up":
            self.tell(f"give-up P1 command_id=up-{self.clicks}")

    def handle(self, *, accept: bool, answered: bool) -> None:
        """A submit reaches its channel."""
        if not self.channels.inbox:
            return
        payment, channel, key, until = self.channels.inbox.pop(0)
        if self.world.at > until:
            return  # its lease is over: no connector sends it any more
        if accept:
            self.channels.charge(payment, channel, key)
        status = ("ACCEPTED" if accept else "REFUSED") if answered else "TIMEOUT"
        self.answer(payment, channel, status)

    def query(self) -> None:
        """chA does not find what it has not charged yet, even if the submit is still on its way to it."""
        if not any(channel == "chA" for _, channel, _ in self.channels.charged):
            self.answer("P1", "chA", "NOT_FOUND", "query")

    def fall_back(self) -> None:
        other = "chB" if self.clicks % 2 else "chA"
        self.tell(f"retry P1 channel={other} command_id=retry-{self.clicks}")


def charges(cashier: Cashier, steps: list[str]) -> int:
    for step in steps:
        cashier.step(step)
    while cashier.channels.inbox:  # nothing that left us is forgotten
        cashier.handle(accept=True, answered=True)
    return len(cashier.channels.charged)
