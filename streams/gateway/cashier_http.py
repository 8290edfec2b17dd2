"""`/v1`: the HTTP side of the cashier, with a pool and bounds of its own. Every answer that is not what was asked is a problem document.

Before anything of a request is read it needs a place, and before its body a key with the scope. Nothing here is logged but names.
"""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import quote

import structlog
from litestar import Request, Response, Router, get, post
from litestar.exceptions import HTTPException
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme
from litestar.params import FromPath, HeaderParameter, JSONBody, QueryParameter

from stores.pool import Unreachable
from streams.domain.number import CHANCE_BYTES, is_number
from streams.gateway import cashier_views as views
from streams.gateway.cashier import Asked
from streams.gateway.cashier_shapes import (
    Accepted,
    Consultation,
    ConsultationView,
    NewPayment,
    OperationView,
    PaymentView,
    ProgressView,
    RefundView,
    Share,
    Start,
)
from streams.gateway.problems import KINDS, Refused
from streams.gateway.refusing import (
    BODY_BYTES,
    PATH,
    bounded,
    problem,
    refusals,
    refused,
    strict,
    too_deep,
    unreadable,
)
from streams.gateway.trace import trace_id, traced

if TYPE_CHECKING:
    from collections.abc import Callable

    from litestar.connection import ASGIConnection
    from litestar.handlers import BaseRouteHandler

    from stores.books import Entry
    from streams.gateway.books import Books
    from streams.gateway.cashier import Cashier, Done
    from streams.gateway.keys import Door
    from streams.gateway.limits import Pool

log: Final = structlog.get_logger(__name__)

KEY: Final = re.compile(r"[\x21-\x7e]{1,128}")

READS: Final = refusals(KINDS)
"""Every refusal, as the OpenAPI document tells it."""
ACCEPTED: Final = ResponseSpec(
    Accepted, generate_examples=False, description="Stored, and not decided in time; look at Location."
)
WRITES: Final = {**READS, 202: ACCEPTED}
PAYMENTS: Final = {
    **WRITES,
    200: ResponseSpec(PaymentView, generate_examples=False, description="It was so already, and stands so now."),
}
OPERATIONS: Final = {
    **WRITES,
    200: ResponseSpec(OperationView, generate_examples=False, description="It was asked for before."),
}
REFUNDS: Final = {
    **WRITES,
    200: ResponseSpec(RefundView, generate_examples=False, description="It was asked for before."),
}

Idempotency = Annotated[str, HeaderParameter(name="Idempotency-Key", max_length=128)]
OrderQuery = Annotated[str, QueryParameter(name="order_id", max_length=64)]
BizQuery = Annotated[str, QueryParameter(name="biz_code", max_length=7)]

OPENAPI: Final = OpenAPIConfig(
    title="Concord cashier",
    version="1",
    path=PATH,
    render_plugins=[JsonRenderPlugin(path="/openapi.json")],
    components=Components(security_schemes={"key": SecurityScheme(type="http", scheme="bearer")}),
    security=[{"key": []}],
)


def router(cashier: Cashier, books: Books, door: Door, pool: Pool) -> Router:
    """The routes, for the app."""
    return Router(
        PATH,
        route_handlers=[
            *_payments(cashier, books, door),
            _consultation(cashier, door),
            *_operations(cashier, door),
            _refund(books, door),
        ],
        middleware=[bounded(pool)],
        exception_handlers={
            Refused: refused,
            HTTPException: unreadable,
            Unreachable: _unread,
            RecursionError: too_deep,
        },
        request_max_body_size=BODY_BYTES,
    )


# -- routes


def _payments(cashier: Cashier, books: Books, door: Door) -> list[Any]:
    write, read = [_needs(door, "payments:write")], [_needs(door, "payments:read")]

    @post("/payments", guards=write, responses=PAYMENTS)
    async def create(
        request: Request[Any, Any, Any], data: JSONBody[NewPayment], key: Idempotency = ""
    ) -> Response[PaymentView]:
        """Open a payment, or find the one there is for this order and business code."""
        done = await cashier.create(_asked(request, key), await strict(request, type(data)))
        if done.decision is None:
            return _accepted(f"{PATH}/payments?order_id={quote(data.order_id, safe='')}&biz_code={data.biz_code}")
        status = 201 if done.decision.verdict == "applied" else 200
        view = views.created(done)
        return _answer(view, status, Location=f"{PATH}/payments/{view.payment_no}")

    @get("/payments", guards=read, responses=READS)
    async def find(request: Request[Any, Any, Any], order: OrderQuery, biz: BizQuery) -> Response[PaymentView]:
        """The last payment of an order and business code."""
        return _payment(await books.payment_of_order(_merchant(request), order, biz))

    @get("/payments/{payment_no:str}", guards=read, responses=READS)
    async def query(request: Request[Any, Any, Any], payment_no: FromPath[str]) -> Response[PaymentView]:
        """How a payment stands in the books."""
        found = await books.payment(_merchant(request), payment_no) if is_number(payment_no) else None
        return _payment(found)

    @post("/payments/{payment_no:str}/start", guards=write, status_code=200, responses=WRITES)
    async def start(
        request: Request[Any, Any, Any], payment_no: FromPath[str], data: JSONBody[Start], key: Idempotency = ""
    ) -> Response[PaymentView]:
        """Charge it. Only one start of a payment submits; every other is PAYMENT_STATUS_NOT_INIT."""
        return _changed(
            await cashier.start(_asked(request, key), payment_no, await strict(request, type(data))), payment_no
        )

    @post("/payments/{payment_no:str}/close", guards=write, status_code=200, responses=WRITES)
    async def close(
        request: Request[Any, Any, Any], payment_no: FromPath[str], key: Idempotency = ""
    ) -> Response[PaymentView]:
        """Give it up. It is closed at once, or when the channel confirms it."""
        return _changed(await cashier.close(_asked(request, key), payment_no), payment_no)

    return [create, find, query, start, close]


