"""Payments as they stand, and every attempt that was made of them or of an operation (R-100, R-101, R-104, R-105)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from stores.moving import Moving
from streams.domain.decisions import Asked, Money

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from stores.schema import Connection
    from streams.domain.decisions import Decision, Standing

NOT_ASKED: Final = Asked()

_PAYMENTS: Final = Moving("payments", """
    merchant text, payment_no text, order_id text, biz_code text, channel text, amount bigint, currency text, state text,
    transaction text, evidence text, expires_at timestamptz, success_at timestamptz, sequence bigint, version bigint, fee bigint,
    announced bool, captured bigint, held bigint, returned bigint, disputed bigint, dispute text, duplicate bool, fulfilled bool,
    finished bool, order_total bigint, attempts int, queries int, closes int, next_query_at timestamptz, lease_ends_at timestamptz,
    window_ends_at timestamptz, seq bigint, created_at timestamptz, updated_at timestamptz
""", """
ON CONFLICT (merchant, payment_no, order_id) DO UPDATE SET
    biz_code = EXCLUDED.biz_code, channel = EXCLUDED.channel, amount = EXCLUDED.amount, currency = EXCLUDED.currency,
    state = EXCLUDED.state, transaction = EXCLUDED.transaction, evidence = EXCLUDED.evidence,
    expires_at = coalesce(EXCLUDED.expires_at, known.expires_at), success_at = EXCLUDED.success_at, sequence = EXCLUDED.sequence,
    version = EXCLUDED.version, fee = EXCLUDED.fee, announced = EXCLUDED.announced, captured = EXCLUDED.captured,
    held = EXCLUDED.held, returned = EXCLUDED.returned, disputed = EXCLUDED.disputed, dispute = EXCLUDED.dispute,
    duplicate = EXCLUDED.duplicate, fulfilled = EXCLUDED.fulfilled, finished = EXCLUDED.finished,
    order_total = EXCLUDED.order_total, attempts = EXCLUDED.attempts, queries = EXCLUDED.queries, closes = EXCLUDED.closes,
    next_query_at = EXCLUDED.next_query_at, lease_ends_at = EXCLUDED.lease_ends_at, window_ends_at = EXCLUDED.window_ends_at,
    seq = EXCLUDED.seq, updated_at = EXCLUDED.updated_at
WHERE known.seq < EXCLUDED.seq
""")  # fmt: skip
EXPIRES, CREATED = 10, 32
"""Places in a row of what an earlier row of the same payment tells better."""


class Payments:
    """The last standing of each payment of a batch."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str, str], list[Any]] = {}

    def see(self, decision: Decision, one: Standing) -> None:
        """A payment as it stands after the decision."""
        key = (one.merchant or "", one.number, decision.order_id)
        row = _row(decision, one)
        before = self._rows.get(key)
        if before is not None:
            row[CREATED] = before[CREATED]
            row[EXPIRES] = row[EXPIRES] or before[EXPIRES]
        self._rows[key] = row

    async def write(self, connection: Connection, new: AbstractSet[str]) -> None:
        """Insert or move on, never back: a row that is as new stays."""
        await _PAYMENTS.write(connection, self._rows.values(), new)


def _row(decision: Decision, one: Standing) -> list[Any]:
    asked = one.asked or NOT_ASKED
    money = one.money or Money()
    return [
        one.merchant or "", one.number, decision.order_id, one.biz_code, one.channel, one.amount, one.currency, one.state,
        one.transaction, one.evidence, one.expires_at, one.success_at, one.sequence, one.version, one.fee, one.announced,
        money.captured, money.held, money.returned, money.disputed, money.dispute, money.duplicate, money.fulfilled,
        money.finished, money.order_total, asked.attempts, asked.queries, asked.closes, asked.next_query_at, asked.lease_ends_at,
        asked.window_ends_at, decision.seq, decision.decided_at, decision.decided_at,
    ]  # fmt: skip


# -- attempts

_ATTEMPTS: Final = Moving("attempts", """
    merchant text, number text, order_id text, attempt int, kind text, channel text, amount bigint, currency text,
    idempotency_key text, transaction text, state text, sends int, refused_by text, first_sent_at timestamptz,
    last_sent_at timestamptz, seq bigint
""", """
ON CONFLICT (merchant, number, order_id, attempt) DO UPDATE SET
    channel = EXCLUDED.channel, idempotency_key = coalesce(EXCLUDED.idempotency_key, known.idempotency_key),
    transaction = EXCLUDED.transaction, state = EXCLUDED.state, sends = EXCLUDED.sends, refused_by = EXCLUDED.refused_by,
    last_sent_at = CASE WHEN EXCLUDED.sends > known.sends THEN EXCLUDED.last_sent_at ELSE known.last_sent_at END,
    seq = EXCLUDED.seq
WHERE known.seq < EXCLUDED.seq
""")  # fmt: skip
KEY, SENDS, FIRST, LAST = 8, 11, 13, 14


class Attempts:
    """The last standing of each attempt of a batch. The attempt that a standing tells of is its operation's last."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str, str, int], list[Any]] = {}

    def see(self, decision: Decision, one: Standing, asked: Asked) -> None:
        """The last attempt of an operation, if there is one."""
        if not asked.attempts:
            return
        at = decision.decided_at
        key = (one.merchant or "", one.number, decision.order_id, asked.attempts)
        row = [
            *key, one.kind, one.channel, one.amount, one.currency, asked.idempotency_key, one.transaction, one.state, asked.sends,
            asked.refused_by, at, at, decision.seq,
        ]  # fmt: skip
        before = self._rows.get(key)
        if before is not None:
            row[KEY] = row[KEY] or before[KEY]
            row[FIRST] = before[FIRST]
            row[LAST] = at if row[SENDS] > before[SENDS] else before[LAST]
        self._rows[key] = row

    async def write(self, connection: Connection, new: AbstractSet[str]) -> None:
        """Insert or move on. The first and the last sending keep the moments of the decisions that made them."""
        await _ATTEMPTS.write(connection, self._rows.values(), new)
