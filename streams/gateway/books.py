"""What is remembered of payments, as the cashier reads it: a narrow port to the projection. It is read, never decided on.

A row is told by merchant first, so that none can be read by another one's key.
"""

from __future__ import annotations

from datetime import datetime  # noqa: TC003  msgspec reads the annotation
from typing import Protocol

from msgspec import Struct

from streams.domain.decisions import Standing  # noqa: TC001  msgspec reads the annotation


class BooksUnreachable(Exception):  # noqa: N818  a state of the database
    """The books cannot be read now; the text says why."""


class Booked(Struct, frozen=True, kw_only=True):
    """One operation as it stands in the books. `as_of` is when it was decided last, in UTC."""

    order_id: str
    standing: Standing
    as_of: datetime


class Books(Protocol):
    """Reads of the projection. Each raises `BooksUnreachable`, within seconds, where it cannot be read."""

    async def payment(self, merchant: str, payment_no: str) -> Booked | None: ...

    async def payment_of_order(self, merchant: str, order_id: str, biz_code: str) -> Booked | None:
        """The last payment of this business code."""

    async def refund(self, merchant: str, refund_no: str) -> Booked | None: ...


class NoBooks:
    """Where there is no projection: every read says so, and writes go on."""

    async def payment(self, merchant: str, payment_no: str) -> Booked | None:
        raise _missing(merchant, payment_no)

    async def payment_of_order(self, merchant: str, order_id: str, biz_code: str) -> Booked | None:
        raise _missing(merchant, order_id, biz_code)

    async def refund(self, merchant: str, refund_no: str) -> Booked | None:
        raise _missing(merchant, refund_no)


def _missing(*_wanted: str) -> BooksUnreachable:
    return BooksUnreachable("no projection is connected")
