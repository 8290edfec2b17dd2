"""The bill of a played account: a line for each charge and refund that was really made on a day, and its totals.

Every account writes the layout of `streams/channels/simulator.yaml` (`file`), whatever dialect it speaks otherwise: amounts in minor units,
no fees, and totals of the amounts of all lines, whatever their direction.
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from datetime import date

    from streams.simulator.world import Operation, World

HEADER: Final = ("txn", "op", "kind", "amount", "ccy", "status", "fee", "time")
TOTALS: Final = ("count", "total", "fee_total")


def bill(world: World, day: date) -> str:
    """CSV in UTF-8, in the order in which it was made; the day is in UTC."""
    every = (*world.ledger(), *world.operations.values())
    made = [
        one for one in every if one.word == "SUCCESS" and one.since.date() == day and one.about in {"payment", "refund"}
    ]
    made.sort(key=lambda one: (one.since, one.number))
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(HEADER)
    writer.writerows(_row(one) for one in made)
    writer.writerow(TOTALS)
    writer.writerow((len(made), sum(one.amount for one in made), 0))
    return text.getvalue()


def _row(one: Operation) -> tuple[str | int, ...]:
    kind, number = ("REFUND", one.number) if one.about == "refund" else ("PAY", one.payment_no)
    return one.transaction, number, kind, one.amount, one.currency, "SUCCESS", 0, f"{one.since:%Y-%m-%d %H:%M:%S}"
