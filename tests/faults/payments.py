"""The payment job as the subject of a fault run, and its judge.

The judge reads every topic as a consumer would. `streams/proof.py` decides everything again and compares byte for byte; what it shares
with the workers is the law. So the main promises are also read from the inputs alone: one announcement for each payment whose channel
said success (R-139), a second charge never silent, and poison kept as it came.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import msgspec
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from streams import codec, proof
from streams.agents import payments
from streams.domain.moment import parsed
from streams.domain.order import due
from streams.engine.config import Config
from streams.topics import Topics, partition_of
from tests.faults import oracle
from tests.faults.oracle import POSITION, Facts, Row, Stalled
from tests.support.toy import COMPACTED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from streams.engine.topology import Topology

MOST_SHOWN: Final = 10


@dataclass(frozen=True, kw_only=True)
class Payments:
    """Names and settings of one payment job under faults; its topics, group and transactional ids begin with `prefix`."""

    prefix: str
    partitions: int = 4
    due_ms: int = 4000

    @cached_property
    def topics(self) -> Topics:
        return Topics.load(prefix=f"{self.prefix}-", partitions=self.partitions)

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.topics.inputs

    @property
    def own(self) -> tuple[str, ...]:
        """The topics that only the engine writes."""
        return self.topics.changelog, *self.topics.outputs, self.topics.dead_letters

    def topology(self) -> Topology[Any, Any, Any]:
        return payments.topology(self.topics, self.prefix)

    async def create(
        self,
        bootstrap: str,
        *,
        replication: int = 1,
        compaction: Mapping[str, str] = COMPACTED,
        more: Sequence[str] = (),
    ) -> None:
        """Create its topics as the list has them, but for the compaction of the changelog, and `more` of them beside."""
        listed = Topics.load(prefix=f"{self.prefix}-", partitions=self.partitions, replication=replication).all
        made = [
            NewTopic(
                topic.topic, self.partitions, replication,
                topic_configs=topic.config() | (dict(compaction) if topic.direction == "changelog" else {}),
            )
            for topic in listed
        ]  # fmt: skip
        made += [NewTopic(f"{self.prefix}-{suffix}", self.partitions, replication) for suffix in more]
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            answer = await admin.create_topics(made, timeout_ms=20_000)
        finally:
            await admin.close()
        if refused := [error for error in answer.topic_errors if error[1]]:
            raise RuntimeError(f"topics of {self.prefix} could not be created: {refused}")


async def overdue(bootstrap: str, job: Payments) -> int:
    """Orders whose committed state has a due time that is over."""
    rows = (await oracle.read(bootstrap, [job.topics.changelog], job.partitions))[job.topics.changelog]
    last = {row.key: row.value for row in rows if row.key != POSITION}
    moments = [due(codec.load(value)) for value in last.values() if value]
    return sum(moment is not None and moment <= time.time() * 1000 for moment in moments)


async def judge(bootstrap: str, job: Payments, stored: Mapping[str, int]) -> Facts:
    """Everything that must hold once the run has come to rest. `stored` are the places of acknowledged input, and when it was."""
    facts = Facts()
    try:
        logs = await oracle.read(bootstrap, [*job.inputs, *job.own], job.partitions)
    except Stalled as stalled:
        facts.say(str(stalled))
        return facts
    places = {f"{topic}/{row.partition}/{row.offset}": row for topic in job.inputs for row in logs[topic]}
    if lost := set(stored) - set(places):
        facts.say("the broker lost acknowledged input", sorted(lost))
    oracle.check_sessions(facts, {topic: logs[topic] for topic in job.own})
    check_dead_letters(facts, places, logs[job.topics.dead_letters])
    check_announcements(facts, job.topics, logs, stored)
    await check_proof(facts, bootstrap, job)
    if behind := await oracle.lag(bootstrap, job):
        facts.say(f"the group lag is {behind}, not 0")
    return facts


async def check_proof(facts: Facts, bootstrap: str, job: Payments) -> None:
    """Every input once, every state and every output byte for byte."""
    config = Config(kafka={"bootstrap_servers": bootstrap})
    proved = await proof.prove(job.topology(), config, job.partitions, job.topics["decisions"])
    facts.numbers.update(
        inputs=proved.inputs, decided=proved.handled, dead=proved.dead, timers=proved.timers, orders=proved.orders,
        outputs=sum(proved.outputs.values()),
    )  # fmt: skip
    for wrong in proved.wrong[:MOST_SHOWN]:
        facts.say(wrong)


def check_dead_letters(facts: Facts, places: Mapping[str, Row], rows: Iterable[Row]) -> None:
    """Byte for byte what came in; that each is there once is the proof's business."""
    for row in rows:
        place = "/".join(row.headers[name].decode() for name in ("dead-topic", "dead-partition", "dead-offset"))
        if place in places and places[place].value != row.value:
            facts.say(f"the dead letter of {place} has other bytes")


