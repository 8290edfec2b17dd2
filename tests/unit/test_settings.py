"""Every `CONCORD_*` variable: what it becomes, and how a value that cannot be used is refused."""

from __future__ import annotations

import inspect
import re
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from streams import settings as module
from streams.settings import Settings, SettingsError


@pytest.fixture
def pem(tmp_path: Path) -> dict[str, str]:
    """A self-signed certificate and its key, encrypted, as variables."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "broker")])
    start = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, start, start + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    locked = serialization.BestAvailableEncryption(b"opensesame")
    (tmp_path / "ca.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (tmp_path / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked)
    )
    return {
        "CONCORD_KAFKA_CA": str(tmp_path / "ca.pem"),
        "CONCORD_KAFKA_CERT": str(tmp_path / "ca.pem"),
        "CONCORD_KAFKA_KEY": str(tmp_path / "key.pem"),
        "CONCORD_KAFKA_KEY_PASSWORD": "opensesame",
    }


class TestDefaults:
    def test_an_empty_environment_gives_the_defaults_that_the_class_has(self):
        assert Settings.from_env({}) == Settings()

    def test_an_empty_variable_is_as_good_as_none(self):
        names = re.findall(r"CONCORD_[A-Z_]+", module.__doc__ or "")
        assert Settings.from_env(dict.fromkeys(names, "")) == Settings()

    def test_the_process_environment_is_read_when_none_is_given(self, monkeypatch):
        monkeypatch.setenv("CONCORD_GROUP", "from-the-process")
        assert Settings.from_env().group == "from-the-process"

    def test_every_variable_that_is_read_is_in_the_table(self):
        source = inspect.getsource(module).replace(module.__doc__ or "", "")
        read = set(re.findall(r'"(CONCORD_[A-Z_]+[A-Z])"', source))
        assert read
        assert read <= set(re.findall(r"CONCORD_[A-Z_]+[A-Z]", module.__doc__ or "")) | {
            f"CONCORD_KAFKA{name}" for name in ("_USER", "_PASSWORD", "_CERT", "_KEY", "_KEY_PASSWORD")
        }


class TestValues:
    @pytest.mark.parametrize(
        ("variable", "value", "field", "expected"),
        [
            ("CONCORD_TOPIC_PREFIX", "eu.", "topic_prefix", "eu."),
            ("CONCORD_REPLICATION", "3", "replication", 3),
            ("CONCORD_GROUP", "other", "group", "other"),
            ("CONCORD_TABLE", "rocksdb", "table", "rocksdb"),
            ("CONCORD_STATE_DIR", "/var/lib/concord", "state_dir", Path("/var/lib/concord")),
            ("CONCORD_WEB_HOST", "0.0.0.0", "web_host", "0.0.0.0"),
            ("CONCORD_WEB_PORT", "8080", "web_port", 8080),
            ("CONCORD_WEB_PORT", "1", "web_port", 1),
            ("CONCORD_LOG_LEVEL", "debug", "log_level", "debug"),
            ("CONCORD_SESSION_SECONDS", "6", "session_s", 6),
            ("CONCORD_TRANSACTION_SECONDS", "15", "transaction_s", 15),
            ("CONCORD_BATCH", "1", "batch", 1),
        ],
    )
    def test_a_variable_sets_its_field(self, variable, value, field, expected):
        assert getattr(Settings.from_env({variable: value}), field) == expected

    def test_the_group_follows_the_prefix_unless_it_is_given(self):
        assert Settings.from_env({"CONCORD_TOPIC_PREFIX": "eu."}).group == "eu.concord"
        assert Settings.from_env({"CONCORD_TOPIC_PREFIX": "eu.", "CONCORD_GROUP": "g"}).group == "g"

    @pytest.mark.parametrize(
        ("variable", "value", "says"),
        [
            ("CONCORD_REPLICATION", "0", "at least 1"),
            ("CONCORD_REPLICATION", "three", "whole number"),
            ("CONCORD_WEB_PORT", "0", "from 1 to 65535"),
            ("CONCORD_WEB_PORT", "99999", "from 1 to 65535"),
            ("CONCORD_KAFKA", "a:b:c", "use host:port"),
            ("CONCORD_KAFKA", "broker", "use host:port"),
            ("CONCORD_TRANSACTION_SECONDS", "100000", "from 5 to 900"),
            ("CONCORD_BATCH", "1.5", "whole number"),
            ("CONCORD_BATCH", "٣", "whole number"),
            ("CONCORD_BATCH", " 5", "whole number"),
            ("CONCORD_SESSION_SECONDS", "1", "from 6 to 1800"),
            ("CONCORD_TRANSACTION_SECONDS", "1e3", "whole number"),
            ("CONCORD_TABLE", "redis", "memory, rocksdb"),
            ("CONCORD_LOG_LEVEL", "INFO", "debug, info, warning, error"),
            ("CONCORD_KAFKA_SECURITY", "TLS", "PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ],
    )
    def test_a_value_that_cannot_be_used_names_the_variable_the_value_and_the_fix(self, variable, value, says):
        with pytest.raises(SettingsError) as caught:
            Settings.from_env({variable: value})
        assert variable in str(caught.value)
        assert repr(value) in str(caught.value)
        assert says in str(caught.value)


class TestKafka:
    def test_plain_text_is_an_address_and_nothing_else(self):
        assert Settings.from_env({"CONCORD_KAFKA": "a:1,b:2"}).kafka == {"bootstrap_servers": "a:1,b:2"}

    def test_tls_alone_trusts_the_systems_authorities_and_checks_the_host(self):
        kafka = Settings.from_env({"CONCORD_KAFKA_SECURITY": "SSL"}).kafka
        assert kafka["security_protocol"] == "SSL"
        context = kafka["ssl_context"]
        assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)

    def test_a_given_authority_is_the_one_that_is_trusted(self, pem):
        context = Settings.from_env({"CONCORD_KAFKA_SECURITY": "SSL"} | pem).kafka["ssl_context"]
        assert [entry["subject"][0][0][1] for entry in context.get_ca_certs()] == ["broker"]

    @pytest.mark.parametrize(
        "broken",
        [
            {"CONCORD_KAFKA_CA": "/nowhere/ca.pem"},
            {"CONCORD_KAFKA_CERT": "/nowhere/cert.pem"},
            {"CONCORD_KAFKA_KEY_PASSWORD": "wrong"},
            {"CONCORD_KAFKA_CA": __file__},
        ],
    )
    def test_tls_files_that_cannot_be_read_are_refused(self, pem, broken):
        with pytest.raises(SettingsError, match=r"CONCORD_KAFKA_CA.*PEM"):
            Settings.from_env({"CONCORD_KAFKA_SECURITY": "SSL"} | pem | broken)

    @pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
    @pytest.mark.parametrize("security", ["SASL_PLAINTEXT", "SASL_SSL"])
    def test_sasl_passes_mechanism_user_and_password(self, security, mechanism):
        env = {
            "CONCORD_KAFKA_SECURITY": security,
            "CONCORD_KAFKA_SASL": mechanism,
            "CONCORD_KAFKA_USER": "concord",
            "CONCORD_KAFKA_PASSWORD": "hunter2",
        }
        kafka = Settings.from_env(env).kafka
        assert (kafka["sasl_mechanism"], kafka["sasl_plain_username"], kafka["sasl_plain_password"]) == (
            mechanism,
            "concord",
            "hunter2",
        )
        assert kafka["security_protocol"] == security
        assert ("ssl_context" in kafka) == (security == "SASL_SSL")

    @pytest.mark.parametrize("missing", ["CONCORD_KAFKA_USER", "CONCORD_KAFKA_PASSWORD"])
    def test_sasl_without_a_user_or_a_password_is_refused(self, missing):
        env = {"CONCORD_KAFKA_SECURITY": "SASL_SSL", "CONCORD_KAFKA_USER": "u", "CONCORD_KAFKA_PASSWORD": "p"}
        with pytest.raises(SettingsError, match=f"{missing} is empty"):
            Settings.from_env(env | {missing: ""})

    def test_an_unknown_mechanism_is_refused(self):
        env = {"CONCORD_KAFKA_SECURITY": "SASL_SSL", "CONCORD_KAFKA_SASL": "GSSAPI"}
        with pytest.raises(SettingsError, match="CONCORD_KAFKA_SASL='GSSAPI'"):
            Settings.from_env(env)

    def test_a_password_is_not_printed(self):
        env = {
            "CONCORD_KAFKA_SECURITY": "SASL_PLAINTEXT",
            "CONCORD_KAFKA_USER": "u",
            "CONCORD_KAFKA_PASSWORD": "hunter2",
        }
        assert "hunter2" not in repr(Settings.from_env(env))

    def test_the_arguments_are_ones_that_the_client_takes(self, pem):
        env = {"CONCORD_KAFKA_SECURITY": "SASL_SSL", "CONCORD_KAFKA_USER": "u", "CONCORD_KAFKA_PASSWORD": "p"} | pem
        for client in (AIOKafkaConsumer, AIOKafkaProducer, AIOKafkaAdminClient):
            inspect.signature(client).bind(**Settings.from_env(env).kafka)
