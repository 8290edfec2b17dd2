"""The gateway under load: signed notices over keep-alive connections, verified, stored by Kafka and acknowledged by one process.

Beside it in the same run, interleaved: a bare Litestar handler that reads as large a body and returns 200, on the same server, and the
rate at which one process does nothing but verify signatures by the channel's own library. The client is a process of its own.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import psutil
import stripe
import uvloop
from Adyen.util import is_valid_hmac_notification
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from litestar import Litestar, Request, Response, post

from streams.dev import ports
from streams.gateway import server, service
from streams.topics import Topics, create
from tests.support.gateways import Channel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from streams.simulator.dialect import Delivery

CHANNELS: Final = ("stripe", "adyen", "wechatpay", "alipay")
NOTICES: Final = 2000
CONNECTIONS: Final = 64
SECONDS: Final = 6.0
READY_S: Final = 30.0
TEN_TIMES: Final = 2560
"""Connections that together keep ten times the default pool busy."""


class Line(asyncio.Protocol):
    """One connection: sends a request, waits for its answer, sends the next when it may."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.transport: asyncio.Transport | None = None
        self.sent = 0.0
        self.buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self.load.free(self)

    def send(self, request: bytes) -> None:
        assert self.transport is not None
        self.sent = time.perf_counter()
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, found, body = self.buffer.partition(b"\r\n\r\n")
        if not found:
            return
        length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        if len(body) < (int(length[1]) if length else 0):
            return
        self.buffer = b""
        self.load.answered(int(head[9:12]), time.perf_counter() - self.sent)
        self.load.free(self)


class Load:
    """Requests in turn: as fast as the lines are free, or at a rate."""

    def __init__(self, requests: Sequence[bytes], rate: float | None) -> None:
        self.requests, self.rate = requests, rate
        self.next = 0
        self.waiting: list[Line] = []
        self.times: list[float] = []
        self.statuses: Counter[int] = Counter()
        self.over = False

    def free(self, line: Line) -> None:
        if self.over:
            return
        if self.rate is None:
            self._send(line)
        else:
            self.waiting.append(line)

    def answered(self, status: int, seconds: float) -> None:
        self.statuses[status] += 1
        if status < 300:
            self.times.append(seconds)

    def _send(self, line: Line) -> None:
        line.send(self.requests[self.next % len(self.requests)])
        self.next += 1

    async def run(self, port: int, connections: int, seconds: float) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        for _ in range(connections):
            await loop.create_connection(lambda: Line(self), "127.0.0.1", port)
        began = time.perf_counter()
        while (now := time.perf_counter()) - began < seconds:
            if self.rate is not None:
                owed = int((now - began) * self.rate) - self.next
                for _ in range(min(owed, len(self.waiting))):
                    self._send(self.waiting.pop())
            await asyncio.sleep(0.002)
        self.over = True
        taken, times = time.perf_counter() - began, sorted(self.times)
        at = lambda share: round(1000 * times[int(len(times) * share)], 1) if times else 0.0  # noqa: E731
        return {
            "per_s": len(times) / taken, "p50_ms": at(0.5), "p99_ms": at(0.99),
            "statuses": {str(status): number for status, number in self.statuses.items()},
        }  # fmt: skip


def play(plan: dict[str, Any]) -> dict[str, Any]:
    """The client's process: reads the requests from a file, and prints what it measured."""
    requests = msgspec.msgpack.decode(Path(plan["requests"]).read_bytes(), type=list[bytes])
    load = Load(requests, plan["rate"])
    return asyncio.run(load.run(plan["port"], plan["connections"], plan["seconds"]))


def client(
    folder: Path,
    name: str,
    port: int,
    *,
    rate: float | None = None,
    connections: int = CONNECTIONS,
    seconds: float = SECONDS,
) -> dict[str, Any]:
    plan = {
        "requests": str(folder / f"{name}.requests"), "port": port, "rate": rate, "connections": connections,
        "seconds": seconds,
    }  # fmt: skip
    played = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.gateway", "play", json.dumps(plan)],
        capture_output=True, check=True, timeout=seconds + 60,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(played.stdout)
    return found


def prepare(folder: Path, channels: Sequence[Channel]) -> None:
    """The accounts, their credentials, and the requests, signed now."""
    accounts = []
    for channel in channels:
        (folder / f"{channel.name}.json").write_text(json.dumps(channel.credentials))
        accounts.append(
            {"channel": channel.name, "account": channel.account, "credentials": f"file:{channel.name}.json"}
        )
        requests = [request(channel, number) for number in range(NOTICES)]
        (folder / f"{channel.name}.requests").write_bytes(msgspec.msgpack.encode(requests))
    (folder / "channels.yaml").write_text(json.dumps({"accounts": accounts}))


def request(channel: Channel, number: int) -> bytes:
    sent = channel.notice(str(number))
    headers = {**sent.headers, "content-length": str(len(sent.body)), "host": "localhost"}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"POST /callbacks/{channel.name}/{channel.account} HTTP/1.1\r\n{lines}\r\n".encode("latin-1") + sent.body


