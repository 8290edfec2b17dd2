"""The gateway as a process: addresses, bounds, keys that rotate, a stop that loses nothing, and logs that tell no secret."""

from __future__ import annotations

import asyncio
import json
import secrets
import signal
import socket
import threading
from dataclasses import replace

import msgspec
import pytest

from streams.topics import Topics, create
from tests.support.gateways import WITHIN_S, Channel, GatewayProcess, Loop, Shelf, until

pytestmark = pytest.mark.kafka

CARD, NAME, SECRET = "4111111111111111", "Jane Mary Doe", "whsec_never_to_be_seen_77"


@pytest.fixture(scope="module")
def stage(kafka, tmp_path_factory):
    prefix = f"t{secrets.token_hex(4)}."
    topics = Topics.load(prefix=prefix, replication=1)
    asyncio.run(create({"bootstrap_servers": kafka.bootstrap}, topics))
    channel = Channel("simulator")
    env = {"CONCORD_KAFKA": kafka.bootstrap, "CONCORD_TOPIC_PREFIX": prefix, "CONCORD_REPLICATION": "1"}
    env |= {"CONCORD_GATEWAY_CONCURRENCY": "4", "CONCORD_GATEWAY_BODY_MS": "3000", "CONCORD_LOG_LEVEL": "debug"}
    gateway = GatewayProcess(tmp_path_factory.mktemp("gateway"), env, [channel])
    loop = Loop()
    gateway.start()
    shelf = Shelf(loop, kafka.bootstrap, topics, "channel-callbacks")
    yield gateway, channel, shelf
    shelf.close()
    loop.end()
    gateway.end()


def trace() -> str:
    return f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"


@pytest.mark.parametrize(
    "path", ["/callbacks", "/callbacks/simulator", "/callbacks/simulator/other", "/callbacks/a/b/c", "/"]
)
def test_an_address_without_an_account_is_not_found(stage, path: str):
    assert stage[0].client.post(path, content=b"{}").status_code == 404


def test_only_a_post_is_a_notice(stage):
    gateway, _channel, _shelf = stage
    answer = gateway.client.get("/callbacks/simulator/acct_1")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


def test_a_content_type_may_have_parameters(stage):
    gateway, channel, _shelf = stage
    kind = {"content-type": "Application/JSON; charset=utf-8"}
    assert gateway.post(channel, channel.notice("typed"), **kind).status_code == 200


