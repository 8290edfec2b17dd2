"""Why the layers of a refund do not agree, and who has to go on: an explanation, and never another refund (R-210 to R-224).

Merchant, processing chain, card and wallet each show a refund in their own time. What they show together has one case (`wording.case_of`);
this adds what amounts and the hold tell, and how long ago it was asked for. A refund without a shared reference on the card has
candidates for a person: amount and currency that fit inside the time in which a posting comes (R-217).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from streams.domain.layers import Layers, Owner  # noqa: TC001  msgspec reads the annotations
from streams.domain.tables import OPEN, SUCCESS
from streams.domain.wording import HEADLINES, answers_of, case_of, next_owner

if TYPE_CHECKING:
    from collections.abc import Sequence

DAY_MS: Final = 86_400_000
REACH_MS: Final = 45 * DAY_MS
"""How long after a refund its posting is looked for."""


class View(Struct, frozen=True, kw_only=True):
    """One refund as everybody shows it. Amounts are minor units, times milliseconds UTC. `held` and `captured` are of its payment."""

    key: str
    state: str
    amount: int
    currency: str
    started_at: int
    layers: Layers
    captured: int = 0
    held: int = 0
    posted_amount: int | None = None
    posted_currency: str | None = None


class Entry(Struct, frozen=True, kw_only=True):
    """A refund on a card that names none of ours."""

    ref: str
    amount: int
    currency: str
    at: int


class Explained(Struct, frozen=True, kw_only=True):
    """`case` is why; `owner` goes on; `days` since it was asked for. `candidates` are card entries that might be it, for a person."""

    key: str
    case: str
    text: str
    owner: Owner
    days: int
    answers: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()


OWN: Final = {
    "only-a-hold": "Nothing was captured: what comes back is the release of the hold, which is no refund. Look into the release.",
    "posted-other-amount": "The card shows another amount than was refunded: a part of it, or a fee.",
    "posted-other-currency": "The card shows another currency: the amount was converted there, and its size proves nothing.",
    "answer-open": "The channel has not said yet whether it took the refund; it is asked by itself.",
}
"""Cases that the layers alone do not know."""


def explain(view: View, strays: Sequence[Entry], now: int) -> Explained | None:
    """Why this refund is not closed; None where all layers are, or nothing is to be explained."""
    case, text, owner = _case(view)
    if case == "closed":
        return None
    silent = view.layers.card not in {"POSTED", "RETURNED"}
    return Explained(
        key=view.key,
        case=case,
        text=text,
        owner=owner,
        days=max(0, now - view.started_at) // DAY_MS,
        answers=answers_of(view.layers),
        candidates=tuple(sorted(entry.ref for entry in strays if silent and _may_be(view, entry))),
    )


def _case(view: View) -> tuple[str, str, Owner]:
    if view.captured == 0 and view.held > 0:
        return "only-a-hold", OWN["only-a-hold"], "MERCHANT"
    if view.layers.card == "POSTED" and view.posted_currency not in {None, view.currency}:
        return "posted-other-currency", OWN["posted-other-currency"], "US"
    if view.layers.card == "POSTED" and view.posted_amount not in {None, view.amount}:
        return "posted-other-amount", OWN["posted-other-amount"], "US"
    case = case_of(view.layers)
    if case == "nothing" and view.state in OPEN:
        return "answer-open", OWN["answer-open"], "PROCESSOR"
    if case == "nothing" and view.state != SUCCESS:
        return "closed", "", "NOBODY"  # it failed, and nobody shows anything
    return case, HEADLINES[case].en, next_owner(view.layers)


def _may_be(view: View, entry: Entry) -> bool:
    """A candidate, never a match: several refunds of one amount all have it."""
    same = (entry.amount, entry.currency) == (view.amount, view.currency)
    return same and view.started_at <= entry.at <= view.started_at + REACH_MS
