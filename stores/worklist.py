"""The daily worklist: what a person has to tick off, in three classes, with the first look that each asks for (R-191 to R-196)."""

from __future__ import annotations

from datetime import date  # noqa: TC003  msgspec reads the annotation
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

if TYPE_CHECKING:
    from stores.schema import Connection

_LINES: Final = """
    SELECT CASE WHEN r.verdict IN ('CHANNEL_ONLY', 'DUPLICATE_TRANSACTION', 'AMBIGUOUS_MATCH') THEN 'CHANNEL_SINGLE'
                ELSE 'STATE_OR_AMOUNT' END AS class,
           r.verdict, b.channel, b.business_date, b.batch, r.line, l.kind, l.transaction, l.operation_no, r.order_id, r.merchant, r.number,
           l.amount, l.currency, l.status,
           coalesce(p.state, o.state, '') AS ours, coalesce(p.amount, o.amount) AS our_amount
      FROM recon_results r JOIN recon_batches b ON b.id = r.batch_id JOIN recon_bill_lines l ON l.batch_id = r.batch_id AND l.line = r.line
      LEFT JOIN payments p ON l.kind = 'PAY' AND (p.merchant, p.payment_no, p.order_id) = (r.merchant, r.number, r.order_id)
      LEFT JOIN operations o ON l.kind = 'REFUND' AND (o.merchant, o.number, o.order_id) = (r.merchant, r.number, r.order_id)
     WHERE b.state = 'active' AND r.verdict NOT IN ('MATCHED', 'QUIET', 'EVIDENCE') AND b.business_date = $1
       AND ($2::text IS NULL OR b.channel = $2)
     ORDER BY 1, b.channel, b.batch, r.line
"""
_HEARD: Final = """
    SELECT channel_transaction_id AS transaction, bool_or(source = 'callback') AS notified,
           bool_or(source IN ('query', 'submit')) AS queried
      FROM inbox WHERE channel_transaction_id = ANY($1::text[]) GROUP BY 1
"""
"""One pass over the inbox, whatever the planner believes of it."""
_MISSING: Final = """
    SELECT 'LOCAL_ONLY' AS class, m.verdict, m.channel, m.day AS business_date, '' AS batch, NULL::bigint AS line,
           CASE WHEN p.payment_no IS NULL THEN 'REFUND' ELSE 'PAY' END AS kind, coalesce(p.transaction, o.transaction) AS transaction,
           m.number AS operation_no, m.order_id, m.merchant, m.number, NULL::bigint AS amount, coalesce(p.currency, o.currency) AS currency,
           '' AS status, coalesce(p.state, o.state, '') AS ours, coalesce(p.amount, o.amount) AS our_amount,
           EXISTS (SELECT FROM inbox i WHERE i.order_id = m.order_id AND i.source = 'callback') AS notified,
           EXISTS (SELECT FROM inbox i WHERE i.order_id = m.order_id AND i.source IN ('query', 'submit')) AS queried
      FROM recon_missing m
      LEFT JOIN payments p ON (p.merchant, p.payment_no, p.order_id) = (m.merchant, m.number, m.order_id)
      LEFT JOIN operations o ON (o.merchant, o.number, o.order_id) = (m.merchant, m.number, m.order_id) AND o.kind = 'REFUND'
     WHERE m.verdict = 'LOCAL_ONLY' AND m.day = $1 AND ($2::text IS NULL OR m.channel = $2)
     ORDER BY m.channel, m.number
"""


class Work(Struct, frozen=True):
    """One line to be ticked off. Amounts are minor units; `cause` is what our own records can tell apart (R-195)."""

    class_: str
    verdict: str
    channel: str
    business_date: date
    batch: str
    line: int | None
    kind: str
    transaction: str | None
    operation_no: str | None
    order_id: str | None
    merchant: str | None
    number: str | None
    amount: int | None
    currency: str | None
    status: str
    ours: str
    our_amount: int | None
    notified: bool
    queried: bool
    cause: str


async def worklist(connection: Connection, day: date, channel: str | None = None) -> list[Work]:
    """Everything of a business day that nobody has explained yet."""
    lines = [dict(row) for row in await connection.fetch(_LINES, day, channel)]
    heard = await connection.fetch(_HEARD, [line["transaction"] for line in lines if line["transaction"]])
    by_transaction = {row["transaction"]: dict(row) for row in heard}
    unheard = {"notified": False, "queried": False}
    rows = [line | by_transaction.get(line["transaction"], unheard) for line in lines]
    rows += [dict(row) for row in await connection.fetch(_MISSING, day, channel)]
    names = [name for name in Work.__struct_fields__ if name not in {"class_", "cause"}]
    return [Work(class_=row["class"], cause=_cause(row), **{name: row[name] for name in names}) for row in rows]


def _cause(row: Any) -> str:
    heard = row["notified"] or row["queried"]
    if row["class"] == "CHANNEL_SINGLE":
        return SINGLE.get(row["verdict"]) or (TOLD if heard else SILENT)
    if row["class"] == "LOCAL_ONLY":
        return UNLISTED if heard else NEVER
    if "STATUS_MISMATCH" in row["verdict"]:
        return NOT_ASKED if row["ours"] == "INIT" else ENDED_APART
    return "it differs in amount or currency: see the order, and whether it is a refund or a test"


SINGLE: Final = {
    "DUPLICATE_TRANSACTION": "a second line of a payment that is matched",
    "AMBIGUOUS_MATCH": "several of ours may be meant; a person decides",
}
TOLD: Final = "the channel has told of it, and nothing of ours has that number: look into the inbox"
SILENT: Final = "neither a notice nor an answer names it: a person asks the channel to cancel it"
UNLISTED: Final = "the channel said it succeeded and does not list it: ask for a corrected bill"
NEVER: Final = "the channel never spoke of it: usually not accepted"
NOT_ASKED: Final = "created, and the channel was never asked by us"
ENDED_APART: Final = "its end here and there differ: see the late money of the order"
"""What our own records can tell apart (R-193 to R-195)."""
