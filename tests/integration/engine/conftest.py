"""The stage of each test: the shared broker, a toy with topics of its own, and workers that are stopped at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.engine.stage import Stage
from tests.support.toy import Toy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from streams.dev.services import Kafka


@pytest.fixture
async def stage(kafka: Kafka, topic_prefix: str) -> AsyncIterator[Stage]:
    """Two partitions, and due times that are an hour away unless a test says otherwise."""
    made = Stage(kafka.bootstrap, Toy(prefix=topic_prefix.rstrip("."), partitions=2, due_ms=3_600_000))
    await made.toy.create(kafka.bootstrap)
    yield made
    await made.close()
