"""Fixtures of every room: a shared Kafka and Postgres, brokers of a test's own, and a topic prefix.

Nothing is started before a test asks. What cannot be started fails the test that asked, with the reason and the fix.
"""

from __future__ import annotations

import secrets
import shutil
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from streams.dev.errors import ServiceError
from tests.support import databases
from tests.support import services as support

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from streams.dev.kafka import KafkaCluster
    from streams.dev.services import Kafka, Postgres

T = TypeVar("T")


def _enter(stack: ExitStack, service: AbstractContextManager[T]) -> T:
    try:
        return stack.enter_context(service)
    except ServiceError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="session")
def _servers() -> Iterator[None]:
    """Ends what killed runs left behind, before this run starts servers; removes this run's folder at its end."""
    support.sweep()
    yield
    shutil.rmtree(support.run_folder(), ignore_errors=True)


@pytest.fixture(scope="session")
def kafka(_servers: None) -> Iterator[Kafka]:
    """The run's shared broker: `.bootstrap`. Never stop it; keep to topics under `topic_prefix`."""
    with ExitStack() as stack:
        yield _enter(stack, support.shared_kafka())


@pytest.fixture(scope="session")
def postgres(_servers: None) -> Iterator[Postgres]:
    """The run's shared Postgres: `.dsn`. Keep to a schema or a database of the test's own."""
    with ExitStack() as stack:
        yield _enter(stack, support.shared_postgres())


@pytest.fixture
async def empty_database(postgres: Postgres) -> AsyncIterator[str]:
    """The address of a database of the test's own, with nothing in it."""
    async with databases.database(postgres.dsn) as address:
        yield address


@pytest.fixture
async def database(postgres: Postgres) -> AsyncIterator[str]:
    """The address of a database of the test's own, with all tables."""
    async with databases.books(postgres.dsn) as address:
        yield address


@pytest.fixture
def kafka_cluster(_servers: None) -> Iterator[Callable[..., KafkaCluster]]:
    """Starts brokers that a test may kill: `kafka_cluster(nodes=3, version="4.4.0", properties={…}, advertised={…})`.

    The cluster's methods block; a coroutine that must go on meanwhile calls them by `asyncio.to_thread`.
    """
    with ExitStack() as stack:

        def start(**wanted: Any) -> KafkaCluster:
            return _enter(stack, support.cluster(**wanted))

        yield start


@pytest.fixture
def topic_prefix() -> str:
    """A short new prefix for every topic, group and transactional id of one test, so that tests can share a broker."""
    return f"t{secrets.token_hex(4)}."