def verifying(channel: Channel) -> float:
    """Verifications per second of one process that does nothing else: Stripe's and Adyen's library, or RSA alone."""
    check, found = _library(channel), [channel.notice(str(number)) for number in range(200)]
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < 1.0:
        for one in found:
            check(one)
        count += len(found)
    return count / (time.perf_counter() - began)


def _library(channel: Channel) -> Callable[[Delivery], object]:
    given = channel.credentials
    if channel.name == "stripe":
        [secret], read = given["webhook_secrets"], stripe.WebhookSignature.verify_header
        return lambda one: read(one.body.decode(), one.headers["Stripe-Signature"], secret, 300)
    if channel.name == "adyen":
        [key] = given["hmac_keys"]
        return lambda one: is_valid_hmac_notification(json.loads(one.body), key)
    pair = rsa.generate_private_key(65537, 2048)  # as long as the channels' own
    public, signed = pair.public_key(), pair.sign(b"a notice", PKCS1v15(), SHA256())
    return lambda _one: public.verify(signed, b"a notice", PKCS1v15(), SHA256())


@contextmanager
def process(
    arguments: Sequence[str], env: dict[str, str], port: int, log: Path, path: str = "/readyz"
) -> Iterator[psutil.Process]:
    with log.open("wb") as out:
        started = subprocess.Popen([sys.executable, *arguments], env={**os.environ, **env}, stdout=out, stderr=out)
    try:
        deadline = time.monotonic() + READY_S
        while not _ready(port, path):
            if time.monotonic() > deadline or started.poll() is not None:
                raise RuntimeError(f"{arguments} did not start; see {log}")
            time.sleep(0.1)
        yield psutil.Process(started.pid)
    finally:
        started.terminate()
        started.wait(30)


def cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _ready(port: int, path: str) -> bool:
    import httpx  # noqa: PLC0415  only here

    try:
        return httpx.get(f"http://127.0.0.1:{port}{path}", timeout=2).status_code == 200
    except httpx.HTTPError:
        return False


@post("/callbacks/{channel:str}/{account:str}", status_code=200)
async def nothing(request: Request[Any, Any, Any], channel: str, account: str) -> Response[bytes]:
    """What no gateway can be faster than: read the body, return 200."""
    await request.body()
    return Response(b"", media_type="text/plain")


def bare(port: int) -> None:
    from litestar import get  # noqa: PLC0415

    @get("/readyz", sync_to_thread=False)
    def ready() -> str:
        return "ready"

    gc.set_threshold(100_000, 20, 50)  # as the gateway does
    app = Litestar([nothing, ready], openapi_config=None)
    serving = server.server(app, host="127.0.0.1", port=port, header_s=10.0, stop_s=1.0)
    uvloop.run(serving.serve([service.listen("127.0.0.1", port)]))


def measure(bootstrap: str, folder: Path) -> dict[str, dict[str, Any]]:
    """Figures by channel: the gateway at full and at half load, the bare handler, the verification, and the gateway's memory."""
    folder.mkdir(parents=True, exist_ok=True)
    prefix = f"g{os.getpid()}."
    asyncio.run(create({"bootstrap_servers": bootstrap}, Topics.load(prefix=prefix, replication=1)))
    channels = [Channel(name) for name in CHANNELS]
    prepare(folder, channels)
    ours, theirs = ports.free(2)
    env = {
        "CONCORD_KAFKA": bootstrap, "CONCORD_TOPIC_PREFIX": prefix, "CONCORD_REPLICATION": "1",
        "CONCORD_CHANNELS": str(folder / "channels.yaml"),
    }  # fmt: skip
    found: dict[str, dict[str, Any]] = {}
    with (
        process(["-m", "streams", "gateway", "--port", str(ours)], env, ours, folder / "gateway.log") as gateway,
        process(["-m", "tests.benchmarks.gateway", "bare", str(theirs)], {}, theirs, folder / "bare.log"),
    ):
        for channel in channels:
            before = cpu(gateway)
            full = client(folder, channel.name, ours)
            cpu_us = 1e6 * (cpu(gateway) - before) / sum(full["statuses"].values())
            empty = client(folder, channel.name, theirs)
            half = client(folder, channel.name, ours, rate=full["per_s"] / 2)
            found[channel.name] = {
                "full": full, "half": half, "bare_per_s": empty["per_s"], "verify_per_s": verifying(channel),
                "cpu_us": cpu_us,
                "rss_mib": gateway.memory_info().rss / 2**20,
            }  # fmt: skip
        flood = client(folder, CHANNELS[0], ours, connections=TEN_TIMES)
        found["flood"] = {"full": flood, "rss_mib": gateway.memory_info().rss / 2**20}
    return found


if __name__ == "__main__":
    if sys.argv[1] == "play":
        print(json.dumps(play(json.loads(sys.argv[2]))))
    else:
        bare(int(sys.argv[2]))
