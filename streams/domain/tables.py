"""The law's tables. The table is the program: what is missing here is refused.

A channel's word is first sorted into one of three outcomes (R-001): success, failure, unknown. What it then does to an operation
is its input to that operation's machine. Time, retries and absence are no words, so they can make neither success nor failure (R-008).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streams.domain.decisions import Severity

Outcome: TypeAlias = Literal["success", "failure", "unknown"]


class Meaning(NamedTuple):
    """What a word means: its outcome, its input to the machine, and whether it makes us ask the channel at once."""

    outcome: Outcome
    input: str
    ask: bool = False


INIT: Final = "INIT"
PAYING: Final = "PAYING"
UNKNOWN: Final = "UNKNOWN"
AUTHORIZED: Final = "AUTHORIZED"
SUCCESS: Final = "SUCCESS"
FAIL: Final = "FAIL"
CLOSED: Final = "CLOSED"
VOIDED: Final = "VOIDED"
EXPIRED: Final = "EXPIRED"
REFUNDING: Final = "REFUNDING"
RETURNED: Final = "RETURNED"

MACHINE: Final[Mapping[str, Mapping[str, str]]] = {
    INIT: {"start": PAYING, "expire": CLOSED, "withdraw": CLOSED},
    PAYING: {
        "success": SUCCESS, "failure": FAIL, "closed": CLOSED, "authorised": AUTHORIZED, "doubt": UNKNOWN, "pending": PAYING,
        "retry": PAYING, "withdraw": CLOSED,
    },
    UNKNOWN: {
        "success": SUCCESS, "failure": FAIL, "closed": CLOSED, "authorised": AUTHORIZED, "doubt": UNKNOWN, "pending": UNKNOWN,
        "retry": UNKNOWN, "withdraw": CLOSED,
    },
    AUTHORIZED: {
        "success": SUCCESS, "captured": SUCCESS, "failure": VOIDED, "closed": VOIDED, "released": VOIDED, "lapse": EXPIRED,
        "authorised": AUTHORIZED, "doubt": AUTHORIZED, "pending": AUTHORIZED,
    },
    SUCCESS: {},
    FAIL: {},
    CLOSED: {},
    VOIDED: {},
    EXPIRED: {},
}  # fmt: skip
"""A payment: state -> input -> state. INIT expires because no request was ever made, and an authorisation lapses at the moment the
channel itself stated; nothing else ends by the clock. It is withdrawn by command while no request of it was accepted."""

CAPTURING: Final[Mapping[str, Mapping[str, str]]] = {
    INIT: {"start": PAYING},
    PAYING: {"success": SUCCESS, "failure": FAIL, "closed": CLOSED, "doubt": UNKNOWN, "pending": PAYING},
    UNKNOWN: {"success": SUCCESS, "failure": FAIL, "closed": CLOSED, "doubt": UNKNOWN, "pending": UNKNOWN},
    SUCCESS: {},
    FAIL: {},
    CLOSED: {},
}
"""A capture, and a void: asked of the channel, with an end of its own beside its payment's."""

REFUND: Final[Mapping[str, Mapping[str, str]]] = {
    INIT: {"start": REFUNDING},
    REFUNDING: {"success": SUCCESS, "failure": FAIL, "closed": FAIL, "doubt": UNKNOWN, "pending": REFUNDING},
    UNKNOWN: {"success": SUCCESS, "failure": FAIL, "closed": FAIL, "doubt": UNKNOWN, "pending": UNKNOWN},
    SUCCESS: {"returned": RETURNED},
    FAIL: {},
    RETURNED: {},
}
"""A refund. It comes back only where the channel's contract has a word for that."""

MACHINES: Final[Mapping[str, Mapping[str, Mapping[str, str]]]] = {
    "PAY": MACHINE,
    "CAPTURE": CAPTURING,
    "VOID": CAPTURING,
    "REFUND": REFUND,
}

