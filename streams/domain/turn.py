"""One turn of the law: a private copy of the order, and everything the turn says.

A turn is a series of decisions: the event's own, then one for each piece of parked evidence that the event sets free. Every
message names its decision, and every decision names its messages.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from streams.domain import identity
from streams.domain.contract import DEFAULT, Contract, Contracts
from streams.domain.decisions import (
    ChannelRequest,
    Decision,
    Discrepancy,
    LedgerEntry,
    Message,
    PaymentSuccess,
    PaymentUpdate,
    Severity,
    Source,
    Verb,
    Verdict,
    message_id,
)
from streams.domain.moment import moment
from streams.domain.order import MAX_CONFLICTS, MAX_SEEN, Conflict, Order, Payment, Seen
from streams.domain.tables import KINDS

if TYPE_CHECKING:
    from streams.domain.facts import Fact


class Ruling(NamedTuple):
    """What the law says about one piece of evidence or one command."""

    verdict: Verdict
    rule: str
    detail: str = ""


class Turn:
    """The order being decided, and the messages so far. `at` is milliseconds, UTC."""

    __slots__ = ("at", "caused", "contracts", "decision", "ledger", "moment", "order", "says")

    def __init__(self, order: Order, at: int, contracts: Contracts) -> None:
        self.order = copy(order)
        if order.payments:
            self.order.payments = tuple([copy(payment) for payment in order.payments])
        self.contracts = contracts
        self.says: list[Message] = []
        self.set_time(at)
        self.open()

    def set_time(self, at: int) -> None:
        self.at = at
        self.moment = moment(at)

    def open(self) -> None:
        """Begin the next decision."""
        self.order.seq += 1
        self.decision = identity.decision_id(self.order, self.order.seq)
        self.caused: list[str] = []
        self.ledger: list[LedgerEntry] = []

    def contract(self, channel: str) -> Contract:
        return self.contracts.get(channel, DEFAULT)

    def payment(self, payment_no: str, merchant: str | None) -> Payment | None:
        for payment in self.order.payments:
            if payment.payment_no == payment_no and payment.merchant == merchant:
                return payment
        return None

    # -- what it says

    def say(self, message: Message) -> None:
        self.caused.append(message_id(message))
        self.says.append(message)

    def enter(self, payment: Payment, state: str, before: str | None) -> None:
        """Move the payment and tell the trade domain."""
        payment.state = state
        payment.path = (*payment.path, state)
        self.say(
            PaymentUpdate(
                id=identity.update_id(self.order, payment, state),
                order_id=self.order.order_id,
                payment_no=payment.payment_no,
                merchant=payment.merchant,
                biz_code=payment.biz_code,
                channel=payment.channel,
                amount=payment.amount,
                currency=payment.currency,
                state=state,
                before=before,
                transaction=payment.transaction,
                decision=self.decision,
                decided_at=self.moment,
            )
        )

    def announce(self, payment: Payment, transaction: str, evidence: str) -> None:
        """Say that the payment succeeded, and post it: once per payment, by the winner of the transition (R-139)."""
        payment.announced = True
        self.ledger.append(
            LedgerEntry(f"chan_recv:{payment.channel}", "order_clearing", payment.amount, payment.currency, payment.key)
        )
        self.say(
            PaymentSuccess(
                id=identity.success_id(self.order, payment),
                order_id=self.order.order_id,
                payment_no=payment.payment_no,
                merchant=payment.merchant,
                biz_code=payment.biz_code,
                channel=payment.channel,
                transaction=transaction,
                amount=payment.amount,
                currency=payment.currency,
                evidence=evidence,
                decision=self.decision,
                decided_at=self.moment,
            )
        )

    def request(self, payment: Payment, verb: Verb, why: str) -> None:
        """Ask the channel for something. Submits are counted by attempts, queries by themselves."""
        if verb == "QUERY":
            payment.queries += 1
        number = payment.queries if verb == "QUERY" else payment.attempts
        self.say(
            ChannelRequest(
                id=identity.request_id(self.order, payment, verb, number),
                verb=verb,
                order_id=self.order.order_id,
                payment_no=payment.payment_no,
                merchant=payment.merchant,
                channel=payment.channel,
                amount=payment.amount,
                currency=payment.currency,
                idempotency_key=identity.idempotency_key(self.order, payment),
                transaction=payment.transaction,
                why=why,
                decision=self.decision,
                decided_at=self.moment,
            )
        )

    # -- discrepancies

    def contest(
        self,
        kind: str,
        conflict: bytes,
        *,
        ref: str,
        payment_no: str | None,
        evidence: str,
        detail: str,
        severity: Severity | None = None,
    ) -> bool:
        """Raise a discrepancy over the facts named by `conflict`; False if it stood already. Severity only ever rises."""
        order = self.order
        severity = severity or KINDS[kind].severity
        revision, status = 1, "opened"
        for index, known in enumerate(order.conflicts):
            if known.id == conflict:
                if known.open and severity in {known.severity, "info"}:
                    return False
                status = "updated" if known.open else "opened"
                revision = known.revision + 1
                entry = Conflict(conflict, revision, True, kind, severity, ref, payment_no)  # noqa: FBT003  a row of the state
                order.conflicts = (*order.conflicts[:index], entry, *order.conflicts[index + 1 :])
                break
        else:
            entry = Conflict(conflict, 1, True, kind, severity, ref, payment_no)  # noqa: FBT003  a row of the state
            if len(order.conflicts) < MAX_CONFLICTS:
                order.conflicts = (*order.conflicts, entry)
            else:
                order.overflow += 1
                self.tell(entry, "opened", identity.overflow_id(order, order.overflow), evidence, detail)
                return True
        self.tell(entry, status, identity.discrepancy_id(order, conflict), evidence, detail)
        return True

    def settle(self, conflict: bytes, evidence: str, detail: str) -> None:
        """Resolve a discrepancy if it is open."""
        order = self.order
        for index, known in enumerate(order.conflicts):
            if known.id == conflict and known.open:
                entry = structs.replace(known, revision=known.revision + 1, open=False)
                order.conflicts = (*order.conflicts[:index], entry, *order.conflicts[index + 1 :])
                self.tell(entry, "resolved", identity.discrepancy_id(order, conflict), evidence, detail)

    def tell(self, entry: Conflict, status: str, name: str, evidence: str, detail: str) -> None:
        self.say(
            Discrepancy(
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
            )
        )

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
        payment: Payment | None = None,
        before: str | None = None,
        fact: Fact | None = None,
    ) -> None:
        """Say the decision itself, last: it names all it caused."""
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
                payment_no=payment.payment_no if payment is not None else fact.payment_no if fact is not None else None,
                merchant=payment.merchant if payment is not None else None,
                before=before,
                after=payment.state if payment is not None else None,
                messages=tuple(self.caused),
                ledger=tuple(self.ledger),
                marks=("CLOCK_SUSPECT",) if fact is not None and fact.clock_suspect else (),
                detail=ruling.detail,
            )
        )
