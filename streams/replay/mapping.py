"""Scenario events as the product's own: what a connector, an adapter or the cashier would have produced for them.

Amounts are converted here, once and exactly, as an adapter does; an amount that does not exist in its currency travels as its text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from streams.channels.amounts import from_text
from streams.domain.fields import MAX_AMOUNT
from streams.domain.order import Operation, Payment
from streams.replay.given import TRADE
from streams.replay.shapes import AMOUNTS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from streams.domain.contract import Contract
    from streams.domain.order import Order, Target

Fields: TypeAlias = dict[str, Any]
FAR: Final = "2200-01-01T00:00:00Z"
"""The latest time that a stream reads: as good as no expiry."""
NAMES: Final = {
    "txn": "transaction", "ccy": "currency", "refund_txn": "refund_transaction", "settle_ccy": "settle_currency",
    "event_id": "event_id", "event_time": "event_time", "sequence": "sequence", "version": "version", "fee": "fee",
    "net_amount": "net_amount", "settle_amount": "settle_amount", "livemode": "livemode", "subscription": "subscription",
    "captured_flag": "captured_flag", "cumulative_refunded": "cumulative_refunded", "charged_back": "charged_back",
    "reason": "reason", "amount": "amount", "amount_text": "amount_text", "status": "status", "channel": "channel",
    "authorization": "authorization", "layer": "layer",
}  # fmt: skip
"""Fields that keep their meaning under the product's name."""
TO_ANSWER: Final = {
    "SUBMIT_RESULT": "submit", "QUERY_RESULT": "query", "CLOSE_RESULT": "close", "CAPTURE_RESULT": "capture", "REFUND_RESULT": "refund",
}  # fmt: skip


def product_events(
    event: Fields, number: int, order: Order | None, contract: Contract, total: int | None
) -> list[Fields]:
    """The product's events for one of a scenario, as JSON fields. `number` is its place in the file, so that ids stay the same."""
    fields = _amounts(event, contract)
    kind = event["type"]
    if kind in TO_ANSWER:
        return [_answer(fields, order)]
    return BUILDERS[kind](fields, number, order, total)


def target_of(order: Order | None, number: str | None, merchant: str | None = None) -> Target | None:
    """The operation that a number names: exactly, or the only one of its number where no merchant is said."""
    if order is None or number is None:
        return None
    every: tuple[Target, ...] = (*order.payments, *order.operations)
    named = [one for one in every if number in {one.number, one.key}]
    exact = [one for one in named if one.merchant == merchant or one.key == number]
    if exact:
        return exact[0]
    return named[0] if merchant is None and len(named) == 1 else None


def _named(fields: Fields) -> Fields:
    return {NAMES[name]: value for name, value in fields.items() if name in NAMES}


def _amounts(event: Fields, contract: Contract) -> Fields:
    """Amounts in minor units. Text is the channel's; what is not representable is kept as `amount_text`."""
    fields = dict(event)
    for name in AMOUNTS & fields.keys():
        value = fields[name]
        currency = fields.get("settle_ccy" if name == "settle_amount" else "ccy", "")
        major = contract.amount_unit == "major" and (isinstance(value, str) or event["type"] == "CALLBACK")
        amount = from_text(currency, str(value)) if major else _minor(value)
        if amount is not None:
            fields[name] = amount
            continue
        del fields[name]
        if name in {"amount", "cumulative_refunded"}:
            fields["amount_text"] = str(value)
    return fields


def _minor(value: object) -> int | None:
    if isinstance(value, int) and abs(value) <= MAX_AMOUNT:
        return value
    return None


# -- commands


def _submit(fields: Fields, number: int, _order: Order | None, total: int | None) -> list[Fields]:
    common = {"order_id": fields["order"], "payment_no": fields["op"], "merchant": fields.get("merchant")}
    create = {
        "type": "create_payment", "command_id": f"create-{number}", "biz_code": TRADE, "channel": fields["channel"],
        "amount": fields.get("amount", 0), "currency": fields["ccy"], "expires_at": FAR, "order_total": total, **common,
    }  # fmt: skip
    start = {"type": "start_payment", "command_id": f"start-{number}", **common}
    return [create, start]


