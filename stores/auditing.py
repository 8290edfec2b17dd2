"""The books checked against themselves, by questions that must have no answer (R-180). Nothing is repaired.

Each check is one statement that finds what breaks it: where, and how. They do not use what the projector used to write the rows:
a fact is looked for in the decisions, in the entries and in what was said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stores.schema import Connection

SHOWN: Final = 20


class Check(NamedTuple):
    """`sql` gives rows of (place, what)."""

    name: str
    sql: str


class Broken(NamedTuple):
    """One thing that breaks a check."""

    check: str
    place: str
    what: str


_STANDING: Final = """
standing AS (
    SELECT one.*, CASE merchant WHEN '' THEN number ELSE merchant || '/' || number END AS key,
           replace(replace(order_id, '%', '%25'), '/', '%2F') || '/'
           || CASE merchant WHEN '' THEN '' ELSE replace(replace(merchant, '%', '%25'), '/', '%2F') || '/' END
           || replace(replace(number, '%', '%25'), '/', '%2F') AS scope
      FROM (
        SELECT merchant, payment_no AS number, payment_no, order_id, 'PAY' AS kind, state, amount, announced FROM payments
        UNION ALL SELECT merchant, number, payment_no, order_id, kind, state, amount, false FROM operations
    ) one
),
said AS (SELECT order_id, seq, source, evidence, event_key, payload, unnest(messages) AS message FROM decisions)
"""
"""What stands where checks say `@standing`: every operation, its key in the ledger, and the segments that name it in an id, as the law
writes both; and every message with the decision that caused it."""

CHECKS: Final = (
    Check(
        "one success fact for each announced payment",
        """WITH @standing, facts AS (
            SELECT message, count(*) AS times FROM said WHERE message LIKE 'success/%' GROUP BY message
        )
        SELECT coalesce(facts.message, 'success/' || scope), format('announced %s, facts %s', announced, coalesce(times, 0))
          FROM (SELECT * FROM standing WHERE announced) paid FULL JOIN facts ON facts.message = 'success/' || scope
         WHERE coalesce(times, 0) <> 1 OR announced IS NOT TRUE""",
    ),
    Check(
        "a paid payment is announced, a duplicate, or a leg",
        """SELECT order_id || ' ' || payment_no, 'SUCCESS, and none of them' FROM payments p
         WHERE state = 'SUCCESS' AND NOT announced AND NOT duplicate AND order_total IS NULL
           AND NOT EXISTS (SELECT FROM payments other WHERE other.announced
               AND (other.order_id, other.merchant, other.biz_code) = (p.order_id, p.merchant, p.biz_code))""",
    ),
    Check(
        "debits equal credits in every entry",
        """SELECT format('%s/%s/%s', order_id, seq, line), format('%s postings, sum %s', count(account), coalesce(sum(amount), 0))
          FROM ledger_entries LEFT JOIN postings USING (order_id, seq, line) GROUP BY order_id, seq, line
        HAVING coalesce(sum(amount), 0) <> 0 OR count(account) < 2""",
    ),
    Check(
        "debits equal credits in every currency",
        """SELECT currency, 'sum ' || sum(balance) FROM balances GROUP BY currency HAVING sum(balance) <> 0""",
    ),
    Check(
        "what was captured is what the entries say",
        """WITH @standing, posted AS (
            SELECT order_id, ref, -sum(amount) AS amount FROM ledger_entries JOIN postings USING (order_id, seq, line)
             WHERE account = 'order_clearing' GROUP BY order_id, ref
        )
        SELECT p.order_id || ' ' || p.payment_no, format('captured %s, posted %s', p.captured, sum(coalesce(posted.amount, 0)))
          FROM payments p
          JOIN standing s ON (s.order_id, s.merchant, s.payment_no) = (p.order_id, p.merchant, p.payment_no)
                         AND s.kind IN ('PAY', 'CAPTURE')
          LEFT JOIN posted ON (posted.order_id, posted.ref) = (s.order_id, s.key)
         WHERE p.state = 'SUCCESS' AND NOT p.duplicate AND NOT p.fulfilled
         GROUP BY p.order_id, p.merchant, p.payment_no, p.captured HAVING p.captured <> sum(coalesce(posted.amount, 0))""",
    ),
    Check(
        "what was refunded is what the entries say",
        """WITH @standing, posted AS (
            SELECT order_id, ref, -sum(amount) AS amount FROM ledger_entries JOIN postings USING (order_id, seq, line)
             WHERE account LIKE 'chan\\_recv:%' GROUP BY order_id, ref
        )
        SELECT s.order_id || ' ' || s.number, format('%s of %s, posted %s', s.state, s.amount, coalesce(posted.amount, 0))
          FROM standing s LEFT JOIN posted ON (posted.order_id, posted.ref) = (s.order_id, s.key)
         WHERE s.kind = 'REFUND'
           AND coalesce(posted.amount, 0) <> CASE WHEN s.state IN ('SUCCESS', 'RETURNED') THEN s.amount ELSE 0 END""",
    ),
    Check(
        "every state was entered by one decision, which names its witness",
        """WITH @standing, entered AS (
            SELECT message, count(*) AS times, bool_and(said.evidence <> '' AND (
                       said.source IN ('command', 'timer', 'person')
                       OR EXISTS (SELECT FROM inbox WHERE inbox.order_id = said.order_id AND inbox.payload_hash = said.payload
                                     AND said.event_key IN ('', inbox.event_key)))) AS witnessed
              FROM said WHERE message LIKE 'update/%' GROUP BY message
        )
        SELECT s.order_id || ' ' || s.number,
               format('%s: entered %s times%s', s.state, coalesce(times, 0), CASE WHEN witnessed THEN '' ELSE ', without a witness' END)
          FROM standing s LEFT JOIN entered ON entered.message = 'update/' || s.scope || '/' || s.state
         WHERE coalesce(times, 0) <> 1 OR NOT witnessed""",
    ),
    Check(
        "no decision of an order is missing",
        """SELECT order_id, format('decisions %s, last %s, said to be %s', count(decisions.seq), max(decisions.seq), orders.seq)
          FROM orders LEFT JOIN decisions USING (order_id) GROUP BY order_id, orders.seq
        HAVING max(decisions.seq) IS DISTINCT FROM orders.seq OR count(decisions.seq) <> orders.seq - min(decisions.seq) + 1""",
    ),
    Check(
        "a discrepancy stands as its last step says",
        """SELECT d.id, format('%s %s, its last step %s %s', d.revision, d.status, last.revision, last.status)
          FROM discrepancies d FULL JOIN (
            SELECT DISTINCT ON (id) id, revision, status FROM discrepancy_steps ORDER BY id, revision DESC
          ) last USING (id)
         WHERE (d.revision, d.status) IS DISTINCT FROM (last.revision, last.status)""",
    ),
)  # fmt: skip


async def themselves(connection: Connection) -> tuple[list[Broken], int]:
    """What breaks the checks, the first of each, and how many there are in all. The caller holds the snapshot."""
    found: list[Broken] = []
    number = 0
    for check in CHECKS:
        rows = await connection.fetch(check.sql.replace("@standing", _STANDING))
        number += len(rows)
        found += [Broken(check.name, row[0], row[1]) for row in rows[:SHOWN]]
    return found, number


# -- what the state topic is compared with

_ORDERS: Final = "SELECT order_id, seq FROM orders WHERE order_id = ANY($1::text[])"
_PAYMENTS: Final = """
SELECT order_id, merchant, payment_no AS number, 'PAY' AS kind, state, amount, currency, channel, transaction, evidence, success_at,
       fee, announced, attempts, queries, captured, held, returned, disputed, duplicate, fulfilled
  FROM payments WHERE order_id = ANY($1::text[])
