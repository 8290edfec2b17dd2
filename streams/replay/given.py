"""The state that a scenario begins with: operations, contracts, disputes and open discrepancies, as the law would hold them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from msgspec import Struct, structs

from streams.domain import balance, legs, schedule
from streams.domain.contract import DEFAULT, Contract
from streams.domain.identity import digest
from streams.domain.layers import Layers
from streams.domain.moment import milliseconds, parsed
from streams.domain.order import Conflict, Funds, Operation, Order, Paid, Payment, Target
from streams.domain.tables import AUTHORIZED, EXPIRED, INIT, MACHINES, OPEN, SUCCESS, UNKNOWN, VOIDED
from streams.replay.shapes import NotUnderstoodError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

NOW: Final = "2025-03-03T10:00:00Z"
NEVER: Final = milliseconds(datetime(9999, 1, 1, tzinfo=UTC))
"""An operation without a stated expiry has none."""
TRADE: Final = "trade"
GIVEN: Final = "given"
"""The witness of what a scenario begins with."""
CONTRACT_KEYS: Final = frozenset({
    "amount_unit", "decline_is_final", "query_window_s", "park_window_s", "payment_return_status", "refund_return_status",
    "overcapture_pct", "card_posting_window_s", "hmac_sha256_key", "tz", "cutoff", "hold_days", "failure_fee", "file", "match",
    "reversal",
})  # fmt: skip
QUIET: Final = structs.replace(DEFAULT, silence_is_stuck=False)
"""The contract of a channel without one. In scenarios only a doubt is counted, not silence."""


class GivenLayers(Struct, frozen=True, forbid_unknown_fields=True):
    merchant: str | None = None
    processor: str | None = None
    card: str | None = None


class GivenOperation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    op: str
    kind: Literal["PAY", "CAPTURE", "REFUND"]
    order: str
    channel: str
    amount: int
    ccy: str
    state: str
    merchant: str | None = None
    parent: str | None = None
    txn: str | None = None
    refund_txn: str | None = None
    captured: int | None = None
    hold: int | None = None
    fee: int | None = None
    version: int | None = None
    category: str | None = None
    duplicate: bool = False
    layers: GivenLayers | None = None
    started_at: str | None = None
    success_at: str | None = None
    expire_at: str | None = None
    expire_local: str | None = None
    tz: str | None = None
    auth_expires_at: str | None = None

    @property
    def key(self) -> str:
        return f"{self.merchant}/{self.op}" if self.merchant else self.op


class GivenOrder(Struct, frozen=True, forbid_unknown_fields=True):
    total: int


class GivenDispute(Struct, frozen=True, forbid_unknown_fields=True):
    parent: str
    amount: int
    status: Literal["OPEN", "WON", "LOST"]


class GivenDiscrepancy(Struct, frozen=True, forbid_unknown_fields=True):
    type: str
    severity: Literal["high", "info"]
    ref: str


class Generated(Struct, frozen=True, forbid_unknown_fields=True):
    count: int
    channel: str
    ccy: str


class GivenItem(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    ref: str
    amount: int
    ccy: str
    channel: str | None = None


class GivenPayout(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    ref: str
    channel: str
    amount: int
    ccy: str
    state: Literal["SENT", "PAID", "RETURNED"]


class GivenBankLine(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    source: str
    account: str
    key: str
    amount: int
    ccy: str


class GivenFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    source: str
    batch: str
    business_date: str
    account: str = "main"


class Given(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    ops: tuple[GivenOperation, ...] = ()
    contract: dict[str, dict[str, Any]] = {}
    orders: dict[str, GivenOrder] = {}
    disputes: tuple[GivenDispute, ...] = ()
    discrepancies: tuple[GivenDiscrepancy, ...] = ()
    balances: dict[str, int] = {}
    now: str = NOW
    generate_ops: Generated | None = None
    expected: tuple[GivenItem, ...] = ()
    payouts: tuple[GivenPayout, ...] = ()
    bank_lines: tuple[GivenBankLine, ...] = ()
    files: tuple[GivenFile, ...] = ()


class Begun(Struct):
    """The orders as they stand, and what of the given discrepancies stands in which order under which id."""

    orders: dict[str, Order]
    open: dict[tuple[str, str, str], tuple[str, bytes] | None]
    generated: frozenset[str] = frozenset()


def read(raw: Any) -> Given:
    """What a scenario gives, or why it cannot be understood."""
    try:
        return msgspec.convert(raw, Given)
    except msgspec.ValidationError as wrong:
        raise NotUnderstoodError(f"given: {wrong}") from wrong


def contracts(given: Given) -> dict[str, Contract]:
    """The contracts under which the scenario plays."""
    return {channel: _contract(channel, keys) for channel, keys in given.contract.items()}


class Contracts(dict[str, Contract]):
    """A channel without a contract has the defaults of scenarios."""

    def get(self, channel: str, _default: Any = None) -> Contract:
        return super().get(channel, QUIET)


def _contract(channel: str, keys: Mapping[str, Any]) -> Contract:
    for name in keys:
        if name not in CONTRACT_KEYS:
            raise NotUnderstoodError(f"unknown contract key {name!r} of {channel}")
    window = keys.get("query_window_s", DEFAULT.query_window_s)
    refunds = {"poll_window_s": max(window, 1)} if isinstance(window, int) else {}
    try:
        return msgspec.convert({**keys, "silence_is_stuck": False, "refunds": refunds}, Contract)
    except msgspec.ValidationError as wrong:
        raise NotUnderstoodError(f"contract of {channel}: {wrong}") from wrong


def instant(text: str, name: str) -> int:
    """An RFC 3339 time in milliseconds."""
    time = parsed(text)
    if time is None:
        raise NotUnderstoodError(f"{name} is {text!r}; write YYYY-MM-DDTHH:MM:SSZ")
    return time


def begin(given: Given, contracts: Mapping[str, Contract], order_of_event: Mapping[str, str]) -> Begun:
    """The orders that the scenario begins with. `order_of_event` tells about which order an event id will speak."""
    orders: dict[str, Order] = {}
    now = instant(given.now, "given.now")
    for given_op in sorted(given.ops, key=lambda one: one.kind != "PAY"):
        order = orders.setdefault(given_op.order, Order(given_op.order))
        contract = contracts.get(given_op.channel, QUIET)
        if given_op.state not in MACHINES[given_op.kind]:
            raise NotUnderstoodError(f"{given_op.key}: {given_op.state!r} is no state of {given_op.kind}")
        if given_op.kind == "PAY":
            total = given.orders.get(given_op.order)
            payment = _payment(given_op, now, contract, None if total is None else total.total)
            order.payments = (*order.payments, payment)
        else:
            order.operations = (*order.operations, _operation(given_op, order, now, contract))
    _announce_legs(orders.values())
    for dispute in given.disputes:
        _dispute(orders.values(), dispute)
    begun = Begun(orders, {})
    for item in given.discrepancies:
        _open_item(begun, item, order_of_event)
    if given.generate_ops is not None:
        _generate(orders, given.generate_ops, now)
        begun.generated = frozenset(f"G{number}" for number in range(1, given.generate_ops.count + 1))
    return begun


def _payment(given: GivenOperation, now: int, contract: Contract, total: int | None) -> Payment:
    started_at = now if given.started_at is None else instant(given.started_at, f"{given.key}: started_at")
    payment = Payment(
        given.op, given.merchant or None, TRADE, given.channel, given.amount, given.ccy, given.state, (given.state,),
        started_at, _expiry(given),
    )  # fmt: skip
    payment.transaction = given.txn or None
    payment.fee, payment.version = given.fee, given.version
    if given.state != INIT:
        payment.started_at, payment.attempts = started_at, 1
    if given.state in OPEN:
        _clocks(payment, contract)
    elif given.state != INIT:
        payment.evidence = GIVEN
    if given.state == SUCCESS:
        payment.success_at = now if given.success_at is None else instant(given.success_at, f"{given.key}: success_at")
        payment.paid = (Paid(given.txn or payment.key, GIVEN),)
        payment.announced = not given.duplicate and total is None
    payment.funds = _funds(given, total)
    return payment


def _funds(given: GivenOperation, total: int | None) -> Funds:
    captured = given.captured if given.captured is not None else given.amount if given.state == SUCCESS else 0
    hold = given.hold if given.hold is not None else given.amount if given.state == AUTHORIZED else 0
    held = given.state in {AUTHORIZED, VOIDED, EXPIRED} or hold > 0
    lapses = given.auth_expires_at
    return Funds(
        captured=captured,
        hold=hold,
        authorized=max(captured + hold, given.amount) if held else 0,
        lapses_at=None if lapses is None else instant(lapses, f"{given.key}: auth_expires_at"),
        category=given.category,
        total=total,
        duplicate=given.duplicate,
    )


def _expiry(given: GivenOperation) -> int:
    """A local expiry uses the offset that its zone has at the expiry."""
    if given.expire_at is not None:
        return instant(given.expire_at, f"{given.key}: expire_at")
    if given.expire_local is None:
        return NEVER
    try:
        local = datetime.fromisoformat(given.expire_local).replace(tzinfo=ZoneInfo(given.tz or "UTC"))
    except (ValueError, ZoneInfoNotFoundError) as wrong:
        raise NotUnderstoodError(f"{given.key}: expire_local: {wrong}") from wrong
    return milliseconds(local)


def _operation(given: GivenOperation, order: Order, now: int, contract: Contract) -> Operation:
    parent = next((one for one in order.payments if given.parent in {one.key, one.payment_no}), None)
    number = given.parent or "" if parent is None else parent.payment_no
    merchant = given.merchant or (None if parent is None else parent.merchant)
    started_at = now if given.started_at is None else instant(given.started_at, f"{given.key}: started_at")
    operation = Operation(
        given.op, given.kind, number, merchant, given.channel, given.amount, given.ccy, given.state, (given.state,), started_at
    )  # fmt: skip
    operation.transaction = (given.refund_txn if given.kind == "REFUND" else given.txn) or None
    if given.state in OPEN:
        _clocks(operation, contract)
    else:
        operation.evidence = GIVEN
    if given.state == SUCCESS:
        operation.success_at = (
            now if given.success_at is None else instant(given.success_at, f"{given.key}: success_at")
        )
        operation.paid = (Paid(operation.transaction or operation.key, GIVEN),)
    if given.layers is not None:
        shown = structs.asdict(given.layers)
        try:
            operation.layers = msgspec.convert([*shown.values()], Layers)
        except msgspec.ValidationError as wrong:
            raise NotUnderstoodError(f"{given.key}: layers: {wrong}") from wrong
        window = contract.card_posting_window_s
        if window is not None and given.layers.merchant == "COMPLETED" and given.layers.card != "POSTED":
            operation.posting_due_at = started_at + window * schedule.SECOND_MS
    return operation


def _clocks(target: Target, contract: Contract) -> None:
    """The times of an operation that is out, counted from its start: of its doubt nothing else is known."""
    assert target.started_at is not None
    target.query_at = target.started_at + schedule.query_moments(target, contract)[0] * schedule.SECOND_MS
    if target.state == UNKNOWN:
        target.stuck_at = target.started_at + schedule.window_s(target, contract) * schedule.SECOND_MS


def _announce_legs(orders: Iterable[Order]) -> None:
    """Legs that have reached their total were announced by one of them."""
    for order in orders:
        for payment in order.payments:
            group = [one for one in order.payments if one.pays_same(payment)]
            total = payment.money.total
            if payment.state == SUCCESS and total is not None and balance.paid(group) >= total:
                payment.announced = not any(one.announced for one in group)


def _dispute(orders: Iterable[Order], given: GivenDispute) -> None:
    for order in orders:
        for payment in order.payments:
            if given.parent in {payment.key, payment.payment_no}:
                posted = given.status in {"OPEN", "LOST"}
                payment.funds = structs.replace(
                    payment.money, dispute=given.status, disputed=given.amount, dispute_posted=posted
                )
                return
    raise NotUnderstoodError(f"disputes: there is no operation {given.parent!r}")


def _open_item(begun: Begun, given: GivenDiscrepancy, order_of_event: Mapping[str, str]) -> None:
    """A discrepancy that stands at the start, under the id that the law would give it, where the law could settle it."""
    triple = (given.type, given.severity, given.ref)
    begun.open[triple] = None
    for order in begun.orders.values():
        targets: tuple[Target, ...] = (*order.payments, *order.operations)
        target = next((one for one in targets if one.key == given.ref), None)
        if target is None and given.ref != order.order_id and order_of_event.get(given.ref) != order.order_id:
            continue
        name = _name(order, given, target)
        number = None if target is None else target.number
        merchant = None if target is None else target.merchant
        conflict = Conflict(
            name,
            1,
            open=True,
            kind=given.type,
            severity=given.severity,
            ref=given.ref,
            payment_no=number,
            merchant=merchant,
        )
        order.conflicts = (*order.conflicts, conflict)
        begun.open[triple] = (order.order_id, name)
        return


def _name(order: Order, given: GivenDiscrepancy, target: Target | None) -> bytes:
    if given.type == "STUCK_UNKNOWN" and target is not None:
        return schedule.stuck(target)
    if given.type == "PARTIAL_TENDER" and order.payments:
        return legs.part(order.payments[0])
    if given.type == "DUPLICATE_PAYMENT" and type(target) is Payment:
        for other in order.payments:
            if other is not target and other.state == SUCCESS:
                return legs.both_paid(other, target)
    return digest("given", given.type, given.ref)


def _generate(orders: dict[str, Order], wanted: Generated, now: int) -> None:
    for number in range(1, wanted.count + 1):
        amount = 1 + number % 997
        payment = Payment(
            f"G{number}", None, TRADE, wanted.channel, amount, wanted.ccy, SUCCESS, (SUCCESS,), now, NEVER, now, 1
        )
        payment.transaction = f"GX{number}"
        payment.success_at = now
        payment.announced = True
        payment.paid = (Paid(payment.transaction, GIVEN),)
        orders[f"GO{number}"] = Order(f"GO{number}", payments=(payment,))