DISPUTE: Final[Mapping[str, Mapping[str, str]]] = {
    "NONE": {"OPEN": "OPEN", "WON": "WON", "LOST": "LOST"},
    "OPEN": {"WON": "WON", "LOST": "LOST"},
    "WON": {},
    "LOST": {},
}
"""A dispute of a payment: state -> the channel's word -> state."""

SENT: Final = "SENT"
PAID: Final = "PAID"
PAYOUT: Final[Mapping[str, Mapping[str, str]]] = {
    SENT: {"SENT": SENT, "PAID": PAID, "FAILED": RETURNED, "FUNDS_RETURNED": RETURNED},
    PAID: {"SENT": PAID, "PAID": PAID, "FAILED": RETURNED, "FUNDS_RETURNED": RETURNED},
    RETURNED: {"SENT": RETURNED, "PAID": RETURNED, "FAILED": RETURNED, "FUNDS_RETURNED": RETURNED},
}
"""A payout: state -> the channel's word -> state. PAID is the channel's word, too: a payout that was paid can still bounce, once."""

OPEN: Final = frozenset({PAYING, UNKNOWN, REFUNDING})
"""A request is out: money may move, so no other request for the same money may leave (R-157)."""
UNPAID: Final = frozenset({FAIL, CLOSED, VOIDED, EXPIRED})
"""Ended without money: another payment may take its place. Outward they are one conclusion, that no payment occurred (R-136), so a
failure and a close of one payment agree: the first names the state, every one is kept as a fact against a success that may come."""
NOT_YET_PAID: Final = frozenset({INIT, PAYING, UNKNOWN, AUTHORIZED})
RESERVED: Final = frozenset({INIT, REFUNDING, UNKNOWN, SUCCESS})
"""A refund in these states holds its amount; one that failed or came back has given it up."""

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
    "AUTHORIZED": Meaning("unknown", "authorised"),
    "FINISHED": Meaning("unknown", "finished"),
    "REFUND_TOTAL": Meaning("unknown", "refunded"),
}
"""Words about the payment itself. DECLINED_RETRYABLE is a failure only where the contract calls a decline final."""

MOVING: Final = frozenset(word for word, meaning in WORDS.items() if meaning.input not in ("pending", "doubt"))
"""Words that do more than leave it open."""

NOT_SENT: Final = "NOT_SENT"
"""Our connector's own word, in answers only: this request was never made. About a submit it is the witness that it was not accepted."""
UNSENT: Final = Meaning("unknown", "doubt")

DECLINE_NOT_FINAL: Final = Meaning("unknown", "pending")
UNMAPPED: Final = Meaning("unknown", "doubt")
INCOMPLETE: Final = Meaning("unknown", "doubt", ask=True)
"""A success that lacks its transaction, amount or currency cannot be stored as one (R-002)."""
UNPROVEN: Final = Meaning("unknown", "doubt", ask=True)
"""A word that would move money's state, under a signature that proves too little."""

CLOSE_WORDS: Final[Mapping[str, Meaning]] = {
    **{word: one if one.input == "doubt" else Meaning("unknown", "pending") for word, one in WORDS.items()},
    "SUCCESS": Meaning("failure", "closed"),
    "CLOSED": Meaning("failure", "closed"),
    "ALREADY_PAID": Meaning("unknown", "pending", ask=True),
}
"""Words about our wish to close: that it failed says nothing about the payment, and no answer leaves it in doubt."""

OF_PAYMENTS: Final = frozenset({"authorised", "finished", "refunded"})
"""Inputs that only a payment has."""
OPERATION_WORDS: Final[Mapping[str, Meaning]] = {
    word: meaning for word, meaning in WORDS.items() if meaning.input not in OF_PAYMENTS
}
"""Words about a capture, a void or a refund."""
CAPTURE_WORDS: Final[Mapping[str, Meaning]] = {**OPERATION_WORDS, "ALREADY_CAPTURED": Meaning("success", "success")}
"""That it was captured before is an idempotent success."""


class Kind(NamedTuple):
    """A discrepancy type: its usual severity, who works it, and within how many hours."""

    severity: Severity
    owner: str
    hours: int = 24


