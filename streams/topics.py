"""The topics: what they are (`topics.yaml`, the only list), where a key lives, and whether a broker agrees.

A worker can be exactly-once only on topics that are what this list says. A difference either `breaks` a promise
(partitions that no longer meet, a changelog that forgets, input times that a producer may set), and then no worker
starts, or it only `differs` (retention, replication) and is reported.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, TypeAlias

import msgspec
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import for_code
from aiokafka.partitioner import murmur2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

Positive: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]

DAY_MS: Final = 86_400_000
TOPIC_ALREADY_EXISTS: Final = 36
INVALID_REPLICATION_FACTOR: Final = 38
CREATE_DEADLINE_S: Final = 30.0
BROKER_DEADLINE_S: Final = 20.0


class TopicsError(ValueError):
    """The list cannot be used, or the broker's topics cannot: the text names the topic, the field and the fix."""


class Severity(StrEnum):
    """How bad a difference is, worst first."""

    BREAKS = "breaks"
    DIFFERS = "differs"


class Topic(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One topic as `topics.yaml` declares it; `topic` is its name on the broker, prefix included once loaded."""

    name: str
    topic: str
    direction: Literal["input", "output", "changelog", "table", "dead-letters"]
    about: str
    key: str
    messages: tuple[str, ...]
    partitions: Positive
    replication: Positive
    min_insync_replicas: Positive
    cleanup: Literal["delete", "compact"]
    timestamp_type: Literal["CreateTime", "LogAppendTime"]
    max_message_bytes: Positive
    retention_days: Positive | None = None
    compaction_lag_days: Positive | None = None

    def config(self) -> dict[str, str]:
        """The topic's configuration on the broker, as Kafka names it."""
        wanted = {
            "cleanup.policy": self.cleanup,
            "max.message.bytes": str(self.max_message_bytes),
            "message.timestamp.type": self.timestamp_type,
            "min.insync.replicas": str(min(self.min_insync_replicas, max(1, self.replication - 1))),
            "unclean.leader.election.enable": "false",
        }
        if self.retention_days is not None:
            wanted["retention.ms"] = str(self.retention_days * DAY_MS)
        if self.compaction_lag_days is not None:
            wanted["min.compaction.lag.ms"] = wanted["delete.retention.ms"] = str(self.compaction_lag_days * DAY_MS)
        return wanted


class Found(NamedTuple):
    """One topic as a broker has it."""

    partitions: int
    replication: int
    config: Mapping[str, str]


class Difference(NamedTuple):
    """One way in which a broker's topic is not what the list says."""

    severity: Severity
    topic: str
    field: str
    found: str
    wanted: str
    why: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.topic}: {self.field} is {self.found}, not {self.wanted}: {self.why}"


@dataclass(frozen=True, slots=True)
class Topics:
    """All topics, in the order of the list. `topics["success"]` is the broker's name of the topic called `success`."""

    all: tuple[Topic, ...]

    @classmethod
    def load(
        cls,
        *,
        prefix: str = "",
        replication: int | None = None,
        partitions: int | None = None,
        text: bytes | None = None,
    ) -> Topics:
        """Read and check the list; `text` stands in for topics.yaml. Raises `TopicsError`."""
        entries = _entries(_listed() if text is None else text)
        over = {
            name: value
            for name, value in (("replication", replication), ("partitions", partitions))
            if value is not None
        }
        topics = tuple(_topic(entry, number, over) for number, entry in enumerate(entries, 1))
        _check_together(topics)
        return cls(tuple(msgspec.structs.replace(topic, topic=prefix + topic.topic) for topic in topics))

    def __getitem__(self, name: str) -> str:
        return self.of(name).topic

    def of(self, name: str) -> Topic:
        """The declaration of the topic with this logical name."""
        for topic in self.all:
            if topic.name == name:
                return topic
        raise TopicsError(f"topic {name!r} is not in topics.yaml; it has {', '.join(topic.name for topic in self.all)}")

    def _towards(self, direction: str) -> tuple[str, ...]:
        return tuple(topic.topic for topic in self.all if topic.direction == direction)

    @property
    def names(self) -> dict[str, str]:
        """Logical name to the broker's name, of every topic."""
        return {topic.name: topic.topic for topic in self.all}

    @property
    def inputs(self) -> tuple[str, ...]:
        return self._towards("input")

    @property
    def outputs(self) -> tuple[str, ...]:
        return self._towards("output")

    @property
    def changelog(self) -> str:
        return self._towards("changelog")[0]

    @property
    def dead_letters(self) -> str:
        return self._towards("dead-letters")[0]

    @property
    def partitions(self) -> int:
        return self.all[0].partitions


def partition_of(key: bytes, partitions: int) -> int:
    """The partition in which Java's default partitioner puts a key, and so every client that follows it."""
    return int(murmur2(key) & 0x7FFFFFFF) % partitions


