"""The law's tables. The table is the program: what is missing here is refused.

A channel's word is first sorted into one of three outcomes (R-001): success, failure, unknown. What it then does to a payment
is its input to the machine. Time, retries and absence are no words, so they can make neither success nor failure (R-008).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streams.domain.decisions import Severity

Outcome: TypeAlias = Literal["success", "failure", "unknown"]
Input: TypeAlias = Literal["start", "expire", "success", "failure", "closed", "doubt", "pending"]


class Meaning(NamedTuple):
    """What a word means: its outcome, its input to the machine, and whether it makes us ask the channel at once."""

    outcome: Outcome
    input: Input
    ask: bool = False


INIT: Final = "INIT"
PAYING: Final = "PAYING"
UNKNOWN: Final = "UNKNOWN"
SUCCESS: Final = "SUCCESS"
FAIL: Final = "FAIL"
CLOSED: Final = "CLOSED"

MACHINE: Final[Mapping[str, Mapping[str, str]]] = {
    INIT: {"start": PAYING, "expire": CLOSED},
    PAYING: {"success": SUCCESS, "failure": FAIL, "closed": CLOSED, "doubt": UNKNOWN, "pending": PAYING},
    UNKNOWN: {"success": SUCCESS, "failure": FAIL, "closed": CLOSED, "doubt": UNKNOWN, "pending": UNKNOWN},
    SUCCESS: {},
    FAIL: {},
    CLOSED: {},
}
"""state -> input -> state. INIT expires because no request was ever made; nothing else ends by the clock."""

OPEN: Final = frozenset({PAYING, UNKNOWN})
"""A request is out: money may move, so no other request for the same money may leave (R-157)."""
UNPAID: Final = frozenset({FAIL, CLOSED})
"""Ended without money: another payment may take its place."""

WORDS: Final[Mapping[str, Meaning]] = {
    "SUCCESS": Meaning("success", "success"),
    "FAILED": Meaning("failure", "failure"),
    "DECLINED_RETRYABLE": Meaning("failure", "failure"),
    "CLOSED": Meaning("failure", "closed"),
    "PENDING": Meaning("unknown", "pending"),
    "ACCEPTED": Meaning("unknown", "pending"),
    "PROCESSING": Meaning("unknown", "doubt"),
    "TIMEOUT": Meaning("unknown", "doubt"),
    "NOT_FOUND": Meaning("unknown", "doubt"),
    "CONTRADICTORY": Meaning("unknown", "doubt", ask=True),
    "ALREADY_PAID": Meaning("unknown", "pending", ask=True),
}
"""Words about the payment itself. DECLINED_RETRYABLE is a failure only where the contract calls a decline final."""

DECLINE_NOT_FINAL: Final = Meaning("unknown", "pending")
UNMAPPED: Final = Meaning("unknown", "doubt")
INCOMPLETE: Final = Meaning("unknown", "doubt", ask=True)
"""A success that lacks its transaction, amount or currency cannot be stored as one (R-002)."""

CLOSE_WORDS: Final[Mapping[str, Meaning]] = {
    **dict.fromkeys(WORDS, Meaning("unknown", "pending")),
    "SUCCESS": Meaning("failure", "closed"),
    "CLOSED": Meaning("failure", "closed"),
    "ALREADY_PAID": Meaning("unknown", "pending", ask=True),
}
"""Words about our wish to close: that it failed says nothing about the payment."""


class Kind(NamedTuple):
    """A discrepancy type: its usual severity and who works it."""

    severity: Severity
    owner: str


KINDS: Final[Mapping[str, Kind]] = {
    "AMOUNT_MISMATCH": Kind("high", "payment-operations"),
    "CURRENCY_MISMATCH": Kind("high", "payment-operations"),
    "INVALID_AMOUNT": Kind("high", "channel-integration"),
    "ILLEGAL_TRANSITION": Kind("high", "payment-operations"),
    "LATE_SUCCESS": Kind("high", "payment-operations"),
    "STATUS_UNMAPPED": Kind("high", "channel-integration"),
    "PAYLOAD_CONFLICT": Kind("high", "channel-integration"),
    "MISSING_DEDUP_KEY": Kind("high", "channel-integration"),
    "ENVIRONMENT_MISMATCH": Kind("info", "channel-integration"),
    "UNKNOWN_ORDER": Kind("high", "payment-operations"),
    "STUCK_UNKNOWN": Kind("high", "payment-operations"),
    "DUPLICATE_PAYMENT": Kind("high", "payment-operations"),
    "UNLINKED_REFUND": Kind("high", "card-operations"),
}

RULES: Final[Mapping[str, str]] = {
    "created": "A payment was opened (R-037).",
    "start": "INIT to PAYING: the one winner submits (R-017).",
    "success": "The channel confirmed it with transaction, amount and currency equal to ours (R-002, R-078).",
    "second-success": "The order was already paid: this payment is a duplicate, neither announced nor posted (R-248).",
    "already-success": "A success that stands is confirmed again (R-079).",
    "second-transaction": "Two channel transactions succeeded under one payment (R-040); one must go back.",
    "failure": "The channel confirmed that it did not and will not happen (R-003).",
    "closed": "The channel confirmed that it is closed.",
    "unknown": "Not enough evidence: unknown is not failure (R-004, R-005).",
    "pending": "The channel is still at work; nothing changes.",
    "incomplete-success": "A success without transaction, amount or currency proves nothing yet (R-002).",
    "init-expired": "No request was ever made and the time to start is over (R-061).",
    "query-due": "No final word yet: the channel is asked (R-058, R-059).",
    "window-over": "We asked as long as the contract says; a person takes over, evidence still counts (R-056).",
    "same-key-same-payload": "The same event again (R-072).",
    "same-key-other-payload": "The same event id says something else now; the first stands, a query settles it.",
    "same-command": "The same command again.",
    "same-number": "This payment number exists with the same facts: it is returned as it is (R-037).",
    "late-word": "A word that is not final changes nothing on a final state (R-026).",
    "success-stays": "Success never returns to failure (R-014); the contradiction is kept for a person.",
    "late-success": "Success after the payment ended unpaid: the money is held for a decision (R-080).",
    "ended-already": "It ended without money before; the same word again.",
    "amount-differs": "The amount is not ours, so it cannot be our success (R-078).",
    "currency-differs": "The currency is not ours, so it cannot be our success (R-078).",
    "amount-invalid": "The amount is not representable in the currency.",
    "amount-not-positive": "A payment needs an amount above zero (R-133).",
    "not-mapped": "Nobody has said what this word means; it can only be unknown.",
    "no-key": "Neither event id nor channel transaction: it cannot be told from a repetition; a query is asked.",
    "test-mode": "A test notice on the live stream is no evidence.",
    "waits-for-payment": "No such payment was started yet; the evidence waits for it (R-081).",
    "waiting-room-full": "Too much waits for this payment already; a person looks, a query will tell.",
    "park-window-over": "The payment did not appear in time (R-081).",
    "not-asked": "An answer to a request that this payment never made.",
    "card-entry": "Kept as the card's own entry; it does not move a payment.",
    "card-refund-unlinked": "A card refund without a reference is never matched by resemblance (R-217).",
    "payment-not-found": "PAYMENT_NOT_FOUND: create the payment first.",
    "not-init": "PAYMENT_STATUS_NOT_INIT: it was started, or has ended, before (R-017).",
    "already-paid": "The order is paid.",
    "another-in-flight": "Another payment of the order is in flight; wait for its result (R-157).",
    "one-payment": "The order has a live payment for this business code (R-037); use it.",
    "too-many-payments": "The order has had as many payments as it may; a person looks.",
    "number-reused": "This payment number exists with other facts; take a new number.",
    "command-reused": "This command id was used for another command; take a new id.",
}  # fmt: skip
"""Every rule that may decide, in words for a person."""


def mermaid() -> str:
    """The machine as a Mermaid state diagram; inputs that change nothing are left out."""
    lines = ["stateDiagram-v2", f"    [*] --> {INIT}: create"]
    for state, moves in MACHINE.items():
        lines += [f"    {state} --> {after}: {word}" for word, after in moves.items() if after != state]
        if not moves:
            lines.append(f"    {state} --> [*]")
    return "\n".join(lines) + "\n"
