"""When a request may leave: as many at once, as many a second, and as soon as the channel answers at all.

The circuit breaker only delays. After `FAILURES` unknowns in a row, over `TROUBLE_S` seconds at least (what fails together in a burst
may be one cut connection), it lets nothing through for a while, then one request as a probe; each failed probe doubles the while. It
never answers for the channel, and after a lease's length of waiting it no longer holds back what must not be lost.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

FAILURES: Final = 5
TROUBLE_S: Final = 1.0
FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 30.0


class Gate:
    """The gate of one account. `slots` at once, and one every `every_s` seconds; `clock` in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.slots = 0
        self.every_s = 0.0
        self.in_flight = 0
        self.failures = 0
        self._clock = clock
        self._next = -inf
        self._paused_until: float | None = None
        self._pause_s = FIRST_PAUSE_S
        self._failing_since = inf
        self._probing = False
        self._changed = asyncio.Event()

    def resize(self, slots: int, every_s: float) -> None:
        """This connector's share from now on. What is in flight beyond it ends by itself."""
        self.slots, self.every_s = slots, every_s
        self._wake()

    @property
    def paused(self) -> bool:
        """Whether the breaker holds requests back."""
        return self._paused_until is not None

    async def enter(self, until: float, patience_s: float) -> bool:
        """Wait for a place; False once the clock has passed `until`. The breaker is heeded for `patience_s` seconds only."""
        began = self._clock()
        while (now := self._clock()) < until:
            wait_s = self._wait(now, heed_breaker=now < began + patience_s)
            if wait_s <= 0:
                self._take(now)
                return True
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(min(wait_s, until - now, patience_s)):
                    await self._changed.wait()
        return False

    def leave(self, *, unknown: bool) -> None:
        """The request is over. `unknown`: the channel gave no proof of anything."""
        self.in_flight -= 1
        now, paused = self._clock(), self._paused_until
        if not unknown:
            self.failures, self._failing_since = 0, inf
            self._paused_until, self._pause_s = None, FIRST_PAUSE_S
        else:
            self.failures += 1
            self._failing_since = min(self._failing_since, now)
            if self._in_trouble(now):
                self._paused_until = now + self._pause_s
                self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)
        if paused is None or now >= paused:
            self._probing = False
        self._wake()

    def _in_trouble(self, now: float) -> bool:
        """Whether this failure begins a pause. What left before one began tells nothing new."""
        if self._paused_until is not None:
            return now >= self._paused_until
        return self.failures >= FAILURES and now >= self._failing_since + TROUBLE_S

    def give_back(self) -> None:
        """The place was not used."""
        self.in_flight -= 1
        self._probing = False
        self._wake()

    def _wait(self, now: float, *, heed_breaker: bool) -> float:
        """Seconds until it is worth looking again; 0: now."""
        if self.in_flight >= self.slots:
            return LONGEST_PAUSE_S
        if heed_breaker and self._paused_until is not None:
            if now < self._paused_until:
                return self._paused_until - now
            if self._probing:
                return LONGEST_PAUSE_S
        return max(0.0, self._next - now)

    def _take(self, now: float) -> None:
        self.in_flight += 1
        self._probing = self._paused_until is not None
        self._next = max(now, self._next) + self.every_s

    def _wake(self) -> None:
        self._changed.set()
