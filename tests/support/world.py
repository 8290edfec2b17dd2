"""A world in memory: cashiers, connectors and two channels around the law, on a clock wound by hand, all from one seed.

The channels keep the truth: which submit reached them, and what became of the money. What they say about it gets lost, late, doubled,
reordered, contradicted, and a query may look at a copy that lags by an hour. Our own side clicks twice, falls back, gives up; processes
crash between deciding and storing. Nobody here is told how an order must end: `judge` compares the law's states with the channels' truth.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from streams.codec import dump, load
from streams.domain.contract import Contract, Failures, Idempotency, Query
from streams.domain.converge import converge
from streams.domain.decisions import ChannelRequest, PaymentSuccess
from streams.domain.events import (
    Answer,
    Callback,
    ClosePayment,
    CreatePayment,
    RefundNotice,
    RefundPayment,
    RetryPayment,
    StartPayment,
)
from streams.domain.moment import milliseconds, moment
from streams.domain.order import Order, due
from streams.domain.tables import SUCCESS, UNPAID
from streams.domain.why import why

if TYPE_CHECKING:
    from collections.abc import Callable

    from streams.domain.decisions import Message
    from streams.domain.events import Event

START: Final = 1_741_000_000_000
HOUR: Final = 3_600_000
SECOND: Final = 1000
REFUSES: Final = Failures(not_accepted=("REFUSED",))
CONTRACTS: Final = {
    "old": Contract(failures=REFUSES, query=Query(key="merchant_number", consistency="eventual")),
    "new": Contract(
        failures=REFUSES, query=Query(key="either", consistency="eventual", not_found_after_s=3600),
        idempotency=Idempotency(key="k", scope="account", life_s=86_400), most_submits=3, submit_retry_window_s=600, lease_s=30,
    ),
}  # fmt: skip
"""A channel that knows no key again and whose "not found" proves nothing; and one that promises both."""
LAG: Final = HOUR
"""How far a queried copy may lag."""


@dataclass
class Charge:
    """What a channel knows of one payment: the keys it has seen, and when the money moved or was refused."""

    keys: set[str] = field(default_factory=set)
    known_at: int = 0
    ends_at: int = 0
    end: str = ""
    closed_at: int | None = None

    def state(self, at: int) -> str:
        if self.closed_at is not None and self.closed_at <= at:
            return "CLOSED"
        return self.end if self.end and at >= self.ends_at else "PENDING"


@dataclass
class World:
    """`orders` orders from `seed`. Rows are bytes, as the engine stores them."""

    seed: int
    orders: int
    at: int = START
    rows: dict[str, bytes] = field(default_factory=dict)
    charges: dict[tuple[str, str, str], Charge] = field(default_factory=dict)
    doubled: Counter[str] = field(default_factory=Counter)
    successes: Counter[str] = field(default_factory=Counter)
    refunded: Counter[str] = field(default_factory=Counter)
    events: int = 0
    crashes: int = 0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.queue: list[tuple[int, int, Callable[[], None]]] = []
        self.number = 0
        self.due: list[tuple[int, str]] = []

    def later(self, delay: float, act: Callable[[], None]) -> None:
        self.number += 1
        heapq.heappush(self.queue, (self.at + int(delay * SECOND), self.number, act))

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def play(self) -> World:
        for number in range(self.orders):
            self.later(self.rng.uniform(0, 3600), Shopper(self, f"O{number}").begin)
        while self.queue or self.due:
            if self.due and (not self.queue or self.due[0][0] <= self.queue[0][0]):
                at, name = heapq.heappop(self.due)
                self.at = max(self.at, at)
                if due(load(self.rows[name])) == at:
                    self.decide(name, None, at)
                continue
            self.at, _, act = heapq.heappop(self.queue)
            act()
        return self

    def hear(self, event: Event) -> list[Message]:
        self.events += 1
        return self.decide(event.order_id, event, self.at)

    def decide(self, name: str, event: Event | None, at: int) -> list[Message]:
        """One transaction. A crash before it is stored decides it again, and must decide the same."""
        row = self.rows.get(name)
        order, messages = converge(None if row is None else load(row), event, at, CONTRACTS)
        if self.chance(0.001):
            self.crashes += 1
            again, same = converge(None if row is None else load(row), event, at, CONTRACTS)
            assert again is not None
            assert order is not None
            assert (dump(again), same) == (dump(order), messages), f"seed {self.seed}: a replay decided otherwise"
        assert order is not None
        self.rows[name] = dump(order)
        next_due = due(order)
        if next_due is not None:
            heapq.heappush(self.due, (next_due, name))
        for message in messages:
            if isinstance(message, ChannelRequest):
                self.later(self.rng.expovariate(1 / 2), lambda request=message: Connector(self).send(request))
            elif isinstance(message, PaymentSuccess):
                self.successes[name] += 1
        return messages

    # -- the end

    def judge(self) -> dict[str, Any]:
        """How the law's states stand to the truth. Everything but `states` and `open` must be zero."""
        found: Counter[str] = Counter()
        states: Counter[str] = Counter()
        charged: Counter[str] = Counter()
        paid: set[tuple[str, str]] = set()
        for (name, payment_no, _), charge in self.charges.items():
            if charge.end == SUCCESS and charge.closed_at is None:
                charged[name] += 1
                paid.add((name, payment_no))
        for name, row in self.rows.items():
            order = load(row)
            states.update(payment.state for payment in order.payments)
            found["charged twice"] += charged[name] > 1
            found["announced twice"] += self.successes[name] > 1
            found["announced without money"] += self.successes[name] > charged[name]
            found["money that is not known"] += charged[name] > self.successes[name]
            found["not explained"] += not _explained(order, self.at)
            found["refunded too much"] += self.refunded[name] > 1000 * charged[name]
            for payment in order.payments:
                truth = (name, payment.payment_no) in paid
                found["false failure"] += payment.state in UNPAID and truth
                found["false success"] += payment.state == SUCCESS and not truth
        return {"states": states, **found}


