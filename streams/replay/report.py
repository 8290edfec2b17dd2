"""What came of a scenario, under the keys that a scenario may expect. Every key is always there, empty where nothing happened."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from streams.domain import balance
from streams.domain.decisions import ChannelRequest, Decision, Discrepancy, Movement, PaymentSuccess
from streams.domain.facts import operation_key
from streams.domain.layers import Layers
from streams.domain.order import Operation
from streams.domain.tables import SUCCESS
from streams.replay import reconciled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streams.domain.order import Order, Target
    from streams.replay.run import Run

OTHER: Final = ("AUTH_RELEASED", "PAYMENT_REVERSED", "REFUND_RETURNED")


def report(run: Run) -> dict[str, Any]:
    """The outcome of a scenario that has been played."""
    orders = list(run.orders.values())
    targets: list[Target] = []
    for order in orders:
        targets += [*order.payments, *order.operations]
    shown = [target for target in targets if not _generated(run, target)]
    moved = Counter(message.kind for message in run.messages if isinstance(message, Movement))
    ledger = list(_ledger(run))
    files = reconciled.recon(run)
    return {
        "ops": {target.key: target.state for target in shown},
        "success_events": sum(isinstance(message, PaymentSuccess) for message in run.messages),
        "refund_events": moved["REFUND_SUCCESS"],
        "discrepancies": _discrepancies(run),
        "ledger": ledger,
        "rejected_ops": list(run.rejected),
        "resolved": _resolved(run),
        "flags": list(dict.fromkeys(_flags(run))),
        "orders": {order.order_id: paid_state(order) for order in orders if order.payments}
        | {name: "UNPAID" for name in run.given.orders if name not in run.orders},
        "captured": {order.order_id: _captured(order) for order in orders if order.payments},
        "refunded": {order.order_id: sum(balance.refunded(order, one) for one in order.payments) for order in orders},
        **_of_payments(orders),
        "layers": {target.key: _layers(target) for target in targets if target.kind == "REFUND"},
        "other_events": {kind: moved[kind] for kind in OTHER if moved[kind]},
        "commands": dict(_commands(run)),
        "transitions": {target.key: list(target.path) for target in shown},
        "fields": {target.key: _fields(target) for target in shown},
        "emitted": list(_emitted(run)),
        "candidates": run.candidates | run.files.bank.candidates,
        "acks": run.acks,
        "balances": _balances(run.given.balances, ledger),
        "payouts": reconciled.payouts(run),
        **({} if files is None else {"recon": files}),
    }


def _generated(run: Run, target: Target) -> bool:
    return target.number in run.begun.generated


def _of_payments(orders: list[Order]) -> dict[str, Any]:
    pairs = [(order, payment) for order in orders for payment in order.payments]
    return {
        "refundable_remaining": {payment.key: balance.refundable(order, payment) for order, payment in pairs},
        "hold": {payment.key: payment.money.hold for _, payment in pairs},
        "disputes": {payment.key: payment.money.dispute for _, payment in pairs if payment.money.dispute != "NONE"},
    }


def paid_state(order: Order) -> str:
    """Whether what the order is for has been paid: by one payment, or by legs that reach its total."""
    totals = [payment.money.total for payment in order.payments if payment.money.total is not None]
    if not totals:
        return "PAID" if any(payment.state == SUCCESS for payment in order.payments) else "UNPAID"
    brought = balance.paid(list(order.payments))
    return "PAID" if brought >= max(totals) else "PARTIALLY_PAID" if brought else "UNPAID"


def _captured(order: Order) -> int:
    return sum(payment.money.captured for payment in order.payments if payment.state == SUCCESS)


def _layers(target: Target) -> dict[str, str | None]:
    shown = (target.layers if isinstance(target, Operation) else None) or Layers()
    return {"merchant": shown.merchant, "processor": shown.processor, "card": shown.card}


def _fields(target: Target) -> dict[str, Any]:
    return {
        "txn": target.transaction,
        "fee": getattr(target, "fee", None),
        "version": getattr(target, "version", None),
    }


def _discrepancies(run: Run) -> list[dict[str, str]]:
    """Raised here and open at the end; the same triple once, and none that stood at the start."""
    last: dict[str, Discrepancy] = {message.id: message for message in run.messages if isinstance(message, Discrepancy)}
    triples = [(one.kind, one.severity, one.ref) for one in last.values() if one.status != "resolved"]
    triples += [("DEAD_LETTER", "high", ref) for ref in run.dead]
    return [
        {"type": kind, "severity": severity, "ref": ref}
        for kind, severity, ref in dict.fromkeys(triples)
        if (kind, severity, ref) not in run.begun.open
    ]


def _resolved(run: Run) -> list[str]:
    found = []
    for (kind, _, ref), place in run.begun.open.items():
        if place is None:
            continue
        name, conflict = place
        if not any(one.id == conflict and one.open for one in run.orders[name].conflicts):
            found.append(f"{kind}:{ref}")
    return found


def _ledger(run: Run) -> Iterator[dict[str, Any]]:
    for message in run.messages:
        if isinstance(message, Decision):
            for entry in message.ledger:
                yield {
                    "dr": entry.dr,
                    "cr": entry.cr,
                    "amount": entry.amount,
                    "ccy": entry.currency,
                    "ref": entry.ref,
                }


def _balances(opening: dict[str, int], ledger: list[dict[str, Any]]) -> dict[str, int]:
    balances = Counter(opening)
    for entry in ledger:
        balances[entry["dr"]] += entry["amount"]
        balances[entry["cr"]] -= entry["amount"]
    return dict(balances)


def _flags(run: Run) -> Iterator[str]:
    for message in run.messages:
        if isinstance(message, Decision) and "CLOCK_SUSPECT" in message.marks:
            yield f"CLOCK_SUSPECT:{message.evidence}"


def _commands(run: Run) -> Counter[str]:
    return Counter(
        f"{message.verb}:{operation_key(message.operation_no or message.payment_no, message.merchant)}"
        for message in run.messages
        if isinstance(message, ChannelRequest)
    )


def _emitted(run: Run) -> Iterator[dict[str, Any]]:
    for message in run.messages:
        if isinstance(message, PaymentSuccess):
            kind, state, number = "PAYMENT_SUCCESS", SUCCESS, message.payment_no
        elif isinstance(message, Movement):
            kind, state, number = message.kind, message.state, message.operation_no or message.payment_no
        else:
            continue
        record = {
            "type": kind,
            "op": operation_key(number, message.merchant),
            "state": state,
            "amount": message.amount,
            "ccy": message.currency,
        }
        yield record if message.transaction is None else record | {"txn": message.transaction}
