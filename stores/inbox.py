"""What was said to us, beside what we believe (R-107, R-108): one row for each thing said, however often it was repeated.

A thing said is told apart by the key of R-072 and the hash of what it says, within its order. What has no key (answers) is told apart
by its moment. Card entries are kept once each by the issuer's own id (R-219).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from stores.moving import Moving
from stores.told import columns

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet
    from datetime import datetime

    from stores.schema import Connection
    from stores.told import Told
    from streams.domain.decisions import Decision, Said

NOT_BOOKED: Final = frozenset({"parked", "refused", "duplicate"})
"""Verdicts after which a card entry is not, or not yet, the card's."""
NOT_HEARD: Final = frozenset({"same-key-other-payload", "test-mode"})

_INBOX: Final = Moving("inbox", """
    order_id text, event_key text, payload_hash text, source text, channel text, channel_event_id text,
    channel_transaction_id text, event_type text, event_version bigint, sequence bigint, event_time text, word text, amount bigint,
    currency text, amount_text text, fee bigint, cumulative_refunded bigint, number text, reason text, error_class text,
    request_id text, raw_sha256 text, cause text, signature_valid bool, process_status text, process_rule text, process_error text,
    received_at timestamptz, processed_at timestamptz, seq bigint
""", """
ON CONFLICT (order_id, event_key, payload_hash) DO UPDATE SET
    number = EXCLUDED.number, process_status = EXCLUDED.process_status, process_rule = EXCLUDED.process_rule,
    process_error = EXCLUDED.process_error, processed_at = EXCLUDED.processed_at, seq = EXCLUDED.seq
WHERE known.process_status = 'parked' AND known.seq < EXCLUDED.seq
""")  # fmt: skip
_REPEATS: Final = """
UPDATE inbox SET repeats = repeats + more.number
  FROM unnest($1::text[], $2::text[], $3::text[], $4::int[]) AS more (order_id, event_key, payload_hash, number)
 WHERE (inbox.order_id, inbox.event_key, inbox.payload_hash) = (more.order_id, more.event_key, more.payload_hash)
"""
NUMBER, STATUS, JUDGED = 17, 24, slice(24, 27)
PROCESSED, SEQ = 28, 29


class Inbox:
    """What was said in a batch, what came of it, and how often it was repeated."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str, str], list[Any]] = {}
        self._repeats: Counter[tuple[str, str, str]] = Counter()

    def see(self, told: Told) -> None:
        """A decision about evidence, or about its repetition; commands and due times say nothing."""
        decision, said = told.decision, told.decision.said
        if said is not None:
            self._hear(told, said)
        elif decision.verdict == "duplicate" and decision.rule == "same-key-same-payload":
            self._repeats[decision.order_id, _key(decision, None), decision.payload] += 1

    def _hear(self, told: Told, said: Said) -> None:
        decision = told.decision
        received_at = said.received_at or decision.decided_at
        key = (decision.order_id, _key(decision, received_at), decision.payload)
        row = [
            *key, decision.source, said.channel, said.event_id, said.transaction, said.event_type, said.version, said.sequence,
            said.event_time, decision.word, said.amount, said.currency, said.amount_text, said.fee, said.cumulative_refunded,
            decision.payment_no or None, said.reason, said.error_class, said.request_id, said.sha256, told.cause, True, decision.verdict,
            decision.rule, decision.detail or None, received_at, decision.decided_at, decision.seq,
        ]  # fmt: skip
        before = self._rows.get(key)
        if before is None:
            self._rows[key] = row
        elif before[STATUS] == "parked":
            self._judge(before, row)

    @staticmethod
    def _judge(before: list[Any], row: list[Any]) -> None:
        """What had waited was heard. Only that changes a row: what the law had forgotten and hears again moves nothing."""
        before[NUMBER], before[JUDGED] = row[NUMBER], row[JUDGED]
        before[PROCESSED], before[SEQ] = row[PROCESSED], row[SEQ]

    async def write(self, connection: Connection, new: AbstractSet[str]) -> None:
        """Insert what is new, judge again what had waited, count what was repeated."""
        await _INBOX.write(connection, self._rows.values(), new)
        if self._repeats:
            await connection.execute(_REPEATS, *columns((*key, number) for key, number in self._repeats.items()))


def _key(decision: Decision, received_at: datetime | None) -> str:
    """The dedupe key; without one, the moment. Repetitions of what has no key are not counted: nothing says of which."""
    if decision.key:
        return decision.key
    return "" if received_at is None else f"@{received_at.isoformat()}"


# -- the card's own account

_CARDS: Final = Moving("card_entries", """
    channel text, event_id text, order_id text, status text, amount bigint, currency text, transaction text, "authorization" text,
    number text, posted_at text, received_at timestamptz, seq bigint
""", """
ON CONFLICT (channel, event_id, order_id) DO NOTHING
""")  # fmt: skip


class CardEntries:
    """The card entries of a batch that were heard."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str, str], tuple[Any, ...]] = {}

    def see(self, decision: Decision) -> None:
        """What the card's issuer said: an entry, once it is the card's. The first word stands."""
        said = decision.said
        if said is None or said.event_id is None or decision.verdict in NOT_BOOKED or decision.rule in NOT_HEARD:
            return
        key = (said.channel, said.event_id, decision.order_id)
        self._rows.setdefault(key, (
            *key, decision.word, said.amount, said.currency, said.transaction, said.authorization, decision.payment_no or None,
            said.event_time, said.received_at or decision.decided_at, decision.seq,
        ))  # fmt: skip

    async def write(self, connection: Connection, new: AbstractSet[str]) -> None:
        """Insert what is new."""
        await _CARDS.write(connection, self._rows.values(), new)