def _explained(order: Order, at: int) -> bool:
    told = why(order, at)
    waits = [payment for payment in order.payments if payment.state not in UNPAID and payment.state != SUCCESS]
    return len(told.open) >= len(waits) and all(one.witness and one.because for one in told.ended)


class Shopper:
    """Our own side of one order: creates, starts, clicks again, falls back, gives up, asks for refunds."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.channel = world.rng.choice(("old", "new"))
        self.clicks = 0

    def command(self, kind: Any, **fields: Any) -> list[Message]:
        self.clicks += 1
        return self.world.hear(kind(command_id=f"{self.name}-{self.clicks}", order_id=self.name, **fields))

    def begin(self) -> None:
        self.command(CreatePayment, payment_no="P1", biz_code="shop", channel=self.channel, amount=1000, currency="USD")
        if not self.world.chance(0.02):
            self.world.later(self.world.rng.uniform(0, 30), self.start)

    def start(self) -> None:
        self.command(StartPayment, payment_no="P1")
        for act, share in (
            (self.start_again, 0.1),
            (self.another, 0.1),
            (self.fall_back, 0.4),
            (self.give_up, 0.05),
            (self.refund, 0.3),
        ):
            if self.world.chance(share):
                self.world.later(self.world.rng.expovariate(1 / 300), act)

    def start_again(self) -> None:
        self.command(StartPayment, payment_no="P1")

    def another(self) -> None:
        other = "new" if self.channel == "old" else "old"
        self.command(CreatePayment, payment_no="P2", biz_code="shop", channel=other, amount=1000, currency="USD")
        self.command(StartPayment, payment_no="P2")

    def fall_back(self) -> None:
        other = "new" if self.channel == "old" else "old"
        self.command(RetryPayment, payment_no="P1", channel=other)
        if self.world.chance(0.5):
            self.world.later(self.world.rng.expovariate(1 / 4000), self.fall_back)

    def give_up(self) -> None:
        self.command(ClosePayment, payment_no="P1")

    def refund(self) -> None:
        number = f"R{self.clicks}"
        self.command(
            RefundPayment,
            payment_no="P1",
            refund_no=number,
            amount=self.world.rng.choice((300, 700, 1000)),
            currency="USD",
        )
        if self.world.chance(0.5):
            self.world.later(self.world.rng.expovariate(1 / 600), self.refund)


class Connector:
    """Carries one request to its channel and an answer back, if nothing is lost on the way."""

    def __init__(self, world: World) -> None:
        self.world, self.rng = world, world.rng

    def send(self, request: ChannelRequest) -> None:
        if request.not_after is not None and self.world.at > milliseconds(request.not_after):
            return  # its lease is over
        if self.rng.random() < 0.03:
            self.answer(request, "TIMEOUT")  # lost on the way there
            return
        getattr(self, request.verb.lower())(request)

    def charge(self, request: ChannelRequest) -> Charge:
        return self.world.charges.setdefault((request.order_id, request.payment_no, request.channel), Charge())

    def submit(self, request: ChannelRequest) -> None:
        """`old` charges whatever reaches it; `new` knows a key again. Some are refused, and refused is not accepted."""
        charge = self.charge(request)
        if request.idempotency_key in charge.keys and request.channel == "new":
            self.answer(request, "ACCEPTED")
            return
        if self.rng.random() < 0.15:
            self.answer(request, "REFUSED")
            return
        if charge.keys:
            self.world.doubled[request.order_id] += 1  # a second charge of one payment at one channel
        charge.keys.add(request.idempotency_key)
        charge.known_at = self.world.at
        charge.ends_at = self.world.at + int(self.rng.expovariate(1 / 200) * SECOND)
        charge.end = "SUCCESS" if self.rng.random() < 0.8 else "FAILED"
        self.answer(request, "ACCEPTED" if self.rng.random() < 0.9 else "PROCESSING")
        self.world.later((charge.ends_at - self.world.at) / SECOND, lambda: self.notify(request, charge))

    def query(self, request: ChannelRequest) -> None:
        """The copy that answers may lag: what it has not seen it does not find."""
        if request.operation_no is not None:
            self.answer(request, "SUCCESS", operation=True)
            return
        charge = self.charge(request)
        seen = self.world.at - int(self.rng.random() * LAG * (self.rng.random() < 0.5))
        if not charge.keys or charge.known_at > seen:
            self.answer(request, "NOT_FOUND" if self.rng.random() < 0.9 else "CONTRADICTORY")
        else:
            self.answer(request, charge.state(seen))

    def close(self, request: ChannelRequest) -> None:
        """A channel closes what it has not been paid, for good: a submit that comes later is refused by its number."""
        charge = self.charge(request)
        if charge.keys and charge.state(self.world.at) == SUCCESS:
            self.answer(request, "ALREADY_PAID")
        elif charge.keys and charge.state(self.world.at) == "PENDING" and self.rng.random() < 0.7:
            charge.closed_at = self.world.at
            self.answer(request, "SUCCESS")
        else:
            self.answer(request, "PROCESSING")

    def refund(self, request: ChannelRequest) -> None:
        """Every refund that arrives is paid."""
        self.world.refunded[request.order_id] += request.amount
        notice = RefundNotice(
            order_id=request.order_id, payment_no=request.payment_no, refund_no=request.operation_no, channel=request.channel,
            status="SUCCESS", event_id=f"{request.id}", refund_transaction=f"T{request.id}", amount=request.amount, currency="USD",
        )  # fmt: skip
        self.deliver(notice)

    def notify(self, request: ChannelRequest, charge: Charge) -> None:
        """The channel's own notice, and the noise around it."""
        if charge.closed_at is not None:
            return
        notice = Callback(
            order_id=request.order_id, payment_no=request.payment_no, channel=request.channel, status=charge.end,
            event_id=f"{request.id}-end", transaction=transaction_of(request), amount=1000, currency="USD",
        )  # fmt: skip
        self.deliver(notice)
        if self.rng.random() < 0.1:
            self.deliver(replace(notice, event_id=f"{request.id}-odd", status="CONTRADICTORY"))
        if self.rng.random() < 0.1:
            self.deliver(replace(notice, event_id=f"{request.id}-pending", status="PENDING"))
        if self.rng.random() < 0.05:
            self.deliver(replace(notice, event_id=f"{request.id}-amount", amount=999))
        if charge.end == SUCCESS and self.rng.random() < 0.03:  # an attempt of the payer that was declined before
            late = replace(notice, event_id=f"{request.id}-late", status="FAILED", transaction="X0")
            self.world.later(4 * 86_400, lambda: self.world.hear(late))

    def deliver(self, event: Event) -> None:
        """Lost, late, doubled."""
        while self.rng.random() > 0.15:
            self.world.later(self.rng.expovariate(1 / 20), lambda: self.world.hear(event))
            if self.rng.random() < 0.8:
                break

    def answer(self, request: ChannelRequest, status: str, *, operation: bool = False) -> None:
        money: dict[str, Any] = {}
        if status == SUCCESS and request.verb == "QUERY":
            money = {"transaction": transaction_of(request), "amount": request.amount, "currency": "USD"}
        if operation:
            money["transaction"] = f"Trequest/{request.order_id}/{request.operation_no}/REFUND/1"
        event = Answer(
            request=request.verb.lower(), order_id=request.order_id, payment_no=request.payment_no,  # type: ignore[arg-type]
            operation_no=request.operation_no, channel=request.channel, status=status, answered_at=moment(self.world.at), **money,
        )  # fmt: skip
        if self.rng.random() > 0.1 or request.verb == "QUERY":
            self.world.later(self.rng.expovariate(1 / 3), lambda: self.world.hear(event))


def transaction_of(request: ChannelRequest) -> str:
    """Whatever is asked, a payment has one transaction at a channel."""
    return f"X/{request.order_id}/{request.payment_no}/{request.channel}"
