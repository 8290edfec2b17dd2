"""A channel's own list against ours, line by line, both ways (R-181, R-188, R-190 to R-194).

A row belongs to the operation that has its channel reference; else to the one whose number it names. Where several have it, what agrees in
amount and currency may be meant, and a pair is made only if it is forced (`match`); the rest is a proposal for a person. One row matches
one operation; a further row of a matched operation is a duplicate. Direction comes from the kind; the sign carries nothing.

    ours \\ the row      money (SUCCESS, or funds PAID)      CLOSED or FAILED without money      PENDING
    SUCCESS, RETURNED   matched                             STATUS_MISMATCH                     quiet
    FAIL, CLOSED, ...   STATUS_MISMATCH                     matched                             quiet
    open, AUTHORIZED    evidence, as a query's answer       quiet                               quiet
    INIT                STATUS_MISMATCH                     quiet                               quiet

What differs in amount or currency is that difference first. Only complete bills prove absence: an operation that succeeded on a business
day whose complete bill lacks it is held, and missing once the complete bill of `hold_days` later has been read (R-183).
"""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from msgspec import Struct

from streams.domain.match import forced
from streams.domain.tables import AUTHORIZED, INIT, OPEN, RETURNED, SUCCESS

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from streams.domain.lines import BillRow

Verdict: TypeAlias = Literal[
    "MATCHED", "EVIDENCE", "QUIET", "AMOUNT_MISMATCH", "CURRENCY_MISMATCH", "STATUS_MISMATCH", "DUPLICATE_TRANSACTION", "CHANNEL_ONLY",
    "AMBIGUOUS_MATCH",
]  # fmt: skip
WON: Final = frozenset({SUCCESS, RETURNED})
UNDECIDED: Final = OPEN | {AUTHORIZED}


class Local(Struct, frozen=True, kw_only=True, gc=False):
    """One payment or refund of ours at this channel. `day` is the business day of its success in the channel's zone, if it succeeded."""

    key: str
    number: str
    order_id: str
    kind: Literal["PAY", "REFUND"]
    amount: int
    currency: str
    state: str
    payment_no: str
    merchant: str | None = None
    transaction: str | None = None
    day: date | None = None

    @property
    def name(self) -> tuple[str, str]:
        """Order and key: numbers are unique in their order only."""
        return self.order_id, self.key


class Outcome(Struct, frozen=True, gc=False):
    """What came of a row. `row` is its place in the sequence that was compared; a row may differ in two ways, and then has two outcomes."""

    verdict: Verdict
    row: int
    local: Local | None = None
    candidates: tuple[str, ...] = ()


class Locals:
    """Our operations at one channel, by what a row may know them by."""

    def __init__(self, every: Iterable[Local]) -> None:
        self.by_key: dict[str, Local] = {}
        self._by_transaction: dict[tuple[str, str], list[Local]] = {}
        self._by_number: dict[tuple[str, str], list[Local]] = {}
        for local in every:
            self.by_key[local.key] = local
            if local.transaction:
                self._by_transaction.setdefault((local.kind, local.transaction), []).append(local)
            for name in {local.number, local.key}:
                self._by_number.setdefault((local.kind, name), []).append(local)

    def of_transaction(self, kind: str, transaction: str | None) -> Sequence[Local]:
        return self._by_transaction.get((kind, transaction), ()) if transaction else ()

    def of_number(self, kind: str, number: str | None) -> Sequence[Local]:
        return self._by_number.get((kind, number), ()) if number else ()


def is_money(row: BillRow) -> bool:
    return row.status == "SUCCESS" or row.funds == "PAID"


def compare(
    rows: Sequence[BillRow],
    locals_: Locals,
    matched: Iterable[tuple[str, str]] = (),
    numbered: Iterable[tuple[str, str]] = (),
) -> list[Outcome]:
    """What came of each row, in the order of rows. Rows are in the order of business date, batch and line; the first of equals matches.

    `matched` are names of operations that other rows of the same source have matched before, `numbered` those of them that were matched by
    their number: a choice among references is the same choice whether these rows are compared again or not.
    """
    found = _Found(rows, dict.fromkeys(matched, -1), frozenset(numbered))
    rest: list[int] = []
    for name, places in _grouped(rows).items():
        owners = locals_.of_transaction(*name)
        if not owners:
            rest += places
        elif len(owners) == 1:
            found.share(places, owners[0])
        else:
            for place in places:
                found.offer(place, owners)
    found.force()
    for place in sorted(rest):
        row = rows[place]
        owners = locals_.of_number(row.kind, row.operation_no)
        if not owners:
            found.outcomes[place] = [Outcome("CHANNEL_ONLY", place)]
        elif len(owners) == 1:
            found.take(place, owners[0])
        else:
            found.offer(place, owners)
    found.force()
    return [outcome for place in range(len(rows)) for outcome in found.outcomes[place]]


