"""The composition root: settings, topics, the payment job, the engine and its host, wired in one place.

`faust -A streams.app worker` works: `app` is made when it is first asked for, from the environment.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import structlog
from aiokafka.errors import KafkaError

from streams import log
from streams.agents import payments
from streams.engine.config import Config
from streams.engine.failures import Exit, Verdict, classify
from streams.engine.membership import leave
from streams.host import host
from streams.settings import Settings
from streams.topics import Topics, TopicsError, require

if TYPE_CHECKING:
    from streams.host import Host

logger: Final = structlog.get_logger(__name__)


def engine_config(settings: Settings, topics: Topics) -> Config:
    """The engine's bounds under these settings and topics."""
    room = min(topic.max_message_bytes for topic in topics.all if topic.direction in ("output", "changelog"))
    return Config(
        kafka=settings.kafka,
        state_dir=settings.state_dir / settings.group if settings.table == "rocksdb" else None,
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
        """Wait for the cluster, as the engine itself does; then its topics must be what the list says."""
        while True:
            try:
                await require(settings.kafka, topics)
            except TopicsError as error:
                leave(Exit.TOPICS, str(error))
            except (KafkaError, OSError) as error:
                if classify(error) is not Verdict.RETRY:
                    leave(Exit.MEMBERSHIP, f"the cluster refused this worker: {error!r}")
                logger.warning("cannot reach the cluster yet", error=repr(error), fix="is Kafka at CONCORD_KAFKA?")
                await asyncio.sleep(1.0)
            else:
                return

    return host(payments.topology(topics, settings.group), engine_config(settings, topics), settings, check)


def __getattr__(name: str) -> Any:
    """`streams.app.app`, for Faust's own command line."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    settings = Settings.from_env()
    log.configure(level=settings.log_level)
    made = globals()["app"] = build(settings)
    return made
