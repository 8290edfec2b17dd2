"""Refunds as everybody shows them, out of the books: what the job that explains them reads (R-220)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from streams.domain.correlation import Entry, View
from streams.domain.layers import Layers

if TYPE_CHECKING:
    from datetime import datetime

    from stores.schema import Connection

_VIEWS: Final = """
    SELECT o.merchant, o.number, o.order_id, o.state, o.amount, o.currency, o.created_at, r.merchant_status, r.processor_status,
           r.card_status, w.status AS wallet_status, p.captured, p.held, c.amount AS posted_amount, c.currency AS posted_currency
      FROM operations o
      LEFT JOIN refunds r ON (r.merchant, r.refund_no, r.order_id) = (o.merchant, o.number, o.order_id)
      LEFT JOIN wallet_legs w ON (w.merchant, w.refund_no, w.order_id) = (o.merchant, o.number, o.order_id)
      LEFT JOIN payments p ON (p.merchant, p.payment_no, p.order_id) = (o.merchant, o.payment_no, o.order_id)
      LEFT JOIN LATERAL (SELECT amount, currency FROM card_entries e WHERE e.order_id = o.order_id AND e.status = 'REFUND'
                            AND e.transaction = o.transaction ORDER BY e.received_at LIMIT 1) c ON true
     WHERE o.kind = 'REFUND' AND o.created_at <= $1
       AND (r.merchant_status, r.processor_status, r.card_status, w.status)
           IS DISTINCT FROM ('COMPLETED'::text, 'SETTLED'::text, 'POSTED'::text, 'CREDITED'::text)
     ORDER BY o.created_at, o.merchant, o.number LIMIT $2
"""
_STRAYS: Final = """
    SELECT channel, event_id, amount, currency, received_at FROM card_entries e
     WHERE status = 'REFUND' AND number IS NULL
       AND NOT EXISTS (SELECT FROM operations o WHERE o.kind = 'REFUND' AND o.transaction = e.transaction)
     ORDER BY received_at DESC LIMIT $1
"""


async def views(connection: Connection, before: datetime, most: int) -> list[View]:
    """Refunds asked for until then whose layers are not all closed, the oldest first."""
    return [_view(row) for row in await connection.fetch(_VIEWS, before, most)]


async def strays(connection: Connection, most: int) -> list[Entry]:
    """Refunds on cards that name none of ours, the newest first."""
    rows = await connection.fetch(_STRAYS, most)
    return [
        Entry(
            ref=f"{row['channel']}/{row['event_id']}", amount=row["amount"], currency=row["currency"],
            at=int(row["received_at"].timestamp()) * 1000,
        )
        for row in rows
    ]  # fmt: skip


def _view(row: Any) -> View:
    return View(
        key=f"{row['merchant']}/{row['number']}" if row["merchant"] else row["number"],
        state=row["state"],
        amount=row["amount"],
        currency=row["currency"],
        started_at=int(row["created_at"].timestamp()) * 1000,
        layers=Layers(row["merchant_status"], row["processor_status"], row["card_status"], row["wallet_status"]),
        captured=row["captured"] or 0,
        held=row["held"] or 0,
        posted_amount=row["posted_amount"],
        posted_currency=row["posted_currency"],
    )