"""
_OPERATIONS: Final = """
SELECT o.order_id, o.merchant, o.number, o.kind, o.state, o.amount, o.currency, o.channel, o.transaction, o.evidence, o.success_at,
       o.attempts, o.queries, r.merchant_status, r.processor_status, r.card_status
  FROM operations o LEFT JOIN refunds r ON (r.merchant, r.refund_no, r.order_id) = (o.merchant, o.number, o.order_id)
 WHERE o.order_id = ANY($1::text[])
"""
_HEADS: Final = "SELECT order_id, id, revision, status FROM discrepancies WHERE order_id = ANY($1::text[])"


class Kept(NamedTuple):
    """What the books hold of some orders: the last decision, operations by (order, merchant, number), discrepancies by id."""

    seq: dict[str, int]
    operations: dict[tuple[str, str, str], dict[str, Any]]
    discrepancies: dict[str, tuple[int, bool]]


async def kept(connection: Connection, order_ids: Sequence[str]) -> Kept:
    """As of one moment."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        seq = dict(await connection.fetch(_ORDERS, order_ids))
        rows = [dict(row) for sql in (_PAYMENTS, _OPERATIONS) for row in await connection.fetch(sql, order_ids)]
        heads = await connection.fetch(_HEADS, order_ids)
    return Kept(
        seq,
        {(row.pop("order_id"), row.pop("merchant"), row.pop("number")): row for row in rows},
        {row["id"]: (row["revision"], row["status"] != "resolved") for row in heads},
    )


async def all_orders(connection: Connection) -> set[str]:
    """Every order of the books."""
    return {row[0] for row in await connection.fetch("SELECT order_id FROM orders")}
