"""`concord connector` as a process: its pages for supervisors, with a broker that comes and goes, and how it refuses to start."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys

import httpx
import pytest

from streams.dev import ports
from streams.simulator.faults import Rates
from streams.simulator.server import play
from tests.support.edge import edge
from tests.support.gateways import until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(120)]

PREFIX = "pages."
BROKER_GONE = (503, {"ready": False, "why": "the broker does not answer"})
READY = (200, {"ready": True, "why": ""})


def settings(bootstrap, folder):
    """The environment of a connector of one simulated account, whose channel nobody plays."""
    file = play("simulator", 7, Rates()).write_credentials(folder)
    account = {"channel": "simulator", "account": "sim", "credentials": f"file:{file.name}"}
    (folder / "channels.yaml").write_text(json.dumps({"accounts": [account]}))
    ours = {
        "CONCORD_KAFKA": bootstrap,
        "CONCORD_TOPIC_PREFIX": PREFIX,
        "CONCORD_CHANNELS": str(folder / "channels.yaml"),
    }
    return {**os.environ, **ours}


def command(port):
    return [sys.executable, "-m", "streams", "connector", "--port", str(port)]


def started(environment, folder, port):
    with (folder / "connector.log").open("wb") as log:
        return subprocess.Popen(command(port), env=environment, stdout=log, stderr=log, start_new_session=True)


def page(client, path):
    """Status and JSON of a page, or None while nobody answers."""
    try:
        answer = client.get(path)
    except httpx.TransportError:
        return None
    return answer.status_code, answer.json()


def test_a_connector_tells_whether_it_works_and_drains_on_sigterm(kafka_cluster, tmp_path):
    cluster = kafka_cluster()
    asyncio.run(topics_of(cluster.bootstrap))
    [port] = ports.free(1)
    process = started(settings(cluster.bootstrap, tmp_path), tmp_path, port)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=10) as client:
            until("it is ready", lambda: page(client, "/readyz") == READY)
            cluster.pause()
            until("it says what is wrong", lambda: page(client, "/readyz") == BROKER_GONE)
            assert page(client, "/healthz") == (200, {"status": "alive"})
            assert "concord_connector_members 1.0" in client.get("/metrics").text
            cluster.resume()
            until("it is ready again", lambda: page(client, "/readyz") == READY, 60)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


async def topics_of(bootstrap):
    """All topics are there."""
    async with edge(bootstrap, PREFIX):
        return


def test_a_port_that_is_taken_is_refused_with_the_fix(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        environment = settings("127.0.0.1:1", tmp_path)
        found = subprocess.run(command(port), env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert found.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port}" in found.stderr
    assert "give another --port" in found.stderr
