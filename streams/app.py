"""The composition root: settings, topics, the payment job, the engine and its host, wired in one place.

`faust -A streams.app worker` works: `app` is made when it is first asked for, from the environment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streams import log
from streams.agents import payments
from streams.engine.config import Config
from streams.engine.failures import Exit
from streams.engine.membership import leave
from streams.host import host
from streams.settings import Settings
from streams.topics import Topics, TopicsError, require

if TYPE_CHECKING:
    from streams.host import Host


def engine_config(settings: Settings, topics: Topics) -> Config:
    """The engine's bounds under these settings and topics."""
    room = min(topic.max_message_bytes for topic in topics.all if topic.direction in ("output", "changelog"))
    return Config(
        kafka=settings.kafka,
        state_dir=settings.state_dir if settings.table == "rocksdb" else None,
        batch=settings.batch,
        record_bytes=room,
        dead_letter_bytes=topics.of("dead-letters").max_message_bytes,
        session=settings.session_s,
        transaction=settings.transaction_s,
    )


def build(settings: Settings) -> Host:
    """The worker of the payment job, ready to be started. Connects to nothing yet."""
    topics = Topics.load(prefix=settings.topic_prefix, replication=settings.replication)

    async def check() -> None:
        try:
            await require(settings.kafka, topics)
        except TopicsError as error:
            leave(Exit.TOPICS, str(error))

    return host(payments.topology(topics, settings.group), engine_config(settings, topics), settings, check)


def __getattr__(name: str) -> Any:
    """`streams.app.app`, for Faust's own command line."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    settings = Settings.from_env()
    log.configure(level=settings.log_level)
    made = globals()["app"] = build(settings)
    return made
