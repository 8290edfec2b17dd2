"""What a merchant is told, and what stays inside: one record of `payments.success` or `payments.updates` to a notice, or to nothing.

Outward a payment has two conclusions (R-136), so INIT, PAYING and UNKNOWN are told to nobody. That it is paid comes from
`payments.success` alone, which says so once for an order (R-139), and never from a state: a second payment of one order can be SUCCESS,
too. The body is what Standard Webhooks ask for: `type`, `timestamp` and `data`, with amounts in minor units.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final, TypeAlias

import msgspec

from stores.notifications import Notice
from streams.domain.decisions import Movement, OperationUpdate, PayerAction, PaymentSuccess, PaymentUpdate
from streams.domain.tables import AUTHORIZED, FAIL, RETURNED, SUCCESS, UNPAID

Told: TypeAlias = PaymentSuccess | PaymentUpdate | OperationUpdate | Movement | PayerAction

FIELDS: Final = (
    "order_id", "payment_no", "biz_code", "kind", "operation_no", "channel", "transaction", "amount", "currency", "state", "funds_stage",
    "order_total", "evidence",
)  # fmt: skip
"""What of a record a merchant is told, in this order."""
ENDED: Final = {SUCCESS: "succeeded", FAIL: "failed", "CLOSED": "failed", RETURNED: "returned"}
MOVED: Final = {
    "AUTH_RELEASED": "authorization.released",
    "PAYMENT_REVERSED": "payment.reversed",
    "LATE_MONEY_FULFILLED": "payment.fulfilled_late",
}
"""Movements that no operation's own notice tells."""
RANKS: Final[dict[type, int]] = {PaymentUpdate: 0, PaymentSuccess: 1}

_read: Final = msgspec.json.Decoder(Told).decode
_write: Final = msgspec.json.Encoder().encode


class UnreadableError(ValueError):
    """A record that is none of ours."""


def read(value: bytes | None) -> Told:
    """A record of one of the two topics. Raises `UnreadableError`."""
    try:
        return _read(value or b"")
    except msgspec.DecodeError as error:
        raise UnreadableError(f"{error}; only the worker writes this topic") from error


def rank(told: Told) -> tuple[int, int]:
    """Places what was decided about one order: by its decision's own number; of one decision a hold, the success, then what follows."""
    number = told.decision.rpartition("/")[2]
    return int(number) if number.isdigit() else 0, RANKS.get(type(told), 2)


def notice(told: Told) -> Notice | None:
    """What its merchant is told; None where it is nobody's business, or nobody's payment."""
    kind = _type(told)
    if kind is None or told.merchant is None:
        return None
    data: dict[str, Any] = {"conclusion": _conclusion(kind)} if kind.startswith("payment.") else {}
    for name in FIELDS:
        value = getattr(told, name, None)
        if value is not None and not (name == "kind" and isinstance(told, Movement)):
            data[name] = value
    body = _write({"type": kind, "timestamp": told.decided_at, "data": data})
    return Notice(
        id=webhook_id(told),
        merchant=told.merchant,
        order_id=told.order_id,
        payment_no=told.payment_no,
        type=kind,
        body=body.decode(),
        decided_at=told.decided_at,
    )


def webhook_id(told: Told) -> str:
    """The same for good, without the characters that order numbers may have."""
    return f"msg_{hashlib.blake2b(told.id.encode(), digest_size=16).hexdigest()}"


def _type(told: Told) -> str | None:
    if isinstance(told, PaymentSuccess):
        return "payment.succeeded"
    if isinstance(told, PaymentUpdate):
        if told.funds_stage is not None:
            return "payment.settled"
        if told.state == AUTHORIZED:
            return "payment.authorized"
        return "payment.failed" if told.state in UNPAID else None
    if isinstance(told, OperationUpdate):
        end = ENDED.get(told.state)
        return None if end is None else f"{told.kind.lower()}.{end}"
    return MOVED.get(told.kind) if isinstance(told, Movement) else None  # what a payer needs is the cashier's to give


def _conclusion(kind: str) -> str:
    if kind == "payment.failed":
        return "FAILURE"
    return "PENDING" if kind == "payment.authorized" else "SUCCESS"
