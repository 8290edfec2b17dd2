"""The set-based twin of `streams.domain.bills`: what can be decided by sets is decided in Postgres, the rest by the very function.

Rows whose channel reference, or whose number where they have none that we know, names exactly one operation, and which no other row shares,
are compared by SQL: nearly all of any bill. Rows that share a name, and names that several operations have, are few; they are loaded and
handed to `bills.compare`. Both give what `compare` gives for the whole (a test holds it), whatever the order of rows.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from streams.domain import bills
from streams.domain.bills import Local, Locals
from streams.domain.lines import BillRow

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from datetime import date

    from stores.schema import Connection

RULES: Final = "bills/1"
"""Which rules a run was made under."""
PORTION: Final = 5_000
_MEMORY: Final = "SET LOCAL work_mem = '128MB'; SET LOCAL jit = off"
"""A million lines are joined without a file; what is larger is joined through files."""

_OURS: Final = """
    SELECT 'PAY'::text AS kind, merchant, payment_no AS number, order_id, payment_no, amount, currency, state, transaction, success_at
      FROM payments WHERE channel = $1
    UNION ALL
    SELECT 'REFUND', merchant, number, order_id, payment_no, amount, currency, state, transaction, success_at
      FROM operations WHERE channel = $1 AND kind = 'REFUND'
"""
_VERDICT: Final = """
    CASE
        WHEN l.money AND o.state IN ('SUCCESS', 'RETURNED') AND l.currency = o.currency AND abs(l.amount) = o.amount THEN 'MATCHED'
        WHEN o.state IN ('PAYING', 'UNKNOWN', 'REFUNDING', 'AUTHORIZED') THEN CASE WHEN l.money THEN 'EVIDENCE' ELSE 'QUIET' END
        WHEN NOT l.money AND (l.status = 'PENDING' OR o.state = 'INIT') THEN 'QUIET'
        ELSE coalesce(nullif(concat_ws('+',
            CASE WHEN l.currency <> o.currency THEN 'CURRENCY_MISMATCH' WHEN abs(l.amount) <> o.amount THEN 'AMOUNT_MISMATCH' END,
            CASE WHEN l.money <> (o.state IN ('SUCCESS', 'RETURNED')) THEN 'STATUS_MISMATCH' END), ''), 'MATCHED')
    END
"""

_LINES: Final = """
    CREATE TEMP TABLE r_line ON COMMIT DROP AS
    SELECT b.source, b.account, b.feed, b.business_date, b.batch, l.batch_id, l.line, l.kind, l.transaction, l.operation_no, l.amount,
           l.currency, l.status, l.funds, coalesce(l.fee, 0) = 0 AS free,
           (l.status = 'SUCCESS' OR coalesce(l.funds = 'PAID', false)) AS money
      FROM r_feed b JOIN recon_bill_lines l ON l.batch_id = b.id
      LEFT JOIN recon_results r ON r.batch_id = l.batch_id AND r.line = l.line
     WHERE r.verdict IS NULL OR r.verdict <> 'MATCHED'
"""
_FEEDS: Final = """
    CREATE TEMP TABLE r_feed ON COMMIT DROP AS
    SELECT b.id, b.source, b.account, b.business_date, b.batch, min(b.id) OVER (PARTITION BY b.source, b.account) AS feed
      FROM recon_batches b WHERE b.state = 'active' AND b.kind = 'CHANNEL_BILL' AND b.channel = $1
"""
"""A feed is a source and account, as a number: in it one line matches one operation."""
_OPS: Final = f"CREATE TEMP TABLE r_op ON COMMIT DROP AS {_OURS}"
_BY_REFERENCE: Final = f"""
    CREATE TEMP TABLE r_pair ON COMMIT DROP AS
    SELECT l.batch_id, l.line, l.feed, o.ctid AS op, o.kind, o.merchant, o.number, o.order_id, {_VERDICT} AS verdict, l.free
      FROM r_line l JOIN r_op o ON o.kind = l.kind AND o.transaction = l.transaction
