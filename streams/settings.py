"""Configuration: every `CONCORD_*` environment variable, read in one place and never at import.

| variable | meaning | default |
| --- | --- | --- |
| `CONCORD_KAFKA` | bootstrap servers, `host:port[,host:port]` | `localhost:9092` |
| `CONCORD_KAFKA_SECURITY` | `PLAINTEXT`, `SSL`, `SASL_PLAINTEXT`, `SASL_SSL` | `PLAINTEXT` |
| `CONCORD_KAFKA_CA`, `_CERT`, `_KEY`, `_KEY_PASSWORD` | PEM files (and the key's password) for TLS | the system's authorities |
| `CONCORD_KAFKA_SASL`, `_USER`, `_PASSWORD` | `PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512`, with a user and a password | |
| `CONCORD_TOPIC_PREFIX` | text before every topic name, so that environments can share a cluster | empty |
| `CONCORD_REPLICATION` | replication factor of the topics that are created | topics.yaml |
| `CONCORD_GROUP` | consumer group, and prefix of the transactional ids | `<prefix>concord` |
| `CONCORD_TABLE` | `memory` or `rocksdb` | `memory` |
| `CONCORD_STATE_DIR` | folder of the RocksDB tables; one per worker | `.concord/state` |
| `CONCORD_WEB_HOST`, `CONCORD_WEB_PORT` | where `/healthz`, `/readyz` and `/metrics` listen | `127.0.0.1`, `6066` |
| `CONCORD_LOG_LEVEL` | `debug`, `info`, `warning`, `error` | `info` |
| `CONCORD_SESSION_SECONDS` | group session timeout, 6 or more (brokers refuse less by default) | 10 |
| `CONCORD_TRANSACTION_SECONDS` | broker-side transaction timeout; at most 900; bounds how long a dead worker holds back readers | 30 |
| `CONCORD_BATCH` | most input records in one transaction | 2000 |
| `CONCORD_CHANNELS` | the accounts file: which channel accounts there are, and where their credentials lie | `channels.yaml` |
| `CONCORD_GATEWAY_HOST`, `CONCORD_GATEWAY_PORT` | where the gateway listens for callbacks | `127.0.0.1`, `8080` |
| `CONCORD_GATEWAY_CONCURRENCY` | callbacks in flight; one more is answered with 503 | 512 |
| `CONCORD_GATEWAY_BODY_BYTES` | largest body of a callback; a larger one is answered with 413 | 262144 |
| `CONCORD_GATEWAY_BODY_MS` | how long a body may take to arrive, else 408; the headers have as long | 10000 |
| `CONCORD_GATEWAY_STORE_MS` | how long the broker may take to store a callback, else 503 | 4000 |
| `CONCORD_POSTGRES` | Postgres, `postgresql://…`; with it the gateway serves the cashier; `concord dev` and the tests read it, too | none |
| `CONCORD_RAW_KEY` | file of keys for raw messages, one a line, 32 bytes as base64; without it only their hashes are kept | none |
| `CONCORD_NOTIFY_ALLOW` | networks, not public, in which merchants may be told, without TLS, too: `10.1.0.0/16,127.0.0.1/32` | none |
| `CONCORD_REVIEW_URL`, `CONCORD_REVIEW_KEY` | whom `concord review` asks, and the asker's key | `http://127.0.0.1:8080`, none |
| `CONCORD_SERVICES` | where `concord dev`, `concord demo` and the tests get services from: `auto`, `docker`, `local` | `auto` |
| `CONCORD_KAFKA_VERSION` | the Kafka that is started locally | 4.2.1 |
| `CONCORD_CACHE_DIR` | where downloaded jars are kept | the user's cache |
"""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

Network: TypeAlias = IPv4Network | IPv6Network
SECURITY: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SASL: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
TABLES: Final = ("memory", "rocksdb")


