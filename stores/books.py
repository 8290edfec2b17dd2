"""What the books say of a payment or a refund, as whoever answers requests reads it. Merchant first, so that none reads another's."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import asyncpg
from msgspec import Struct

from stores.pool import LOST, Unreachable
from streams.domain.decisions import Asked, Money, Shown, Standing

if TYPE_CHECKING:
    from datetime import datetime

    from stores.schema import Connection

WITHIN_S: Final = 5.0


class Entry(Struct, frozen=True, kw_only=True):
    """One operation as it stands. `as_of` is when it was decided last, UTC."""

    order_id: str
    standing: Standing
    as_of: datetime


_PAYMENT: Final = """
SELECT p.*, a.sends, a.idempotency_key, a.refused_by
  FROM books.payments p
  LEFT JOIN books.attempts a
    ON (a.merchant, a.number, a.order_id, a.attempt) = (p.merchant, p.payment_no, p.order_id, p.attempts)
"""
_BY_NUMBER: Final = f"{_PAYMENT} WHERE p.merchant = $1 AND p.payment_no = $2 ORDER BY p.created_at, p.order_id LIMIT 1"
_BY_ORDER: Final = (
    f"{_PAYMENT} WHERE p.merchant = $1 AND p.order_id = $2 AND p.biz_code = $3 "
    "ORDER BY p.created_at DESC, p.seq DESC, p.payment_no DESC LIMIT 1"
)
_REFUND: Final = """
SELECT o.*, r.merchant_status, r.processor_status, r.card_status, w.status AS wallet_status, a.sends, a.idempotency_key
  FROM books.operations o
  LEFT JOIN books.refunds r ON (r.merchant, r.refund_no, r.order_id) = (o.merchant, o.number, o.order_id)
  LEFT JOIN books.wallet_legs w ON (w.merchant, w.refund_no, w.order_id) = (o.merchant, o.number, o.order_id)
  LEFT JOIN books.attempts a ON (a.merchant, a.number, a.order_id, a.attempt) = (o.merchant, o.number, o.order_id, o.attempts)
 WHERE o.merchant = $1 AND o.number = $2 AND o.kind = 'REFUND'
 ORDER BY o.created_at, o.order_id LIMIT 1
"""


class Reader:
    """Reads through a pool. Every read raises `Unreachable` within seconds where it cannot be done."""

    def __init__(self, pool: Connection) -> None:
        self._pool = pool

    async def payment(self, merchant: str, payment_no: str) -> Entry | None:
        """By its number; the first of that number, should two orders have used it."""
        return _payment(await self._row(_BY_NUMBER, merchant, payment_no))

    async def payment_of_order(self, merchant: str, order_id: str, biz_code: str) -> Entry | None:
        """The last payment of this business code of the order."""
        return _payment(await self._row(_BY_ORDER, merchant, order_id, biz_code))

    async def refund(self, merchant: str, refund_no: str) -> Entry | None:
        """By its number."""
        return _refund(await self._row(_REFUND, merchant, refund_no))

    async def _row(self, sql: str, *wanted: str) -> Any:
        try:
            async with asyncio.timeout(WITHIN_S), self._pool.acquire() as connection:
                return await connection.fetchrow(sql, *wanted)
        except asyncpg.UndefinedTableError as error:
            raise Unreachable(f"{error}; run `concord db migrate`") from error
        except LOST as error:
            raise Unreachable(f"Postgres: {type(error).__name__}") from error


def _payment(row: Any) -> Entry | None:
    if row is None:
        return None
    standing = Standing(
        kind="PAY", number=row["payment_no"], asked=_asked(row), money=_money(row), **_plain(row, PLAIN_OF_PAYMENT)
    )
    return Entry(order_id=row["order_id"], standing=standing, as_of=row["updated_at"])


def _refund(row: Any) -> Entry | None:
    if row is None:
        return None
    layers = (row["merchant_status"], row["processor_status"], row["card_status"], row["wallet_status"])
    standing = Standing(
        asked=_asked(row), shown=Shown(*layers) if any(layers) else None, **_plain(row, PLAIN_OF_OPERATION)
    )
    return Entry(order_id=row["order_id"], standing=standing, as_of=row["updated_at"])


PLAIN_OF_PAYMENT: Final = (
    "payment_no", "channel", "amount", "currency", "state", "biz_code", "transaction", "evidence", "expires_at", "success_at",
    "sequence", "version", "fee", "announced",
)  # fmt: skip
PLAIN_OF_OPERATION: Final = (
    "number", "kind", "payment_no", "channel", "amount", "currency", "state", "transaction", "evidence", "success_at", "sequence",
    "late",
)  # fmt: skip


def _plain(row: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {"merchant": row["merchant"] or None, **{name: row[name] for name in names}}


def _asked(row: Any) -> Asked | None:
    if not row["attempts"]:
        return None
    fields = {
        name: row[name]
        for name in ("refused_by", "queries", "closes", "next_query_at", "lease_ends_at", "window_ends_at")
        if name in row
    }
    return Asked(row["attempts"], row["sends"] or 0, row["idempotency_key"], **fields)


MONEY: Final = (
    "captured", "held", "returned", "disputed", "dispute", "duplicate", "fulfilled", "finished", "order_total",
)  # fmt: skip


def _money(row: Any) -> Money | None:
    money = Money(**{name: row[name] for name in MONEY})
    return None if money == Money() else money