def _listed() -> bytes:
    packaged = resources.files("streams").joinpath("topics.yaml")
    if packaged.is_file():
        return packaged.read_bytes()
    return (Path(__file__).parents[1] / "topics.yaml").read_bytes()


def _entries(text: bytes) -> list[dict[str, Any]]:
    try:
        document = msgspec.yaml.decode(text, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise TopicsError(f"topics.yaml: not a YAML mapping: {error}") from error
    unknown = sorted(set(document) - {"defaults", "topics"})
    if unknown:
        raise TopicsError(f"topics.yaml: unknown key {unknown[0]!r}; it has `defaults` and `topics`")
    defaults, topics = document.get("defaults") or {}, document.get("topics")
    if not isinstance(defaults, dict) or not isinstance(topics, list) or not topics:
        raise TopicsError("topics.yaml: `defaults` must be a mapping and `topics` a list with at least one entry")
    return [{**defaults, **entry} if isinstance(entry, dict) else {"entry": entry} for entry in topics]


def _topic(entry: dict[str, Any], number: int, over: Mapping[str, int]) -> Topic:
    label = f"topic {entry['name']!r}" if isinstance(entry.get("name"), str) else f"entry {number}"
    try:
        topic = msgspec.convert({**entry, **over}, Topic)
    except msgspec.ValidationError as error:
        raise TopicsError(f"topics.yaml: {label}: {error}") from error
    is_input, is_changelog = topic.direction == "input", topic.direction == "changelog"
    is_compact = is_changelog or topic.direction == "table"
    for refused, field, fix in (
        (is_input and topic.timestamp_type != "LogAppendTime", "timestamp_type", "an input needs LogAppendTime"),
        (is_compact != (topic.cleanup == "compact"), "cleanup", "the changelog and tables, and only they, are compact"),
        (is_changelog and topic.compaction_lag_days is None, "compaction_lag_days", "say how long an outage may be"),
        (not is_compact and topic.retention_days is None, "retention_days", "say how long records are kept"),
    ):
        if refused:
            raise TopicsError(f"topics.yaml: {label}: {field} is {getattr(topic, field)}: {fix}")
    return topic


def _check_together(topics: Sequence[Topic]) -> None:
    first = topics[0]
    seen: set[tuple[str, str]] = set()
    for topic in topics:
        for field, value in (("name", topic.name), ("topic", topic.topic)):
            if (field, value) in seen:
                raise TopicsError(
                    f"topics.yaml: topic {topic.name!r}: {field} {value!r} is a duplicate; name each once"
                )
            seen.add((field, value))
        if topic.partitions != first.partitions:
            raise TopicsError(
                f"topics.yaml: topic {topic.name!r}: partitions is {topic.partitions}, but {first.name!r} has "
                f"{first.partitions}; an order lives in one partition of every topic, so all counts must be equal"
            )
    directions = [topic.direction for topic in topics]
    if "input" not in directions:
        raise TopicsError("topics.yaml: direction: no topic is an 'input'; there must be at least one")
    for direction in ("changelog", "dead-letters"):
        if (count := sum(each == direction for each in directions)) != 1:
            raise TopicsError(f"topics.yaml: direction: {count} topics are {direction!r}; there must be one")


def compare(topics: Topics, found: Mapping[str, Found]) -> list[Difference]:
    """How the broker's topics differ from the list: what breaks first, then in the order of the list. Pure."""
    counts = {found[topic.topic].partitions for topic in topics.all if topic.topic in found}
    differences = [
        difference
        for topic in topics.all
        for difference in _differences(topic, found.get(topic.topic), counts_agree=len(counts) == 1)
    ]
    return sorted(differences, key=lambda difference: difference.severity is not Severity.BREAKS)


def _differences(topic: Topic, found: Found | None, *, counts_agree: bool) -> list[Difference]:
    if found is None:
        return [Difference(Severity.BREAKS, topic.topic, "topic", "missing", "present", "run `concord topics create`")]
    fields = [("partitions", str(found.partitions), str(topic.partitions))]
    fields += [("replication", str(found.replication), str(topic.replication))]
    fields += [(field, found.config.get(field, "unset"), wanted) for field, wanted in topic.config().items()]
    return [
        Difference(severity, topic.topic, field, value, wanted, why)
        for field, value, wanted in fields
        if value != wanted
        for severity, why in [_judge(field, value, wanted, counts_agree=counts_agree)]
    ]


BREAKING: Final = {
    "cleanup.policy": "a changelog or a table must keep the last row of every key, and every other topic every record",
    "message.timestamp.type": "the times of input records are the clock of every decision, so the broker must set them",
    "unclean.leader.election.enable": "an unclean leader loses acknowledged records",
}
BREAKING_BELOW: Final = {
    "max.message.bytes": "a record that the list allows would be refused",
    "min.compaction.lag.ms": "recovery after an outage reads what compaction would have removed",
}


def _judge(field: str, value: str, wanted: str, *, counts_agree: bool) -> tuple[Severity, str]:
    if field == "partitions":
        if counts_agree:
            why = "keys would move away from their state; a new count needs new topics (another CONCORD_TOPIC_PREFIX)"
            return Severity.BREAKS, f"{why}; if these were made with it, declare it in topics.yaml"
        return Severity.BREAKS, "the counts of co-partitioned topics are unequal, so keys do not meet; make them equal"
    if field == "replication":
        return Severity.DIFFERS, "reassign its replicas, or set CONCORD_REPLICATION"
    fix = f"set {field}={wanted} on the topic"
    if field in BREAKING and wanted != "CreateTime":
        return Severity.BREAKS, f"{BREAKING[field]}; {fix}"
    if field in BREAKING_BELOW and not (value.isdigit() and int(value) >= int(wanted)):
        return Severity.BREAKS, f"{BREAKING_BELOW[field]}; {fix}"
    return Severity.DIFFERS, f"{fix}, or declare it in topics.yaml"


@asynccontextmanager
async def _admin(kafka: Mapping[str, Any]) -> AsyncIterator[Any]:
    client = AIOKafkaAdminClient(**kafka, request_timeout_ms=int(BROKER_DEADLINE_S * 1000))
    try:
        async with asyncio.timeout(BROKER_DEADLINE_S + CREATE_DEADLINE_S):
            await client.start()
            yield client
    finally:
        await client.close()


async def _describe(client: Any, topics: Topics) -> dict[str, Found]:
    # All topics are listed and filtered here: asking for one by name lets a broker create it.
    wanted = {topic.topic for topic in topics.all}
    listed = [entry for entry in await client.describe_topics() if entry["topic"] in wanted and entry["partitions"]]
    configs = await _configs(client, [entry["topic"] for entry in listed])
    return {
        entry["topic"]: Found(
            len(entry["partitions"]), len(entry["partitions"][0]["replicas"]), configs.get(entry["topic"], {})
        )
        for entry in listed
    }


async def _configs(client: Any, names: Sequence[str]) -> dict[str, dict[str, str]]:
    if not names:
        return {}
    found: dict[str, dict[str, str]] = {}
    for response in await client.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name) for name in names]):
        for code, message, _kind, name, entries in response.resources:
            if code:
                raise TopicsError(
                    f"{name}: its configuration cannot be read: {message or for_code(code).__name__}; "
                    "grant DESCRIBE_CONFIGS on it"
                )
            found[name] = {entry[0]: entry[1] for entry in entries}
    return found