"""  # noqa: S608  fixed text
_SHARED: Final = """
    CREATE TEMP TABLE r_shared ON COMMIT DROP AS
    SELECT batch_id, line FROM r_pair GROUP BY 1, 2 HAVING count(*) > 1
    UNION ALL
    SELECT p.batch_id, p.line FROM r_pair p JOIN (SELECT feed, op FROM r_pair GROUP BY 1, 2 HAVING count(*) > 1) s USING (feed, op)
"""
"""Lines that name several operations, and operations that several lines name: the function decides."""
_APART: Final = "DELETE FROM r_pair p USING r_shared s WHERE p.batch_id = s.batch_id AND p.line = s.line"
_BEFORE: Final = """
    CREATE TEMP TABLE r_taken ON COMMIT DROP AS
    SELECT f.feed, l.kind, l.transaction, r.merchant, r.number, r.order_id
      FROM r_feed f JOIN recon_results r ON r.batch_id = f.id JOIN recon_bill_lines l ON l.batch_id = r.batch_id AND l.line = r.line
     WHERE r.verdict = 'MATCHED'
"""
_TAKEN_BEFORE: Final = """
    DELETE FROM r_pair p USING r_taken t
     WHERE (p.feed, p.kind, p.merchant, p.number, p.order_id) = (t.feed, t.kind, t.merchant, t.number, t.order_id)
"""
_REST: Final = """
    CREATE TEMP TABLE r_rest ON COMMIT DROP AS
    SELECT l.* FROM r_line l WHERE NOT EXISTS (SELECT FROM r_pair p WHERE p.batch_id = l.batch_id AND p.line = l.line)
"""
_BY_NUMBER: Final = f"""
    INSERT INTO r_pair
    SELECT l.batch_id, l.line, l.feed, o.ctid, o.kind, o.merchant, o.number, o.order_id, {_VERDICT}, l.free
      FROM r_rest l JOIN r_op o ON o.kind = l.kind AND o.number = l.operation_no
     WHERE position('/' IN l.operation_no) = 0
       AND NOT EXISTS (SELECT FROM r_op x WHERE x.kind = l.kind AND x.transaction = l.transaction)
       AND NOT EXISTS (SELECT FROM (SELECT feed, kind, operation_no FROM r_rest WHERE operation_no IS NOT NULL
                                     GROUP BY 1, 2, 3 HAVING count(*) > 1) s
                        WHERE (s.feed, s.kind, s.operation_no) = (l.feed, l.kind, l.operation_no))
       AND NOT EXISTS (SELECT FROM (SELECT kind, number FROM r_op GROUP BY 1, 2 HAVING count(*) > 1) s
                        WHERE (s.kind, s.number) = (l.kind, l.operation_no))
       AND l.operation_no NOT IN (SELECT substring(x.operation_no FROM '[^/]*$') FROM r_rest x WHERE x.operation_no LIKE '%/%')
       AND NOT EXISTS (SELECT FROM r_rest x WHERE (x.feed, x.kind, x.transaction) = (l.feed, o.kind, o.transaction))
       AND NOT EXISTS (SELECT FROM r_pair p WHERE p.feed = l.feed AND p.op = o.ctid)
       AND NOT EXISTS (SELECT FROM r_taken t WHERE (t.feed, t.kind, t.merchant, t.number, t.order_id)
                                                   = (l.feed, o.kind, o.merchant, o.number, o.order_id))
"""  # noqa: S608  fixed text
_UNKNOWN: Final = """
    INSERT INTO recon_results (batch_id, line, verdict, run_id)
    SELECT l.batch_id, l.line, 'CHANNEL_ONLY', $1
      FROM r_rest l
     WHERE NOT EXISTS (SELECT FROM r_pair p WHERE p.batch_id = l.batch_id AND p.line = l.line)
       AND NOT EXISTS (SELECT FROM r_op o WHERE o.kind = l.kind AND o.transaction = l.transaction)
       AND NOT EXISTS (SELECT FROM r_op o WHERE o.kind = l.kind AND o.number = l.operation_no)
       AND coalesce(position('/' IN l.operation_no), 0) = 0
    ON CONFLICT (batch_id, line) DO UPDATE SET verdict = excluded.verdict, merchant = NULL, number = NULL, order_id = NULL,
        candidates = NULL, run_id = excluded.run_id
