"""What is remembered of payments, as the cashier reads it: a narrow port to the projection. It is read, never decided on.

A row is told by merchant first, so that none can be read by another one's key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from stores.pool import Unreachable

if TYPE_CHECKING:
    from stores.books import Entry


class Books(Protocol):
    """Reads of the projection. Each raises `Unreachable`, within seconds, where it cannot be read."""

    async def payment(self, merchant: str, payment_no: str) -> Entry | None: ...

    async def payment_of_order(self, merchant: str, order_id: str, biz_code: str) -> Entry | None:
        """The last payment of this business code."""

    async def refund(self, merchant: str, refund_no: str) -> Entry | None: ...


class NoBooks:
    """Where there is no projection: every read says so, and writes go on."""

    async def payment(self, merchant: str, payment_no: str) -> Entry | None:
        raise _missing(merchant, payment_no)

    async def payment_of_order(self, merchant: str, order_id: str, biz_code: str) -> Entry | None:
        raise _missing(merchant, order_id, biz_code)

    async def refund(self, merchant: str, refund_no: str) -> Entry | None:
        raise _missing(merchant, refund_no)


def _missing(*_wanted: str) -> Unreachable:
    return Unreachable("no projection is connected")
