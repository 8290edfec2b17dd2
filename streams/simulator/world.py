"""One simulated account: which payments, captures, voids and refunds it holds, and what its contract makes it answer.

It obeys the contract it is given: what an idempotency key does, how long it lives, whether parameters are compared, what a
duplicate is told, when a query can see what was done. It is pure: time is passed in, chance comes from the seed. The `ledger` is the
truth that every proof is held against: each charge that was really made, however often it was asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from streams.simulator.dialect import Asked, Fact, Word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from streams.domain.contract import Contract, Idempotency
    from streams.simulator.faults import Chance

About: TypeAlias = Literal["payment", "capture", "void", "refund"]

FINAL: Final = frozenset({"SUCCESS", "FAILED", "CLOSED"})


@dataclass(slots=True)
class Operation:
    """One payment, capture, void or refund. `later` is the word it will have at `settles_at`."""

    about: About
    number: str
    order_id: str
    payment_no: str
    transaction: str
    amount: int
    currency: str
    word: Word
    since: datetime
    later: Word | None = None
    settles_at: datetime | None = None
    sequence: int = 0
    payment: Operation | None = None
    captured: int = 0
    refunded: int = 0
    denied: bool = False
    """The channel has told that it failed, and it did not."""

    def fact(self) -> Fact:
        """What is to be said about it now."""
        of = self.payment or self
        return Fact(
            about=self.about,
            word=self.word,
            event_id=f"evt_{self.transaction}_{self.sequence}",
            order_id=self.order_id,
            payment_no=self.payment_no,
            transaction=of.transaction,
            amount=self.amount,
            currency=self.currency,
            at=self.since,
            sequence=max(1, self.sequence),
            operation_no=None if self.about == "payment" else self.number,
            operation_transaction=None if self.about == "payment" else self.transaction,
        )


class Taken(NamedTuple):
    """How a request was taken, in the terms of `Dialect.answer`."""

    word: Word
    fact: Fact | None = None
    duplicate: bool = False


class Known(NamedTuple):
    """A request that came under an idempotency key: what it asked, what it did, and what it was answered."""

    asked: Asked
    operation: Operation | None
    answered: Taken
    at: datetime


@dataclass
class World:
    """`settle_s`: how long a slow operation takes. `lag_s`: for how long an eventual query does not see what was done. In seconds."""

    name: str
    contract: Contract
    chance: Chance
    settle_s: float = 1.0
    lag_s: float = 0.2
    payments: dict[str, list[Operation]] = field(default_factory=dict)
    operations: dict[str, Operation] = field(default_factory=dict)
    keys: dict[tuple[str, str], Known] = field(default_factory=dict)
    open: list[Operation] = field(default_factory=list)
    news: list[Fact] = field(default_factory=list)
    """What nobody was told yet; whoever sends the notices takes it."""

    def take(self, asked: Asked, now: datetime) -> Taken:
        """Carry a request out, or say why not."""
        self.settle(now)
        if not asked.signed:
            return Taken("REFUSED")
        if asked.verb == "query":
            return self._query(asked, now)
        if asked.verb == "close":
            return self._close(asked, now)
        return self._once(asked, now, CARRIED_OUT[asked.verb])

    def settle(self, now: datetime) -> None:
        """Let everything end whose time has come."""
        due = [one for one in self.open if one.settles_at is not None and one.settles_at <= now]
        if due:
            self.open = [one for one in self.open if one not in due]
        for one in due:
            assert one.later is not None
            assert one.settles_at is not None
            self._enter(one, one.later, one.settles_at)

    def ledger(self) -> Iterator[Operation]:
        """Every charge that was really made, or is held, or may still be."""
        for charges in self.payments.values():
            for charge in charges:
                if charge.word in ("SUCCESS", "AUTHORIZED", "PROCESSING"):
                    yield charge

    # -- keys

    def _once(
        self, asked: Asked, now: datetime, carry_out: Callable[[World, Asked, datetime], Operation | None]
    ) -> Taken:
        promise = self.contract.idempotency
        place = self._place(asked, promise)
        known = None if place is None else self.keys.get(place)
        if known is not None and promise is not None and _lives(known, promise, now):
            return _again(known, asked, promise)
        operation = carry_out(self, asked, now)
        taken = Taken("REFUSED") if operation is None else Taken(operation.word, operation.fact())
        if place is not None:
            self.keys[place] = Known(asked, operation, taken, now)
        return taken

    @staticmethod
    def _place(asked: Asked, promise: Idempotency | None) -> tuple[str, str] | None:
        """Where an equal key would be met; None where the contract promises nothing for this verb."""
        if promise is None or asked.verb not in promise.operations:
            return None
        key = asked.key or asked.operation_no or asked.payment_no
        return ("" if promise.scope == "account" else asked.verb, key)

    # -- what is carried out

    def submit(self, asked: Asked, now: datetime) -> Operation | None:
        """A charge: it ends as the seed has it for this payment and key."""
        if not asked.payment_no or not asked.amount or asked.amount < 0 or not asked.currency:
            return None
        charges = self.payments.setdefault(asked.payment_no, [])
        draws = (self.name, asked.payment_no, len(charges))
        word: Word = "AUTHORIZED" if self.chance.strikes("authorize", *draws) else "SUCCESS"
        charge = self._new("payment", asked.payment_no, asked, now, len(charges))
        charges.append(charge)
        self._begin(charge, "FAILED" if self.chance.strikes("fail", *draws) else word, now, len(charges))
        return charge

    def capture(self, asked: Asked, now: datetime) -> Operation | None:
        """Some or all of a hold; it succeeds at once."""
        held = self._payment(asked)
        amount = asked.amount or 0
        if held is None or not (held.word == "AUTHORIZED" or held.captured):
            return None
        if not 0 < amount <= held.amount - held.captured:
            return None
        held.captured += amount
        capture = self._operation("capture", held, asked, now)
        self._enter(capture, "SUCCESS", now)
        held.word, held.since = "SUCCESS", now
        return capture

    def void(self, asked: Asked, now: datetime) -> Operation | None:
        """A hold is let go; it succeeds at once."""
        held = self._payment(asked)
        if held is None or held.word != "AUTHORIZED" or held.captured:
            return None
        void = self._operation("void", held, asked, now)
        self._enter(void, "SUCCESS", now)
        held.word, held.since = "CLOSED", now
        return void

    def refund(self, asked: Asked, now: datetime) -> Operation | None:
        """Money back: at once, late, or not at all, as the seed has it."""
        paid = self._payment(asked)
        amount = asked.amount or 0
        if paid is None or paid.word != "SUCCESS" or not 0 < amount <= (paid.captured or paid.amount) - paid.refunded:
            return None
        refund = self._operation("refund", paid, asked, now)
        fails = self.chance.strikes("fail", self.name, refund.number)
        if not fails:
            paid.refunded += amount
        self._begin(refund, "FAILED" if fails else "SUCCESS", now, 1)
        return refund

    # -- what is asked, and given up

    def _query(self, asked: Asked, now: datetime) -> Taken:
        promise = self.contract.query
        if promise is None:
            return Taken("REFUSED")
        found = self._asked_about(asked)
        lag = timedelta(seconds=self.lag_s if promise.consistency == "eventual" else 0)
        if found is None or now < found.since + lag:
            return Taken("NOT_FOUND")
        return Taken(found.word, found.fact())

    def _asked_about(self, asked: Asked) -> Operation | None:
        """By its number; a channel that is asked by its own reference finds it by that, or the newest one of that payment."""
        if asked.operation_no:
            return self.operations.get(asked.operation_no)
        if asked.about == "payment":
            return self._payment(asked)
        kind = [one for one in self.operations.values() if one.about == asked.about]
        own = [one for one in kind if one.transaction == asked.transaction]
        of = [one for one in kind if one.payment is not None and one.payment.transaction == asked.transaction]
        found = own or of
        return found[-1] if found else None

    def _close(self, asked: Asked, now: datetime) -> Taken:
        payment = self._payment(asked)
        if payment is None:
            return Taken("NOT_FOUND")
        if payment.word == "PROCESSING":
            self.open = [one for one in self.open if one is not payment]
            self._enter(payment, "CLOSED", now)
            return Taken("CLOSED", payment.fact())
        return Taken(payment.word, payment.fact(), duplicate=True)

    # -- parts

    def _payment(self, asked: Asked) -> Operation | None:
        """The payment by our number or the channel's; of several charges under one number the first that succeeded, or the last."""
        charges = self.payments.get(asked.payment_no, [])
        if not charges and asked.transaction:
            charges = [one for many in self.payments.values() for one in many if one.transaction == asked.transaction]
        paid = [one for one in charges if one.word in ("SUCCESS", "AUTHORIZED")]
        found = paid or charges[-1:]
        return found[0] if found else None

    def _operation(self, about: About, payment: Operation, asked: Asked, now: datetime) -> Operation:
        number = asked.operation_no or f"{payment.payment_no}-{about}"
        made = self._new(about, number, asked, now, 0)
        made.payment, made.payment_no, made.order_id = payment, payment.payment_no, payment.order_id
        made.amount, made.currency = asked.amount or payment.amount, payment.currency
        self.operations[number] = made
        return made

    def _new(self, about: About, number: str, asked: Asked, now: datetime, nth: int) -> Operation:
        return Operation(
            about=about,
            number=number,
            order_id=asked.order_id,
            payment_no=asked.payment_no,
            transaction=f"{about[0]}{self.chance.name(self.name, about, number, nth)}",
            amount=asked.amount or 0,
            currency=asked.currency or "",
            word="PROCESSING",
            since=now,
        )

    def _begin(self, one: Operation, end: Word, now: datetime, nth: int) -> None:
        if not self.chance.strikes("slow", self.name, one.number, nth):
            self._enter(one, end, now)
            return
        takes = self.settle_s * (0.5 + self.chance.share("settle", self.name, one.number, nth))
        one.later, one.settles_at = end, now + timedelta(seconds=takes)
        self.open.append(one)

    def _enter(self, one: Operation, word: Word, at: datetime) -> None:
        """A word that everybody is told, and where the seed has it, its contradiction after it."""
        one.word, one.since, one.sequence = word, at, one.sequence + 1
        self.news.append(one.fact())
        if word == "SUCCESS" and self.chance.strikes("contradict", self.name, one.number):
            one.word, one.sequence, one.denied = "FAILED", one.sequence + 1, True
            self.news.append(one.fact())
            one.word = word


def _lives(known: Known, promise: Idempotency, now: datetime) -> bool:
    return promise.life_s is None or now < known.at + timedelta(seconds=promise.life_s)


def _again(known: Known, asked: Asked, promise: Idempotency) -> Taken:
    """What a request is told that comes under a known key."""
    same = (
        known.asked.verb,
        known.asked.payment_no,
        known.asked.operation_no,
        known.asked.amount,
        known.asked.currency,
    )
    if promise.checks_parameters and same != (
        asked.verb, asked.payment_no, asked.operation_no, asked.amount, asked.currency
    ):  # fmt: skip
        return Taken("REFUSED", duplicate=True)
    if promise.duplicate_answer == "first" or known.operation is None:
        return known.answered._replace(duplicate=True)
    return Taken(known.operation.word, known.operation.fact(), duplicate=True)


CARRIED_OUT: Final[dict[str, Callable[[World, Asked, datetime], Operation | None]]] = {
    "submit": World.submit,
    "capture": World.capture,
    "void": World.void,
    "refund": World.refund,
}