"""
_CLEAR: Final = "DELETE FROM recon_results r USING r_line l WHERE r.batch_id = l.batch_id AND r.line = l.line"
_KEEP: Final = """
    INSERT INTO recon_results (batch_id, line, verdict, merchant, number, order_id, run_id, fee_told)
    SELECT batch_id, line, verdict, merchant, number, order_id, $1, free FROM r_pair ORDER BY batch_id, line
"""
_LEFT: Final = """
    SELECT l.* FROM r_rest l
     WHERE NOT EXISTS (SELECT FROM r_pair p WHERE p.batch_id = l.batch_id AND p.line = l.line)
       AND NOT EXISTS (SELECT FROM recon_results r WHERE r.batch_id = l.batch_id AND r.line = l.line AND r.run_id = $1)
     ORDER BY l.source, l.account, l.business_date, l.batch, l.line
"""
_THEIRS: Final = """
    SELECT o.* FROM r_op o WHERE (o.kind, o.transaction) IN (SELECT * FROM unnest($1::text[], $2::text[]))
    UNION SELECT o.* FROM r_op o WHERE (o.kind, o.number) IN (SELECT * FROM unnest($3::text[], $4::text[]))
"""
_OTHERS: Final = """
    SELECT t.feed, t.order_id, t.merchant, t.number,
           NOT EXISTS (SELECT FROM r_op o WHERE o.kind = t.kind AND o.transaction = t.transaction) AS numbered FROM (
        SELECT p.feed, p.kind, l.transaction, p.order_id, p.merchant, p.number FROM r_pair p JOIN r_line l USING (batch_id, line)
         UNION ALL SELECT feed, kind, transaction, order_id, merchant, number FROM r_taken) t
     WHERE (t.kind, t.order_id, t.merchant, t.number) IN (SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]))
"""
_PUT: Final = """
    INSERT INTO recon_results (batch_id, line, verdict, merchant, number, order_id, candidates, run_id)
    SELECT b, l, v, m, n, o, CASE WHEN c IS NULL THEN NULL ELSE string_to_array(c, chr(31)) END, $8
      FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[]) AS t (b, l, v, m, n, o, c)
    ON CONFLICT (batch_id, line) DO UPDATE SET verdict = excluded.verdict, merchant = excluded.merchant, number = excluded.number,
        order_id = excluded.order_id, candidates = excluded.candidates, run_id = excluded.run_id
