"""Age: an order that nobody may still move by right shrinks to a stub, and a stub still answers whoever speaks of it.

After a contract's life without a word (400 days by default), an order whose operations have all ended, with nothing open, forgets what
was said and by whom: the projection remembers that. It keeps its ids, its states, its counters, the facts that contradict each other,
and of every piece of evidence the key and the hash. So the law reads a stub as it reads the whole order, and gives the same verdicts:
a repetition is a duplicate, late money is contested, and no number is ever used twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import structs

from streams.domain.contract import DEFAULT, Contracts
from streams.domain.facts import ANSWERS
from streams.domain.identity import KEY_BYTES
from streams.domain.order import MAX_SEEN, Conflict, Order, Seen
from streams.domain.tables import MACHINES, SUCCESS
from streams.domain.turn import Ruling, Turn

if TYPE_CHECKING:
    from streams.domain.facts import Fact
    from streams.domain.order import Target

DAY_MS: Final = 86_400_000
ENTRY: Final = 2 * KEY_BYTES
"""A kept key and its payload's hash; the key is zero where there was none."""
NO_KEY: Final = bytes(KEY_BYTES)
BOUND: Final = MAX_SEEN * ENTRY


def rest(turn: Turn) -> None:
    """After each decision: when the order will have been at rest long enough, or None while something is open or nothing can be shed."""
    order = turn.order
    order.age_at = turn.at + life_ms(order, turn.contracts) if order.seen and settled(order) else None


def settled(order: Order) -> bool:
    """Whether every operation has ended and nothing about the order waits, is disputed or is open."""
    if order.parked or any(conflict.open for conflict in order.conflicts):
        return False
    if any(not _ended(payment) or payment.money.dispute == "OPEN" for payment in order.payments):
        return False
    return all(_ended(one) and one.posting_due_at is None for one in order.operations)


def _ended(target: Target) -> bool:
    """A refund's SUCCESS leaves only to RETURNED, by the channel's own word."""
    return target.state == SUCCESS or not MACHINES[target.kind][target.state]


def life_ms(order: Order, contracts: Contracts) -> int:
    """The longest life that a contract of its channels gives the order, in milliseconds."""
    channels = {payment.channel for payment in order.payments}
    days = [contracts.get(channel, DEFAULT).life_days for channel in channels] or [DEFAULT.life_days]
    return max(days) * DAY_MS


def shrink(turn: Turn) -> None:
    """The due time of age: a decision of its own, that changes no operation."""
    turn.order = thin(turn.order)
    turn.close(Ruling("applied", "aged"), source="timer", word="age", evidence=turn.order.order_id)


def thin(order: Order) -> Order:
    """The stub of a settled order."""
    kept = order.kept + b"".join([_entry(seen) for seen in order.seen if seen.source not in ANSWERS])
    lost = max(0, len(kept) - BOUND)
    return structs.replace(
        order,
        seen=(),
        conflicts=tuple([_bare(conflict) for conflict in order.conflicts]),
        forgotten=order.forgotten + lost // ENTRY,
        age_at=None,
        kept=kept[lost:],
    )


def _bare(conflict: Conflict) -> Conflict:
    """Of a resolved discrepancy: that it was there, how often it was told, and whether people have decided about its facts."""
    return structs.replace(conflict, kind="", severity="", ref="", payment_no=None, opened_at=0, merchant=None)


def _entry(seen: Seen) -> bytes:
    return (seen.key or NO_KEY) + seen.payload


def recalled(order: Order, fact: Fact) -> Seen | None:
    """What a stub has heard under this key; of what had no key, only the very same. Answers never are repetitions."""
    if fact.source in ANSWERS:
        return None
    wanted = fact.key or NO_KEY
    for at in range(0, len(order.kept), ENTRY):
        key, payload = order.kept[at : at + KEY_BYTES], order.kept[at + KEY_BYTES : at + ENTRY]
        if key == wanted and (fact.key or payload == fact.payload):
            return Seen(fact.key, payload, 0, "", "", fact.ref, "", "", "")
    return None