@pytest.mark.parametrize("pieces", [1, 40])
def test_headers_that_are_too_large_end_the_connection(stage, pieces: int):
    gateway, _channel, _shelf = stage
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=WITHIN_S) as line:
        line.sendall(b"POST /callbacks/simulator/acct_1 HTTP/1.1\r\nhost: x\r\n")
        try:
            for number in range(pieces):
                line.sendall(b"x-%d: " % number + b"a" * (40_000 // pieces) + b"\r\n")
            line.sendall(b"\r\n")
            answer = line.recv(4096)
        except (BrokenPipeError, ConnectionResetError):
            return  # it was closed while we were still writing
    assert answer.startswith(b"HTTP/1.1 431 ")


def test_headers_that_never_end_are_given_up(stage):
    gateway, _channel, _shelf = stage
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=WITHIN_S) as line:
        line.sendall(b"POST /callbacks/simulator/acct_1 HTTP/1.1\r\nhost: x\r\n")
        assert line.recv(4096) == b""


def test_over_capacity_the_channel_is_told_to_try_again(stage):
    gateway, channel, _shelf = stage
    head = b"POST /callbacks/simulator/acct_1 HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n"
    waiting = [socket.create_connection(("127.0.0.1", gateway.port), timeout=WITHIN_S) for _ in range(4)]
    try:
        for line in waiting:
            line.sendall(head)
        until("the pool is full", lambda: "concord_callbacks_in_flight 4.0" in gateway.client.get("/metrics").text, 2.5)
        answer = gateway.post(channel, channel.notice("busy"))
        assert answer.status_code == 503
        assert answer.headers["retry-after"]
        assert gateway.client.get("/healthz").status_code == 200
    finally:
        for line in waiting:
            line.close()
    until("a place is free", lambda: gateway.post(channel, channel.notice("free")).status_code == 200)


def test_a_missing_trace_gets_a_fresh_one(stage):
    gateway, channel, shelf = stage
    assert gateway.post(channel, channel.notice("untraced"), "junk").status_code == 200
    shelf.of("")
    [record] = [record for record in shelf.records if record.key == b"order-untraced"]
    assert dict(record.headers)["traceparent"].startswith(b"00-")


def test_the_pages_tell_what_happened(stage):
    gateway, channel, _shelf = stage
    gateway.post(channel, channel.notice("counted"))
    text = gateway.client.get("/metrics").text
    assert 'concord_callbacks_total{channel="simulator",outcome="stored"}' in text
    assert "concord_callback_seconds_bucket" in text
    assert "concord_broker_ready 1.0" in text


def test_no_log_line_holds_a_secret_a_card_number_or_a_name(stage):
    """They are fed in every field and header, signed and unsigned; the log, at its lowest level, is then searched."""
    gateway, channel, _shelf = stage
    texts = ("event_id", "order_id", "payment_no", "transaction", "operation_no", "operation_transaction")
    for poison in (CARD, NAME, SECRET, "4111 1111 1111 1111"):
        for field in texts:
            found = channel.notice("logs", **{field: poison})
            assert gateway.post(channel, found).status_code == 200
            gateway.post(channel, msgspec.structs.replace(found, body=found.body + poison.encode()))
        for header in ("traceparent", "x-signature", "content-type", "authorization", "user-agent", "x-other"):
            gateway.post(channel, channel.notice("logs"), **{header: poison})
        gateway.client.post(f"/callbacks/simulator/{poison}", content=poison)
        gateway.client.post(f"/callbacks/{poison}/acct_1", content=poison, params={"q": poison})
        body = json.dumps({"about": poison, "status": poison, "event_type": poison}).encode()
        gateway.post(channel, msgspec.structs.replace(channel.notice("logs"), body=body))
    log = gateway.log.read_text()
    assert '"outcome":"stored"' in log
    leaked = [
        word for word in (CARD, "Jane", "Doe", SECRET, "1111 1111", *channel.credentials["secrets"]) if word in log
    ]
    assert leaked == []


def test_a_rotated_key_is_live_without_a_restart(stage):
    gateway, channel, _shelf = stage
    coming = Channel("simulator", seed=7)
    assert gateway.post(coming, coming.notice("rotated")).status_code == 401
    file = gateway.folder / "simulator.json"
    both = [*channel.credentials["secrets"], *coming.credentials["secrets"]]
    file.write_text(json.dumps({**channel.credentials, "secrets": both}))
    until("the new key is live", lambda: gateway.post(coming, coming.notice("rotated")).status_code == 200)
    assert gateway.post(channel, channel.notice("rotated")).status_code == 200
    file.write_text("{")
    until("the damage is told", lambda: "kept as it was" in gateway.log.read_text())
    assert gateway.post(coming, coming.notice("rotated")).status_code == 200


def test_a_stop_finishes_what_is_in_flight(stage):
    gateway, channel, shelf = stage
    own, mine = replace(gateway, port=0, name="stopping"), trace()
    own.channels = [channel]
    own.start()
    found = channel.notice("in-flight")
    head = [f"{name}: {value}" for name, value in {**found.headers, "traceparent": mine}.items()]
    with socket.create_connection(("127.0.0.1", own.port), timeout=WITHIN_S) as line:
        start = f"POST /callbacks/simulator/acct_1 HTTP/1.1\r\nhost: x\r\ncontent-length: {len(found.body)}\r\n"
        line.sendall((start + "\r\n".join(head) + "\r\n\r\n").encode() + found.body[:10])
        until("the request is in flight", lambda: "concord_callbacks_in_flight 1.0" in own.client.get("/metrics").text)
        own.client.close()
        assert own.process is not None
        own.process.send_signal(signal.SIGTERM)
        threading.Event().wait(0.3)  # so that the signal comes before the rest of the body; the claim holds either way
        line.sendall(found.body[10:])
        assert line.recv(4096).startswith(b"HTTP/1.1 200 ")
    assert own.process.wait(WITHIN_S) == 0
    assert [topic for topic, _record in shelf.of(mine)] == ["channel-callbacks"]
