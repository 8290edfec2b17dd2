"""`notifications`: what merchants are told, from the topics' records to the merchant's answer. Recorded is not delivered.

Recording moves the Kafka offsets in its own transaction. Delivering takes a lease: whoever takes a notice moves its claim and puts its
next try behind the lease, so that a deliverer that dies leaves it to the next one, and a late one settles nothing. A notice waits
while an earlier one of its payment waits. Times are UTC and passed in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from stores.schema import Connection

MOST_SEEN: Final = 1000
"""How many due notices a taker looks at, at a time."""
MOST_ERROR: Final = 200


class Notice(Struct, frozen=True, kw_only=True):
    """What is to be told. `id` is the webhook-id, for good; `body` is what is signed, as it was recorded."""

    id: str
    merchant: str
    order_id: str
    payment_no: str
    type: str
    body: str
    decided_at: datetime


class Taken(Struct, frozen=True, kw_only=True):
    """A notice that is ours to deliver until its lease ends. `failures` is how often it has failed before."""

    seq: int
    claim: int
    id: str
    merchant: str
    type: str
    body: str
    failures: int
    url: str | None
    """None: the merchant has no address any more."""
    secret_refs: tuple[str, ...]


class Dead(Struct, frozen=True, kw_only=True):
    """A notice that was given up."""

    seq: int
    id: str
    merchant: str
    order_id: str
    payment_no: str
    type: str
    retry_count: int
    last_error: str
    handled_at: datetime


# -- recording


async def positions(connection: Connection, topics: Sequence[str]) -> dict[tuple[str, int], int]:
    """The next offset of each partition that was ever recorded."""
    rows = await connection.fetch(
        "SELECT topic, partition, next_offset FROM notification_positions WHERE topic = ANY ($1)", list(topics)
    )
    return {(row["topic"], row["partition"]): row["next_offset"] for row in rows}


async def record(
    connection: Connection, notices: Sequence[Notice], moves: Mapping[tuple[str, int], tuple[int, int]], at: datetime
) -> int | None:
    """Record notices in their order and move the offsets, (topic, partition) -> (from, to), or do neither.

    Returns how many were new and for a merchant that has an address; None, and nothing is done, if another recorder came first.
    """
    async with connection.transaction():
        if not await _move(connection, moves):
            return None
        columns = zip(
            *(
                (one.id, one.merchant, one.order_id, one.payment_no, one.type, one.body, one.decided_at)
                for one in notices
            ),
            strict=True,
        )
        done = await connection.execute(_RECORD, at, *columns) if notices else "INSERT 0 0"
    return int(done.rpartition(" ")[2])


_RECORD: Final = """
INSERT INTO notifications (id, merchant, order_id, payment_no, type, body, decided_at, recorded_at, next_retry_time)
SELECT new.id, merchant, order_id, payment_no, type, body, decided_at, $1, $1
FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::timestamptz[]) WITH ORDINALITY
    AS new (id, merchant, order_id, payment_no, type, body, decided_at, place)
JOIN merchants USING (merchant)
WHERE notify_url IS NOT NULL AND NOT disabled
ORDER BY place
ON CONFLICT (id) DO NOTHING"""


async def _move(connection: Connection, moves: Mapping[tuple[str, int], tuple[int, int]]) -> bool:
    """Whoever comes second waits here for the first one's transaction, and finds that its `from` has passed."""
    places = sorted(moves)
    topics, partitions = [topic for topic, _ in places], [partition for _, partition in places]
    await connection.execute(
        "INSERT INTO notification_positions SELECT *, -1 FROM unnest($1::text[], $2::int[]) ON CONFLICT DO NOTHING",
        topics,
        partitions,
    )
    held = await connection.fetch(
        "SELECT topic, partition, next_offset FROM notification_positions JOIN unnest($1::text[], $2::int[]) AS ours (topic, partition) "
        "USING (topic, partition) ORDER BY topic, partition FOR UPDATE OF notification_positions",
        topics,
        partitions,
    )
    if any(row["next_offset"] not in (moves[row["topic"], row["partition"]][0], -1) for row in held):
        return False
    await connection.execute(
        "UPDATE notification_positions AS old SET next_offset = new.at "
        "FROM unnest($1::text[], $2::int[], $3::bigint[]) AS new (topic, partition, at) "
        "WHERE (old.topic, old.partition) = (new.topic, new.partition)",
        topics,
        partitions,
        [moves[place][1] for place in places],
    )
    return True


# -- delivering


async def take(
    connection: Connection, at: datetime, until: datetime, most: int, *, each: int, without: Collection[str] = ()
) -> list[Taken]:
    """Take at most `most` due notices, and at most `each` of one merchant, until the lease ends; none of the merchants `without`."""
    rows = await connection.fetch(_TAKE, at, until, most, each, list(without), MOST_SEEN)
    found = [Taken(**{**row, "secret_refs": tuple(row["secret_refs"])}) for row in rows]
    return sorted(found, key=lambda one: one.seq)


