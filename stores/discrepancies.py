"""Disagreements as they stand, and every step of their lives: steps are written once, the head follows the last one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from stores.told import columns

if TYPE_CHECKING:
    from stores.schema import Connection
    from streams.domain.decisions import Decision

STEPS: Final = (
    "id", "revision", "status", "kind", "severity", "ref", "order_id", "payment_no", "evidence", "owner", "decision", "detail",
    "deadline", "decided_at",
)  # fmt: skip
_HEADS: Final = """
INSERT INTO discrepancies AS known (
    id, revision, status, kind, severity, ref, order_id, payment_no, evidence, owner, detail, deadline, opened_at, updated_at
)
SELECT * FROM unnest(
    $1::text[], $2::int[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[],
    $11::text[], $12::timestamptz[], $13::timestamptz[], $14::timestamptz[]
)
ON CONFLICT (id) DO UPDATE SET
    revision = EXCLUDED.revision, status = EXCLUDED.status, kind = EXCLUDED.kind, severity = EXCLUDED.severity, ref = EXCLUDED.ref,
    payment_no = EXCLUDED.payment_no, evidence = EXCLUDED.evidence, owner = EXCLUDED.owner, detail = EXCLUDED.detail,
    deadline = EXCLUDED.deadline, updated_at = EXCLUDED.updated_at
WHERE known.revision < EXCLUDED.revision
"""
OPENED: Final = 12


class Discrepancies:
    """The steps of a batch."""

    def __init__(self) -> None:
        self._steps: list[tuple[Any, ...]] = []
        self._heads: dict[str, list[Any]] = {}

    def see(self, decision: Decision) -> None:
        """The steps that the decision made."""
        for one in decision.discrepancies:
            at = one.decided_at
            self._steps.append((
                one.id, one.revision, one.status, one.kind, one.severity, one.ref, one.order_id, one.payment_no, one.evidence,
                one.owner, one.decision, one.detail, one.deadline, at,
            ))  # fmt: skip
            before = self._heads.get(one.id)
            self._heads[one.id] = [
                one.id, one.revision, one.status, one.kind, one.severity, one.ref, one.order_id, one.payment_no, one.evidence,
                one.owner, one.detail, one.deadline, at if before is None else before[OPENED], at,
            ]  # fmt: skip

    async def write(self, connection: Connection) -> None:
        """Copy the steps in, and move the heads on."""
        if self._steps:
            await connection.copy_records_to_table("discrepancy_steps", records=self._steps, columns=STEPS)
            await connection.execute(_HEADS, *columns(self._heads.values()))
