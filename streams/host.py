"""Faust as the host: worker lifecycle, signals, supervision and the web server. Its own Kafka consumer and producer are off.

The payment topology runs on our engine, started here as one service. `/healthz` says that the process lives, `/readyz` that every
assigned partition has recovered, `/metrics` is for Prometheus.
"""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any, Final

import faust
import structlog
from faust.app.base import BootStrategy
from mode import Service
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from streams import metrics
from streams.engine.failures import Exit
from streams.engine.membership import Worker, leave

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from streams.engine.config import Config
    from streams.engine.topology import Topology
    from streams.settings import Settings

log: Final = structlog.get_logger(__name__)


class Boot(BootStrategy):  # type: ignore[misc]  # the host publishes no types
    """Start neither a consumer nor a producer of the host's."""

    enable_kafka = False


class Host(faust.App):  # type: ignore[misc]
    """A Faust app that hosts the engine and nothing else."""

    BootStrategy = Boot


class EngineService(Service):  # type: ignore[misc]
    """The engine's worker as a service: starts after its topics were checked, and drains when it is stopped."""

    def __init__(self, worker: Worker, check: Callable[[], Awaitable[None]], **options: Any) -> None:
        super().__init__(**options)
        self.worker = worker
        self._check = check
        self._running: asyncio.Task[None] | None = None

    async def on_start(self) -> None:
        await self._check()
        # A transaction makes thousands of tuples and lists that live until it is sent. The default threshold would walk them, and
        # everything else, several times in each; rows are bytes and need no walk at all.
        gc.freeze()
        gc.set_threshold(100_000, 20, 50)
        self._running = asyncio.create_task(self.worker.run(), name="engine")
        self._running.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            leave(Exit.MEMBERSHIP, f"the engine stopped: {error!r}")

    async def on_stop(self) -> None:
        """Finish the running transactions, close the partitions, leave the group. The worker bounds its own time."""
        self.worker.stop()
        if self._running is not None:
            await asyncio.wait({self._running})


def host(
    topology: Topology[Any, Any, Any], config: Config, settings: Settings, check: Callable[[], Awaitable[None]]
) -> Host:
    """A Faust app that runs a topology. Nothing is connected before it starts."""
    app = Host(
        topology.name,
        broker=f"kafka://{settings.kafka['bootstrap_servers']}",
        web_host=settings.web_host,
        web_bind=settings.web_host,
        web_port=settings.web_port,
        datadir=settings.state_dir,
        topic_disable_leader=True,
    )
    worker = Worker(topology, config)
    app.engine = worker

    @app.service
    class Engine(EngineService):
        def __init__(self, *_args: Any, **options: Any) -> None:
            super().__init__(worker, check, **options)

    pages(app, worker)
    return app


def pages(app: Host, worker: Worker) -> None:
    """The three pages that supervisors and Prometheus ask for."""
    registry = metrics.registry(worker)

    @app.page("/healthz")  # type: ignore[untyped-decorator]
    async def healthz(web: Any, _request: Any) -> Any:
        return web.json({"status": "alive", "group": worker.topology.name})

    @app.page("/readyz")  # type: ignore[untyped-decorator]
    async def readyz(web: Any, _request: Any) -> Any:
        opened = {str(number): partition.ready.is_set() for number, partition in sorted(worker.partitions.items())}
        return web.json({"ready": worker.ready, "partitions": opened}, status=200 if worker.ready else 503)

    @app.page("/metrics")  # type: ignore[untyped-decorator]
    async def scrape(web: Any, _request: Any) -> Any:
        return web.bytes(generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})
