"""`/v1/reviews` and `/v1/reviewers`: the HTTP side of the review desk. Before a body is read, its sender has the right.

People of the desk see the discrepancies of every merchant; a merchant's key opens nothing here, and a person's key nothing of the cashier.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import structlog
from litestar import Request, Response, Router, get, post
from litestar.exceptions import HTTPException
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromPath, FromQuery, JSONBody, PathParameter, QueryParameter
from msgspec import structs

from stores.proposals import Decided
from stores.reviews import Wish
from streams.gateway.problems import Refused
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
from streams.gateway.review import BROKEN, exits
from streams.gateway.review_rights import REVIEW_KINDS, Declined
from streams.gateway.review_shapes import (
    NAME,
    CaseView,
    EntryView,
    ItemsView,
    ItemView,
    NewComment,
    NewProposal,
    NewReviewer,
    NumberView,
    ProposalView,
    ReviewerView,
    Say,
    handle_of,
    named,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from litestar.connection import ASGIConnection
    from litestar.handlers import BaseRouteHandler

    from stores.reviews import Item
    from streams.gateway.limits import Pool
    from streams.gateway.review import Desk
    from streams.gateway.review_rights import Right

log: Final = structlog.get_logger(__name__)

MOST_NUMBER: Final = 2**31 - 1
REFUSALS: Final = refusals(REVIEW_KINDS)
LATER: Final = {
    **REFUSALS,
    202: ResponseSpec(
        ProposalView, generate_examples=False, description="Approved; the law's verdict is not known yet."
    ),
}

Text = Annotated[str | None, QueryParameter(max_length=256)]
Severity = Annotated[Literal["high", "info"] | None, QueryParameter()]
Hours = Annotated[int | None, QueryParameter(ge=0, le=100_000)]
Most = Annotated[int, QueryParameter(ge=1, le=200)]
Skip = Annotated[int, QueryParameter(ge=0, le=1_000_000)]


def router(desk: Desk, pool: Pool, now: Callable[[], datetime]) -> Router:
    """The routes, for the app; the pool is their own."""
    return Router(
        PATH,
        route_handlers=[*_reads(desk, now), *_says(desk), *_decides(desk), *_people(desk)],
        middleware=[bounded(pool)],
        exception_handlers={
            Refused: refused,
            HTTPException: unreadable,
            RecursionError: too_deep,
            **dict.fromkeys(BROKEN, _down),
        },
        request_max_body_size=BODY_BYTES,
        tags=["review"],
    )


def _reads(desk: Desk, now: Callable[[], datetime]) -> list[Any]:
    read = [_needs(desk, "read")]

    @get("/reviews", guards=read, responses=REFUSALS)
    async def listed(
        *,
        severity: Severity = None,
        kind: Text = None,
        owner: Text = None,
        order_id: Text = None,
        claimed_by: Text = None,
        older_than_hours: Hours = None,
        resolved: FromQuery[bool] = False,
        overdue: FromQuery[bool] = False,
        most: Most = 50,
        skip: Skip = 0,
    ) -> Response[ItemsView]:
        """Discrepancies: the gravest first, then what is due first, then the oldest."""
        wish = Wish(
            resolved=resolved,
            severity=severity,
            kind=_plain(kind),
            owner=_plain(owner),
            order_id=_plain(order_id),
            claimed_by=_plain(claimed_by),
            opened_before=None if older_than_hours is None else now() - timedelta(hours=older_than_hours),
            overdue=now() if overdue else None,
            most=most,
            skip=skip,
        )
        return _answer(ItemsView(items=[_item(one) for one in await desk.listed(wish)]))

    @get("/reviews/{handle:str}", guards=read, responses=REFUSALS)
    async def show(handle: FromPath[str]) -> Response[CaseView]:
        """One discrepancy with what people said and proposed."""
        item, comments, proposals = await desk.case(named(handle))
        return _answer(CaseView(item=_item(item), exits=exits(item.kind), comments=comments, proposals=proposals))

    @get("/reviews/{handle:str}/audit", guards=[_needs(desk, "audit")], responses=REFUSALS)
    async def log_of(handle: FromPath[str]) -> Response[list[EntryView]]:
        """What people did about a discrepancy, as it is sealed."""
        found = await desk.log_of(named(handle))
        return _answer([EntryView(seq=one.seq, hash=one.hash.hex(), **one.done._asdict()) for one in found])

    return [listed, show, log_of]


def _says(desk: Desk) -> list[Any]:
    @post("/reviews/{handle:str}/claim", guards=[_needs(desk, "claim")], status_code=204, responses=REFUSALS)
    async def claim(request: Request[Any, Any, Any], handle: FromPath[str]) -> None:
        """Take it to work on."""
        await desk.claim(request.state["person"], named(handle))

    @post("/reviews/{handle:str}/comments", guards=[_needs(desk, "comment")], responses=REFUSALS)
    async def comment(
        request: Request[Any, Any, Any], handle: FromPath[str], data: JSONBody[NewComment]
    ) -> Response[NumberView]:
        """Say something about it."""
        said = await strict(request, type(data))
        number = await desk.comment(request.state["person"], named(handle), said.text)
        return _answer(NumberView(discrepancy=named(handle), number=number), 201)

    @post("/reviews/{handle:str}/proposals", guards=[_needs(desk, "propose")], responses=REFUSALS)
    async def propose(
        request: Request[Any, Any, Any], handle: FromPath[str], data: JSONBody[NewProposal]
    ) -> Response[NumberView]:
        """Propose an action on evidence. Whoever proposes has claimed it."""
        wanted = await strict(request, type(data))
        number = await desk.propose(request.state["person"], named(handle), wanted)
        return _answer(NumberView(discrepancy=named(handle), number=number), 201)

    return [claim, comment, propose]


def _decides(desk: Desk) -> list[Any]:
    needs = [_needs(desk, "decide")]

    async def decide(
        request: Request[Any, Any, Any], handle: str, number: int, *, approves: bool
    ) -> Response[ProposalView]:
        name = named(handle)
        if number > MOST_NUMBER:
            raise Declined("PROPOSAL_NOT_FOUND")
        said = await strict(request, Say)
        decider = request.state["person"].name
        ready = Decided(discrepancy=name, number=number, decider=decider, approves=approves, reason=said.reason)
        _proposal, verdict = await desk.decide(ready)
        if not approves:
            return _answer(ProposalView(discrepancy=name, number=number, state="rejected"))
        if verdict is None:
            view = ProposalView(discrepancy=name, number=number, state="approved")
            return _answer(view, 202, Location=f"{PATH}/reviews/{handle}")
        state: Literal["applied", "refused"] = "applied" if verdict.verdict == "applied" else "refused"
        view = ProposalView(discrepancy=name, number=number, state=state, rule=verdict.rule, detail=verdict.detail)
        return _answer(view)

    @post("/reviews/{handle:str}/proposals/{number:int}/approve", guards=needs, status_code=200, responses=LATER)
    async def approve(
        request: Request[Any, Any, Any],
        handle: FromPath[str],
        number: FromPath[int],
        data: JSONBody[Say],  # noqa: ARG001  read strictly
    ) -> Response[ProposalView]:
        """Approve what another person proposed: the law judges it at once."""
        return await decide(request, handle, number, approves=True)

    @post("/reviews/{handle:str}/proposals/{number:int}/reject", guards=needs, status_code=200, responses=REFUSALS)
    async def reject(
        request: Request[Any, Any, Any],
        handle: FromPath[str],
        number: FromPath[int],
        data: JSONBody[Say],  # noqa: ARG001  read strictly
    ) -> Response[ProposalView]:
        """Reject it, or take one's own back: another one can be made."""
        return await decide(request, handle, number, approves=False)

    return [approve, reject]


