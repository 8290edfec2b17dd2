"""Merchants, their API keys and the limits of their business lines: `merchants`, `api_keys`, `business_lines`.

All of them are read at once, as one register: they are few, and whoever answers requests keeps the last good one. Amounts are minor
units, times UTC. A key's secret is never stored and never read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from stores.pool import reached

if TYPE_CHECKING:
    from datetime import datetime

    from stores.schema import Connection

SCOPES: Final = ("payments:read", "payments:write", "refunds:read", "refunds:write")
"""What a key may be for. `payments:write` is to create, start, close, capture and void."""
WITHIN_S: Final = 5.0


class Key(Struct, frozen=True, kw_only=True):
    """One API key. `secret_hash` is the SHA-256 of its secret."""

    key_id: str
    merchant: str
    secret_hash: bytes
    scopes: frozenset[str]

    def __repr__(self) -> str:
        return f"Key({self.key_id}, {self.merchant})"


class Merchant(Struct, frozen=True, kw_only=True):
    """One merchant. `limits` is the most of one payment, in minor units, by business code and currency."""

    merchant: str
    numbering: bytes
    rate_per_second: int
    limits: dict[tuple[str, str], int]

    def __repr__(self) -> str:
        return f"Merchant({self.merchant})"


class Register(Struct, frozen=True):
    """All merchants that are not disabled, by name, and all their keys that are not revoked, by id."""

    merchants: dict[str, Merchant]
    keys: dict[str, Key]


_MERCHANTS: Final = "SELECT merchant, numbering, rate_per_second FROM merchants WHERE NOT disabled"
_KEYS: Final = "SELECT key_id, merchant, secret_hash, scopes FROM api_keys WHERE revoked_at IS NULL"
_LINES: Final = "SELECT merchant, biz_code, currency, max_amount FROM business_lines"


async def register(connections: Connection) -> Register:
    """Everything, as of one moment, through a pool. Raises `Unreachable` within some seconds."""
    return await reached(connections, register_of, 2 * WITHIN_S)


async def register_of(connection: Connection) -> Register:
    """Everything, as of one moment."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        merchants = await connection.fetch(_MERCHANTS)
        keys = await connection.fetch(_KEYS)
        lines = await connection.fetch(_LINES)
    limits: dict[str, dict[tuple[str, str], int]] = {}
    for line in lines:
        limits.setdefault(line["merchant"], {})[line["biz_code"], line["currency"]] = line["max_amount"]
    known = {row["merchant"]: Merchant(limits=limits.get(row["merchant"], {}), **row) for row in merchants}
    return Register(known, {row["key_id"]: _key(row) for row in keys if row["merchant"] in known})


def _key(row: Any) -> Key:
    return Key(
        key_id=row["key_id"],
        merchant=row["merchant"],
        secret_hash=row["secret_hash"],
        scopes=frozenset(row["scopes"]),
    )


async def add(connection: Connection, merchant: str, numbering: bytes, rate_per_second: int, at: datetime) -> bool:
    """A new merchant; False if there is one of that name. `numbering` is 32 bytes of chance."""
    done = await connection.execute(
        "INSERT INTO merchants (merchant, numbering, rate_per_second, created_at) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
        merchant,
        numbering,
        rate_per_second,
        at,
    )
    return bool(done == "INSERT 0 1")


async def add_key(connection: Connection, key: Key, at: datetime) -> bool:
    """A new key; False if there is no such merchant."""
    done = await connection.execute(
        "INSERT INTO api_keys (key_id, merchant, secret_hash, scopes, created_at) "
        "SELECT $1, merchant, $3, $4, $5 FROM merchants WHERE merchant = $2",
        key.key_id,
        key.merchant,
        key.secret_hash,
        sorted(key.scopes),
        at,
    )
    return bool(done == "INSERT 0 1")


async def revoke(connection: Connection, merchant: str, key_id: str, at: datetime) -> bool:
    """End a key of a merchant; False if it has no such live one. Gateways hear of it within seconds, while Postgres answers."""
    done = await connection.execute(
        "UPDATE api_keys SET revoked_at = $3 WHERE merchant = $1 AND key_id = $2 AND revoked_at IS NULL",
        merchant,
        key_id,
        at,
    )
    return bool(done == "UPDATE 1")


async def set_limit(connection: Connection, merchant: str, biz_code: str, currency: str, max_amount: int) -> bool:
    """The most of one payment of a business line, in minor units; False if there is no such merchant."""
    done = await connection.execute(
        "INSERT INTO business_lines (merchant, biz_code, currency, max_amount) "
        "SELECT merchant, $2, $3, $4 FROM merchants WHERE merchant = $1 "
        "ON CONFLICT (merchant, biz_code, currency) DO UPDATE SET max_amount = EXCLUDED.max_amount",
        merchant,
        biz_code,
        currency,
        max_amount,
    )
    return bool(done == "INSERT 0 1")
