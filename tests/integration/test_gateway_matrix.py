"""ACK means durable: whatever arrives, from whichever channel, the answer says truly whether it is in Kafka (R-070, R-077).

One gateway and one broker for the whole matrix. The line between the two is whole, down or slow.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import time
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec

import pytest

from streams.channels import registry
from streams.topics import Topics, create
from tests.support import services
from tests.support.gateways import WITHIN_S, Channel, GatewayProcess, Line, Loop, Shelf

pytestmark = pytest.mark.kafka

STORED = ("channel-callbacks", "card-postings", "unlinked")
SLOW_S, STORE_S, BODY_S = 2.0, 1.0, 0.5
BODY_BYTES = 65_536


def spoken() -> list[str]:
    """The channels that have an adapter and a dialect."""
    return [
        name
        for name in registry.CHANNELS
        if find_spec(f"streams.channels.{name}") and find_spec(f"streams.simulator.{name}")
    ]


class Stage:
    """The gateway, its channels, the line to its broker, and what is stored there."""

    def __init__(self, stack: ExitStack, folder) -> None:
        loop = Loop()
        stack.callback(loop.end)
        self.line = Line(loop)
        stack.callback(self.line.close)
        cluster = stack.enter_context(services.cluster(advertised={1: self.line.address}))
        self.line.target = ("127.0.0.1", cluster.port(1))
        topics = Topics.load(prefix="matrix.", replication=1)
        asyncio.run(create({"bootstrap_servers": self.line.address}, topics))
        self.channels = {name: Channel(name) for name in spoken()}
        env = {
            "CONCORD_KAFKA": self.line.address,
            "CONCORD_TOPIC_PREFIX": "matrix.",
            "CONCORD_REPLICATION": "1",
            "CONCORD_GATEWAY_BODY_BYTES": str(BODY_BYTES),
            "CONCORD_GATEWAY_BODY_MS": str(int(BODY_S * 1000)),
            "CONCORD_GATEWAY_STORE_MS": str(int(STORE_S * 1000)),
        }
        self.gateway = GatewayProcess(folder, env, list(self.channels.values()))
        stack.callback(self.gateway.end)
        self.gateway.start()
        self.shelf = Shelf(loop, self.line.address, topics, *STORED)
        stack.callback(self.shelf.close)

    def spoil(self, how: str) -> None:
        if how == "down":
            self.line.loop.soon(lambda: self.line.cut(refuse=True))
        elif how == "slow":
            self.line.loop.soon(lambda: self.line.slow(latency_s=SLOW_S))

    def mend(self) -> None:
        self.line.loop.soon(self.line.restore)
        self.gateway.wait_ready()


@pytest.fixture(scope="module")
def stage(_servers, tmp_path_factory):
    with ExitStack() as stack:
        yield Stage(stack, tmp_path_factory.mktemp("gateway"))


@pytest.fixture(scope="module", params=["whole"])
def line(request, stage):
    """The line's state, changed once for all tests that want the same."""
    stage.spoil(request.param)
    yield request.param
    if request.param != "whole":
        stage.mend()


@pytest.fixture(params=spoken())
def channel(request, stage, line) -> Channel:
    return stage.channels[request.param]


def fresh() -> tuple[str, str]:
    """A number for a notice, and a trace to find it by."""
    number = secrets.token_hex(6)
    return number, f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"


def assert_acknowledged(channel: Channel, answer) -> None:
    ack = channel.contract.notice.ack
    assert answer.status_code == ack.status, answer.text
    if channel.adapter.acknowledgement is None:
        assert answer.content == ack.body.encode()


def assert_refused(channel: Channel, answer) -> None:
    ack = channel.contract.notice.ack
    assert (answer.status_code, answer.content) == (ack.refuse_status, ack.refuse_body.encode())


def test_a_good_notice_is_acknowledged_and_lies_in_kafka(stage, channel):
    number, trace = fresh()
    found = channel.notice(number)
    assert_acknowledged(channel, stage.gateway.post(channel, found, trace))
    stored = stage.shelf.of(trace)
    assert stored
    for topic, record in stored:
        event = json.loads(record.value)
        event = event.get("event", event)
        assert event["channel"] == f"{channel.name}:{channel.account}"
        assert event["raw"]["sha256"]
        if topic != "unlinked" and event["type"] != "unmapped":
            assert record.key == event["order_id"].encode()


