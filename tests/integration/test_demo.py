"""The demonstration itself: a crash in the middle of real traffic, a proof that finds nothing wrong, and nothing left behind."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from aiokafka.admin import AIOKafkaAdminClient

from streams.demo.run import Demo
from streams.demo.traces import PREFIX
from streams.topics import Topics

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.kafka


@pytest.fixture
def run(kafka, tmp_path):
    def concord(*command: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "streams", *command],
            env={**os.environ, "CONCORD_KAFKA": kafka.bootstrap, "COLUMNS": "80", "PYTHONPATH": os.getcwd(), **env},  # noqa: PTH109  as a user's shell
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )

    return concord


async def left_over(bootstrap: str) -> list[str]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        return [topic for topic in await admin.list_topics() if PREFIX.match(topic)]
    finally:
        await admin.close()


async def test_the_demonstration_survives_its_crash_proves_it_and_leaves_nothing(kafka, run, tmp_path):
    ran = run("demo", "--orders", "400", "--rate", "600", "--seed", "3", "--payments", "60")
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    assert ran.stdout.splitlines()[0] == f"Kafka is at {kafka.bootstrap} (CONCORD_KAFKA)"
    assert int(re.search(r"SIGKILL worker-1, (\d+) events in flight", ran.stdout).group(1)) > 0
    assert "both workers drained, exit codes [0, 0]" in ran.stdout
    assert "SIGKILL gateway, with notices on their way" in ran.stdout
    assert len(re.findall("^✔", ran.stdout, re.MULTILINE)) == 3 + 5 + 1
    assert "✘" not in ran.stdout
    assert "0 due times" not in ran.stdout
    assert "╯\n─" in ran.stdout
    assert "Its topics are deleted" in ran.stdout
    assert await left_over(kafka.bootstrap) == []
    assert (tmp_path / ".concord" / "demo" / "worker-1.log").exists()
    assert (tmp_path / ".concord" / "demo" / "loop" / "gateway.log").exists()


async def test_what_it_was_told_to_keep_can_be_looked_at_as_it_says_and_deleted(kafka, run):
    ran = run("demo", "--orders", "50", "--rate", "50000", "--payments", "0", "--keep")
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    exports = dict(re.findall(r"^  export (\w+)=(\S+)$", ran.stdout, re.MULTILINE))
    assert exports.keys() == {"CONCORD_KAFKA", "CONCORD_TOPIC_PREFIX", "CONCORD_REPLICATION"}
    commands = re.findall(r"^  concord (.+)$", ran.stdout, re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["explain", "audit", "demo"]
    told, audited, deleted = (run(*command.split(), **exports) for command in commands)
    assert (told.returncode, told.stdout.split()[:2]) == (0, ["order", "ORD-000042"])
    assert (audited.returncode, audited.stdout.splitlines()[-1]) == (0, "no difference")
    assert (deleted.returncode, deleted.stdout.count("deleted ")) == (0, len(Topics.load().all))
    assert await left_over(kafka.bootstrap) == []


def test_a_users_own_kafka_keeps_its_security_and_its_replication(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name, value in {
        "CONCORD_KAFKA": "kafka.example:9093",
        "CONCORD_KAFKA_SECURITY": "SASL_SSL",
        "CONCORD_KAFKA_USER": "u",
        "CONCORD_KAFKA_PASSWORD": "p",
        "CONCORD_REPLICATION": "3",
    }.items():
        monkeypatch.setenv(name, value)
    theirs, ours = Demo(tmp_path, None), Demo(tmp_path, None, started="127.0.0.1:20000")
    assert theirs.settings.kafka["bootstrap_servers"] == "kafka.example:9093"
    assert theirs.settings.kafka["security_protocol"] == "SASL_SSL"
    assert (theirs.settings.kafka["sasl_plain_username"], theirs.settings.replication) == ("u", 3)
    assert "CONCORD_KAFKA" not in theirs.workers[0].env
    assert ours.settings.kafka == {"bootstrap_servers": "127.0.0.1:20000"}
    assert (ours.workers[0].env["CONCORD_KAFKA_SECURITY"], ours.settings.replication) == ("PLAINTEXT", 1)
