"""Where a scenario is played: its topics on the broker, its clock, its instances, and what of its input was handled.

The inputs are created with CreateTime instead of LogAppendTime, for these runs only: a record's time is the scenario's own `recv_time`,
which no broker could stamp, and the workers' wall clock is the scenario's.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import signal
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from streams import codec
from streams.domain.order import due
from streams.engine.moving import MOVED
from tests.faults import oracle
from tests.faults.case_worker import CaseSpec, Told, names
from tests.faults.chaos import lines
from tests.faults.crew import Crew, Member
from tests.faults.oracle import POSITION, Facts, Row

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable
    from pathlib import Path

PARTITIONS: Final = 4
WITHIN_S: Final = 40.0
GOOD_ENDS: Final = frozenset({None, 0, 3, -9})
"""Running, drained, fenced, killed."""


class Late(Exception):  # noqa: N818  a verdict
    """Something that must happen did not, in time."""


async def until(condition: Callable[[], Any], what: str, seconds: float = WITHIN_S) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise Late(f"not within {seconds:.0f} s: {what}")
        await asyncio.sleep(0.05)


class Stage:
    """One scenario's part of a broker, and the workers on it. `facts` says what went wrong."""

    def __init__(self, given: dict[str, Any], bootstrap: str, folder: Path) -> None:
        self.given = given
        self.bootstrap = bootstrap
        self.folder = folder
        self.prefix = f"c{secrets.token_hex(4)}"
        self.partitions = PARTITIONS
        self.topics = names(self.prefix, PARTITIONS)
        self.inputs = self.topics.inputs
        self.own = (self.topics.changelog, *self.topics.outputs, self.topics.dead_letters)
        self.facts = Facts()
        self.crew = Crew(folder, random.Random(self.prefix), self.say)
        self.members: dict[int, Member] = {}
        self.lives: dict[str, int] = {}
        """Where in an instance's log its present life begins."""
        self.places: dict[str, dict[str, Any]] = {}
        """Where each record lies -> the line it was made of."""
        self.seen: set[str] = set()
        self.moved: dict[str, str] = {}
        """Where a record lay that was in the wrong partition -> where it lies now."""
        self.producers: list[AIOKafkaProducer] = []

    def say(self, what: str) -> None:
        with (self.folder / "driver.log").open("a") as log:
            log.write(f"{time.monotonic():9.1f} {what}\n")

    @asynccontextmanager
    async def broker(self) -> AsyncIterator[None]:
        """Topics, clock, producers, and a reader of what was handled."""
        own = {"message.timestamp.type": "CreateTime", "retention.ms": "-1"}
        made = [
            NewTopic(one.topic, PARTITIONS, 1, topic_configs=one.config() | (own if one.direction == "input" else {}))
            for one in self.topics.all
        ]
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        await admin.start()
        refused = [error for error in (await admin.create_topics(made, timeout_ms=20_000)).topic_errors if error[1]]
        await admin.close()
        if refused:
            raise RuntimeError(f"topics of {self.prefix} could not be created: {refused}")
        watching = asyncio.create_task(self.watch())
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            for producer in self.producers:
                await producer.stop()

    async def watch(self) -> None:
        """Keep `seen` up to date: the places of inputs that a committed decision or dead letter answers."""
        logs = [
            TopicPartition(topic, n)
            for topic in (self.topics["decisions"], self.topics.dead_letters, *self.inputs)
            for n in range(PARTITIONS)
        ]
        client = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
        )
        await client.start()
        try:
            client.assign(logs)
            while True:
                for records in (await client.getmany(timeout_ms=200)).values():
                    for record in records:
                        about = {name: value.decode(errors="replace") for name, value in record.headers}
                        if record.topic in self.inputs:
                            if MOVED in about:
                                self.moved[about[MOVED]] = f"{record.topic}/{record.partition}/{record.offset}"
                            continue
                        dead = [about.get(f"dead-{name}", "") for name in ("topic", "partition", "offset")]
                        self.seen.add("/".join(dead) if dead[0] else about.get("cause", ""))
        finally:
            await client.stop()

    def wind(self, at: int) -> None:
        draft = self.folder / "clock.draft"
        draft.write_text(str(at))
        draft.replace(self.folder / "clock")

    async def producer(self, number: int) -> AIOKafkaProducer:
        while len(self.producers) <= number:
            self.producers.append(AIOKafkaProducer(bootstrap_servers=self.bootstrap, enable_idempotence=True))
            await self.producers[-1].start()
        return self.producers[number]

    # ------------------------------------------------------------------ instances

    def spec(self, instance: int) -> CaseSpec:
        return CaseSpec(
            name=f"w{instance}", bootstrap=self.bootstrap, prefix=self.prefix, partitions=PARTITIONS,
            folder=str(self.folder), given=self.given,
        )  # fmt: skip

    def awake(self) -> list[Member]:
        return [member for member in self.members.values() if member.running and not member.suspended]

    async def up(self, instance: int) -> Member:
        """Start an instance, if it does not run."""
        member = self.members.get(instance)
        if member is None:
            spec = self.spec(instance)
            member = self.members[instance] = Member(
                spec, self.folder / f"{spec.name}.log", module="tests.faults.case_worker"
            )
            self.crew.members.append(member)
        if not member.running:
            self.say(f"{member.name} starts")
            self.lives[member.name] = len(member.log())
            member.start()
        return member

    async def owns_all(self, member: Member) -> None:
        """Wait until the instance has opened every partition in its present life."""

        await until(lambda: self.opened(member) >= set(range(PARTITIONS)), f"{member.name} has every partition")

    def opened(self, member: Member) -> set[int]:
        life = member.log()[self.lives[member.name] :]
        return {line["partition"] for line in lines(life) if line.get("event") == "opened"}

    async def drain(self, members: Iterable[Member]) -> None:
        for member in members:
            self.say(f"{member.name} drains")
            member.signal(signal.SIGTERM)
        for member in members:
            await until(lambda one=member: not one.running, f"{member.name} ends after SIGTERM")

    async def tell(self, member: Member, told: Told) -> None:
        file = self.folder / f"{member.name}.told"
        draft = file.with_suffix(".draft")
        draft.write_bytes(msgspec.json.encode(told))
        draft.replace(file)
        await until(lambda: not file.exists(), f"{member.name} takes what it is told: {told.what or 'rows'}")

    def wake(self, member: Member) -> None:
        if member.suspended:
            self.say(f"{member.name} wakes")
            member.signal(signal.SIGCONT)

    # ------------------------------------------------------------------ what was handled

    async def handled(self, seconds: float = WITHIN_S, *, but: Iterable[str] = (), must: bool = True) -> None:
        """Wait until everything that was sent is decided or buried."""
        missing = lambda: {self.moved.get(place, place) for place in self.places} - self.seen - set(but)  # noqa: E731
        try:
            await until(lambda: not missing(), "every input is handled", seconds)
        except Late as late:
            if must:
                raise Late(f"{late}; missing are {sorted(missing())[:3]}") from late

    async def rows(self) -> dict[str, bytes]:
        """The stored orders."""
        found = (await oracle.read(self.bootstrap, [self.topics.changelog], PARTITIONS))[self.topics.changelog]
        last = {(row.key or b"").decode(): row.value for row in found if row.key != POSITION}
        return {name: value for name, value in last.items() if value}

    async def overdue(self, at: int) -> bool:
        """Whether something that is due at that time has not fired."""
        moments = [due(codec.load(row)) for row in (await self.rows()).values()]
        return any(moment is not None and moment <= at for moment in moments)

    async def read(self) -> dict[str, list[Row]]:
        return await oracle.read(self.bootstrap, self.own, PARTITIONS)

    async def restart_once_more(self) -> None:
        """A further restart delivers nothing again, and the group has no lag."""
        await self.drain([member for member in self.members.values() if member.running])
        before = await self.read()
        fresh = await self.up(max(self.members) + 1)
        await self.owns_all(fresh)
        await self.drain([fresh])
        after = await self.read()
        for topic, rows in after.items():
            if more := rows[len(before[topic]) :]:
                self.facts.say(f"a restart wrote to {topic} again", more)
        if behind := await oracle.lag(self.bootstrap, self):
            self.facts.say(f"the group lag is {behind}, not 0")

    async def judge(self) -> dict[str, list[Row]]:
        """No output of a fenced instance, none twice, no worker that ended in another way than it may. Returns the own logs."""
        logs = await self.read()
        oracle.check_sessions(self.facts, {topic: logs[topic] for topic in self.own})
        for topic in self.topics.outputs:
            ids = [row.headers["ce_id"] for row in logs[topic]]
            if len(set(ids)) < len(ids):
                self.facts.say(f"{topic} holds an output twice")
        for member in self.members.values():
            code = None if member.process is None else member.process.poll()
            if code not in GOOD_ENDS:
                self.facts.say(f"{member.name} ended with {code}")
        return logs
