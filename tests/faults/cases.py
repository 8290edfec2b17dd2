"""Scenarios with faults, on a real broker, with real worker processes that are killed, suspended, moved and told to fail.

    python -m tests.faults.cases FILE.jsonl [ID …]

Long times are cut to a few seconds, and partition numbers are taken modulo four. `given` states are written by the first worker, through
the product's codec and in the engine's own transaction. Beside what a scenario expects, always: the group has no lag, a further restart
delivers nothing again, no output of a fenced instance is visible.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition

from streams import codec
from streams.dev.kafka import KafkaCluster
from streams.replay import given, mapping
from tests.faults.case_worker import SLOW, Told
from tests.faults.chaos import FOLDER, fresh
from tests.faults.crew import Crew
from tests.faults.oracle import POSITION
from tests.faults.shadow import Sent, Shadow, outcome
from tests.faults.stage import PARTITIONS, WITHIN_S, Late, Stage, until
from tests.support.expectations import differences

if TYPE_CHECKING:
    from collections.abc import Sequence

LONGEST_S: Final = 3.0
"""Of a delay; longer ones are cut to it."""
NOTICE_S: Final = 4.0
"""How long a woken instance is given to do harm."""
POINTS: Final = {
    "AFTER_OUTPUT_BEFORE_COMMIT": ("acked", "kill"),
    "AFTER_STATE_BEFORE_OUTPUT": ("begun", "die_after_the_rows"),
}


class Case(Stage):
    """One scenario being played. `outcome` is what came of it, under the keys of a replay."""

    def __init__(self, scenario: dict[str, Any], bootstrap: str, folder: Path) -> None:
        super().__init__(scenario.get("given") or {}, bootstrap, folder)
        self.shadow = Shadow(self.given, scenario["events"])
        self.slow: dict[int, float] = {}
        """Offsets, as the scenario counts them, of records whose handling takes so many seconds."""
        self.delayed: set[str] = set()
        """Where they lie."""
        self.held: list[Sequence[Sent]] = []
        """Records of equal lines that wait for one another, until so many are there."""
        self.wanted = 0
        self.outcome: dict[str, Any] = {}

    async def play(self) -> Case:
        async with self.broker():
            try:
                self.wind(given.instant(self.shadow.given.now, "given.now"))
                await self.up(1)
                await self.begin()
                for number in range(len(self.shadow.events)):
                    await self.line(number)
                await self.settle()
                await self.restart_once_more()
                self.outcome = outcome(self.shadow, self.given, self.topics, await self.judge(), POSITION)
            except Late as late:
                self.facts.say(str(late))
            finally:
                self.crew.abandon()
        return self

    async def begin(self) -> None:
        """The given orders, written as the engine writes its own."""
        rows = {name: codec.dump(order) for name, order in self.shadow.orders.items()}
        if rows:
            await self.owns_all(self.members[1])
            await self.tell(self.members[1], Told(rows=(rows,)))

    async def settle(self) -> None:
        """Everybody awake, everything handled, everything fired that is due by the scenario's clock."""
        for member in self.members.values():
            self.wake(member)
        if not self.awake():
            await self.up(1)
        await self.handled()
        deadline = time.monotonic() + WITHIN_S
        while await self.overdue(self.shadow.at):
            if time.monotonic() > deadline:
                raise Late("due times have not fired")
            await asyncio.sleep(0.2)

    # ------------------------------------------------------------------ lines

    async def line(self, number: int) -> None:
        event = self.shadow.events[number]
        at = given.instant(event["recv_time"], "recv_time")
        following = self.shadow.events[number + 1] if number + 1 < len(self.shadow.events) else {}
        records = self.shadow.next(number)
        self.wind(at)
        if event["type"] == "FAULT":
            self.say(f"{event['fault']} {event}")
            await getattr(self, event["fault"].lower())(event)
            await self.produce(records, event, at)
            return None
        is_cut_short = await self.arm(following)
        if self.parallel_with(number):
            return await self.together(records, event, at)
        await self.produce(records, event, at)
        if is_cut_short:
            await until(lambda: len(self.awake()) < is_cut_short, f"a worker falls at {following}")
            if not any('"told"' in member.log() for member in self.members.values()):
                self.facts.say(f"a worker fell, but not at {following}")
        elif self.awake() and not self.slow_at_work():
            await self.handled()
        return None

    async def arm(self, following: dict[str, Any]) -> int:
        """If the next fault strikes in the middle of this record: tell every worker. Returns how many are awake."""
        if following.get("fault") == "KILL" and "at" in following:
            step, what = POINTS[following["at"]]
        elif following.get("fault") == "REBALANCE" and following.get("before_commit"):
            step, what = "acked", "sleep"
        else:
            return 0
        if not self.awake():
            await self.up(1)
        for member in self.awake():
            await self.tell(member, Told(step=step, what=what))
        return len(self.awake())

    async def produce(self, records: Sequence[Sent], event: dict[str, Any], at: int, producer: int = 0) -> None:
        """In order; each line's own partition stands, where it names one."""
        headers = []
        if (delay := self.slow.pop(event.get("offset", -1), None)) is not None:
            headers = [(SLOW, str(delay).encode())]
        for record in records:
            partition = (
                event["partition"] % PARTITIONS if "partition" in event and event["type"] != "RAW_RECORD" else None
            )
            partition = 0 if record.key is None else partition
            kept = await (await self.producer(producer)).send_and_wait(
                self.topics[record.topic],
                record.value,
                key=record.key,
                partition=partition,
                timestamp_ms=at,
                headers=headers,
            )
            place = f"{kept.topic}/{kept.partition}/{kept.offset}"
            self.places[place] = event
            if headers:
                self.delayed.add(place)

    def parallel_with(self, number: int) -> int:
        """The line number of a PARALLEL fault whose equal events this line belongs to, plus one; 0 if there is none."""
        for earlier in range(number - 1, -1, -1):
            event = self.shadow.events[earlier]
            if event.get("fault") == "PARALLEL":
                return earlier + 1
            if event != self.shadow.events[number]:
                return 0
        return 0

    async def together(self, records: Sequence[Sent], event: dict[str, Any], at: int) -> None:
        """Hold the equal events until the last of them is there, then send all at the same instant, each by another producer."""
        self.held.append(records)
        number = len(self.held)
        if number < self.wanted:
            return
        held, self.held = self.held, []
        for each in range(number):
            await self.producer(each)
        await asyncio.gather(*(self.produce(one, event, at, each) for each, one in enumerate(held)))
        await self.handled()

    def slow_at_work(self) -> bool:
        return bool(self.delayed - self.seen)

    # ------------------------------------------------------------------ faults

    async def parallel(self, event: dict[str, Any]) -> None:
        """As many workers, and as many producers."""
        place = self.shadow.events.index(event)
        equal = self.shadow.events[place + 1 :]
        self.wanted = len(list(takewhile(lambda one: one == equal[0], equal)))
        team = [await self.up(instance) for instance in range(1, event["workers"] + 1)]
        for member in team:
            await until(lambda one=member: self.opened(one), f"{member.name} has a partition")

    async def slow_record(self, event: dict[str, Any]) -> None:
        self.slow[event["offset"]] = min(LONGEST_S, event["delay_s"])

    async def kill(self, event: dict[str, Any]) -> None:
        """At a named point the worker has fallen by itself. Without one: while what is slow is still at work, after all the rest."""
        if "at" not in event:
            await self.handled(LONGEST_S / 2, but=self.delayed, must=False)
            chosen = (
                [self.members[event["instance"]]]
                if event.get("instance") in self.members
                else list(self.members.values())
            )
            for member in chosen:
                self.say(f"{member.name} is killed")
                Crew.kill(member)

    async def restart(self, event: dict[str, Any]) -> None:
        number = event.get("instance", 1)
        if number in self.members and self.members[number].running:
            self.wake(self.members[number])
            await self.drain([self.members[number]])
        await self.up(number)
        await self.handled()

    async def rebalance(self, event: dict[str, Any]) -> None:
        """Whoever sleeps is expelled by the group; whoever is awake leaves it."""
        heir = await self.up(event["to_instance"])
        await self.drain([member for member in self.awake() if member is not heir])
        await self.owns_all(heir)
        if event.get("before_commit"):
            for member in self.members.values():
                self.wake(member)

    async def pause(self, event: dict[str, Any]) -> None:
        member = await self.up(event["instance"])
        await until(lambda: self.opened(member), f"{member.name} has a partition")
        self.crew.suspend(member)

    async def resume(self, event: dict[str, Any]) -> None:
        if self.awake():
            await self.handled()
        member = self.members[event["instance"]]
        self.lives[member.name] = len(member.log())
        self.wake(member)
        with suppress(Late):  # it may also notice nothing, and do nothing
            await until(lambda: self.opened(member) or not member.running, f"{member.name} notices", NOTICE_S)

    async def store_down(self, event: dict[str, Any]) -> None:
        """The worker knows no database: there is nothing to refuse it a connection."""

    async def output_fail_once(self, event: dict[str, Any]) -> None:
        for member in self.awake():
            await self.tell(member, Told(step="begun", what="fail_a_send"))

    async def offset_reset(self, event: dict[str, Any]) -> None:
        """Rewind the group while nobody is in it, as a tool would."""
        running = [number for number, member in self.members.items() if member.running]
        await self.drain([self.members[number] for number in running])
        first: dict[TopicPartition, int] = {}
        for place, line in self.places.items():
            topic, partition, offset = place.rsplit("/", 2)
            if line.get("offset", -1) >= event["to_offset"]:
                log = TopicPartition(topic, int(partition))
                first[log] = min(first.get(log, int(offset)), int(offset))
        tool = AIOKafkaConsumer(bootstrap_servers=self.bootstrap, group_id=self.prefix, enable_auto_commit=False)
        await tool.start()
        tool.assign([TopicPartition(topic, number) for topic in self.inputs for number in range(PARTITIONS)])
        if first:
            await tool.commit(first)
        await tool.stop()
        for number in running or [1]:
            await self.up(number)

    async def rewrite_state(self, event: dict[str, Any]) -> None:
        await self.handled()
        name = next(
            name for name, order in self.shadow.orders.items() if mapping.target_of(order, event["op"]) is not None
        )
        row = (await self.rows())[name]
        for member in self.awake():
            await self.tell(member, Told(rows=({name: row}, {name: None}, {name: row})))


