"""From decisions and books to what the cashier shows: nothing but selection, and the wording of refunds, which is the law's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET

from streams.domain.layers import Layers
from streams.domain.moment import milliseconds
from streams.domain.wording import next_owner, progress
from streams.gateway.cashier_shapes import (
    ConsultationView,
    LayersView,
    MethodView,
    ObstacleView,
    OperationView,
    PaymentView,
    ProgressText,
    ProgressView,
    RefundView,
    conclusion,
)

if TYPE_CHECKING:
    from datetime import datetime

    from stores.books import Entry
    from streams.domain.consult import Method
    from streams.domain.decisions import Decision, Standing
    from streams.domain.events import CapturePayment, CreatePayment, RefundPayment, VoidPayment
    from streams.domain.wording import Language
    from streams.gateway.cashier import Done

_NOTHING: Final[dict[str, Any]] = {}


def created(done: Done) -> PaymentView:
    """A payment that was opened or found; its facts are those of the command, which the law compared."""
    command: CreatePayment = done.command  # type: ignore[assignment]
    decision = _decided(done)
    facts = {
        "biz_code": command.biz_code,
        "channel": command.channel,
        "amount": command.amount,
        "currency": command.currency,
    }
    return _payment(decision, command.payment_no, {**facts, **_standing(decision, command.payment_no)}, done.again)


def consulted(book: int, methods: tuple[Method, ...]) -> ConsultationView:
    """Methods in their order, and what stands against those that cannot be used."""
    shown = [
        MethodView(
            method=one.method,
            usable=one.channel is not None,
            channel=one.channel or "",
            why=tuple(ObstacleView(channel=each.channel, reason=each.reason, detail=each.detail) for each in one.why),
        )
        for one in methods
    ]
    return ConsultationView(route_book=book, methods=tuple(shown))


def changed(done: Done) -> PaymentView:
    """A payment after a start or a close."""
    decision = _decided(done)
    number = getattr(done.command, "payment_no", "")
    found = _payment(decision, number, _standing(decision, number), done.again)
    return found if not done.action else _with(found, payer_action=done.action)


def operated(done: Done) -> OperationView:
    """A capture or void that was asked for."""
    command: CapturePayment | VoidPayment = done.command  # type: ignore[assignment]
    return OperationView(
        operation_no=getattr(command, "capture_no", "") or getattr(command, "void_no", ""),
        payment_no=command.payment_no,
        order_id=command.order_id,
        state=_decided(done).after or "",
        replayed=done.again,
    )


def refunded(done: Done) -> RefundView:
    """A refund that was asked for."""
    command: RefundPayment = done.command  # type: ignore[assignment]
    decision = _decided(done)
    return RefundView(
        refund_no=command.refund_no,
        payment_no=command.payment_no,
        order_id=command.order_id,
        state=decision.after or "",
        amount=command.amount,
        currency=command.currency,
        replayed=done.again,
    )


def booked(row: Entry) -> PaymentView:
    """A payment as the books have it."""
    standing = row.standing
    return PaymentView(
        payment_no=standing.number,
        order_id=row.order_id,
        state=standing.state,
        conclusion=conclusion(standing.state),
        funds_stage="IN_TRANSIT" if standing.state == "SUCCESS" else UNSET,
        as_of=row.as_of,
        **_facts(standing),
    )


def progressed(row: Entry, checked_at: datetime) -> ProgressView:
    """A refund's progress page in both languages (R-230 to R-233)."""
    standing, shown = row.standing, row.standing.shown
    layers = Layers() if shown is None else Layers(shown.merchant, shown.processor, shown.card, shown.wallet)  # type: ignore[arg-type]
    return ProgressView(
        refund_no=standing.number,
        payment_no=standing.payment_no,
        order_id=row.order_id,
        channel=standing.channel,
        state=standing.state,
        amount=standing.amount,
        currency=standing.currency,
        layers=LayersView(layers.merchant, layers.processor, layers.card, layers.wallet),
        mark=layers.closed,
        next=next_owner(layers),
        checked_at=checked_at,
        zh=_text(layers, checked_at, "zh"),
        en=_text(layers, checked_at, "en"),
    )


def _text(layers: Layers, checked_at: datetime, language: Language) -> ProgressText:
    page = progress(layers, milliseconds(checked_at), next_owner(layers), language)
    return ProgressText(page.headline, page.lines[1:])


def _decided(done: Done) -> Decision:
    assert done.decision is not None, "what is not decided has no view"
    return done.decision


def _payment(decision: Decision, number: str, facts: dict[str, Any], again: bool) -> PaymentView:  # noqa: FBT001
    state = decision.after or ""
    return PaymentView(
        payment_no=number,
        order_id=decision.order_id,
        state=state,
        conclusion=conclusion(state),
        funds_stage="IN_TRANSIT" if state == "SUCCESS" else UNSET,
        as_of=decision.decided_at,
        replayed=again,
        **facts,
    )


def _standing(decision: Decision, number: str) -> dict[str, Any]:
    """What a decision tells of a payment that it changed."""
    return next((_facts(one) for one in decision.operations if one.number == number), _NOTHING)


def _facts(standing: Standing) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "biz_code": standing.biz_code,
        "channel": standing.channel,
        "amount": standing.amount,
        "currency": standing.currency,
    }
    if standing.money is not None:
        facts |= {"captured": standing.money.captured, "refunded": standing.money.returned}
    if standing.expires_at is not None:
        facts["expires_at"] = standing.expires_at
    return facts


def _with(view: PaymentView, **more: Any) -> PaymentView:
    return PaymentView(**{name: getattr(view, name) for name in view.__struct_fields__} | more)