def _request(kind: str, name: str) -> Callable[[Fields, int, Order | None, int | None], list[Fields]]:
    def build(fields: Fields, number: int, order: Order | None, _total: int | None) -> list[Fields]:
        parent = target_of(order, fields["parent"])
        return [{
            "type": kind, "command_id": f"{name}-{number}", "order_id": fields["order"], name: fields["op"],
            "payment_no": fields["parent"] if parent is None else parent.number,
            "merchant": None if parent is None else parent.merchant,
            "amount": fields.get("amount", 0), "currency": fields["ccy"],
        }]  # fmt: skip

    return build


# -- evidence


def _answer(fields: Fields, order: Order | None) -> Fields:
    target = target_of(order, fields["op"])
    answer = {**_named(fields), "type": "answer", "request": TO_ANSWER[fields["type"]], "order_id": fields["order"]}
    if "refund_txn" in fields:
        answer["transaction"] = answer.pop("refund_transaction")
    answer.pop("amount_text", None)
    if type(target) is Payment:
        return answer | {"payment_no": target.payment_no, "merchant": target.merchant}
    if type(target) is Operation:
        return answer | {
            "payment_no": target.payment_no,
            "operation_no": target.number,
            "merchant": target.merchant,
        }
    parent = target_of(order, fields.get("parent"))
    return answer | {
        "payment_no": fields.get("parent", fields["op"]),
        "operation_no": fields["op"] if "parent" in fields else None,
        "merchant": None if parent is None else parent.merchant,
    }


def _about(kind: str, field: str) -> Callable[[Fields, int, Order | None, int | None], list[Fields]]:
    """Evidence whose operation is named by `field`."""

    def build(fields: Fields, _number: int, order: Order | None, _total: int | None) -> list[Fields]:
        merchant = fields.get("merchant")
        target = target_of(order, fields[field], merchant)
        number = fields[field] if target is None else target.number
        return [
            _named(fields)
            | {
                "type": kind,
                "order_id": fields["order"],
                "payment_no": number,
                "merchant": merchant if target is None else target.merchant,
            }
        ]

    return build


def _of_refund(kind: str) -> Callable[[Fields, int, Order | None, int | None], list[Fields]]:
    """Evidence about a refund of a payment."""

    def build(fields: Fields, _number: int, order: Order | None, _total: int | None) -> list[Fields]:
        refund = target_of(order, fields.get("op"))
        parent = refund if type(refund) is Operation else target_of(order, fields["parent"])
        payment_no = fields["parent"] if parent is None else parent.payment_no
        return [
            _named(fields)
            | {
                "type": kind,
                "order_id": fields["order"],
                "payment_no": payment_no,
                "refund_no": refund.number if type(refund) is Operation else fields.get("op"),
                "merchant": None if parent is None else parent.merchant,
            }
        ]

    return build


def _posting(fields: Fields, _number: int, order: Order | None, _total: int | None) -> list[Fields]:
    """`order` is the one that the entry names, as far as it names one."""
    payment = target_of(order, fields.get("authorization")) or linked(order, fields)
    posting = _named(fields) | {"type": "card_posting", "order_id": fields["order"]}
    if payment is not None:
        posting |= {"payment_no": payment.payment_no, "merchant": payment.merchant}
    return [posting]


def linked(order: Order | None, fields: Mapping[str, Any]) -> Target | None:
    """The operation with exactly the channel reference of a card refund."""
    if order is None or fields["status"] != "REFUND" or "txn" not in fields:
        return None
    every: tuple[Target, ...] = (*order.operations, *order.payments)
    for one in every:
        if one.transaction == fields["txn"]:
            return one
    return None


BUILDERS: Final[Mapping[str, Callable[[Fields, int, Order | None, int | None], list[Fields]]]] = {
    "SUBMIT": _submit,
    "REFUND_REQUEST": _request("refund_payment", "refund_no"),
    "CAPTURE_REQUEST": _request("capture_payment", "capture_no"),
    "CALLBACK": _about("callback", "op"),
    "REFUND_CALLBACK": _of_refund("refund_notice"),
    "REFUND_LAYER": _of_refund("refund_layer"),
    "AUTH_RELEASE": _about("release", "op"),
    "DISPUTE": _about("dispute", "parent"),
    "CARD_POSTING": _posting,
}