_TAKE: Final = """
WITH due AS (
    SELECT seq, merchant, next_retry_time FROM notifications AS one
    WHERE handle_status = 'waiting' AND next_retry_time <= $1 AND merchant <> ALL ($5::text[])
      AND NOT EXISTS (
        SELECT FROM notifications AS before
        WHERE (before.merchant, before.payment_no, before.order_id) = (one.merchant, one.payment_no, one.order_id)
          AND before.seq < one.seq AND before.handle_status = 'waiting'
      )
    ORDER BY next_retry_time, seq LIMIT $6
), ours AS (
    SELECT seq FROM notifications WHERE seq IN (
        SELECT seq FROM (SELECT *, row_number() OVER (PARTITION BY merchant ORDER BY next_retry_time, seq) AS place FROM due) AS ranked
        WHERE place <= $4 ORDER BY next_retry_time, seq LIMIT $3
    ) AND handle_status = 'waiting' AND next_retry_time <= $1
    FOR UPDATE SKIP LOCKED
)
UPDATE notifications AS taken SET claim = taken.claim + 1, next_retry_time = $2
FROM ours, merchants
WHERE taken.seq = ours.seq AND merchants.merchant = taken.merchant
RETURNING taken.seq, claim, id, taken.merchant, type, body, retry_count AS failures,
    CASE WHEN NOT disabled THEN notify_url END AS url, notify_secret_refs AS secret_refs"""


async def delivered(connection: Connection, taken: Taken, at: datetime) -> bool:
    """The merchant has acknowledged it. False: its lease had ended, and another has taken it."""
    done = await connection.execute(
        "UPDATE notifications SET handle_status = 'delivered', handled_at = $3, next_retry_time = NULL, last_error = '' "
        "WHERE seq = $1 AND claim = $2 AND handle_status = 'waiting'",
        taken.seq,
        taken.claim,
        at,
    )
    return bool(done == "UPDATE 1")


async def failed(connection: Connection, taken: Taken, error: str, at: datetime, again_at: datetime | None) -> bool:
    """It was not acknowledged. `again_at` None: it is given up, as a dead letter whose discrepancy is still to be sent."""
    done = await connection.execute(
        "UPDATE notifications SET retry_count = retry_count + 1, last_error = $3, next_retry_time = $5, "
        "handle_status = CASE WHEN $5::timestamptz IS NULL THEN 'dead' ELSE 'waiting' END, "
        "handled_at = CASE WHEN $5::timestamptz IS NULL THEN $4::timestamptz END, found = $5::timestamptz IS NOT NULL "
        "WHERE seq = $1 AND claim = $2 AND handle_status = 'waiting'",
        taken.seq,
        taken.claim,
        error[:MOST_ERROR],
        at,
        again_at,
    )
    return bool(done == "UPDATE 1")


# -- what was given up


async def unfound(connection: Connection, most: int = 100) -> list[Dead]:
    """Dead notices whose discrepancy is still to be sent."""
    return [Dead(**row) for row in await connection.fetch(f"{_DEAD} NOT found ORDER BY seq LIMIT $1", most)]


async def found(connection: Connection, sequences: Sequence[int]) -> None:
    """Their discrepancies are stored in Kafka."""
    await connection.execute("UPDATE notifications SET found = true WHERE seq = ANY ($1)", list(sequences))


async def dead(connection: Connection, most: int = 100) -> list[Dead]:
    """The dead letters, the last first."""
    rows = await connection.fetch(f"{_DEAD} handle_status = 'dead' ORDER BY handled_at DESC, seq DESC LIMIT $1", most)
    return [Dead(**row) for row in rows]


_DEAD: Final = (
    "SELECT seq, id, merchant, order_id, payment_no, type, retry_count, last_error, handled_at FROM notifications WHERE"
)


async def again(connection: Connection, webhook_id: str, at: datetime) -> bool:
    """Deliver a dead one after all, from the beginning of the series; False if it is not dead."""
    done = await connection.execute(
        "UPDATE notifications SET handle_status = 'waiting', retry_count = 0, next_retry_time = $2, handled_at = NULL, found = true "
        "WHERE id = $1 AND handle_status = 'dead'",
        webhook_id,
        at,
    )
    return bool(done == "UPDATE 1")


# -- addresses


async def set_address(connection: Connection, merchant: str, url: str | None, secret_refs: Sequence[str]) -> bool:
    """Where a merchant is told, and where the secrets lie that sign it; None: nowhere. False if there is no such merchant."""
    done = await connection.execute(
        "UPDATE merchants SET notify_url = $2, notify_secret_refs = $3 WHERE merchant = $1",
        merchant,
        url,
        list(secret_refs),
    )
    return bool(done == "UPDATE 1")