"""


async def judge(connection: Connection, channel: str, run_id: int) -> Counter[str]:
    """Compare every line of active bills of this channel that is not matched yet; how many came to which verdict. In a transaction."""
    execute = connection.execute
    await execute(_MEMORY)
    await execute(_FEEDS, channel)
    await execute(_LINES)
    await execute(_OPS, channel)
    await execute("ANALYZE r_line, r_op")
    await execute(_CLEAR)
    await execute(_BY_REFERENCE)
    await execute(_BEFORE)
    await execute("ANALYZE r_pair, r_taken")
    await execute(_SHARED)
    await execute("ANALYZE r_shared")
    await execute(_APART)
    await execute(_TAKEN_BEFORE)
    await execute(_REST)
    if await connection.fetchval("SELECT true FROM r_rest LIMIT 1"):
        await execute("ANALYZE r_rest")
        await execute(_BY_NUMBER)
        await execute(_UNKNOWN, run_id)
        await _leftovers(connection, run_id)
    await execute(_KEEP, run_id)
    await execute("ANALYZE recon_results")
    rows = await connection.fetch(
        "SELECT verdict, count(*) AS n FROM recon_results WHERE run_id = $1 GROUP BY 1", run_id
    )
    return Counter({row["verdict"]: row["n"] for row in rows})


async def _leftovers(connection: Connection, run_id: int) -> None:
    """What sets cannot decide, by the function that they are a twin of."""
    left = await connection.fetch(_LEFT, run_id)
    if not left:
        return
    by_transaction = sorted({(row["kind"], row["transaction"]) for row in left if row["transaction"]})
    by_number = sorted(
        {(row["kind"], name) for row in left if row["operation_no"] for name in _names(row["operation_no"])}
    )
    names = [[one[side] for one in names] for names in (by_transaction, by_number) for side in (0, 1)]
    ours = await connection.fetch(_THEIRS, *names)
    locals_ = Locals([local(row) for row in ours])
    taken: dict[int, dict[tuple[str, str], bool]] = {}
    theirs = [[row[name] for row in ours] for name in ("kind", "order_id", "merchant", "number")]
    for row in await connection.fetch(_OTHERS, *theirs):
        taken.setdefault(row["feed"], {})[row["order_id"], key(row["merchant"], row["number"])] = row["numbered"]
    groups: dict[int, list[Any]] = {}
    for row in left:
        groups.setdefault(row["feed"], []).append(row)
    put: list[tuple[Any, ...]] = []
    for feed, rows in groups.items():
        outcomes: dict[int, list[bills.Outcome]] = {}
        others = taken.get(feed, {})
        numbered = [name for name, by_number in others.items() if by_number]
        for outcome in bills.compare([_bill_row(row) for row in rows], locals_, others, numbered):
            outcomes.setdefault(outcome.row, []).append(outcome)
        for place, found in outcomes.items():
            one = found[0].local
            verdict = "+".join(outcome.verdict for outcome in found)
            put.append((
                rows[place]["batch_id"], rows[place]["line"], verdict, None if one is None else one.merchant or "",
                None if one is None else one.number, None if one is None else one.order_id, "\x1f".join(found[0].candidates) or None,
            ))  # fmt: skip
    await connection.execute(_PUT, *[list(column) for column in zip(*put, strict=True)], run_id)


def _names(operation_no: str) -> set[str]:
    """The number itself, and the one after a merchant."""
    return {operation_no, operation_no.rpartition("/")[2]}


def key(merchant: str, number: str) -> str:
    return f"{merchant}/{number}" if merchant else number


def local(row: Any, day: date | None = None) -> Local:
    """One of our operations, as the law's function takes it. An empty merchant is none."""
    return Local(
        key=key(row["merchant"], row["number"]),
        number=row["number"],
        order_id=row["order_id"],
        kind=row["kind"],
        amount=row["amount"],
        currency=row["currency"],
        state=row["state"],
        payment_no=row["payment_no"],
        merchant=row["merchant"] or None,
        transaction=row["transaction"],
        day=day,
    )


def _bill_row(row: Any) -> BillRow:
    return BillRow(
        line=row["line"], kind=row["kind"], amount=row["amount"], currency=row["currency"], status=row["status"],
        transaction=row["transaction"], operation_no=row["operation_no"], funds=row["funds"],
    )  # fmt: skip


async def put(
    connection: Connection, batch_id: int, outcomes: Sequence[tuple[int, bills.Outcome]], run_id: int
) -> None:
    """Write down what came of lines that were compared one by one."""
    rows = [
        (
            batch_id, line, one.verdict, None if one.local is None else one.local.merchant or "",
            None if one.local is None else one.local.number, None if one.local is None else one.local.order_id,
            "\x1f".join(one.candidates) or None,
        )
        for line, one in outcomes
    ]  # fmt: skip
    if rows:
        await connection.execute(_PUT, *[list(column) for column in zip(*rows, strict=True)], run_id)


def missed(row: Any) -> Local:
    """An operation that was missing, by its name; nothing else of it is known here."""
    return Local(
        key=key(row["merchant"], row["number"]), number=row["number"], order_id=row["order_id"], kind="PAY", amount=0, currency="",
        state="SUCCESS", payment_no=row["number"], merchant=row["merchant"] or None,
    )  # fmt: skip


# -- absence

