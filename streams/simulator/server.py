"""The simulator as an HTTP server: each channel under its own path, speaking its own dialect over one account's world.

| address | what |
| --- | --- |
| `/{channel}/…` | the channel's API in its dialect; the plain JSON API for channels whose dialect has none |
| `/simulator/ledger` | every charge that was really made, and every refund, as JSON: the truth that a proof is held against |
| `/simulator/health` | 200 once it listens |
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec
import uvicorn

from streams.channels.contracts import shipped
from streams.channels.registry import dialect
from streams.channels.requests import Call, Reply
from streams.domain.contract import Contract  # noqa: TC001  a dataclass reads the annotation
from streams.simulator import simulator as plain
from streams.simulator.bill import bill
from streams.simulator.dialect import AnyDialect, Asked  # noqa: TC001
from streams.simulator.faults import Chance, Rates
from streams.simulator.notifier import Notifier
from streams.simulator.world import Operation, World

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from streams.domain.contract import Contracts

ACCOUNT: Final = "sim"
LOOK_S: Final = 0.02
MOST_BYTES: Final = 1 << 20
TRUTHS: Final = ("/simulator/ledger", "/simulator/health")


@dataclass(frozen=True, slots=True)
class Played:
    """One channel account as it is played. `api` and `api_secrets` are those of the plain dialect where the channel's own has none."""

    channel: str
    account: str
    contract: Contract
    dialect: AnyDialect
    secrets: Any
    api: AnyDialect
    api_secrets: Any
    credentials: Mapping[str, Any]
    world: World

    def write_credentials(self, folder: Path) -> Path:
        """The credentials file of our side, for this account; only its owner may read it."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.channel}-{self.account}.json"
        path.touch(mode=0o600)
        path.write_text(json.dumps(self.credentials, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        return path


def hush() -> None:
    """Keep two libraries quiet: httpx logs every notice, and uvicorn every answer that is lost on purpose."""
    for noisy in ("httpx", "uvicorn"):
        logging.getLogger(noisy).setLevel(logging.CRITICAL)


def play(
    name: str, seed: int, rates: Rates, contracts: Contracts | None = None, *, settle_s: float = 1.0, lag_s: float = 0.2
) -> Played:
    """A channel account to be played; `name` is `channel` or `channel:account`. Raises `KeyError` for a channel that is not there."""
    channel, _, account = name.partition(":")
    own = dialect(channel)
    found = (shipped() if contracts is None else contracts).get(channel)
    if found is None:
        raise KeyError(channel)
    secrets, credentials = own.secrets(seed)
    api = own if own.read and own.answer else plain.DIALECT
    world = World(channel, found, Chance(seed, rates), settle_s, lag_s)
    return Played(
        channel=channel,
        account=account or ACCOUNT,
        contract=found,
        dialect=own,
        secrets=secrets,
        api=api,
        api_secrets=secrets if api is own else api.secrets(seed)[0],
        credentials=credentials,
        world=world,
    )


class Simulator:
    """The ASGI application, and the task that sends the notices. `gateway` None: nobody is told anything.

    `latency_s`: how long every request takes before it is carried out.
    """

    def __init__(
        self, played: list[Played], gateway: str | None, speed: float = 1.0, *, latency_s: float = 0.0
    ) -> None:
        self.latency_s = latency_s
        self.played = {one.channel: one for one in played}
        self.notifier = None if gateway is None else Notifier(gateway, speed)
        self.requests: Counter[tuple[str, str, str]] = Counter()
        """(channel, verb, number) -> how often it was asked, so that the next asking has a fate of its own."""
        self.concurrent: Counter[str] = Counter()
        self.most_concurrent: Counter[str] = Counter()
        self.told: set[tuple[str, str, str]] = set()
        """(channel, transaction, word) of every answer that was not lost."""
        self._server: uvicorn.Server | None = None

    # -- its life

    async def serve(self, host: str, port: int) -> None:
        """Listen and tell until `stop`."""
        config = uvicorn.Config(
            self, host=host, port=port, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=5
        )
        self._server = uvicorn.Server(config)
        teller = asyncio.create_task(self._tell())
        try:
            await self._server.serve()
        finally:
            teller.cancel()
            await asyncio.gather(teller, return_exceptions=True)
            if self.notifier is not None:
                await self.notifier.stop()

    @property
    def started(self) -> bool:
        """Whether it listens."""
        return self._server is not None and bool(self._server.started)

    def stop(self) -> None:
        """Stop listening; `serve` returns."""
        if self._server is not None:
            self._server.should_exit = True

    async def _tell(self) -> None:
        while True:
            for one in self.played.values():
                one.world.settle(datetime.now(UTC))
                news, one.world.news = one.world.news, []
                if self.notifier is not None:
                    for fact in news:
                        self.notifier.tell(one, fact)
            await asyncio.sleep(LOOK_S)

    # -- requests

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One HTTP request."""
        if scope["type"] != "http":
            return
        path = scope["path"]
        if path in TRUTHS:
            await _send(send, _json(self.truth() if path == TRUTHS[0] else {"ready": True}))
            return
        channel, _, rest = path.lstrip("/").partition("/")
        played = self.played.get(channel)
        body = await _read(receive)
        if played is None or body is None:
            await _send(send, _json({"error": "no such channel is played, or the body is too large"}, 404))
            return
        query = scope["query_string"].decode("latin-1")
        if rest == "bill":
            await _send(send, _bill(played, query))
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        raw = scope.get("raw_path", path.encode()).decode("latin-1").lstrip("/").partition("/")[2] or rest
        url = f"/{raw}?{query}" if query else f"/{raw}"
        self.concurrent[channel] += 1
        self.most_concurrent[channel] = max(self.most_concurrent[channel], self.concurrent[channel])
        try:
            await self._answer(played, Call(method=scope["method"], url=url, headers=headers, body=body), send)
        finally:
            self.concurrent[channel] -= 1

    async def _answer(self, played: Played, call: Call, send: Any) -> None:
        read, answer = played.api.read, played.api.answer
        assert read is not None
        assert answer is not None
        asked = read(played.api_secrets, call)
        if asked is None:
            await _send(send, _json({"error": "the channel has no such address, or cannot read the body"}, 404))
            return
        draw = self._draw(played.channel, asked)
        if self.latency_s:
            await asyncio.sleep(self.latency_s)
        chance, now = played.world.chance, datetime.now(UTC)
        if chance.strikes("maintenance", *draw):
            await _send(send, Reply(status=503, body=b"maintenance"))
            return
        taken = played.world.take(asked, now)
        if chance.strikes("lose", *draw):
            await _cut(send)
            return
        if taken.fact is not None and asked.verb != "close":
            self.told.add((played.channel, taken.fact.transaction, taken.word))
        reply = answer(played.api_secrets, asked, taken.word, taken.fact, taken.duplicate, now, played.contract)
        await _send(send, reply)

    def _draw(self, channel: str, asked: Asked) -> tuple[str, str, str, int]:
        """What the fate of this very asking depends on."""
        place = (channel, asked.verb, asked.operation_no or asked.payment_no)
        self.requests[place] += 1
        return (*place, self.requests[place])

    # -- the truth

    def truth(self) -> dict[str, Any]:
        """What really happened, for the oracle. Amounts in minor units."""
        worlds = [(one, one.world) for one in self.played.values()]
        return {
            "charges": [
                {"channel": f"{one.channel}:{one.account}", **_row(charge), "told": self._was_told(one.channel, charge)}
                for one, world in worlds
                for charge in world.ledger()
            ],
            "operations": [
                {
                    "channel": f"{one.channel}:{one.account}",
                    "about": made.about,
                    "operation_no": made.number,
                    **_row(made),
                }
                for one, world in worlds
                for made in world.operations.values()
            ],
            "notices": {} if self.notifier is None else {**self.notifier.counts, "waiting": self.notifier.waiting},
            "acknowledged": [] if self.notifier is None else self.notifier.acknowledged,
            "most_concurrent": dict(self.most_concurrent),
        }

    def _was_told(self, channel: str, charge: Operation) -> bool:
        """Whether our side can know what became of a charge: by an answer that arrived, or a notice that was acknowledged."""
        said = (channel, charge.transaction, charge.word)
        return said in self.told or (self.notifier is not None and said in self.notifier.told)


def _row(one: Any) -> dict[str, Any]:
    fields = ("order_id", "payment_no", "transaction", "amount", "currency", "word", "denied")
    return {name: getattr(one, name) for name in fields} | {"at": one.since.isoformat()}


def _json(value: Any, status: int = 200) -> Reply:
    return Reply(status=status, headers={"content-type": "application/json"}, body=msgspec.json.encode(value))


async def _read(receive: Any) -> bytes | None:
    """The body; None if it is too large."""
    body: bytes = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > MOST_BYTES:
            return None
        if not message.get("more_body", False):
            return body


def _bill(played: Played, query: str) -> Reply:
    """The account's bill of `date=YYYY-MM-DD`."""
    try:
        day = date.fromisoformat(query.removeprefix("date="))
    except ValueError:
        return _json({"error": "say the day: /bill?date=YYYY-MM-DD"}, 400)
    return Reply(status=200, body=bill(played.world, day).encode())


async def _send(send: Any, reply: Reply) -> None:
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in reply.headers.items()]
    headers.append((b"content-length", str(len(reply.body)).encode()))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})


async def _cut(send: Any) -> None:
    """Promise a body and break off: the server then closes the connection, and the answer is lost."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"{", "more_body": True})