async def play_all(scenarios: Sequence[dict[str, Any]], bootstrap: str, folder: Path, at_once: int = 6) -> list[Case]:
    """Each with topics of its own, some of them at the same time."""
    gate = asyncio.Semaphore(at_once)

    async def one(scenario: dict[str, Any]) -> Case:
        own = folder / scenario["id"]
        own.mkdir(parents=True)
        case = Case(scenario, bootstrap, own)
        async with gate:
            return await case.play()

    return list(await asyncio.gather(*map(one, scenarios)))


def main(words: Sequence[str]) -> int:
    """Play the scenarios of a file, or those named, and print where each differs from what it expects."""
    scenarios = [json.loads(line) for line in Path(words[0]).read_text().splitlines()]
    scenarios = [one for one in scenarios if len(words) == 1 or one["id"] in words[1:]]
    folder = FOLDER / "cases"
    fresh(folder)
    with KafkaCluster(folder / "kafka") as cluster:
        cases = asyncio.run(play_all(scenarios, cluster.bootstrap, folder))
    failed = 0
    for scenario, case in zip(scenarios, cases, strict=True):
        wrong = case.facts.violations or differences(scenario.get("expect", {}), case.outcome)
        failed += bool(wrong)
        print(f"{scenario['id']}: {wrong or 'ok'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
