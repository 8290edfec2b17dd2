"""The gateway is killed with SIGKILL under load, again and again: what it acknowledged is in Kafka, and it is back within seconds."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections import Counter
from itertools import count
from typing import TYPE_CHECKING

import httpx
import pytest

from streams.topics import Topics, create
from tests.support.gateways import Channel, GatewayProcess, Loop, Shelf, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future

pytestmark = pytest.mark.kafka

KILLS, LINES, BETWEEN, BACK_WITHIN_S = 3, 16, 400, 10.0


class Sender:
    """A channel with many notices at once: each is sent again until it is acknowledged, and what was acknowledged is kept."""

    def __init__(self, channel: Channel, url: str) -> None:
        self.acknowledged: list[str] = []
        self.broken = 0
        self.answers: Counter[int] = Counter()
        self.more = True
        self._channel, self._url, self._numbers = channel, url, count(1)

    async def run(self) -> None:
        """Send on all lines until `more` is False and what was begun is acknowledged."""
        async with httpx.AsyncClient(timeout=5.0, limits=httpx.Limits(max_connections=LINES)) as client:
            await asyncio.gather(*(self._line(client) for _ in range(LINES)))

    async def _line(self, client: httpx.AsyncClient) -> None:
        while self.more:
            number = f"k{next(self._numbers)}"
            found = self._channel.notice(number)
            while not await self._sent(client, found.headers, found.body):
                await asyncio.sleep(0.05)
            self.acknowledged.append(f"evt_{number}")

    async def _sent(self, client: httpx.AsyncClient, headers: dict[str, str], body: bytes) -> bool:
        try:
            answer = await client.post(self._url, content=body, headers=headers)
        except httpx.TransportError:
            self.broken += 1
            return False
        self.answers[answer.status_code] += 1
        return answer.status_code == 200


@pytest.fixture
def stage(kafka, tmp_path) -> Iterator[tuple[GatewayProcess, Channel, Shelf, Loop]]:
    prefix = f"t{secrets.token_hex(4)}."
    topics = Topics.load(prefix=prefix, replication=1)
    asyncio.run(create({"bootstrap_servers": kafka.bootstrap}, topics))
    channel, loop = Channel("simulator"), Loop()
    env = {"CONCORD_KAFKA": kafka.bootstrap, "CONCORD_TOPIC_PREFIX": prefix, "CONCORD_REPLICATION": "1"}
    gateway = GatewayProcess(tmp_path, env, [channel])
    gateway.start()
    shelf = Shelf(loop, kafka.bootstrap, topics, "channel-callbacks")
    yield gateway, channel, shelf, loop
    shelf.close()
    loop.end()
    gateway.end()


def kill_and_start(gateway: GatewayProcess, sender: Sender) -> float:
    """SIGKILL while notices are on the way; the seconds until one is acknowledged again."""
    seen = len(sender.acknowledged)
    until(f"{BETWEEN} more are acknowledged", lambda: len(sender.acknowledged) >= seen + BETWEEN)
    broken, began = sender.broken, time.monotonic()
    gateway.end()
    until("notices were cut off on the way", lambda: sender.broken > broken)
    seen = len(sender.acknowledged)
    gateway.start()
    until("a notice is acknowledged again", lambda: len(sender.acknowledged) > seen)
    return time.monotonic() - began


def test_a_gateway_killed_under_load_loses_no_acknowledged_notice(stage):
    """ACK ⇔ durable: what the client holds an acknowledgement for is in the topic, whatever was in flight at the kill."""
    gateway, channel, shelf, loop = stage
    sender = Sender(channel, f"http://127.0.0.1:{gateway.port}/callbacks/{channel.name}/{channel.account}")
    sending: Future[None] = asyncio.run_coroutine_threadsafe(sender.run(), loop.loop)
    began = time.monotonic()
    back = [kill_and_start(gateway, sender) for _ in range(KILLS)]
    seen = len(sender.acknowledged)
    until("it serves on", lambda: len(sender.acknowledged) >= seen + BETWEEN)
    took = time.monotonic() - began
    sender.more = False
    sending.result(30)
    shelf.of("")
    stored = {json.loads(record.value)["event_id"] for record in shelf.records}
    rate = len(sender.acknowledged) / (took - sum(back))
    print(f"{len(sender.acknowledged)} acknowledged, {rate:.0f}/s, back after {[round(one, 1) for one in back]} s")
    assert sorted(set(sender.acknowledged) - stored) == []
    assert set(sender.answers) <= {200, 503}
    assert max(back) < BACK_WITHIN_S
