"""Traffic as connectors would produce it, from a seed: duplicates, reorderings, late failures, wrong amounts, timeouts, strangers.

Each order lives one of the `LIVES`. What must come of it is known from the life alone, without the law, so the end can be judged by
somebody else. Events of one order in one topic keep their order; across topics anything may overtake anything.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import msgspec

from streams.domain.events import Answer, Callback, CardPosting, CreatePayment, StartPayment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Event: TypeAlias = Callback | Answer | CardPosting | CreatePayment | StartPayment
CHANNELS: Final = ("stripe:acct_demo", "wechatpay:1900000109", "alipay:2088001", "adyen:DemoShop")
CURRENCIES: Final = {"stripe": "USD", "wechatpay": "CNY", "alipay": "CNY", "adyen": "EUR"}
DOUBLED: Final = 0.22
"""Share of channel events that are delivered twice."""
REACH: Final = 400
"""How many records a delivery may be late by."""
POISON: Final = 0.002
_encode = msgspec.json.Encoder().encode


class Sent(NamedTuple):
    """One record to produce: the logical topic, key and value."""

    topic: str
    key: bytes | None
    value: bytes


@dataclass
class Life:
    """One order's events, each with its topic, and whether it must end paid."""

    order: str
    rng: random.Random
    paid: bool = False
    events: list[tuple[str, Event]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.channel = self.rng.choice(CHANNELS)
        self.amount = self.rng.randrange(100, 500_000)
        self.currency = CURRENCIES[self.channel.partition(":")[0]]
        self.number = 0

    @property
    def payment(self) -> str:
        return f"PAY-{self.order}"

    def begin(self) -> None:
        create = CreatePayment(
            command_id=f"{self.order}-create", order_id=self.order, payment_no=self.payment, biz_code="SHOP",
            channel=self.channel, amount=self.amount, currency=self.currency,
        )  # fmt: skip
        start = StartPayment(command_id=f"{self.order}-start", order_id=self.order, payment_no=self.payment)
        self.events += [("commands", create), ("commands", start)]

    def callback(self, status: str, *, off: int = 0, currency: str = "", event: str = "") -> None:
        self.number += 1
        self.events.append((
            "channel-callbacks",
            Callback(
                order_id=self.order, payment_no=self.payment, channel=self.channel, status=status, event_type="payment",
                event_id=event or f"evt_{self.order}_{self.number}", transaction=f"txn_{self.order}",
                amount=self.amount + off, currency=currency or self.currency,
            ),
        ))  # fmt: skip

    def answer(self, request: str, status: str, **more: object) -> None:
        self.number += 1
        fields: dict[str, object] = {
            "request": request,
            "order_id": self.order,
            "payment_no": self.payment,
            "channel": self.channel,
        }
        self.events.append(
            ("query-results", msgspec.convert({**fields, "type": "answer", "status": status, **more}, Answer))
        )

    def answered_success(self) -> None:
        self.answer("query", "SUCCESS", transaction=f"txn_{self.order}", amount=self.amount, currency=self.currency)

    def posting(self) -> None:
        self.events.append((
            "card-postings",
            CardPosting(
                channel="issuer:demo", order_id=self.order, event_id=f"card_{self.order}", amount=self.amount, currency=self.currency,
                status="PURCHASE", payment_no=self.payment,
            ),
        ))  # fmt: skip


def paid_by_callback(life: Life) -> None:
    life.begin()
    life.answer("submit", "ACCEPTED")
    life.callback("PENDING")
    life.callback("SUCCESS")
    if life.rng.random() < 0.3:
        life.posting()
    life.paid = True


def paid_by_query(life: Life) -> None:
    """The submission timed out and no callback ever came."""
    life.begin()
    life.answer("submit", "TIMEOUT")
    life.answer("query", "NOT_FOUND")
    life.answered_success()
    life.paid = True


def refused(life: Life) -> None:
    life.begin()
    life.answer("submit", "ACCEPTED")
    life.callback("FAILED")


def late_failure(life: Life) -> None:
    life.begin()
    life.callback("SUCCESS")
    life.callback("FAILED")
    life.paid = True


def late_success(life: Life) -> None:
    life.begin()
    life.callback("FAILED")
    life.callback("SUCCESS")


def wrong_amount(life: Life) -> None:
    life.begin()
    life.answer("submit", "ACCEPTED")
    life.callback("SUCCESS", off=-life.rng.randrange(1, 99))


def wrong_currency(life: Life) -> None:
    life.begin()
    life.callback("SUCCESS", currency="JPY")


def silent(life: Life) -> None:
    """A timeout, and nothing else: it stays unknown, and is asked about."""
    life.begin()
    life.answer("submit", "TIMEOUT")


def stranger(life: Life) -> None:
    """Evidence of a payment that nobody created."""
    life.callback("SUCCESS")


def contradicting(life: Life) -> None:
    """One event id, two payloads; a query settles it."""
    life.begin()
    life.callback("SUCCESS", off=1, event=f"evt_{life.order}_same")
    life.callback("SUCCESS", event=f"evt_{life.order}_same")
    life.answered_success()
    life.paid = True


def unheard_of(life: Life) -> None:
    life.begin()
    life.callback("SUPER_OK")


LIVES: Final[tuple[tuple[int, Callable[[Life], None]], ...]] = (
    (64, paid_by_callback),
    (8, paid_by_query),
    (7, refused),
    (4, late_failure),
    (3, late_success),
    (3, wrong_amount),
    (1, wrong_currency),
    (4, silent),
    (2, stranger),
    (2, contradicting),
    (2, unheard_of),
)
"""Shares, in per cent, and what they do."""

BROKEN: Final = (
    lambda key: Sent("channel-callbacks", key, b'{"type":"callback","order_id":'),
    lambda key: Sent("channel-callbacks", key, b"\xff\xfe not UTF-8"),
    lambda key: Sent("commands", key, b""),
    lambda key: Sent("query-results", key, _encode({"type": "answer", "order_id": "somebody else"})),
    lambda _key: Sent("commands", None, b'{"type":"start_payment"}'),
)
"""Bad input, one of each kind in turn."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """All records in the order of production, and the orders that must end paid."""

    records: list[Sent]
    paid: frozenset[str]
    orders: int
    broken: int


def traffic(orders: int, seed: int, prefix: str = "ORD") -> Traffic:
    """`orders` lives, interleaved. The same seed makes the same traffic."""
    rng = random.Random(seed)  # noqa: S311  traffic, not keys
    lives = [_live(f"{prefix}-{number:06d}", rng) for number in range(orders)]
    in_time = sorted(placed(lives, rng), key=lambda each: each[0])
    records = [record for _, record in in_time]
    broken = max(len(BROKEN), int(len(records) * POISON))
    for number in range(broken):
        at = rng.randrange(len(records))
        records.insert(at, BROKEN[number % len(BROKEN)](f"{prefix}-broken-{number}".encode()))
    return Traffic(records, frozenset(life.order for life in lives if life.paid), orders, broken)


def _live(order: str, rng: random.Random) -> Life:
    life = Life(order, rng)
    rng.choices([live for _, live in LIVES], [share for share, _ in LIVES])[0](life)
    return life


def placed(lives: list[Life], rng: random.Random) -> Iterator[tuple[float, Sent]]:
    """Each record with its place in time: an order's events follow one another, late by chance; each topic keeps its order."""
    for number, life in enumerate(lives):
        latest: dict[str, float] = {}
        for step, (topic, event) in enumerate(life.events):
            late = rng.random() * REACH if rng.random() < 0.3 else rng.random() * 20
            place = max(number * 5 + step * 3 + late, latest.get(topic, 0.0) + 1e-6)
            record = Sent(topic, life.order.encode(), _encode(event))
            latest[topic] = place
            yield place, record
            if topic != "commands" and rng.random() < DOUBLED:
                yield place + rng.random() * REACH, record
