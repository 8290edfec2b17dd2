"""The whole loop for tests: the worker runs under the channels' own contracts with shorter times, so that hours take seconds."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from streams import log as logs
from streams.agents import payments
from streams.app import engine_config
from streams.channels.contracts import shipped
from streams.demo import loop
from streams.engine.membership import Worker
from streams.settings import Settings
from streams.topics import Topics

if TYPE_CHECKING:
    from streams.domain.contract import Contract


LEASE = "CONCORD_LOOP_LEASE_S"
LEASE_S = 4


def quick(contract: Contract, lease_s: int) -> Contract:
    """The same promises, with our own waiting cut to seconds."""
    query = contract.query
    if query is not None and query.not_found_after_s is not None:
        query = replace(query, not_found_after_s=2)
    return replace(
        contract, query=query, lease_s=lease_s, query_after_s=(4, 8, 12), query_max_delay_s=8, query_window_s=600, most_queries=100,
        query_jitter_pct=12,
    )  # fmt: skip


@dataclass
class Loop(loop.Loop):
    """One loop on a broker, with quick contracts. A killed connector comes back within `lease_s`, or its requests are never sent."""

    lease_s: int = LEASE_S

    def __post_init__(self) -> None:
        super().__post_init__()
        self.env[LEASE] = str(self.lease_s)
        self.instead["worker"] = [sys.executable, "-m", "tests.support.loop"]


class _ByAccount(dict[str, Any]):
    """An account has the contract of its channel."""

    def get(self, key: str, default: Any = None) -> Any:
        return super().get(key.partition(":")[0], default)


async def _worker() -> None:
    settings = Settings.from_env()
    topics = Topics.load(prefix=settings.topic_prefix, replication=1)
    lease_s = int(os.environ[LEASE])
    contracts = _ByAccount({name: quick(contract, lease_s) for name, contract in shipped().items()})
    worker = Worker(payments.topology(topics, settings.group, contracts), engine_config(settings, topics))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
    await worker.run()


if __name__ == "__main__":
    logs.configure(level="info")
    asyncio.run(_worker())
