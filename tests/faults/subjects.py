"""What a fault run can be about: the toy, whose every state is replayed by eye, and the payment job itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tests.faults import oracle, payments
from tests.faults.feed import Feeder
from tests.faults.payment_feed import PaymentFeeder
from tests.faults.payments import Payments
from tests.support.toy import Toy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """How a job is made, fed, waited for and judged."""

    job: Callable[..., Any]
    feeder: Callable[[Any, str, int], Feeder]
    pending: oracle.Waiting
    judge: Callable[[str, Any, set[str]], Awaitable[oracle.Facts]]


SUBJECTS: Final = {
    "toy": Subject(job=Toy, feeder=Feeder, pending=oracle.unfired, judge=oracle.judge),
    "payments": Subject(job=Payments, feeder=PaymentFeeder, pending=payments.overdue, judge=payments.judge),
}