KINDS: Final[Mapping[str, Kind]] = {
    "AMOUNT_MISMATCH": Kind("high", "payment-operations"),
    "CURRENCY_MISMATCH": Kind("high", "payment-operations"),
    "INVALID_AMOUNT": Kind("high", "channel-integration"),
    "ILLEGAL_TRANSITION": Kind("high", "payment-operations"),
    "LATE_SUCCESS": Kind("high", "payment-operations", 4),
    "STATUS_UNMAPPED": Kind("high", "channel-integration"),
    "PAYLOAD_CONFLICT": Kind("high", "channel-integration"),
    "MISSING_DEDUP_KEY": Kind("high", "channel-integration"),
    "ENVIRONMENT_MISMATCH": Kind("info", "channel-integration", 72),
    "UNKNOWN_ORDER": Kind("high", "payment-operations"),
    "STUCK_UNKNOWN": Kind("high", "payment-operations", 4),
    "DUPLICATE_PAYMENT": Kind("high", "payment-operations", 4),
    "PARTIAL_TENDER": Kind("high", "trade"),
    "OVER_REFUND": Kind("info", "trade", 72),
    "NOT_CAPTURED": Kind("info", "trade", 72),
    "OVER_CAPTURE": Kind("high", "card-operations"),
    "REFUND_AND_DISPUTE": Kind("high", "dispute-operations"),
    "REFERENCE_ALREADY_LINKED": Kind("high", "payment-operations", 4),
    "TRANSACTION_ON_TWO_ORDERS": Kind("high", "payment-operations", 4),
    "NOTIFICATION_UNDELIVERED": Kind("high", "trade", 4),
    "UNLINKED_REFUND": Kind("high", "card-operations"),
    "CHANNEL_ONLY": Kind("high", "payment-operations"),
    "STATUS_MISMATCH": Kind("high", "payment-operations"),
    "LOCAL_ONLY": Kind("high", "payment-operations"),
    "DUPLICATE_TRANSACTION": Kind("high", "payment-operations", 4),
    "REFERENCE_REUSED": Kind("info", "settlement-operations", 72),
    "AMBIGUOUS_MATCH": Kind("high", "settlement-operations"),
    "FEE_MISMATCH": Kind("high", "settlement-operations"),
    "UNEXPLAINED_RESIDUAL": Kind("high", "settlement-operations"),
    "BALANCE_BREAK": Kind("high", "settlement-operations"),
    "FILE_REJECTED": Kind("high", "channel-integration"),
    "ROW_REJECTED": Kind("high", "channel-integration"),
    "DUPLICATE_FILE": Kind("info", "settlement-operations", 72),
    "FILE_VERSION_CHANGED": Kind("info", "settlement-operations", 72),
}
"""Owners and deadlines are ours to set; the severity of a kind is the usual one, and the law may lower it."""

COMES_BACK: Final = frozenset({"UNKNOWN_ORDER", "STUCK_UNKNOWN", "PARTIAL_TENDER", "LOCAL_ONLY"})
"""Kinds that speak of how things stand, not of facts that disagree: they may come back after people have closed them."""

EXITS: Final[Mapping[str, frozenset[str]]] = {
    "LATE_SUCCESS": frozenset({"refund", "fulfil"}),
    "DUPLICATE_PAYMENT": frozenset({"refund", "fulfil"}),
    "CHANNEL_ONLY": frozenset({"book", "close"}),
}
"""What people may decide about a discrepancy. Money that came late has two lawful exits: it goes back as a refund of its own, or the
trade domain fulfils after all; while it waits, nobody may close over it. Every other kind is closed with the evidence that explains it."""


def mermaid(machine: Mapping[str, Mapping[str, str]] = MACHINE, *, begin: str = INIT) -> str:
    """A machine as a Mermaid state diagram; inputs that change nothing are left out."""
    lines = ["stateDiagram-v2", f"    [*] --> {begin}: create"]
    for state, moves in machine.items():
        lines += [f"    {state} --> {after}: {word}" for word, after in moves.items() if after != state]
        if not moves:
            lines.append(f"    {state} --> [*]")
    return "\n".join(lines) + "\n"
