"""Channel health: a Faust app of its own that follows the decisions and keeps the last half hour of every channel account.

It is approximate by design, and no verdict depends on it: its tables can be lost and are then filled again within half an hour. Minutes are
windowed tables with their changelogs in Kafka; a decision that is read again is not counted again, so a crash loses at most what was
acknowledged to the group before its row reached the changelog. Sums are published to the compacted topic every `PUBLISH_S` and to
Postgres every `WRITE_S`, where daily costs are refreshed, too (R-155, R-165).
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import asyncpg
import faust
import msgspec
import structlog
from faust.transport.drivers import aiokafka as driver
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from stores import channel_costs, channel_health
from stores.pool import LOST, connect
from streams.agents import channel_hearing, channel_windows
from streams.agents.channel_hearing import Opened
from streams.agents.channel_meters import ChannelCollector
from streams.agents.channel_windows import MINUTE_S, WINDOW_S, Row
from streams.domain.decisions import Decision

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stores.channel_health import Seen
    from streams.settings import Settings
    from streams.topics import Topics

log: Final = structlog.get_logger(__name__)

PUBLISH_S: Final = 5.0
WRITE_S: Final = 60.0
COSTS_EVERY: Final = timedelta(hours=1)
KEPT: Final = timedelta(days=7)
"""How long Postgres remembers what was seen."""
STALE_S: Final = WINDOW_S + 5 * MINUTE_S
PER_DECISION: Final = 16
"""More payments than one decision changes."""
LOGGED_MS: Final = 3 * 3600 * 1000


class CommittedThread(driver.AIOKafkaConsumerThread):  # type: ignore[misc]  # the host publishes no types
    """Reads what was committed only: the host does so only where it is in transactions itself."""

    def _create_worker_consumer(self, transport: Any) -> Any:
        client = super()._create_worker_consumer(transport)
        client._isolation_level = "read_committed"  # noqa: SLF001  the host has no setting for it
        return client


class CommittedConsumer(driver.Consumer):  # type: ignore[misc]
    """A consumer on that thread."""

    def _new_consumer_thread(self) -> Any:
        return CommittedThread(self, loop=self.loop, beacon=self.beacon)


class Committed(driver.Transport):  # type: ignore[misc]
    """A transport with that consumer."""

    Consumer = CommittedConsumer


class HealthApp(faust.App):  # type: ignore[misc]
    """A Faust app whose consumer reads committed records."""

    def _new_transport(self) -> Any:
        return Committed(self.conf.broker_consumer, self)


class Watch:
    """The tables, and what is read off them."""

    def __init__(self, app: HealthApp, partitions: int) -> None:
        self._now_s = 0.0
        logged = {"cleanup.policy": "compact,delete", "retention.ms": str(LOGGED_MS)}
        self._minutes = (
            app.Table("minutes", default=list, partitions=partitions, extra_topic_configs=logged)
            .tumbling(MINUTE_S, expires=STALE_S)
            .relative_to(lambda _event: self._now_s)
        )
        self._open = app.Table("open", default=list, partitions=partitions)

    def take(self, decision: Decision, part: int, offset: int) -> None:
        """Count a decision. To be called while its event is the current one."""
        for place, (name, standing) in enumerate(channel_hearing.payments(decision)):
            kept = self._open.get(name)
            told = channel_hearing.news(decision, name, standing, Opened(*kept[1:]) if kept else None)
            if told.opened is not None:
                self._open[name] = [part, *told.opened]
            elif kept:
                self._open.pop(name)
            if told.outcome is None or told.outcome.at / 1000 < time.time() - STALE_S:
                continue  # a first start reads what is long past
            self._now_s = told.outcome.at / 1000
            minute = channel_windows.key(told.outcome.channel, told.outcome.band, part)
            row = channel_windows.counted(
                Row(*self._minutes[minute].value()), told.outcome, offset * PER_DECISION + place
            )
            if row is not None:
                self._minutes[minute] = list(row)

    def seen(self, parts: frozenset[int], at: datetime) -> list[Seen]:
        """The half hour before `at`, of these parts together."""
        unknown: dict[tuple[str, str], int] = {}
        for part, *kept in self._open.values():
            one = Opened(*kept)
            if part in parts:
                pair = one.channel, one.band
                unknown[pair] = unknown.get(pair, 0) + one.unknown
        minutes = ((name, start, row) for name, start, row in self._rows() if channel_windows.split(name)[2] in parts)
        return channel_windows.half_hours(minutes, unknown, part=min(parts), at=at)

    def _rows(self) -> Iterator[tuple[str, float, Row]]:
        for (name, (start, _)), row in self._minutes.table.items():
            yield name, start, Row(*row)


def build(settings: Settings, topics: Topics) -> HealthApp:
    """The app; nothing is connected before it starts."""
    app = HealthApp(
        f"{settings.group}-channel-health",
        broker=[f"kafka://{one}" for one in settings.kafka["bootstrap_servers"].split(",")],
        broker_credentials=_credentials(settings.kafka),
        broker_session_timeout=settings.session_s,
        broker_heartbeat_interval=settings.session_s / 3,
        consumer_auto_offset_reset="earliest",
        store="memory://",
        datadir=settings.state_dir / "channel-health",
        web_host=settings.web_host,
        web_bind=settings.web_host,
        web_port=settings.web_port,
        topic_disable_leader=True,
        topic_partitions=topics.partitions,
        topic_replication_factor=topics.of("channel-health").replication,
    )
    name = topics["decisions"]
    decisions = app.topic(
        name, key_serializer="raw", value_serializer="raw", value_type=bytes, partitions=topics.partitions
    )
    watch, publisher = Watch(app, topics.partitions), Publisher(app, topics["channel-health"], settings.postgres)
    collector = ChannelCollector()

    @app.agent(decisions, name="decisions")  # type: ignore[untyped-decorator]
    async def follow(stream: Any) -> None:
        async for event in stream.events():
            try:
                decision = _decision.decode(event.value or b"")
            except msgspec.MsgspecError as error:
                log.warning("a decision cannot be read", offset=event.message.offset, error=type(error).__name__)
                continue
            watch.take(decision, event.message.partition, event.message.offset)

    @app.timer(PUBLISH_S)  # type: ignore[untyped-decorator]
    async def publish() -> None:
        parts = frozenset(place.partition for place in app.consumer.assignment() if place.topic == name)
        if parts and not app.rebalancing:
            now = datetime.now(UTC)
            collector.seen = watch.seen(parts, now)
            await publisher.publish(collector.seen, now)

    pages(app, collector)
    return app


def pages(app: HealthApp, collector: ChannelCollector) -> None:
    """/healthz says that the process lives, /metrics is for Prometheus."""
    registry = CollectorRegistry()
    registry.register(collector)

    @app.page("/healthz")  # type: ignore[untyped-decorator]
    async def healthz(web: Any, _request: Any) -> Any:
        return web.json({"status": "alive"})

    @app.page("/metrics")  # type: ignore[untyped-decorator]
    async def scrape(web: Any, _request: Any) -> Any:
        return web.bytes(generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})


class Publisher:
    """Tells what is seen: the topic each time, Postgres each minute, where there is one."""

    def __init__(self, app: HealthApp, topic: str, postgres: str) -> None:
        self._topic = app.topic(topic, key_serializer="raw", value_serializer="raw", value_type=bytes)
        self._postgres = postgres
        self._told: set[bytes] = set()
        self._written = self._reckoned = datetime.min.replace(tzinfo=UTC)

    async def publish(self, seen: list[Seen], now: datetime) -> None:
        """What is no longer seen is removed from the topic."""
        rows = {f"{one.channel} {one.band} {one.part}".encode(): one for one in seen}
        for name in self._told - rows.keys():
            await self._topic.send(key=name, value=None)
        for name, one in rows.items():
            await self._topic.send(key=name, value=msgspec.json.encode(one))
        self._told = set(rows)
        if self._postgres and now - self._written >= timedelta(seconds=WRITE_S):
            await self._write(seen, now)

    async def _write(self, seen: list[Seen], now: datetime) -> None:
        self._written = now
        try:
            connection = await connect(self._postgres)
            try:
                await channel_health.write(connection, seen)
                await channel_health.forget(connection, now - KEPT)
                if now - self._reckoned >= COSTS_EVERY:
                    day = now.date()
                    await channel_costs.refresh(connection, day - timedelta(days=1), day, now)
                    self._reckoned = now
            finally:
                await connection.close()
        except (asyncpg.PostgresError, *LOST) as error:
            log.warning("channel health cannot be written", error=f"{type(error).__name__}: {error}")


def _credentials(kafka: Mapping[str, Any]) -> Any:
    """aiokafka's arguments as the host wants them; None: neither TLS nor SASL."""
    context = kafka.get("ssl_context")
    if "sasl_mechanism" in kafka:
        return faust.SASLCredentials(
            username=kafka["sasl_plain_username"],
            password=kafka["sasl_plain_password"],
            mechanism=kafka["sasl_mechanism"],
            ssl_context=context,
        )
    return None if context is None else faust.SSLCredentials(context)


_decision: Final = msgspec.json.Decoder(Decision)
