"""Who asks, and what they may: API keys, their scopes, and how many requests a second.

A key is `ck_<id>_<secret>`. The id finds it; the secret is compared as SHA-256 and in constant time, also where no such key is, so
neither answer nor time tells which ids exist. The register is read every few seconds and kept while Postgres is down, for
`GOOD_S`: that long a key that was revoked meanwhile still opens, and after it none does.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from stores.pool import Unreachable
from streams.gateway.problems import Refused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from stores.merchants import Key, Merchant, Register

log: Final = structlog.get_logger(__name__)

GOOD_S: Final = 3600.0
"""How long the last good register serves while Postgres is down."""
AGAIN_S: Final = 5.0
TOKEN: Final = re.compile(r"ck_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
_NOBODY: Final = bytes(32)


class Caller(NamedTuple):
    """Whoever asks: the key and its merchant."""

    key: Key
    merchant: Merchant


class Directory:
    """The last good register. `clock` is seconds that only grow."""

    def __init__(self, load: Callable[[], Awaitable[Register]], clock: Callable[[], float]) -> None:
        self._load, self._clock = load, clock
        self._register: Register | None = None
        self._read_at = 0.0

    async def run(self) -> None:
        """Read the register again and again, for as long as the gateway runs."""
        while True:
            await self.refresh()
            await asyncio.sleep(AGAIN_S)

    async def refresh(self) -> None:
        """Read it once; what cannot be read leaves the last good one."""
        try:
            self._register = await self._load()
        except Unreachable as error:
            log.warning("the merchants cannot be read", why=str(error), kept=self._register is not None)
        else:
            self._read_at = self._clock()

    @property
    def register(self) -> Register:
        """Raises `Refused` where there is none, or it is too old."""
        if self._register is None or self._clock() - self._read_at > GOOD_S:
            raise Refused("KEYS_UNAVAILABLE", retry_after=5)
        return self._register


class Door:
    """Lets a request in, or refuses it by name."""

    def __init__(self, directory: Directory, clock: Callable[[], float]) -> None:
        self._directory, self._clock = directory, clock
        self._buckets: dict[str, tuple[float, float]] = {}

    def enter(self, authorization: str, scope: str) -> Caller:
        """Whoever holds the key of an `Authorization` header, if it has the scope and did not ask too often."""
        caller = self._known(authorization)
        wait = self._wait(caller)
        if wait > 0:
            raise Refused("RATE_LIMITED", retry_after=wait)
        if scope not in caller.key.scopes:
            raise Refused("SCOPE_MISSING", f"the key {caller.key.key_id} has not the scope {scope}")
        return caller

    def _known(self, authorization: str) -> Caller:
        register = self._directory.register
        kind, _, token = authorization.partition(" ")
        found = TOKEN.fullmatch(token) if kind.lower() == "bearer" else None
        key_id, secret = found.groups() if found else ("", "")
        key = register.keys.get(key_id)
        hashed = hashlib.sha256(secret.encode()).digest()
        same = hmac.compare_digest(hashed, _NOBODY if key is None else key.secret_hash)
        if key is None or not same:
            raise Refused("UNAUTHENTICATED")
        return Caller(key, register.merchants[key.merchant])

    def _wait(self, caller: Caller) -> int:
        """A token bucket of two seconds' worth for each merchant: 0 and a token less, or whole seconds to wait."""
        rate = caller.merchant.rate_per_second
        now = self._clock()
        tokens, at = self._buckets.get(caller.merchant.merchant, (2.0 * rate, now))
        tokens = min(2.0 * rate, tokens + (now - at) * rate)
        wait = 0 if tokens >= 1 else 1
        self._buckets[caller.merchant.merchant] = (tokens if wait else tokens - 1, now)
        return wait
