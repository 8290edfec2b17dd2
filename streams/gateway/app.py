"""The HTTP application: routers side by side, each with its own bounds, and the three pages that supervisors and Prometheus ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import structlog
from litestar import Litestar, Response, get
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from litestar import Request
    from litestar.openapi.config import OpenAPIConfig
    from prometheus_client import CollectorRegistry

log: Final = structlog.get_logger(__name__)


def application(routers: Sequence[Any], openapi: OpenAPIConfig | None = None) -> Litestar:
    """One app of these route handlers and routers. It logs nothing of a request by itself, and shows no error's text."""
    return Litestar(
        route_handlers=list(routers),
        exception_handlers={500: _failed},
        openapi_config=openapi,
        logging_config=None,
        debug=False,
    )


def pages(registry: CollectorRegistry, trouble: Callable[[], Awaitable[str]]) -> list[Any]:
    """/healthz says that the process lives, /readyz that `trouble` finds nothing, /metrics is for Prometheus."""

    @get("/healthz", sync_to_thread=False)
    def healthz() -> dict[str, str]:
        return {"status": "alive"}

    @get("/readyz")
    async def readyz() -> Response[dict[str, str | bool]]:
        why = await trouble()
        return Response({"ready": not why, "why": why}, status_code=503 if why else 200)

    @get("/metrics", sync_to_thread=False)
    def metrics() -> Response[bytes]:
        return Response(generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    return [healthz, readyz, metrics]


def _failed(request: Request[Any, Any, Any], error: Exception) -> Response[str]:
    """A bug of ours: no ACK. Its place is told and not its text, which may quote what was received."""
    place, trace = "", error.__traceback__
    while trace is not None:
        place = f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}"
        trace = trace.tb_next
    log.error("a request failed", error=type(error).__name__, place=place, route=request.scope.get("path_template", ""))
    return Response("internal error", status_code=500, media_type="text/plain")