def test_a_bad_signature_is_refused_and_nothing_is_stored(stage, channel):
    number, trace = fresh()
    stranger = Channel(channel.name, seed=2)
    assert_refused(channel, stage.gateway.post(channel, stranger.notice(number), trace))
    assert stage.shelf.of(trace) == []


def test_a_stale_notice_is_refused_where_a_time_is_signed(stage, channel):
    number, trace = fresh()
    found = channel.notice(number, at=datetime.now(UTC) - timedelta(days=1))
    answer = stage.gateway.post(channel, found, trace)
    if channel.contract.notice.window_s is None:
        assert_acknowledged(channel, answer)
        assert stage.shelf.of(trace)
    else:
        assert_refused(channel, answer)
        assert stage.shelf.of(trace) == []


def test_a_duplicate_is_acknowledged_and_stored_again(stage, channel):
    number, trace = fresh()
    found = channel.notice(number)
    once = stage.gateway.post(channel, found, trace)
    count = len(stage.shelf.of(trace))
    again = stage.gateway.post(channel, found, trace)
    assert_acknowledged(channel, once)
    assert_acknowledged(channel, again)
    stored = stage.shelf.of(trace)
    assert len(stored) == 2 * count > 0
    assert len({record.key for _topic, record in stored}) <= count


def test_what_cannot_be_mapped_is_stored_as_such_and_acknowledged(stage, channel):
    number, trace = fresh()
    found = channel.unmappable(number)
    if found is None:
        pytest.skip(f"the dialect of {channel.name} has no words that its adapter cannot map")
    assert_acknowledged(channel, stage.gateway.post(channel, found, trace))
    [(topic, record)] = stage.shelf.of(trace)
    assert (topic, json.loads(record.value)["type"]) == ("channel-callbacks", "unmapped")


def test_a_notice_of_an_unknown_order_is_stored_and_acknowledged(stage, channel):
    number, trace = fresh()
    found = channel.notice(number, order_id="", payment_no=f"nobody-{number}")
    assert_acknowledged(channel, stage.gateway.post(channel, found, trace))
    stored = stage.shelf.of(trace)
    assert stored
    assert all(topic == "unlinked" or record.key for topic, record in stored)


def test_a_body_that_is_too_large_is_refused_unread(stage, channel):
    number, trace = fresh()
    headers = channel.notice(number).headers
    answer = stage.gateway.client.post(
        f"/callbacks/{channel.name}/{channel.account}",
        content=b" " * (BODY_BYTES + 1),
        headers={**headers, "traceparent": trace},
    )
    assert answer.status_code == 413
    assert stage.shelf.of(trace) == []


def test_a_wrong_content_type_is_refused(stage, channel):
    if not channel.adapter.content_types:
        pytest.skip(f"{channel.name} states no content type")
    number, trace = fresh()
    answer = stage.gateway.post(channel, channel.notice(number), trace, **{"content-type": "image/png"})
    assert answer.status_code == 415
    assert stage.shelf.of(trace) == []


def test_a_body_that_comes_too_slowly_is_given_up(stage, channel):
    _number, trace = fresh()
    head = (
        f"POST /callbacks/{channel.name}/{channel.account} HTTP/1.1\r\nhost: x\r\ntraceparent: {trace}\r\n"
        "content-length: 100\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", stage.gateway.port), timeout=WITHIN_S) as line:
        line.sendall(head.encode() + b"{")
        began, answer = time.monotonic(), line.recv(65_536)
    assert b" 408 " in answer.split(b"\r\n")[0]
    assert time.monotonic() - began < BODY_S + 3
    assert stage.shelf.of(trace) == []


@pytest.mark.parametrize("line", ["down", "slow"], indirect=True)
def test_without_a_broker_in_time_the_channel_is_told_to_try_again(stage, channel, line):
    number, trace = fresh()
    answer = stage.gateway.post(channel, channel.notice(number), trace)
    assert answer.status_code == 503, line
    assert int(answer.headers["retry-after"]) > 0


def test_when_the_broker_is_back_the_same_notice_is_taken(stage, line):
    channel = stage.channels["simulator"]
    number, trace = fresh()
    found = channel.notice(number)
    stage.spoil("down")
    try:
        assert stage.gateway.post(channel, found, trace).status_code == 503
    finally:
        stage.mend()
    assert_acknowledged(channel, stage.gateway.post(channel, found, trace))
    assert stage.shelf.of(trace)
