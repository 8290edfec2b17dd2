"""What every router of `/v1` does with a request before its handler, and with a refusal after it.

A request needs a place before anything of it is read, and its body so many seconds. Whatever is not what was asked is a problem
document (RFC 9457) that quotes nothing of a bug.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
import structlog
from litestar import Request, Response
from litestar.openapi.datastructures import ResponseSpec

from streams.gateway.problems import KINDS, Problem, Refused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from litestar.exceptions import HTTPException

    from streams.gateway.limits import Pool
    from streams.gateway.problems import Kind

log: Final = structlog.get_logger(__name__)

B = TypeVar("B")
PATH: Final = "/v1"
BODY_BYTES: Final = 32_768
BODY_S: Final = 10.0
PROBLEM: Final = "application/problem+json"
STATUSES: Final = {404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED", 413: "BODY_TOO_LARGE"}
"""Statuses that the framework gives by itself; any other below 500 is a request that cannot be read."""


def refusals(kinds: Mapping[str, Kind]) -> dict[int, ResponseSpec]:
    """These refusals by status, as the OpenAPI document tells them."""
    return {
        status: ResponseSpec(
            Problem,
            generate_examples=False,
            media_type=PROBLEM,
            description=", ".join(code for code, kind in kinds.items() if kind.status == status),
        )
        for status in sorted({kind.status for kind in kinds.values()})
    }


async def strict(request: Request[Any, Any, Any], shape: type[B]) -> B:
    """The body once more, as it is written: the framework also takes `"1"` for 1, and money shall not be guessed at."""
    try:
        return msgspec.json.decode(await request.body(), type=shape)
    except msgspec.ValidationError as error:
        raise Refused("MALFORMED_REQUEST", str(error)) from error


def bounded(pool: Pool) -> Callable[[Any], Any]:
    """A place for each request, or 503 at once; and so many seconds for its body."""

    def around(app: Any) -> Any:
        async def inside(scope: Any, receive: Any, send: Any) -> None:
            if not pool.enter():
                await problem(Refused("BUSY", retry_after=1), scope["path"]).to_asgi_response(None, Request(scope))(
                    scope, receive, send
                )
                return
            try:
                await app(scope, _timed(receive), send)
            finally:
                pool.leave()

        return inside

    return around


def _timed(receive: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    deadline = asyncio.get_running_loop().time() + BODY_S
    whole = False

    async def part() -> Any:
        nonlocal whole
        if whole:  # what comes now is the end of the connection, which may take its time
            return await receive()
        try:
            async with asyncio.timeout_at(deadline):
                message = await receive()
        except TimeoutError as error:
            raise Refused("BODY_TOO_SLOW") from error
        whole = not message.get("more_body", False)
        return message

    return part


def problem(refused: Refused, path: str) -> Response[Any]:
    """The document of a refusal."""
    body = msgspec.json.encode(refused.problem(path))
    return Response(body, status_code=refused.status, media_type=PROBLEM, headers=refused.headers())


def refused(request: Request[Any, Any, Any], why: Refused) -> Response[Any]:
    """A refusal of ours; what is our own trouble is logged, by its code."""
    if why.status >= 500:
        log.warning("refused", code=why.code, route=request.scope.get("path_template", ""))
    return problem(why, request.url.path)


def too_deep(request: Request[Any, Any, Any], _error: RecursionError) -> Response[Any]:
    """The JSON reader's own word for a body of brackets; the framework hands it on as a bug."""
    return problem(Refused("MALFORMED_REQUEST", "the body is nested too deeply"), request.url.path)


def unreadable(request: Request[Any, Any, Any], error: HTTPException) -> Response[Any]:
    """What the framework refused; of its text only the names of fields and the types they should have."""
    code = STATUSES.get(error.status_code, "MALFORMED_REQUEST")
    extra = error.extra if isinstance(error.extra, list) else []
    detail = "; ".join(f"{one.get('key', '')}: {one.get('message', '')}".strip(": ") for one in extra[:8])
    assert code in KINDS
    return problem(Refused(code, detail[:500]), request.url.path)