def _grouped(rows: Sequence[BillRow]) -> dict[tuple[str, str | None], list[int]]:
    """Places of rows by kind and channel reference."""
    groups: dict[tuple[str, str | None], list[int]] = {}
    for place, row in enumerate(rows):
        groups.setdefault((row.kind, row.transaction), []).append(place)
    return groups


class _Found:
    """Outcomes so far, and the operations that have their row. `waiting` are rows that may be one of several."""

    def __init__(
        self, rows: Sequence[BillRow], taken: dict[tuple[str, str], int], numbered: frozenset[tuple[str, str]]
    ) -> None:
        self.rows, self.taken = rows, taken
        self.later = numbered
        """Operations whose row comes after the choices among references."""
        self.outcomes: dict[int, list[Outcome]] = {}
        self.waiting: dict[int, list[Local]] = {}

    def share(self, places: list[int], local: Local) -> None:
        """Rows of one reference, which one operation has: the best of them is its row, the others are extra."""
        best = min(places, key=lambda place: (*_distance(self.rows[place], local), place))
        self.take(best, local)
        for place in places:
            if place != best:
                self.outcomes[place] = [Outcome("DUPLICATE_TRANSACTION", place, local)]

    def take(self, place: int, local: Local) -> None:
        """The row of an operation, if it has none yet."""
        if local.name in self.taken:
            self.outcomes[place] = [Outcome("DUPLICATE_TRANSACTION", place, local)]
            return
        self.taken[local.name] = place
        self.outcomes[place] = _pair(self.rows[place], place, local)

    def offer(self, place: int, owners: Sequence[Local]) -> None:
        """A row that may be any of these: of those whose number it names too, if there are any; of those that agree, if there are any."""
        row = self.rows[place]
        named = [one for one in owners if row.operation_no in {one.number, one.key}] or list(owners)
        self.waiting[place] = [one for one in named if _agrees(row, one)] or named

    def force(self) -> None:
        """Give every row that waits the operation that only it can be, if the whole of the choices forces one; the rest is for a person."""
        free = {
            place: {one.name: one for one in owners if one.name not in self.taken or one.name in self.later}
            for place, owners in self.waiting.items()
        }
        pairs = forced((place, name) for place, owners in free.items() for name in owners).pairs
        for place, owners in self.waiting.items():
            if place in pairs:
                self.take(place, free[place][pairs[place]])
            elif not free[place]:
                self.outcomes[place] = [Outcome("DUPLICATE_TRANSACTION", place, min(owners, key=lambda one: one.name))]
            else:
                keys = tuple(sorted(one.key for one in owners))
                self.outcomes[place] = [Outcome("AMBIGUOUS_MATCH", place, None, keys)]
        self.waiting, self.later = {}, frozenset()


def _agrees(row: BillRow, local: Local) -> bool:
    return (local.currency, local.amount) == (row.currency, abs(row.amount))


def _distance(row: BillRow, local: Local) -> tuple[bool, bool, bool]:
    """How far a row is from what we have, for choosing among rows that all name it; it never makes a pair."""
    return (
        row.operation_no not in {local.number, local.key},
        row.currency != local.currency,
        abs(row.amount) != local.amount,
    )


def _pair(row: BillRow, place: int, local: Local) -> list[Outcome]:
    """How a row and its operation differ."""
    money = is_money(row)
    if local.state in UNDECIDED:
        return [Outcome("EVIDENCE" if money else "QUIET", place, local)]
    if not money and (row.status == "PENDING" or local.state == INIT):
        return [Outcome("QUIET", place, local)]
    differs: list[Verdict] = []
    if row.currency != local.currency:
        differs.append("CURRENCY_MISMATCH")
    elif abs(row.amount) != local.amount:
        differs.append("AMOUNT_MISMATCH")
    if money is not (local.state in WON):
        differs.append("STATUS_MISMATCH")
    return [Outcome(one, place, local) for one in differs] or [Outcome("MATCHED", place, local)]


def missing(
    local: Local, *, paired: bool, complete: Container[date], hold_days: int
) -> Literal["HELD", "LOCAL_ONLY"] | None:
    """Whether a bill should have had this operation; `complete` are the business days whose complete bill has been read."""
    if paired or local.day is None or local.state != SUCCESS or local.day not in complete:
        return None
    return "LOCAL_ONLY" if local.day + timedelta(days=hold_days) in complete else "HELD"
