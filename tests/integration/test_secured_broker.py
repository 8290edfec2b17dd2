"""The job on a broker that wants TLS and a password, by the settings alone."""

from __future__ import annotations

import asyncio
import datetime as dt
import ipaddress
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from streams.dev import ports
from streams.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.kafka
PASSWORD = "made-for-this-test"


def pem(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signs itself, and its key before it in one file, as a broker reads them."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "broker")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    public = certificate.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    authority, store = folder / "ca.pem", folder / "broker.pem"
    authority.write_bytes(public)
    store.write_bytes(private + public)
    return authority, store


@pytest.fixture
def secured(kafka_cluster: Any, tmp_path: Path, topic_prefix: str) -> dict[str, str]:
    """The settings of a broker whose clients' listener is SASL over TLS."""
    authority, store = pem(tmp_path)
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_concord="{PASSWORD}";'
    cluster = kafka_cluster(
        properties={
            "listener.security.protocol.map": "CLIENT:SASL_SSL,INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "listener.name.client.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.client.plain.sasl.jaas.config": login,
            "listener.name.client.ssl.keystore.type": "PEM",
            "listener.name.client.ssl.keystore.location": str(store),
        }
    )
    return {
        "CONCORD_KAFKA": cluster.bootstrap,
        "CONCORD_KAFKA_SECURITY": "SASL_SSL",
        "CONCORD_KAFKA_CA": str(authority),
        "CONCORD_KAFKA_USER": "concord",
        "CONCORD_KAFKA_PASSWORD": PASSWORD,
        "CONCORD_TOPIC_PREFIX": topic_prefix,
        "CONCORD_REPLICATION": "1",
        "CONCORD_WEB_PORT": str(ports.free(1)[0]),
        "CONCORD_TABLE": "memory",
    }


def ran(env: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "streams", *words],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


async def test_topics_worker_and_readers_work_over_tls_with_a_password(secured: dict[str, str], topic_prefix: str):
    made = await asyncio.to_thread(ran, secured, "topics", "create")
    assert made.returncode == 0, made.stderr
    kafka = Settings.from_env(secured).kafka
    worker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "streams", "worker"),
        env={**os.environ, **secured},
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        asked = {
            "type": "create_payment", "command_id": "c1", "order_id": "o1", "payment_no": "p1", "biz_code": "SHOP",
            "channel": "stripe:a", "amount": 500, "currency": "EUR",
        }  # fmt: skip
        async with AIOKafkaProducer(**kafka) as producer:
            await producer.send_and_wait(f"{topic_prefix}payments.commands", json.dumps(asked).encode(), key=b"o1")
        async with AIOKafkaConsumer(
            f"{topic_prefix}payments.decisions", **kafka, auto_offset_reset="earliest", isolation_level="read_committed"
        ) as reader:
            decided = await asyncio.wait_for(reader.getone(), 60)
        assert json.loads(decided.value)["rule"] == "created"
        told = await asyncio.to_thread(ran, secured, "explain", "o1")
        assert (told.returncode, "INIT" in told.stdout) == (0, True), told.stderr
    finally:
        worker.terminate()
        assert await asyncio.wait_for(worker.wait(), 30) == 0


async def test_a_wrong_password_is_said_and_is_not_printed(secured: dict[str, str]):
    wrong = secured | {"CONCORD_KAFKA_PASSWORD": "not-it-at-all"}
    refused = await asyncio.to_thread(ran, wrong, "topics", "check")
    assert refused.returncode != 0
    assert "not-it-at-all" not in refused.stdout + refused.stderr
    assert "concord topics" in refused.stderr
