"""Captures, voids and refunds as they stand; of a refund, what each party shows of it, and its way to a wallet (R-032, R-118, R-210)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from stores.moving import Moving
from stores.payments import NOT_ASKED

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from stores.schema import Connection
    from streams.domain.decisions import Decision, Standing

_OPERATIONS: Final = Moving("operations", """
    merchant text, number text, order_id text, kind text, payment_no text, channel text, amount bigint, currency text, state text,
    transaction text, evidence text, success_at timestamptz, sequence bigint, late bool, attempts int, queries int,
    next_query_at timestamptz, window_ends_at timestamptz, seq bigint, created_at timestamptz, updated_at timestamptz
""", """
ON CONFLICT (merchant, number, order_id) DO UPDATE SET
    channel = EXCLUDED.channel, amount = EXCLUDED.amount, currency = EXCLUDED.currency, state = EXCLUDED.state,
    transaction = EXCLUDED.transaction, evidence = EXCLUDED.evidence, success_at = EXCLUDED.success_at,
    sequence = EXCLUDED.sequence, late = EXCLUDED.late, attempts = EXCLUDED.attempts, queries = EXCLUDED.queries,
    next_query_at = EXCLUDED.next_query_at, window_ends_at = EXCLUDED.window_ends_at, seq = EXCLUDED.seq,
    updated_at = EXCLUDED.updated_at
WHERE known.seq < EXCLUDED.seq
""")  # fmt: skip
_REFUNDS: Final = Moving("refunds", """
    merchant text, refund_no text, order_id text, payment_no text, requested_amount bigint, currency text, state text,
    merchant_status text, processor_status text, card_status text, seq bigint, updated_at timestamptz
""", """
ON CONFLICT (merchant, refund_no, order_id) DO UPDATE SET
    requested_amount = EXCLUDED.requested_amount, currency = EXCLUDED.currency, state = EXCLUDED.state,
    merchant_status = EXCLUDED.merchant_status, processor_status = EXCLUDED.processor_status, card_status = EXCLUDED.card_status,
    seq = EXCLUDED.seq, updated_at = EXCLUDED.updated_at
WHERE known.seq < EXCLUDED.seq
""")  # fmt: skip
_WALLETS: Final = Moving("wallet_legs", """
    merchant text, refund_no text, order_id text, status text, amount bigint, currency text, seq bigint, updated_at timestamptz
""", """
ON CONFLICT (merchant, refund_no, order_id) DO UPDATE SET
    status = EXCLUDED.status, amount = EXCLUDED.amount, currency = EXCLUDED.currency, seq = EXCLUDED.seq,
    updated_at = EXCLUDED.updated_at
WHERE known.seq < EXCLUDED.seq
""")  # fmt: skip
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

    async def write(self, connection: Connection, new: AbstractSet[str]) -> None:
        """Insert or move on, never back."""
        await _OPERATIONS.write(connection, self._rows.values(), new)
        await _REFUNDS.write(connection, self._refunds.values(), new)
        await _WALLETS.write(connection, self._wallets.values(), new)
