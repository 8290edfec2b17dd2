"""What the cashier answers when it does not do what was asked: RFC 9457 problem documents, with codes that never change.

A refusal of the law arrives as the name of its rule; this table says which code and status that is. No text here comes from a
bug, a secret or another merchant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping


class Problem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An `application/problem+json` document. `code` is stable; `detail` is for people."""

    type: str
    title: str
    status: int
    code: str
    detail: str = ""
    instance: str = ""
    payment_no: str = ""
    """The payment that stands in the way, where there is one."""


class Kind(NamedTuple):
    """The status and the title of a code."""

    status: int
    title: str


KINDS: Final = {
    "MALFORMED_REQUEST": Kind(400, "The request cannot be read, or a field is not of its published type."),
    "IDEMPOTENCY_KEY_INVALID": Kind(400, "This request needs an Idempotency-Key of 1 to 128 visible ASCII characters."),
    "UNAUTHENTICATED": Kind(401, "No valid API key."),
    "SCOPE_MISSING": Kind(403, "The API key is not for this."),
    "PAYMENT_NOT_FOUND": Kind(404, "There is no such payment."),
    "REFUND_NOT_FOUND": Kind(404, "There is no such refund."),
    "NOT_FOUND": Kind(404, "There is no such address."),
    "METHOD_NOT_ALLOWED": Kind(405, "The address has not this method."),
    "BODY_TOO_SLOW": Kind(408, "The body did not arrive in time."),
    "PAYMENT_STATUS_NOT_INIT": Kind(409, "The payment was started or has ended."),
    "PAYMENT_NOT_OPEN": Kind(409, "The payment has ended or is held."),
    "PAYMENT_NOT_AUTHORIZED": Kind(409, "There is no hold of the payment."),
    "AMOUNT_NOT_MATCH": Kind(409, "The amount, currency or channel is not that of the payment there is."),
    "ORDER_ALREADY_PAID": Kind(409, "The order is paid."),
    "ANOTHER_PAYMENT_IN_FLIGHT": Kind(409, "Another payment or attempt of the order has no result yet."),
    "HOLD_IN_USE": Kind(409, "A capture or void of the hold has no result yet."),
    "NOTHING_CAPTURED": Kind(409, "Nothing of the payment was captured."),
    "MONEY_DISPUTED": Kind(409, "The money is disputed."),
    "TOO_MANY": Kind(409, "The order has had as many payments, attempts or operations as it may."),
    "CHANNEL_ISOLATED": Kind(409, "The channel is left to people."),
    "REFUSED_BEFORE": Kind(409, "This very request was refused before; send another one under a new Idempotency-Key."),
    "REFUSED": Kind(409, "The rules do not allow it."),
    "BODY_TOO_LARGE": Kind(413, "The body is too large."),
    "PAY_AMOUNT_INVALID": Kind(422, "The amount is not above zero, or above the limit of the business line."),
    "CAPTURE_AMOUNT_INVALID": Kind(422, "More than may be captured."),
    "REFUND_AMOUNT_INVALID": Kind(422, "More than may be refunded."),
    "BIZ_CODE_UNKNOWN": Kind(422, "The merchant has no such business line in this currency."),
    "CHANNEL_UNKNOWN": Kind(422, "The merchant has no such channel account."),
    "CHANNEL_NEEDED": Kind(422, "No channel is chosen for it: there is no route book."),
    "NO_CHANNEL_AFTER_FILTERS": Kind(422, "No channel can take this payment."),
    "ALL_CHANNEL_FAILED": Kind(422, "No further channel may be tried."),
    "EXPIRY_INVALID": Kind(422, "The expiry is past, or more than a day away."),
    "IDEMPOTENCY_KEY_REUSED": Kind(422, "The Idempotency-Key was used for another request."),
    "RATE_LIMITED": Kind(429, "Too many requests."),
    "BUSY": Kind(503, "No place is free; try again."),
    "KEYS_UNAVAILABLE": Kind(503, "The API keys cannot be checked now; try again."),
    "NOT_STORED": Kind(503, "The request could not be stored for certain; send it again under its Idempotency-Key."),
    "ROUTES_UNAVAILABLE": Kind(503, "No channel can be chosen now; try again, or name one."),
    "BOOKS_UNAVAILABLE": Kind(503, "What is stored cannot be read now; try again. Requests are still taken."),
}  # fmt: skip

CODES: Final = {
    "payment-not-found": "PAYMENT_NOT_FOUND",
    "not-init": "PAYMENT_STATUS_NOT_INIT",
    "not-open": "PAYMENT_NOT_OPEN",
    "not-authorised": "PAYMENT_NOT_AUTHORIZED",
    "amount-not-positive": "PAY_AMOUNT_INVALID",
    "already-paid": "ORDER_ALREADY_PAID",
    "one-payment": "ORDER_ALREADY_PAID",
    "another-in-flight": "ANOTHER_PAYMENT_IN_FLIGHT",
    "attempt-in-flight": "ANOTHER_PAYMENT_IN_FLIGHT",
    "hold-in-use": "HOLD_IN_USE",
    "not-captured": "NOTHING_CAPTURED",
    "money-is-disputed": "MONEY_DISPUTED",
    "over-capture": "CAPTURE_AMOUNT_INVALID",
    "over-refund": "REFUND_AMOUNT_INVALID",
    "currency-not-ours": "AMOUNT_NOT_MATCH",
    "number-reused": "AMOUNT_NOT_MATCH",
    "command-reused": "IDEMPOTENCY_KEY_REUSED",
    "too-many-payments": "TOO_MANY",
    "too-many-attempts": "TOO_MANY",
    "too-many-operations": "TOO_MANY",
    "channel-isolated": "CHANNEL_ISOLATED",
}
"""Rule of a refusal -> code. A rule that is not here is `REFUSED`."""


class Refused(Exception):  # noqa: N818  a verdict on the request
    """The request is not done. `retry_after` is whole seconds. Codes are looked up in `kinds`."""

    kinds: Mapping[str, Kind] = KINDS

    def __init__(self, code: str, detail: str = "", *, retry_after: int = 0, payment_no: str = "") -> None:
        super().__init__(code)
        self.code, self.detail, self.retry_after, self.payment_no = code, detail, retry_after, payment_no

    @property
    def status(self) -> int:
        return self.kinds[self.code].status

    def problem(self, instance: str) -> Problem:
        """The document; `instance` is the path that was asked."""
        kind = self.kinds[self.code]
        return Problem(
            type=f"urn:concord:problem:{self.code}",
            title=kind.title,
            status=kind.status,
            code=self.code,
            detail=self.detail,
            instance=instance,
            payment_no=self.payment_no,
        )

    def headers(self) -> dict[str, str]:
        found = {"Cache-Control": "no-store"}
        if self.retry_after:
            found["Retry-After"] = str(self.retry_after)
        if self.code == "UNAUTHENTICATED":
            found["WWW-Authenticate"] = 'Bearer realm="concord"'
        return found