def _people(desk: Desk) -> list[Any]:
    needs = [_needs(desk, "people")]

    @get("/reviewers", guards=needs, responses=REFUSALS)
    async def people() -> Response[list[ReviewerView]]:
        """Everybody, also those whose access has ended."""
        return _answer([ReviewerView(**row) for row in await desk.people()])

    @post("/reviewers", guards=needs, responses=REFUSALS)
    async def add(request: Request[Any, Any, Any], data: JSONBody[NewReviewer]) -> Response[ReviewerView]:
        """Let a person in. The key is shown this once."""
        wanted = await strict(request, type(data))
        key = await desk.add(request.state["person"], wanted.name, wanted.role)
        return _answer(ReviewerView(name=wanted.name, role=wanted.role, keys=[key.split("_")[1]], key=key), 201)

    @post("/reviewers/{name:str}/disable", guards=needs, status_code=204, responses=REFUSALS)
    async def disable(request: Request[Any, Any, Any], name: Annotated[str, PathParameter(pattern=NAME)]) -> None:
        """End a person's access at once."""
        await desk.disable(request.state["person"], name)

    return [people, add, disable]


def _needs(
    desk: Desk, right: Right
) -> Callable[[ASGIConnection[Any, Any, Any, Any], BaseRouteHandler], Awaitable[None]]:
    """A guard: it runs before the body is read."""

    async def guard(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
        person = await desk.enter(connection.headers.get("authorization", ""), right)
        connection.state["person"] = person
        log.info("review", route=handler.handler_name, person=person.name, role=person.role)

    return guard


def _item(one: Item) -> ItemView:
    return ItemView(handle=handle_of(one.id), **structs.asdict(one))


def _plain(text: str | None) -> str | None:
    if text is not None and "\0" in text:
        raise Declined("MALFORMED_REQUEST", "a filter holds NUL; leave it out")
    return text


def _answer(view: Any, status: int = 200, **headers: str) -> Response[Any]:
    return Response(view, status_code=status, headers={"Cache-Control": "no-store", **headers})


def _down(request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
    log.warning("the review desk's database does not answer", error=type(error).__name__)
    return problem(Declined("DESK_UNAVAILABLE", retry_after=5), request.url.path)
