"""One turn of the law: a private copy of the order, and everything the turn says.

A turn is a series of decisions: the event's own, then one for each piece of parked evidence that the event sets free. Every
message names its decision, and every decision names its messages.
"""

from __future__ import annotations

from copy import copy
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import structs

from streams.domain import identity
from streams.domain.asking import asked
from streams.domain.contract import DEFAULT, Contract, Contracts
from streams.domain.decisions import (
    Decision,
    Discrepancy,
    LedgerEntry,
    Message,
    Movement,
    OperationUpdate,
    PaymentSuccess,
    PaymentUpdate,
    Said,
    Severity,
    Source,
    Verb,
    Verdict,
    message_id,
)
from streams.domain.moment import moment
from streams.domain.order import MAX_CONFLICTS, MAX_SEEN, Conflict, Operation, Order, Payment, Seen, Target
from streams.domain.standing import standing
from streams.domain.tables import KINDS, NOT_YET_PAID

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streams.domain.facts import Fact


HOUR_MS: Final = 3_600_000


class Ruling(NamedTuple):
    """What the law says about one piece of evidence or one command."""

    verdict: Verdict
    rule: str
    detail: str = ""


class Turn:
    """The order being decided, and the messages so far. `at` is milliseconds, UTC.

    `moved` tells that an operation appeared or changed its state, so that what waited may be heard now. `was` are the operations before
    the decision, so that it can tell which it has changed.
    """

    __slots__ = ("at", "caused", "contracts", "decision", "ledger", "moment", "moved", "order", "raised", "says", "was")

    def __init__(self, order: Order, at: int, contracts: Contracts) -> None:
        self.order = copy(order)
        if order.payments:
            self.order.payments = tuple([copy(payment) for payment in order.payments])
        if order.operations:
            self.order.operations = tuple([copy(operation) for operation in order.operations])
        self.contracts = contracts
        self.says: list[Message] = []
        self.moved = False
        self.set_time(at)
        self.was: tuple[Sequence[Payment], Sequence[Operation]] = order.payments, order.operations
        self._open()

    def set_time(self, at: int) -> None:
        self.at = at
        self.moment = moment(at)

    def open(self) -> None:
        """Begin the next decision."""
        order = self.order
        self.was = [copy(payment) for payment in order.payments], [copy(operation) for operation in order.operations]
        self._open()

    def _open(self) -> None:
        self.order.seq += 1
        self.decision = identity.decision_id(self.order, self.order.seq)
        self.caused: list[str] = []
        self.ledger: list[LedgerEntry] = []
        self.raised: list[Discrepancy] = []

    def contract(self, channel: str) -> Contract:
        return self.contracts.get(channel, DEFAULT)

    def payment(self, payment_no: str, merchant: str | None) -> Payment | None:
        for payment in self.order.payments:
            if payment.payment_no == payment_no and payment.merchant == merchant:
                return payment
        return None

    def operation(self, number: str, merchant: str | None) -> Operation | None:
        for operation in self.order.operations:
            if operation.number == number and operation.merchant == merchant:
                return operation
        return None

    def find(self, number: str, merchant: str | None) -> Target | None:
        """Any operation of ours by its number."""
        return self.payment(number, merchant) or self.operation(number, merchant)

    def parent(self, operation: Operation) -> Payment | None:
        return self.payment(operation.payment_no, operation.merchant)

    # -- what it says

    def say(self, message: Message) -> None:
        self.caused.append(message_id(message))
        self.says.append(message)

    def enter(self, target: Target, state: str, before: str | None) -> None:
        """Move the operation and tell the trade domain."""
        target.state = state
        target.path = (*target.path, state)
        self.moved = True
        if type(target) is Operation:
            self._tell_operation(target, before)
            return
        assert type(target) is Payment
        if state not in NOT_YET_PAID:
            target.details = None
        self.say(
            PaymentUpdate(
                id=identity.update_id(self.order, target, state),
                order_id=self.order.order_id,
                payment_no=target.payment_no,
                merchant=target.merchant,
                biz_code=target.biz_code,
                channel=target.channel,
                amount=target.amount,
                currency=target.currency,
                state=state,
                before=before,
                transaction=target.transaction,
                decision=self.decision,
                decided_at=self.moment,
            )
        )

    def _tell_operation(self, operation: Operation, before: str | None) -> None:
        self.say(
            OperationUpdate(
                id=identity.update_id(self.order, operation, operation.state),
                order_id=self.order.order_id,
                payment_no=operation.payment_no,
                merchant=operation.merchant,
                kind=operation.kind,  # type: ignore[arg-type]
                operation_no=operation.number,
                channel=operation.channel,
                amount=operation.amount,
                currency=operation.currency,
                state=operation.state,
                before=before,
                transaction=operation.transaction,
                decision=self.decision,
                decided_at=self.moment,
            )
        )

    def announce(self, payment: Payment, amount: int, transaction: str, evidence: str) -> None:
        """Say that the order's payment succeeded: once, by the winner of the transition (R-139)."""
        payment.announced = True
        self.say(
            PaymentSuccess(
                id=identity.success_id(self.order, payment),
                order_id=self.order.order_id,
                payment_no=payment.payment_no,
                merchant=payment.merchant,
                biz_code=payment.biz_code,
                channel=payment.channel,
                transaction=transaction,
                amount=amount,
                currency=payment.currency,
                evidence=evidence,
                decision=self.decision,
                decided_at=self.moment,
                order_total=None if payment.funds is None else payment.funds.total,
            )
        )

    def move(self, target: Target, kind: str, amount: int, evidence: str) -> None:
        """Say what happened to money beside the payment's success."""
        self.say(
            Movement(
                id=identity.movement_id(self.order, target, kind),
                kind=kind,  # type: ignore[arg-type]
                order_id=self.order.order_id,
                payment_no=target.payment_no,
                merchant=target.merchant,
                operation_no=target.number if type(target) is Operation else None,
                channel=target.channel,
                transaction=target.transaction,
                amount=amount,
                currency=target.currency,
                state=target.state,
                evidence=evidence,
                decision=self.decision,
                decided_at=self.moment,
            )
        )

    def post(self, dr: str, cr: str, amount: int, currency: str, ref: str) -> None:
        """One double entry; it leaves with the decision that made it."""
        self.ledger.append(LedgerEntry(dr, cr, amount, currency, ref))

    def request(self, target: Target, verb: Verb, why: str, *, not_after: int | None = None) -> None:
        """Ask the channel for something. Each verb is counted by itself, so that a replay gives each request its number again."""
        if verb == "QUERY":
            if not self.contract(target.channel).asks:
                return
            target.queries += 1
            number = target.queries
        elif verb == "CLOSE":
            assert type(target) is Payment
            target.closes += 1
            number = target.closes
        else:
            number = target.attempts + (target.resends if type(target) is Payment else 0)
        parent = self.parent(target) if type(target) is Operation else None
        self.say(asked(self, target, parent, verb, number, why=why, not_after=not_after))

    # -- discrepancies

    def contest(
        self,
        kind: str,
        conflict: bytes,
        *,
        ref: str,
        payment_no: str | None,
        merchant: str | None,
        evidence: str,
        detail: str,
        severity: Severity | None = None,
    ) -> bool:
        """Raise a discrepancy over the facts named by `conflict`; False if it stood already. Severity only ever rises."""
        order = self.order
        severity = severity or KINDS[kind].severity
        status = "opened"
        entry = Conflict(conflict, 1, True, kind, severity, ref, payment_no, self.at, merchant=merchant)  # noqa: FBT003  a row of the state
        for index, known in enumerate(order.conflicts):
            if known.id == conflict:
                if known.decided or (known.open and severity in {known.severity, "info"}):
                    return False
                status = "updated" if known.open else "opened"
                since = known.opened_at if known.open else self.at
                entry = structs.replace(entry, revision=known.revision + 1, opened_at=since)
                order.conflicts = (*order.conflicts[:index], entry, *order.conflicts[index + 1 :])
                break
        else:
            if len(order.conflicts) < MAX_CONFLICTS:
                order.conflicts = (*order.conflicts, entry)
            else:
                order.overflow += 1
                self.tell(entry, "opened", identity.overflow_id(order, order.overflow), evidence, detail)
                return True
        self.tell(entry, status, identity.discrepancy_id(order, conflict), evidence, detail)
        return True

    def settle(self, conflict: bytes, evidence: str, detail: str, *, decided: bool = False) -> None:
        """Resolve a discrepancy if it is open; for good, if it was `decided`."""
        order = self.order
        for index, known in enumerate(order.conflicts):
            if known.id == conflict and known.open:
                entry = structs.replace(known, revision=known.revision + 1, open=False, decided=decided)
                order.conflicts = (*order.conflicts[:index], entry, *order.conflicts[index + 1 :])
                self.tell(entry, "resolved", identity.discrepancy_id(order, conflict), evidence, detail)

    def clear(self, kind: str, ref: str, evidence: str, detail: str) -> None:
        """Resolve every open discrepancy of a kind about this very thing."""
        for known in self.order.conflicts:
            if known.open and known.kind == kind and known.ref == ref:
                self.settle(known.id, evidence, detail)

    def tell(self, entry: Conflict, status: str, name: str, evidence: str, detail: str) -> None:
        told = Discrepancy(
            id=name,
            revision=entry.revision,
            status=status,  # type: ignore[arg-type]
            kind=entry.kind,
            severity=entry.severity,  # type: ignore[arg-type]
            ref=entry.ref,
            order_id=self.order.order_id,
            payment_no=entry.payment_no,
            evidence=evidence,
            owner=KINDS[entry.kind].owner,
            decision=self.decision,
            decided_at=self.moment,
            detail=detail,
            deadline=moment((entry.opened_at or self.at) + KINDS[entry.kind].hours * HOUR_MS),
        )
        self.raised.append(told)
        self.say(told)

    # -- the end of a decision

    def remember(self, fact: Fact, ruling: Ruling) -> None:
        """Keep what was said and what came of it; what was parked under the same payload is kept in its old place."""
        order = self.order
        entry = Seen(
            fact.key,
            fact.payload,
            fact.at,
            fact.source,
            fact.word,
            fact.ref,
            fact.payment_no,
            ruling.verdict,
            ruling.rule,
        )
        if fact.parked:
            for index, seen in enumerate(order.seen):
                if seen.verdict == "parked" and seen.payload == fact.payload and seen.key == fact.key:
                    order.seen = (*order.seen[:index], entry, *order.seen[index + 1 :])
                    return
        if len(order.seen) >= MAX_SEEN:
            order.forgotten += 1
            order.seen = (*order.seen[1:], entry)
        else:
            order.seen = (*order.seen, entry)

    def close(
        self,
        ruling: Ruling,
        *,
        source: Source,
        word: str,
        evidence: str,
        payment: Target | None = None,
        before: str | None = None,
        fact: Fact | None = None,
        said: Said | None = None,
    ) -> None:
        """Say the decision itself, last: it names all it caused, and how each operation that it changed stands now."""
        self.says.append(
            Decision(
                id=self.decision,
                order_id=self.order.order_id,
                seq=self.order.seq,
                verdict=ruling.verdict,
                rule=ruling.rule,
                source=source,
                word=word,
                evidence=evidence,
                decided_at=self.moment,
                key=fact.key.hex() if fact is not None else "",
                payload=fact.payload.hex() if fact is not None else "",
                payment_no=payment.number if payment is not None else fact.payment_no if fact is not None else None,
                merchant=payment.merchant if payment is not None else None,
                before=before,
                after=payment.state if payment is not None else None,
                messages=tuple(self.caused),
                ledger=tuple(self.ledger),
                marks=("CLOCK_SUSPECT",) if fact is not None and fact.clock_suspect else (),
                detail=ruling.detail,
                said=said,
                operations=tuple([standing(self.order, one) for one in self._changed()]),
                discrepancies=tuple(self.raised),
            )
        )

    def _changed(self) -> list[Target]:
        """The operations that this decision changed or made; they are only ever added at the end."""
        payments, operations = self.was
        changed: list[Target] = [one for one, was in zip_longest(self.order.payments, payments) if one != was]
        if self.order.operations:
            changed += [one for one, was in zip_longest(self.order.operations, operations) if one != was]
        return changed
