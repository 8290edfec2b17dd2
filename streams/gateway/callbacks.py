"""`POST /callbacks/{channel}/{account}`: the HTTP side of the intake, with bounds and a pool of its own.

Plain ASGI inside Litestar: the body is read here, piece by piece, so that size and time are bounded before anything is kept.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from litestar import asgi

from streams.channels.adapter import Received
from streams.gateway.intake import Answer, unavailable
from streams.gateway.journal import WARNING, Line
from streams.gateway.limits import Gone, TooLarge, TooSlow, read_body
from streams.gateway.meters import UNKNOWN
from streams.gateway.trace import trace_id, traced

if TYPE_CHECKING:
    from collections.abc import Callable

    from litestar.handlers import ASGIRouteHandler

    from streams.channels.accounts import Accounts, Live
    from streams.gateway.intake import Intake
    from streams.gateway.journal import Journal
    from streams.gateway.limits import Bounds, Pool
    from streams.gateway.meters import Meters

PATH: Final = "/callbacks"
CLOSE: Final = ((b"connection", b"close"),)
"""With an answer that comes before the whole body did: what is left of it is not read."""

NOT_THERE: Final = Answer(404, "not_found", b"no such channel account")
NOT_POSTED: Final = Answer(405, "not_posted", b"", ((b"allow", b"POST"),))
WRONG_TYPE: Final = Answer(415, "wrong_type", b"the content type is not the channel's")
LARGE: Final = Answer(413, "too_large", b"the body is too large", CLOSE)
SLOW: Final = Answer(408, "too_slow", b"the body took too long", CLOSE)
LOST: Final = Answer(400, "gone", b"", CLOSE)
BUSY: Final = unavailable("busy")


class Callbacks:
    """Answers one request after another; holds nothing of any."""

    def __init__(
        self, accounts: Accounts, intake: Intake, *, bounds: Bounds, pool: Pool, meters: Meters, journal: Journal
    ) -> None:
        self._accounts, self._intake = accounts, intake
        self._bounds, self._pool, self._meters, self._journal = bounds, pool, meters, journal

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One ASGI request."""
        began = time.perf_counter()
        live = self._addressed(scope["path"])
        answer = await self._answer(live, scope, receive)
        channel = UNKNOWN if live is None else live.account.channel
        self._meters.answered(channel, answer.outcome, time.perf_counter() - began)
        await _send(send, answer)

    def _addressed(self, path: str) -> Live | None:
        """The account of `/channel/account`, what is left of the path under the mount."""
        channel, _, account = path.strip("/").partition("/")
        return self._accounts.get(channel, account)

    async def _answer(self, live: Live | None, scope: Any, receive: Callable[[], Any]) -> Answer:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        traceparent = traced(headers.get("traceparent", ""))
        if live is None:
            self._journal.tell(WARNING, Line(NOT_THERE.outcome, trace=trace_id(traceparent)))
            return NOT_THERE
        refused = self._before_body(live, scope, headers)
        if refused is not None or not self._pool.enter():
            answer = refused or BUSY
            self._tell(live, traceparent, answer)
            return answer
        try:
            return await self._take(live, headers, traceparent, receive)
        finally:
            self._pool.leave()

    @staticmethod
    def _before_body(live: Live, scope: Any, headers: dict[str, str]) -> Answer | None:
        """What can be refused by the headers alone. A notice that names no type is not of a wrong one."""
        if scope["method"] != "POST":
            return NOT_POSTED
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        wanted = live.adapter.content_types
        return WRONG_TYPE if kind and wanted and kind not in wanted else None

    async def _take(self, live: Live, headers: dict[str, str], traceparent: str, receive: Callable[[], Any]) -> Answer:
        try:
            body = await read_body(receive, headers.get("content-length"), self._bounds)
        except (TooLarge, TooSlow, Gone) as verdict:
            answer = {TooLarge: LARGE, TooSlow: SLOW, Gone: LOST}[type(verdict)]
            self._tell(live, traceparent, answer)
            return answer
        received = Received(headers, body, live.account.account, datetime.now(UTC))
        return await self._intake.take(live, received, traceparent)

    def _tell(self, live: Live, traceparent: str, answer: Answer) -> None:
        account = live.account
        line = Line(answer.outcome, channel=account.channel, account=account.account, trace=trace_id(traceparent))
        self._journal.tell(WARNING, line)


def handler(callbacks: Callbacks) -> ASGIRouteHandler:
    """The route, for the app. It is mounted: Litestar gives path parameters to its own kind of handler only."""

    @asgi(PATH, is_mount=True, copy_scope=False)
    async def take(scope: Any, receive: Any, send: Any) -> None:
        await callbacks(scope, receive, send)

    return take


async def _send(send: Any, answer: Answer) -> None:
    length = (b"content-length", str(len(answer.body)).encode())
    headers = [*answer.headers] if answer.status == 204 else [*answer.headers, length]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body, "more_body": False})