async def create(kafka: Mapping[str, Any], topics: Topics) -> list[str]:
    """Create what is missing, wait for leaders, return the names created. Topics that exist are left as they are."""
    async with _admin(kafka) as client:
        present = await _describe(client, topics)
        missing = [topic for topic in topics.all if topic.topic not in present]
        if missing:
            response = await client.create_topics(
                [
                    NewTopic(topic.topic, topic.partitions, topic.replication, topic_configs=topic.config())
                    for topic in missing
                ]
            )
            for name, code, *message in response.topic_errors:
                if code not in (0, TOPIC_ALREADY_EXISTS):
                    raise TopicsError(_refusal(name, code, message[0] if message else None))
        await _led(client, topics)
        return [topic.topic for topic in missing]


def _refusal(name: str, code: int, message: str | None) -> str:
    fix = (
        "set CONCORD_REPLICATION to the number of brokers (1 on one node)"
        if code == INVALID_REPLICATION_FACTOR
        else "see the broker's log"
    )
    return f"{name}: the broker refused to create it: {message or for_code(code).__name__}; {fix}"


async def _led(client: Any, topics: Topics) -> None:
    wanted = {topic.topic for topic in topics.all}
    deadline = asyncio.get_running_loop().time() + CREATE_DEADLINE_S
    while True:
        led = {
            e["topic"]
            for e in await client.describe_topics()
            if e["partitions"] and all(p["leader"] >= 0 for p in e["partitions"])
        }
        if wanted <= led:
            return
        if asyncio.get_running_loop().time() > deadline:
            raise TopicsError(
                f"{min(wanted - led)}: a partition has no leader after {CREATE_DEADLINE_S:.0f} s; start more brokers"
            )
        await asyncio.sleep(0.05)


async def check(kafka: Mapping[str, Any], topics: Topics) -> list[Difference]:
    """Compare the broker's topics with the list, what breaks first. aiokafka's `KafkaError`: no broker answers."""
    async with _admin(kafka) as client:
        return compare(topics, await _describe(client, topics))


async def require(kafka: Mapping[str, Any], topics: Topics) -> list[Difference]:
    """For a worker's start: raises `TopicsError` if a difference breaks a promise; returns those that only differ."""
    differences = await check(kafka, topics)
    broken = [difference for difference in differences if difference.severity is Severity.BREAKS]
    if broken:
        lines = "\n".join(f"  {difference}" for difference in broken)
        raise TopicsError(
            "the broker's topics cannot be used; `concord topics create` makes what is missing, `concord topics diff` "
            f"lists everything:\n{lines}"
        )
    return differences