class SettingsError(ValueError):
    """A variable that cannot be used; the text names it and the fix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a process of Concord is told by its environment. `kafka` holds keyword arguments of every aiokafka client."""

    kafka: dict[str, Any] = field(default_factory=lambda: {"bootstrap_servers": "localhost:9092"}, repr=False)
    topic_prefix: str = ""
    replication: int | None = None
    group: str = "concord"
    table: str = "memory"
    state_dir: Path = Path(".concord/state")
    web_host: str = "127.0.0.1"
    web_port: int = 6066
    log_level: str = "info"
    session_s: float = 10.0
    transaction_s: float = 30.0
    batch: int = 2000
    channels: Path = Path("channels.yaml")
    gateway_host: str = "127.0.0.1"
    gateway_port: int = 8080
    gateway_concurrency: int = 512
    gateway_body_bytes: int = 262_144
    gateway_body_s: float = 10.0
    gateway_store_s: float = 4.0
    postgres: str = field(default="", repr=False)
    raw_key: Path | None = None
    notify_allow: tuple[Network, ...] = ()
    review_url: str = "http://127.0.0.1:8080"
    review_key: str = field(default="", repr=False)

    @classmethod
    def from_env(cls, env: Mapping[str, str] | None = None) -> Settings:
        """Read the environment. Raises `SettingsError` for a value that cannot be used."""
        env = os.environ if env is None else env
        prefix = env.get("CONCORD_TOPIC_PREFIX", "")
        return cls(
            kafka=kafka_arguments(env),
            topic_prefix=prefix,
            replication=_whole(env, "CONCORD_REPLICATION", None),
            group=env.get("CONCORD_GROUP") or f"{prefix}concord",
            table=_one_of(env, "CONCORD_TABLE", TABLES, "memory"),
            state_dir=Path(env.get("CONCORD_STATE_DIR") or ".concord/state"),
            web_host=env.get("CONCORD_WEB_HOST") or "127.0.0.1",
            web_port=_whole(env, "CONCORD_WEB_PORT", 6066, high=65535),
            log_level=_one_of(env, "CONCORD_LOG_LEVEL", ("debug", "info", "warning", "error"), "info"),
            session_s=_whole(env, "CONCORD_SESSION_SECONDS", 10, low=6, high=1800),
            transaction_s=_whole(env, "CONCORD_TRANSACTION_SECONDS", 30, low=5, high=900),
            batch=_whole(env, "CONCORD_BATCH", 2000),
            channels=Path(env.get("CONCORD_CHANNELS") or "channels.yaml"),
            gateway_host=env.get("CONCORD_GATEWAY_HOST") or "127.0.0.1",
            gateway_port=_whole(env, "CONCORD_GATEWAY_PORT", 8080, high=65535),
            gateway_concurrency=_whole(env, "CONCORD_GATEWAY_CONCURRENCY", 512, high=100_000),
            gateway_body_bytes=_whole(env, "CONCORD_GATEWAY_BODY_BYTES", 262_144, low=1024, high=524_288),
            gateway_body_s=_whole(env, "CONCORD_GATEWAY_BODY_MS", 10_000, high=600_000) / 1000,
            gateway_store_s=_whole(env, "CONCORD_GATEWAY_STORE_MS", 4000, high=600_000) / 1000,
            postgres=env.get("CONCORD_POSTGRES") or "",
            raw_key=Path(env["CONCORD_RAW_KEY"]) if env.get("CONCORD_RAW_KEY") else None,
            notify_allow=_networks(env, "CONCORD_NOTIFY_ALLOW"),
            review_url=(env.get("CONCORD_REVIEW_URL") or "http://127.0.0.1:8080").rstrip("/"),
            review_key=env.get("CONCORD_REVIEW_KEY") or "",
        )

    def require_postgres(self) -> str:
        """The DSN. Raises `SettingsError` if there is none."""
        if not self.postgres:
            raise SettingsError("CONCORD_POSTGRES is empty; set it to postgresql://user@host/database")
        return self.postgres


def kafka_arguments(env: Mapping[str, str]) -> dict[str, Any]:
    """Keyword arguments for aiokafka's clients: address, TLS and SASL. The TLS files are read here, once."""
    security = _one_of(env, "CONCORD_KAFKA_SECURITY", SECURITY, "PLAINTEXT")
    arguments: dict[str, Any] = {"bootstrap_servers": _servers(env.get("CONCORD_KAFKA") or "localhost:9092")}
    if security != "PLAINTEXT":
        arguments["security_protocol"] = security
    if security.endswith("SSL"):
        arguments["ssl_context"] = _tls(env)
    if security.startswith("SASL"):
        arguments["sasl_mechanism"] = _one_of(env, "CONCORD_KAFKA_SASL", SASL, "PLAIN")
        for argument, name in (
            ("sasl_plain_username", "CONCORD_KAFKA_USER"),
            ("sasl_plain_password", "CONCORD_KAFKA_PASSWORD"),
        ):
            if not env.get(name):
                raise SettingsError(f"{name} is empty: {security} needs a user and a password")
            arguments[argument] = env[name]
    return arguments


def _servers(text: str) -> str:
    for server in text.split(","):
        host, _, port = server.rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise SettingsError(f"CONCORD_KAFKA={text!r}: use host:port[,host:port]")
    return text


def _tls(env: Mapping[str, str]) -> ssl.SSLContext:
    authorities, certificate, key = (env.get(f"CONCORD_KAFKA_{name}") or None for name in ("CA", "CERT", "KEY"))
    try:
        context = ssl.create_default_context(cafile=authorities)
        if certificate:
            context.load_cert_chain(certificate, key, env.get("CONCORD_KAFKA_KEY_PASSWORD") or None)
    except (OSError, ssl.SSLError) as error:
        raise SettingsError(
            f"CONCORD_KAFKA_CA, CONCORD_KAFKA_CERT, CONCORD_KAFKA_KEY: cannot be read as PEM files: {error}"
        ) from error
    return context


def _networks(env: Mapping[str, str], name: str) -> tuple[Network, ...]:
    parts = [part.strip() for part in (env.get(name) or "").split(",")]
    try:
        return tuple(ip_network(part) for part in parts if part)
    except ValueError as error:
        raise SettingsError(f"{name}: {error}; use networks, 10.1.0.0/16,127.0.0.1/32") from error


def _one_of(env: Mapping[str, str], name: str, allowed: tuple[str, ...], default: str) -> str:
    value = env.get(name) or default
    if value not in allowed:
        raise SettingsError(f"{name}={value!r}: use one of {', '.join(allowed)}")
    return value


def _whole(env: Mapping[str, str], name: str, default: Any, low: int = 1, high: int = 10**9) -> Any:
    value = env.get(name)
    if not value:
        return default
    if not value.isascii() or not value.isdigit() or not low <= int(value) <= high:
        within = f"of at least {low}" if high == 10**9 else f"from {low} to {high}"
        raise SettingsError(f"{name}={value!r}: use a whole number {within}")
    return int(value)