def _consultation(cashier: Cashier, door: Door) -> Any:
    @post("/consultations", guards=[_needs(door, "payments:read")], status_code=200, responses=READS)
    async def consult(request: Request[Any, Any, Any], data: JSONBody[Consultation]) -> Response[ConsultationView]:
        """Before a payment: which methods can be used for this amount, in what order, and why not the others. Nothing is reserved."""
        book, methods = cashier.consult(_asked(request, ""), await strict(request, type(data)))
        return _answer(views.consulted(book, methods), 200)

    return consult


def _operations(cashier: Cashier, door: Door) -> list[Any]:
    payments, refunds = [_needs(door, "payments:write")], [_needs(door, "refunds:write")]

    @post("/payments/{payment_no:str}/capture", guards=payments, responses=OPERATIONS)
    async def capture(
        request: Request[Any, Any, Any], payment_no: FromPath[str], data: JSONBody[Share], key: Idempotency = ""
    ) -> Response[OperationView]:
        """Take some or all of a hold. Needs an Idempotency-Key."""
        return _operated(
            await cashier.capture(_asked(request, key, needed=True), payment_no, await strict(request, type(data))),
            payment_no,
        )

    @post("/payments/{payment_no:str}/void", guards=payments, responses=OPERATIONS)
    async def void(
        request: Request[Any, Any, Any], payment_no: FromPath[str], key: Idempotency = ""
    ) -> Response[OperationView]:
        """Let a hold go."""
        return _operated(await cashier.void(_asked(request, key), payment_no), payment_no)

    @post("/payments/{payment_no:str}/refunds", guards=refunds, responses=REFUNDS)
    async def refund(
        request: Request[Any, Any, Any], payment_no: FromPath[str], data: JSONBody[Share], key: Idempotency = ""
    ) -> Response[RefundView]:
        """Give money back. Needs an Idempotency-Key: two refunds of one amount are two refunds."""
        done = await cashier.refund(_asked(request, key, needed=True), payment_no, await strict(request, type(data)))
        number = getattr(done.command, "refund_no", "")
        if done.decision is None:
            return _accepted(f"{PATH}/refunds/{number}")
        return _answer(views.refunded(done), 200 if done.again else 201, Location=f"{PATH}/refunds/{number}")

    return [capture, void, refund]


def _refund(books: Books, door: Door) -> Any:
    @get("/refunds/{refund_no:str}", guards=[_needs(door, "refunds:read")], responses=READS)
    async def progress(request: Request[Any, Any, Any], refund_no: FromPath[str]) -> Response[ProgressView]:
        """A refund's layers, and the text to show, in Chinese and English."""
        found = await books.refund(_merchant(request), refund_no) if is_number(refund_no) else None
        if found is None:
            raise Refused("REFUND_NOT_FOUND")
        return _answer(views.progressed(found, found.as_of), 200)

    return progress


# -- in


def _needs(door: Door, scope: str) -> Callable[[ASGIConnection[Any, Any, Any, Any], BaseRouteHandler], None]:
    """A guard: it runs before the body is read."""

    def guard(connection: ASGIConnection[Any, Any, Any, Any], _handler: BaseRouteHandler) -> None:
        connection.state["caller"] = door.enter(connection.headers.get("authorization", ""), scope)

    return guard


def _asked(request: Request[Any, Any, Any], key: str, *, needed: bool = False) -> Asked:
    if (key or needed) and not KEY.fullmatch(key):
        raise Refused("IDEMPOTENCY_KEY_INVALID")
    trace = traced(request.headers.get("traceparent", ""))
    asked = Asked(request.state["caller"], key, trace, secrets.token_bytes(CHANCE_BYTES))
    log.info("cashier", route=request.scope.get("path_template", ""), merchant=asked.merchant, trace=trace_id(trace))
    return asked


def _merchant(request: Request[Any, Any, Any]) -> str:
    caller = request.state["caller"]
    return str(caller.merchant.merchant)


# -- out


def _answer(view: Any, status: int, **headers: str) -> Response[Any]:
    return Response(view, status_code=status, headers={"Cache-Control": "no-store", **headers})


def _accepted(location: str) -> Response[Any]:
    """Stored, and not decided in time."""
    return _answer(Accepted(location=location), 202, Location=location, **{"Retry-After": "1"})


def _payment(row: Entry | None) -> Response[PaymentView]:
    if row is None:
        raise Refused("PAYMENT_NOT_FOUND")
    return _answer(views.booked(row), 200)


def _changed(done: Done, number: str) -> Response[Any]:
    if done.decision is None:
        return _accepted(f"{PATH}/payments/{number}")
    return _answer(views.changed(done), 200)


def _operated(done: Done, number: str) -> Response[Any]:
    where = f"{PATH}/payments/{number}"
    if done.decision is None:
        return _accepted(where)
    return _answer(views.operated(done), 200 if done.again else 201, Location=where)


def _unread(request: Request[Any, Any, Any], error: Unreachable) -> Response[Any]:
    log.warning("the books cannot be read", why=str(error))
    return problem(Refused("BOOKS_UNAVAILABLE", retry_after=5), request.url.path)


def utc_now() -> datetime:
    return datetime.now(UTC)
