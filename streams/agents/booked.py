"""One order as the state topic has it, beside what the books hold of it. Pure: it reads the law's own words, not the projector's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from streams.domain import identity
from streams.domain.decisions import Money
from streams.domain.standing import standing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stores.auditing import Kept
    from streams.domain.decisions import Standing
    from streams.domain.order import Order, Target

OF_PAYMENT: Final = ("fee", "announced")
MONEY: Final = ("captured", "held", "returned", "disputed", "duplicate", "fulfilled")
ALWAYS: Final = ("kind", "state", "amount", "currency", "channel", "transaction", "evidence", "success_at")


def unlike(order: Order, books: Kept) -> Iterator[tuple[str, str]]:
    """(place, what) of everything about the order that the books tell otherwise. They must be at the same decision."""
    name = text(order.order_id)
    targets: tuple[Target, ...] = (*order.payments, *order.operations)
    for target in targets:
        now = standing(order, target)
        key = (name, text(now.merchant or ""), text(now.number))
        row = books.operations.get(key)
        if row is None:
            yield f"{name} {key[2]}", "is not in the books"
            continue
        for field, value in _facts(now).items():
            if row[field] != value:
                yield f"{name} {key[2]} {field}", f"{row[field]!r} in the books, {value!r} in the state topic"
    for conflict in order.conflicts:
        place = text(identity.discrepancy_id(order, conflict.id))
        if (found := books.discrepancies.get(place)) != (conflict.revision, conflict.open):
            yield (
                place,
                f"{found} in the books, {(conflict.revision, conflict.open)} in the state topic (revision, open)",
            )


def _facts(now: Standing) -> dict[str, Any]:
    facts: dict[str, Any] = {name: getattr(now, name) for name in ALWAYS}
    asked = now.asked
    facts |= {"attempts": asked.attempts if asked else 0, "queries": asked.queries if asked else 0}
    if now.kind == "PAY":
        money = now.money or Money()
        facts |= {name: getattr(now, name) for name in OF_PAYMENT} | {name: getattr(money, name) for name in MONEY}
    elif now.kind == "REFUND":
        shown = now.shown
        facts |= {
            f"{layer}_status": None if shown is None else getattr(shown, layer)
            for layer in ("merchant", "processor", "card")
        }
    return {name: text(value) if isinstance(value, str) else value for name, value in facts.items()}


def text(value: str) -> str:
    """As Postgres keeps it."""
    return value.replace("\0", "\ufffd")