class Heard:
    """What the inputs say about one order, read without the law."""

    def __init__(self) -> None:
        self.price: tuple[Any, Any] | None = None
        self.expires: int | None = None
        self.started: int | None = None
        """When a broker stored the start: without one, or past the expiry, the channel is never asked."""
        self.acknowledged: int | None = None
        """When all that must have it did. In between nobody can read it, and an expiry may be met first."""
        self.words: dict[str, dict[str, Any]] = {}
        """The channel's notices, each as it was first said, in the order of the topic."""
        self.answers: list[dict[str, Any]] = []

    def take(self, fields: dict[str, Any], timestamp: int, acknowledged: int | None) -> None:
        kind = fields.get("type")
        if kind == "create_payment":
            self.price = self.price or (fields["amount"], fields["currency"])
            self.expires = parsed(fields.get("expires_at") or "")
        elif kind == "start_payment":
            if self.started is None:
                self.started, self.acknowledged = timestamp, acknowledged
        elif kind == "callback":
            self.words.setdefault(fields["event_id"], fields)
        elif kind == "answer" and fields["request"] == "query":
            self.answers.append(fields)

    def right(self, fields: Mapping[str, Any]) -> bool:
        return fields["status"] == "SUCCESS" and (fields.get("amount"), fields.get("currency")) == self.price

    @property
    def held(self) -> bool:
        """A hold becomes a success by its capture, for which our side may have asked too early."""
        return any(word["status"] == "AUTHORIZED" for word in self.words.values())

    @property
    def charges(self) -> set[str]:
        """The channel's transactions that took the right money."""
        return {word["transaction"] for word in (*self.words.values(), *self.answers) if self.right(word)}

    @property
    def asked(self) -> set[bool]:
        """Whether our side asked the channel at all; both, where the start came to be readable after the expiry only."""
        if self.started is None or (self.expires is not None and self.started >= self.expires):
            return {False}
        if self.expires is None or (self.acknowledged is not None and self.acknowledged < self.expires):
            return {True}
        return {True, False}

    @property
    def paid(self) -> bool:
        """Whether the channel, if it was asked, says success."""
        final = [word for word in self.words.values() if word["status"] == "FAILED" or self.right(word)]
        return self.right(final[0]) if final else bool(self.charges)

    @property
    def announcements(self) -> set[int]:
        return {0, 1} if self.held else {int(asked and self.paid) for asked in self.asked}


def check_announcements(facts: Facts, topics: Topics, logs: Mapping[str, list[Row]], stored: Mapping[str, int]) -> None:
    """One announcement for each payment whose channel said success, none for another; a second charge is in the open.

    What lies in another partition than its order's is only a copy, or was moved, and was said first where the order lives.
    """
    orders: dict[str, Heard] = defaultdict(Heard)
    for topic in topics.inputs:
        for row in logs[topic]:
            if (fields := readable(row)) is not None and row.partition == partition_of(
                row.key or b"", topics.partitions
            ):
                place = f"{topic}/{row.partition}/{row.offset}"
                orders[fields["order_id"]].take(fields, row.timestamp, stored.get(place))
    announced = Counter((row.key or b"").decode() for row in logs[topics["success"]])
    opened = defaultdict(set)
    for row in logs[topics["discrepancies"]]:
        found = msgspec.json.decode(row.value or b"{}")
        opened[found["kind"]].add(found["order_id"])
    doubled, late = opened["DUPLICATE_PAYMENT"], opened["LATE_SUCCESS"]
    for name, heard in orders.items():
        if announced[name] not in heard.announcements:
            facts.say(f"{name}: announced {announced[name]} times, its channel makes it {heard.announcements}")
        if announced[name] and len(heard.charges) > 1 and name not in doubled | late:
            facts.say(f"{name}: charged by {sorted(heard.charges)}, and no discrepancy says so")
    if strangers := sorted(announced.keys() - orders.keys()):
        facts.say("announced, and nobody ever asked for it", strangers)
    facts.numbers.update(announced=sum(announced.values()), doubled=len(doubled))


def readable(row: Row) -> dict[str, Any] | None:
    """The fields of an event under its own order's key; nothing for poison."""
    try:
        fields = msgspec.json.decode(row.value or b"")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    is_event = isinstance(fields, dict) and row.key == str(fields.get("order_id")).encode()
    return fields if is_event else None