_MISSING: Final = """
    WITH days AS (SELECT * FROM unnest($2::date[], $3::timestamptz[], $4::timestamptz[], $5::text[]) AS d (day, starts, ends, verdict)),
         unlisted AS (SELECT o.* FROM r_op o WHERE o.state = 'SUCCESS' AND NOT EXISTS (SELECT FROM r_pair p WHERE p.op = o.ctid))
    INSERT INTO recon_missing (channel, merchant, number, order_id, day, verdict, run_id)
    SELECT $1, o.merchant, o.number, o.order_id, d.day, d.verdict, $6
      FROM unlisted o JOIN days d ON o.success_at >= d.starts AND o.success_at < d.ends
     WHERE NOT EXISTS (SELECT FROM r_taken t WHERE (t.kind, t.merchant, t.number, t.order_id) = (o.kind, o.merchant, o.number, o.order_id))
       AND NOT EXISTS (SELECT FROM r_rest l JOIN recon_results r ON r.batch_id = l.batch_id AND r.line = l.line
                        WHERE (l.kind, r.merchant, r.number, r.order_id) = (o.kind, o.merchant, o.number, o.order_id))
    ON CONFLICT (channel, merchant, number, order_id) DO UPDATE SET verdict = excluded.verdict, day = excluded.day, run_id = excluded.run_id
"""
_FOUND: Final = """
    DELETE FROM recon_missing m WHERE m.channel = $1 AND m.run_id <> $2 RETURNING m.*
"""


class Day(Struct, frozen=True):
    """A business day whose complete bill was read. `verdict` is what an operation that it lacks has come to."""

    day: date
    starts: Any
    ends: Any
    verdict: str


async def absent(connection: Connection, channel: str, days: Sequence[Day], run_id: int) -> list[Any]:
    """Write down what complete bills lack; the operations that were missing before and are not any more. In the transaction of `judge`."""
    await connection.execute(
        _MISSING, channel, [one.day for one in days], [one.starts for one in days], [one.ends for one in days],
        [one.verdict for one in days], run_id,
    )  # fmt: skip
    rows: list[Any] = await connection.fetch(_FOUND, channel, run_id)
    return rows


async def complete_days(connection: Connection, channel: str) -> list[date]:
    """The business days of which a complete bill counts."""
    rows = await connection.fetch(
        "SELECT DISTINCT business_date FROM recon_batches WHERE channel = $1 AND kind = 'CHANNEL_BILL' AND state = 'active' AND complete",
        channel,
    )
    return sorted(row["business_date"] for row in rows)


# -- what is to be told

_TELL: Final = f"""
    SELECT r.batch_id, r.line, r.verdict, r.candidates, b.batch, b.channel, l.amount AS line_amount, l.currency AS line_currency,
           l.transaction AS line_transaction, l.kind AS line_kind, l.status, l.funds, l.operation_no, l.fee, o.*
      FROM recon_results r JOIN recon_batches b ON b.id = r.batch_id JOIN recon_bill_lines l ON l.batch_id = r.batch_id AND l.line = r.line
      LEFT JOIN ({_OURS}) o ON (o.kind, o.merchant, o.number, o.order_id) = (l.kind, r.merchant, r.number, r.order_id)
     WHERE b.state = 'active' AND b.channel = $1
"""  # noqa: S608  fixed text


async def findings(connection: Connection, channel: str, run_id: int) -> AsyncIterator[list[Any]]:
    """Lines of this run that are more than matched or quiet, in portions. In a transaction."""
    cursor = await connection.cursor(
        f"{_TELL} AND r.run_id = $2 AND r.verdict NOT IN ('MATCHED', 'QUIET')", channel, run_id
    )
    while rows := await cursor.fetch(PORTION):
        yield rows


async def fees(connection: Connection, channel: str) -> AsyncIterator[list[Any]]:
    """Matched lines whose fee was not told yet, in portions; told, they are marked. In a transaction."""
    cursor = await connection.cursor(f"{_TELL} AND r.verdict = 'MATCHED' AND NOT r.fee_told AND l.fee <> 0", channel)
    while rows := await cursor.fetch(PORTION):
        yield rows
        await connection.execute(
            "UPDATE recon_results r SET fee_told = true FROM unnest($1::bigint[], $2::bigint[]) AS t (b, l) "
            "WHERE r.batch_id = b AND r.line = l",
            [row["batch_id"] for row in rows],
            [row["line"] for row in rows],
        )


async def missing(connection: Connection, channel: str) -> list[Any]:
    """Operations that are LOCAL_ONLY now, as `bills` names them."""
    rows: list[Any] = await connection.fetch(
        f"SELECT m.day, o.* FROM recon_missing m JOIN ({_OURS}) o USING (merchant, number, order_id) "  # noqa: S608  fixed text
        "WHERE m.channel = $1 AND m.verdict = 'LOCAL_ONLY'",
        channel,
    )
    return rows
