"""Captures, voids and refunds as they stand; of a refund, what each party shows of it, and its way to a wallet (R-032, R-118, R-210)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from stores.payments import NOT_ASKED
from stores.told import columns

if TYPE_CHECKING:
    from stores.schema import Connection
    from streams.domain.decisions import Decision, Standing

_OPERATIONS: Final = """
INSERT INTO operations AS known (
    merchant, number, order_id, kind, payment_no, channel, amount, currency, state, transaction, evidence, success_at, sequence,
    late, attempts, queries, next_query_at, window_ends_at, seq, created_at, updated_at
)
SELECT * FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::text[], $9::text[], $10::text[],
    $11::text[], $12::timestamptz[], $13::bigint[], $14::bool[], $15::int[], $16::int[], $17::timestamptz[], $18::timestamptz[],
    $19::bigint[], $20::timestamptz[], $21::timestamptz[]
)
ON CONFLICT (merchant, number, order_id) DO UPDATE SET
    channel = EXCLUDED.channel, amount = EXCLUDED.amount, currency = EXCLUDED.currency, state = EXCLUDED.state,
    transaction = EXCLUDED.transaction, evidence = EXCLUDED.evidence, success_at = EXCLUDED.success_at,
    sequence = EXCLUDED.sequence, late = EXCLUDED.late, attempts = EXCLUDED.attempts, queries = EXCLUDED.queries,
    next_query_at = EXCLUDED.next_query_at, window_ends_at = EXCLUDED.window_ends_at, seq = EXCLUDED.seq,
    updated_at = EXCLUDED.updated_at
WHERE known.seq < EXCLUDED.seq
"""
_REFUNDS: Final = """
INSERT INTO refunds AS known (
    merchant, refund_no, order_id, payment_no, requested_amount, currency, state, merchant_status, processor_status, card_status,
    seq, updated_at
)
SELECT * FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[],
    $11::bigint[], $12::timestamptz[]
)
ON CONFLICT (merchant, refund_no, order_id) DO UPDATE SET
    requested_amount = EXCLUDED.requested_amount, currency = EXCLUDED.currency, state = EXCLUDED.state,
    merchant_status = EXCLUDED.merchant_status, processor_status = EXCLUDED.processor_status, card_status = EXCLUDED.card_status,
    seq = EXCLUDED.seq, updated_at = EXCLUDED.updated_at
WHERE known.seq < EXCLUDED.seq
"""
_WALLETS: Final = """
INSERT INTO wallet_legs AS known (merchant, refund_no, order_id, status, amount, currency, seq, updated_at)
SELECT * FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::bigint[], $8::timestamptz[]
)
ON CONFLICT (merchant, refund_no, order_id) DO UPDATE SET
    status = EXCLUDED.status, amount = EXCLUDED.amount, currency = EXCLUDED.currency, seq = EXCLUDED.seq,
    updated_at = EXCLUDED.updated_at
WHERE known.seq < EXCLUDED.seq
"""
CREATED: Final = 19


class Operations:
    """The last standing of each capture, void and refund of a batch."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str, str], list[Any]] = {}
        self._refunds: dict[tuple[str, str, str], tuple[Any, ...]] = {}
        self._wallets: dict[tuple[str, str, str], tuple[Any, ...]] = {}

    def see(self, decision: Decision, one: Standing) -> None:
        """An operation as it stands after the decision."""
        key = (one.merchant or "", one.number, decision.order_id)
        asked = one.asked or NOT_ASKED
        at = decision.decided_at
        before = self._rows.get(key)
        self._rows[key] = [
            *key, one.kind, one.payment_no, one.channel, one.amount, one.currency, one.state, one.transaction, one.evidence,
            one.success_at, one.sequence, one.late, asked.attempts, asked.queries, asked.next_query_at, asked.window_ends_at,
            decision.seq, at if before is None else before[CREATED], at,
        ]  # fmt: skip
        if one.kind == "REFUND":
            self._show(key, decision, one)

    def _show(self, key: tuple[str, str, str], decision: Decision, one: Standing) -> None:
        shown = one.shown
        layers = (None, None, None) if shown is None else (shown.merchant, shown.processor, shown.card)
        when = decision.seq, decision.decided_at
        self._refunds[key] = (*key, one.payment_no, one.amount, one.currency, one.state, *layers, *when)
        if shown is not None and shown.wallet is not None:
            self._wallets[key] = (*key, shown.wallet, one.amount, one.currency, *when)

    async def write(self, connection: Connection) -> None:
        """Insert or move on, never back."""
        for statement, rows in ((_OPERATIONS, self._rows), (_REFUNDS, self._refunds), (_WALLETS, self._wallets)):
            if rows:
                await connection.execute(statement, *columns(rows.values()))
